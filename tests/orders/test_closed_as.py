"""Why an order is closed: its session was canceled, its last attempt declined, or its time over."""

from pathlib import Path
from typing import Final

import pytest

from opentill import checkouts, orders
from opentill.db import batches
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.web import declines
from support import world
from support.world import HOUR, NOW

_MIGRATION: Final = Path(__file__, "../../../migrations/0079_closed_before.sql").resolve()
_LATER: Final = _MIGRATION.with_name("0086_canceled_by_customers_before.sql")
_END: Final = NOW + 24 * HOUR


async def close(tx: Tx, order: Order, at: int, cause: str = "its time is over") -> None:
    await checkouts.expire(tx, order.merchant_id, order.checkout_id, cause, at)


async def decline(tx: Tx, order: Order, at: int = NOW + 1) -> None:
    await world.report_payment(tx, await world.submit_attempt(tx, order, at), "DECLINED", at)


async def read(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def test_a_closed_order_shows_why_it_was_not_paid(tx: Tx) -> None:
    """The migration finds the same reasons for orders that were closed before."""
    untouched, declined, canceled, retried = [await world.create_order(tx) for _ in range(4)]
    for order in (declined, canceled):
        await decline(tx, order)
    await decline(tx, retried)
    later = await world.submit_attempt(tx, retried, NOW + 2)
    await world.report_payment(tx, later, "ACTION_REQUIRED", NOW + 3)
    assert (await read(tx, declined)).shown_status == "ATTEMPT_FAILED"  # it can still be paid
    await close(tx, canceled, NOW + HOUR, "the merchant has ended it")
    for order in (untouched, declined, retried):
        await close(tx, order, _END)
    expected = {untouched: None, declined: "DECLINED", canceled: "CANCELED", retried: None}
    for order, reason in expected.items():
        assert (await read(tx, order)).closed_as == reason
    assert (await read(tx, untouched)).shown_status == "CLOSED"
    assert (await read(tx, declined)).shown_status == "FAILED"
    assert (await read(tx, canceled)).shown_status == "REVOKED"
    await tx.execute("update orders set closed_as = null")
    await batches.apply(tx, batches.parse_file(_MIGRATION.read_text()) or [], "1s")
    for order, reason in expected.items():
        assert (await read(tx, order)).closed_as == reason


async def test_an_attempt_that_is_declined_late_declines_the_closed_order(tx: Tx) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order, NOW + 1)
    await world.report_payment(tx, attempt, "ACTION_REQUIRED", NOW + 2)
    await close(tx, order, _END)
    assert (await read(tx, order)).shown_status == "CLOSED"
    await world.report_payment(tx, attempt, "DECLINED", _END + 1)
    assert (await read(tx, order)).shown_status == "FAILED"


@pytest.mark.parametrize("end", [NOW + HOUR, _END])
async def test_a_late_payment_of_a_closed_order_is_paid(tx: Tx, end: int) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order, NOW + 1)
    await world.report_payment(tx, attempt, "DECLINED", NOW + 2)
    await close(tx, order, end)
    assert (await read(tx, order)).closed_as == ("DECLINED" if end == _END else "CANCELED")
    await world.report_payment(tx, attempt, "SUCCEEDED", end + 1)
    paid = await read(tx, order)
    assert (paid.shown_status, paid.closed_as) == ("PAID", None)


@pytest.mark.parametrize("code", sorted(declines.DECLINES))
async def test_a_payment_that_the_customer_canceled_at_the_bank_is_canceled(
    tx: Tx, code: str
) -> None:
    """It is counted as canceled; the migration finds those that were closed before."""
    is_canceled = declines.is_cancellation(code)
    expected = "REVOKED" if is_canceled else "FAILED"
    order, late = await world.create_order(tx), await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order, NOW + 1)
    await world.report_payment(tx, attempt, "DECLINED", NOW + 2, reason=f"{code}: by the payer")
    attempt = await world.submit_attempt(tx, late, NOW + 1)
    await world.report_payment(tx, attempt, "ACTION_REQUIRED", NOW + 2)
    for closing in (order, late):
        await close(tx, closing, _END)
    await world.report_payment(tx, attempt, "DECLINED", _END + 1, reason=code)
    for closed in (order, late):
        assert (await read(tx, closed)).shown_status == expected
    await tx.execute("update orders set closed_as = 'DECLINED'")
    await batches.apply(tx, batches.parse_file(_LATER.read_text()) or [], "1s")
    assert (await read(tx, order)).shown_status == expected
