"""A provider repeats that a refund was reversed, while the merchant refunds once more."""

import asyncio

import pytest

from opentill import refunds
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.integrity.rules import check_all
from opentill.orders import Order
from opentill.refunds import Refund
from support import world
from support.world import NOW

REPEATS = 4


async def _begin(db: Db, amount: str | None) -> tuple[Order, Refund]:
    """Refund a paid order of 9.99; the refund has succeeded."""

    async def work(tx: Tx) -> tuple[Order, Refund]:
        order = await world.create_order_in(tx, "PAID")
        refund = await world.create_refund(tx, order, amount)
        await world.report_refund(tx, refund, "SUCCEEDED")
        return order, refund

    return await db.run(work)


async def _report_reversal(db: Db, order: Order, refund: Refund, at: int) -> None:
    await db.run(
        lambda tx: world.report_refund_event(
            tx, order, "REFUSED", at, refund=refund, minor=refund.amount_minor
        )
    )


async def _refund_again(db: Db, order: Order, amount: str | None) -> Refund:
    second = await db.run(lambda tx: world.create_refund(tx, order, amount, NOW + 2))
    await db.run(lambda tx: world.report_refund(tx, second, "SUCCEEDED", NOW + 3))
    return second


async def _assert_money(db: Db, order: Order, refunded_minor: int) -> None:
    """The customer has this amount; the merchant has the rest, and nothing is held."""
    async with db.connection() as tx:
        after = await world.orders.find(tx, order.merchant_id, order.id)
        assert after.refunded_minor == after.refund_held_minor == refunded_minor
        debits = await tx.fetchval(
            "select coalesce(sum(debit_minor), 0)::bigint from refunds"
            " where order_id = $1 and status = 'SUCCEEDED'",
            order.id,
        )
        assert sum(await world.read_balances(tx, order)) == after.net_settled_minor - debits
    _, violations = await check_all(db)
    assert violations == []


@pytest.mark.parametrize("amount", [None, "4.00"])
async def test_a_reversal_that_is_repeated_after_a_second_refund_returns_no_money_again(
    db: Db, amount: str | None
) -> None:
    order, first = await _begin(db, amount)
    await _report_reversal(db, order, first, NOW + 1)
    second = await _refund_again(db, order, amount)
    for repeat in range(REPEATS):
        await _report_reversal(db, order, first, NOW + 10 + repeat)
    await _assert_money(db, order, second.amount_minor)
    async with db.connection() as tx:
        ended = await refunds.find(tx, order.merchant_id, first.id)
        assert (ended.status, ended.failed_at) == ("FAILED", NOW + 1)


@pytest.mark.parametrize("amount", [None, "6.00"])
async def test_reversals_and_a_second_refund_at_once_return_the_money_once(
    db: Db, amount: str | None
) -> None:
    """The second refund waits for the reversal, or finds that too little is left."""
    order, first = await _begin(db, amount)
    results = await asyncio.gather(
        *(_report_reversal(db, order, first, NOW + 1) for _ in range(REPEATS)),
        _refund_again(db, order, amount),
        *(_report_reversal(db, order, first, NOW + 1) for _ in range(REPEATS)),
        return_exceptions=True,
    )
    second = results[REPEATS]
    failures = [r for r in results if isinstance(r, BaseException) and not isinstance(r, Invalid)]
    assert failures == []
    if isinstance(second, Refund):
        await _assert_money(db, order, second.amount_minor)
    else:
        await _assert_money(db, order, 0)
        again = await _refund_again(db, order, amount)
        await _report_reversal(db, order, first, NOW + 20)
        await _assert_money(db, order, again.amount_minor)


async def test_both_refunds_may_be_reversed_each_once(db: Db) -> None:
    order, first = await _begin(db, None)
    await _report_reversal(db, order, first, NOW + 1)
    second = await _refund_again(db, order, None)
    await asyncio.gather(
        *(_report_reversal(db, order, refund, NOW + 9) for refund in (first, second) * REPEATS)
    )
    await _assert_money(db, order, 0)
