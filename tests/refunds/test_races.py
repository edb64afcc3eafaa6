"""Reversals, refunds, disputes and settlements of one order may happen concurrently.

In whatever order they happen, the books are right, at most the paid amount is refunded, and
nothing is stuck.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from opentill import ledger, orders, refunds
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.integrity.rules import check_all
from opentill.orders import Order
from opentill.orders.settlement import service as settlement
from opentill.refunds import Refund, jobs
from support import world
from support.books import assert_books
from support.concurrent_movements import UNFINISHED
from support.examples import is_night
from support.world import DAY, NOW

CONNECTIONS: Final = 16
# If a concurrent change was faster, a change is refused with one of these fields.
FIELDS: Final = {"orderId", "amount"}
Change = Callable[[Tx], Awaitable[object]]


class Contest:
    """An order of 10.00 with a refund, and the changes that compete for it."""

    def __init__(self, order: Order, refund: Refund) -> None:
        self.order, self.refund = order, refund
        self.new_refunds: list[Refund] = []

    async def reverse(self, tx: Tx) -> None:
        minor = self.refund.amount_minor
        await world.report_refund_event(
            tx, self.order, "REFUSED", NOW + 1, refund=self.refund, minor=minor
        )

    async def refund_again(self, tx: Tx) -> Refund:
        return await world.create_refund(tx, self.order, "6.00", NOW + 1)

    async def refund_at_provider(self, tx: Tx) -> None:
        ref = f"rf_{self.order.id}"
        await world.report_refund_event(tx, self.order, "SUCCEEDED", NOW + 1, minor=300, ref=ref)

    async def dispute(self, tx: Tx) -> None:
        await self.report_dispute(tx, "OPENED")

    async def lose_dispute(self, tx: Tx) -> None:
        await self.report_dispute(tx, "LOST")

    async def report_dispute(self, tx: Tx, status: str) -> None:
        ref = f"dp_{self.order.id}"
        await world.report_dispute(tx, self.order, status, NOW + 1, ref=ref, minor=500)

    async def settle(self, tx: Tx) -> None:
        await orders.settle_one(tx, self.order.merchant_id, self.order.id, NOW + 1, "test")

    async def run(self, db: Db, change: Change) -> None:
        """Make a change in its own transaction; if it created a refund, end the refund."""
        try:
            refund = await db.run(change)
        except Invalid as refused:
            assert refused.field in FIELDS, refused
            return
        if isinstance(refund, Refund):
            self.new_refunds.append(refund)
            status = "SUCCEEDED" if len(self.new_refunds) % 2 else "REFUSED"
            await db.run(lambda tx: world.report_refund(tx, refund, status, NOW + 2))


async def create_contest(tx: Tx, shop_id: str, product_id: str, amount: str | None) -> Contest:
    session = await world.create_session(tx, shop_id, product_id)
    order = await world.pay_order(tx, await orders.find(tx, shop_id, session.order_id))
    refund = await world.report_refund(
        tx, await world.create_refund(tx, order, amount), "SUCCEEDED"
    )
    return Contest(order, refund)


async def create_contests(db: Db, amount: str | None, number: int) -> list[Contest]:
    """Create refunded orders of one merchant.

    The merchant has a rolling reserve, and gets the fee back with each refund.
    """

    async def create(tx: Tx) -> list[Contest]:
        shop = await world.create_merchant(
            tx, reserve_rate="0.1", reserve_days=3, platform_fee_rate="0.04",
            refund_fee_policy="RETURNED", overdraft_minor=10**6, dispute_fee_minor=1_500,
        )  # fmt: skip
        mug = await world.create_product(tx, shop.id, "10.00")
        return [await create_contest(tx, shop.id, mug.id, amount) for _ in range(number)]

    return await db.run(create)


def concurrent_changes(contest: Contest) -> tuple[Change, ...]:
    return (
        contest.reverse, contest.refund_again, contest.refund_at_provider, contest.dispute,
        contest.settle,
    )  # fmt: skip


async def keep_checking_books(db: Db, stop: asyncio.Event) -> None:
    """Check the books repeatedly until ``stop`` is set."""
    while not stop.is_set():
        async with db.snapshot() as tx:
            await assert_books(tx)


@pytest.mark.parametrize("amount", ["4.00", None])
async def test_concurrent_reversals_refunds_disputes_and_settlements_leave_right_books(
    db: Db, database_url: str, amount: str | None
) -> None:
    permutations = list(itertools.permutations(range(5)))[:: 1 if is_night() else 7]
    contests = await create_contests(db, amount, len(permutations))
    pool = await Db.connect(database_url, CONNECTIONS, acquire_timeout_s=60)
    stop = asyncio.Event()
    checks = asyncio.create_task(keep_checking_books(db, stop))
    try:
        async with asyncio.TaskGroup() as tasks:
            for contest, permutation in zip(contests, permutations, strict=True):
                for index in permutation:
                    tasks.create_task(contest.run(pool, concurrent_changes(contest)[index]))
                # Providers repeat reports, and the report of a lost dispute may overtake the other
                # changes.
                for change in (contest.reverse, contest.refund_at_provider, contest.refund_again):
                    tasks.create_task(contest.run(pool, change))
                if permutation[0] % 2:
                    tasks.create_task(contest.run(pool, contest.lose_dispute))
    finally:
        stop.set()
        await checks
        await pool.close()
    await _check(db, contests)


@pytest.mark.parametrize("amount", ["4.00", None])
async def test_reversals_refunds_disputes_and_settlements_in_any_order_leave_right_books(
    db: Db, amount: str | None
) -> None:
    permutations = list(itertools.permutations(range(5)))[:: 1 if is_night() else 5]
    contests = await create_contests(db, amount, len(permutations))
    for contest, permutation in zip(contests, permutations, strict=True):
        for index in permutation:
            await contest.run(db, concurrent_changes(contest)[index])
    await _check(db, contests)


async def _check(db: Db, contests: list[Contest]) -> None:
    """Check every order, end the disputes, run the jobs, and check that nothing stays pending."""
    shop_id = contests[0].order.merchant_id
    _, violations = await check_all(db)
    assert violations == []
    statuses = {await _check_order(db, contest) for contest in contests}
    assert len(statuses) > 1, statuses  # the order in which the changes run decides the status
    async with db.transaction() as tx:
        open_disputes = await tx.fetch(
            "select order_id from disputes where merchant_id = $1 and status = 'OPEN'", shop_id
        )
        by_order = {contest.order.id: contest for contest in contests}
        for row in open_disputes:
            await by_order[row["order_id"]].report_dispute(tx, "WON")
    later = NOW + 30 * DAY
    await jobs.match(db, later, len(contests))
    await settlement.settle_due(db, later)
    await settlement.release_reserves(db, later + 30 * DAY)
    for contest in contests:
        await _check_order(db, contest)
    async with db.snapshot() as tx:
        assert [row[0] for row in await tx.fetch(UNFINISHED, later + 60 * DAY)] == []
        balance = await ledger.find_balance(tx, shop_id, "USD")
        assert balance is not None
        assert (balance.pending, balance.frozen, balance.reserve) == (0, 0, 0)
        deadlocks = await tx.fetchval(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
    assert deadlocks == 0
    _, violations = await check_all(db)
    assert violations == []


async def _check_order(db: Db, contest: Contest) -> str:
    """Check an order and its refunds, and return the order's status."""
    order_id, shop_id = contest.order.id, contest.order.merchant_id
    async with db.snapshot() as tx:
        order = await orders.find(tx, shop_id, order_id)
        rows = await refunds.list_for_order(tx, shop_id, order_id, 100)
        cases = await tx.fetch(
            "select kind, refund_id from refund_cases where merchant_id = $1 and order_id = $2"
            " and closed_at is null",
            shop_id, order_id,
        )  # fmt: skip
        reversals = await tx.fetchval(
            "select count(*) from events where merchant_id = $1 and type = 'refund.failed'"
            " and position($2 in body) > 0",
            shop_id, contest.refund.id,
        )  # fmt: skip
    by_id = {refund.id: refund for refund in rows}
    # The reversal was applied once, and there is one case of it for staff.
    assert by_id[contest.refund.id].was_reversed
    assert reversals == 1
    kinds = [(row["kind"], row["refund_id"]) for row in cases]
    assert kinds.count(("REVERSED", contest.refund.id)) == 1
    # The refund made at the provider is recorded once, or there is one case of it for staff.
    at_provider = [refund for refund in rows if refund.source == "GATEWAY"]
    unmatched = [kind for kind, _ in kinds if kind == "UNMATCHED"]
    assert len(at_provider) + len(unmatched) == 1
    # No more is refunded than was paid, and no refund is in progress.
    assert {refund.status for refund in rows} <= {"SUCCEEDED", "FAILED"}
    succeeded = sum(refund.amount_minor for refund in rows if refund.status == "SUCCEEDED")
    assert succeeded == order.refunded_minor == order.refund_held_minor <= order.amount_minor
    assert order.status in {"PAID", "SETTLED", "REFUNDED", "DISPUTED", "CHARGEBACK"}
    return order.status
