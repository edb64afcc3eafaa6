"""The worker's rounds find what the full check finds, in bounded steps."""

from collections.abc import AsyncIterator

import pytest

from opentill import health, ledger
from opentill.db.database import Db, Tx
from opentill.integrity import scheduler
from opentill.ledger import incremental
from opentill.ledger.model import Progress
from opentill.ledger.postings import ACCOUNTS
from opentill.orders import jobs, queries
from opentill.refunds import jobs as refund_jobs
from support import world
from support.books import assert_books


async def _business(db: Db) -> str:
    """Two payments of one merchant: four entries."""
    order = await db.run(lambda tx: world.in_status(tx, "PAID", platform_fee_rate="0.04"))
    mug = await db.run(lambda tx: world.product(tx, order.merchant_id, "5.00"))
    session = await db.run(lambda tx: world.session(tx, order.merchant_id, mug.id))
    async with db.connection() as tx:
        second = await world.orders.find(tx, order.merchant_id, session.order_id)
    await db.run(lambda tx: world.paid(tx, second))
    return order.merchant_id


async def _gauges(db: Db) -> tuple[float, float]:
    readings = await health.readings(db, lambda: world.NOW)
    found = {reading.name: value for reading in readings for _, value in reading.samples}
    return found["opentill_ledger_violations"], found["opentill_ledger_entries_checked"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_a_round_in_steps_of_any_size(db: Db, limit: int) -> None:
    await _business(db)
    await db.run(lambda tx: world.in_status(tx, "REFUNDED"))
    await db.run(world.merchant)
    checked = sum([await scheduler.check_some(db, limit) for _ in range(20)])
    assert checked == 8
    assert await _gauges(db) == (0, 8)


DAMAGED = ("entries", "balances", "orders", "order_history")


@pytest.fixture(scope="module")
async def business(module_database_url: str) -> AsyncIterator[Db]:
    """The business in a database of the file's own, and a copy of what is damaged in it."""
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    try:
        await _business(db)
        async with db.transaction() as tx:
            await tx.execute("alter table entries drop constraint entries_keep_rules")
            await tx.execute("create schema kept")
            for table in DAMAGED:
                await tx.execute(f"create table kept.{table} as table {table}")
        yield db
    finally:
        await db.close()


@pytest.fixture
async def mended(business: Db) -> Db:
    """The business as it was before any damage, and before any check."""
    async with business.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        for table in DAMAGED:
            await tx.execute(f"delete from {table}")
            await tx.execute(f"insert into {table} table kept.{table}")
        await tx.execute("delete from ledger_checks")
    return business


@pytest.mark.parametrize(
    "damage",
    [
        "update entries set pending_after = pending_after + 1 where number = 2",
        "update entries set amount_minor = 5, shown_minor = -5 where number = 2",
        "update entries set type = 'REFUND' where number = 3",
        "update entries set number = 20 where number = 4",
        "delete from entries where number = 4",
        "delete from entries where number = 2",
        "update entries set created_at = created_at - 1 where number = 4",
        "update balances set pending = pending + 1, gateway = gateway - 1",
        "update balances set last_at = last_at + 1",
        "update entries set source_id = 'order_x' where number = 3",
        "update orders set net_settled_minor = net_settled_minor - 1",
        "delete from order_history where number = 3",
    ],
)
@pytest.mark.parametrize("limit", [2, 50])
async def test_damage_is_found_and_counted_until_it_is_gone(
    mended: Db, damage: str, limit: int
) -> None:
    async with mended.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        assert await tx.execute(damage) not in {"UPDATE 0", "DELETE 0"}
    for _ in range(6):
        await scheduler.check_some(mended, limit)
    assert (await _gauges(mended))[0] > 0


async def test_what_was_found_is_kept_with_its_rows_until_it_is_mended(mended: Db) -> None:
    key = "merchant_id = (select min(merchant_id) from entries) and number = 3"
    wrong = f"update entries set source_id = source_id || '_x' where {key}"
    right = f"update entries set source_id = left(source_id, -2) where {key}"
    for damage, finds in ((wrong, True), (right, False)):
        async with mended.transaction() as tx:
            await tx.execute("set local session_replication_role = replica")
            await tx.execute(damage)
            await tx.execute("update ledger_checks set checked_at = 0")
        for _ in range(6):
            await scheduler.check_some(mended, 2)
        async with mended.connection() as tx:
            rows = await ledger.checks(tx, None, 10)
            passes = await ledger.passes(tx)
        found = [(one.merchant_id, row.rule) for one in rows for row in one.wrong]
        assert bool(found) is finds
        assert ((await _gauges(mended))[0] > 0) is finds
        assert all(one.checked_to == 0 and one.finished_at for one in rows)
        assert (passes.unfinished, passes.oldest is None) == (0, False)


async def test_what_is_mended_is_right(mended: Db) -> None:
    for _ in range(3):
        await scheduler.check_some(mended, 2)
    assert await _gauges(mended) == (0, 4)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_each_entry_is_compared_wherever_a_range_ends(tx: Tx, limit: int) -> None:
    order = await world.in_status(tx, "REFUNDED", platform_fee_rate="0.04")
    key = (order.merchant_id, order.settled_currency)
    await tx.execute("set local session_replication_role = replica")
    await tx.execute("alter table entries drop constraint entries_keep_rules")
    for number in range(1, 5):
        for damage in (
            "update entries set pending_after = pending_after + 1 where number >= $1",
            "update entries set source_id = 'x', type = 'PAYOUT' where number = $1",
        ):
            place = tx.transaction()
            await place.start()
            await tx.execute(damage, number)
            subject = await tx.fetchval("select id from entries where number = $1", number)
            progress = Progress(
                merchant_id=key[0], currency=key[1], checked_to=0, last_at=0, found=0,
                **dict.fromkeys(ACCOUNTS, 0),
            )  # fmt: skip
            wrong = []
            for _ in range(6):
                made = await incremental.check_range(tx, progress, limit)
                wrong += made.violations
                progress = made.progress
                if made.finished:
                    break
            assert made.finished
            assert [found.subject for found in wrong] == [subject]
            await place.rollback()
    await tx.execute("rollback")
    await tx.execute("begin")


async def test_two_workers_at_once_count_once(db: Db) -> None:
    await _business(db)
    import asyncio

    await asyncio.gather(*(scheduler.check_some(db, 2) for _ in range(4)))
    for _ in range(4):
        await scheduler.check_some(db, 2)
    assert await _gauges(db) == (0, 4)


async def _forget(db: Db, status: str | None) -> world.Order:
    """Make an order that is CREATING while nobody will ask about it, as a defect might."""
    order = await db.run(world.opened)
    attempt = await db.run(lambda tx: world.submitted(tx, order))
    async with db.connection() as tx:
        await tx.execute(
            "update payment_attempts set check_at = null, status = coalesce($2, status)"
            " where id = $1",
            attempt.id,
            status,
        )
    return order


@pytest.mark.parametrize(
    ("status", "after"),
    [(None, "CREATING"), ("DECLINED", "PENDING"), ("REFUSED", "FAILED"), ("VOIDED", "REVOKED")],
)
async def test_no_order_is_forgotten(db: Db, status: str | None, after: str) -> None:
    order = await _forget(db, status)
    assert await jobs.find_forgotten(db, world.NOW + jobs.STUCK_MS - 1) == 0
    late = world.NOW + jobs.STUCK_MS
    async with db.connection() as tx:
        assert await jobs.count_stuck(tx, late) == 1
    assert await jobs.find_forgotten(db, late) == 1
    assert await jobs.find_forgotten(db, late) == 0
    async with db.connection() as tx:
        assert (await world.orders.find(tx, order.merchant_id, order.id)).status == after
        due = await queries.CLAIM_ATTEMPTS.all(
            tx, now=late, lease_until=late + 1, limit=10, gateways=None, included=True
        )
        assert len(due) == (after == "CREATING")


async def test_another_amount_is_asked_about_again(db: Db) -> None:
    order = await db.run(world.opened)
    attempt = await db.run(lambda tx: world.submitted(tx, order))
    wrong = world.Money(5, "USD")
    await db.run(lambda tx: world.said(tx, attempt, "SUCCEEDED", amount=wrong))
    assert await jobs.find_forgotten(db, world.NOW + jobs.STUCK_MS) == 1
    async with db.connection() as tx:
        assert (
            await queries.CLAIM_ATTEMPTS.all(
                tx,
                now=world.NOW + jobs.STUCK_MS,
                lease_until=0,
                limit=10,
                gateways=None,
                included=True,
            )
            != []
        )


async def test_the_gauges_count_what_is_due_and_nothing_else(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    attempts = [await db.run(lambda tx: world.in_status(tx, "CREATING")) for _ in range(2)]
    refunds = [await db.run(lambda tx: world.refunded(tx, order, "1.00")) for _ in range(2)]
    async with db.connection() as tx:
        for table, rows in (("payment_attempts", attempts), ("refunds", refunds)):
            column, key = (
                ("check_at", "order_id") if table == "payment_attempts" else ("try_at", "id")
            )
            for row, at in zip(rows, (world.NOW, world.NOW + 1), strict=True):
                await tx.execute(f"update {table} set {column} = $2 where {key} = $1", row.id, at)
        assert await jobs.count_due(tx, world.NOW) == 1
        assert await refund_jobs.count_due(tx, world.NOW) == 1
    await scheduler.check_some(db, 2)  # a part of what there is
    half = (await _gauges(db))[1]
    assert half == 2
    for _ in range(4):
        await scheduler.check_some(db, 2)
    assert (await _gauges(db))[1] > half


async def test_books_of_more_than_one_moment_are_right(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    await db.run(lambda tx: world.settled(tx, order, world.NOW + world.HOUR))
    async with db.connection() as tx:
        assert await tx.fetchval("select count(distinct created_at) from entries") == 2
        await assert_books(tx)
    for _ in range(3):
        await scheduler.check_some(db, 2)
    assert (await _gauges(db))[0] == 0
