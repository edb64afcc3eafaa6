"""A failed refund needs attention until another refund succeeds or a person has handled it."""

import asyncio
from functools import partial

import pytest

from opentill import disputes, orders, refunds
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.orders import Order
from opentill.refunds import Refund
from support.world import (
    NOW,
    create_order_in,
    create_refund,
    read_history,
    report_refund,
)


async def fail_refund(tx: Tx, order: Order, amount: str) -> Refund:
    """Refund a part of an order and report that the refund failed."""
    refund = await create_refund(tx, order, amount)
    await report_refund(tx, refund, "REFUSED")
    return await refunds.find(tx, refund.merchant_id, refund.id)


async def count_failed(tx: Tx, order: Order) -> int:
    """Count the failed refunds that the order's merchant has to handle."""
    return (await disputes.count_waiting(tx, order.merchant_id, NOW)).failed_refunds


async def shown_status(tx: Tx, order: Order) -> str:
    return (await orders.find(tx, order.merchant_id, order.id)).shown_status


async def test_an_order_shows_the_progress_of_its_refunds(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    assert await shown_status(tx, order) == "PAID"
    first = await create_refund(tx, order, "2.00")
    assert await shown_status(tx, order) == "REFUND_PENDING"
    await report_refund(tx, first, "SUCCEEDED")
    assert await shown_status(tx, order) == "PARTIALLY_REFUNDED"
    await fail_refund(tx, order, "1.00")
    assert await shown_status(tx, order) == "REFUND_FAILED"
    await report_refund(tx, await create_refund(tx, order), "SUCCEEDED")
    assert await shown_status(tx, order) == "REFUNDED"


@pytest.mark.parametrize(
    ("amount", "handles"), [("1.00", True), ("2.00", False), ("0.99", False), (None, True)]
)
async def test_a_later_refund_of_the_amount_handles_a_failed_one(
    tx: Tx, amount: str | None, *, handles: bool
) -> None:
    order = await create_order_in(tx, "PAID")
    failed = await fail_refund(tx, order, "1.00")
    assert failed.needs_attention
    assert await count_failed(tx, order) == 1
    assert [refund.id for refund in await refunds.list_failed(tx, 10)] == [failed.id]
    later = await create_refund(tx, order, amount)
    assert await count_failed(tx, order) == 1  # the later one may fail too
    await report_refund(tx, later, "SUCCEEDED")
    after = await refunds.find(tx, order.merchant_id, failed.id)
    assert (after.handled_at, after.handled_by) == ((NOW, later.id) if handles else (None, None))
    assert await count_failed(tx, order) == (0 if handles else 1)
    assert (await orders.find(tx, order.merchant_id, order.id)).refund_failed is not handles


async def test_each_refund_that_succeeds_handles_one_failure_of_its_amount(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    parallel = await create_refund(tx, order, "1.00")  # before the failures: it repeats neither
    failures = [await create_refund(tx, order, "1.00") for _ in range(2)]
    for failed in failures:
        await report_refund(tx, failed, "REFUSED", NOW + 1)
    await report_refund(tx, parallel, "SUCCEEDED", NOW + 2)
    assert await count_failed(tx, order) == 2
    repeated = await create_refund(tx, order, "1.00", NOW + 3)
    await report_refund(tx, repeated, "SUCCEEDED", NOW + 4)
    after = [await refunds.find(tx, order.merchant_id, failed.id) for failed in failures]
    assert [refund.handled_by for refund in after].count(repeated.id) == 1
    assert await count_failed(tx, order) == 1


async def test_a_person_marks_a_failed_refund_as_handled_once(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    failed, other = await fail_refund(tx, order, "1.00"), await fail_refund(tx, order, "2.00")
    handled = await refunds.mark_handled(
        tx, order.merchant_id, failed.id, who="ann", how="by bank transfer", now=NOW
    )
    assert (handled.status, handled.handled_at, handled.handled_by) == ("FAILED", NOW, "ann")
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.cause) == ("refund_handled", f"{failed.id}: by bank transfer")
    assert await shown_status(tx, order) == "REFUND_FAILED"  # the other one is not handled
    with pytest.raises(Invalid, match="not handled yet"):
        await refunds.mark_handled(
            tx, order.merchant_id, failed.id, who="bob", how="again", now=NOW
        )
    await refunds.mark_handled(tx, order.merchant_id, other.id, who="ann", how="cash", now=NOW)
    assert await shown_status(tx, order) == "PAID"


async def test_of_two_people_at_once_only_the_first_marks_a_refund_as_handled(db: Db) -> None:
    async with db.transaction() as tx:
        order = await create_order_in(tx, "PAID")
        failed = await fail_refund(tx, order, "1.00")
        later = await create_refund(tx, order, "1.00")
    mark = partial(refunds.mark_handled, merchant_id=order.merchant_id, refund_id=failed.id)
    results = await asyncio.gather(
        db.run(partial(mark, who="ann", how="cash", now=NOW)),
        db.run(partial(mark, who="bob", how="cheque", now=NOW)),
        db.run(lambda tx: report_refund(tx, later, "SUCCEEDED")),
        return_exceptions=True,
    )
    marked = [result for result in results[:2] if isinstance(result, Refund)]
    assert all(isinstance(result, Refund | Invalid) for result in results[:2])
    async with db.connection() as tx:
        stored = await refunds.find(tx, order.merchant_id, failed.id)
        lines = [line for line in await read_history(tx, order) if line.event == "refund_handled"]
    assert len(lines) == len(marked) <= 1  # none if the later refund was first
    assert stored.handled_by == (marked[0].handled_by if marked else later.id)


async def test_only_a_failed_refund_can_be_marked_as_handled(tx: Tx) -> None:
    refund = await create_refund(tx, await create_order_in(tx, "PAID"), "1.00")
    with pytest.raises(Invalid, match="must be one that has failed"):
        await refunds.mark_handled(
            tx, refund.merchant_id, refund.id, who="ann", how="cash", now=NOW
        )
