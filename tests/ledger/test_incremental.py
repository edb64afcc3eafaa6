"""The worker's rounds find what the full check finds, in bounded steps."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from opentill import health, ledger
from opentill.app import create_app
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.integrity import queries as integrity_queries
from opentill.integrity import rules, scheduler
from opentill.ledger import incremental, incremental_queries
from opentill.ledger.model import Progress
from opentill.ledger.postings import ACCOUNTS
from opentill.orders import jobs
from opentill.orders.payments import queries as attempt_queries
from opentill.refunds import jobs as refund_jobs
from support import pooler, world
from support.books import assert_books
from support.waits import waits


async def _business(db: Db) -> str:
    """Two payments of one merchant: four entries."""
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID", platform_fee_rate="0.04"))
    mug = await db.run(lambda tx: world.create_product(tx, order.merchant_id, "5.00"))
    session = await db.run(lambda tx: world.create_session(tx, order.merchant_id, mug.id))
    async with db.connection() as tx:
        second = await world.orders.find(tx, order.merchant_id, session.order_id)
    await db.run(lambda tx: world.pay_order(tx, second))
    return order.merchant_id


async def _gauges(db: Db) -> tuple[float, float]:
    readings = await health.readings(db, lambda: world.NOW)
    values = {reading.name: value for reading in readings for _, value in reading.samples}
    return values["opentill_ledger_violations"], values["opentill_ledger_entries_checked"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_a_pass_in_steps_of_any_size(db: Db, limit: int) -> None:
    await _business(db)
    await db.run(lambda tx: world.create_order_in(tx, "REFUNDED"))
    await db.run(world.create_merchant)
    checked = sum([await scheduler.IncrementalCheck(db).turn(limit) for _ in range(20)])
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
async def repaired_db(business: Db) -> Db:
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
async def test_damage_is_counted_until_it_is_repaired(
    repaired_db: Db, damage: str, limit: int
) -> None:
    async with repaired_db.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        assert await tx.execute(damage) not in {"UPDATE 0", "DELETE 0"}
    for _ in range(6):
        await scheduler.IncrementalCheck(repaired_db).turn(limit)
    assert (await _gauges(repaired_db))[0] > 0


async def test_a_violation_is_stored_with_its_rows_until_it_is_repaired(
    repaired_db: Db,
) -> None:
    key = "merchant_id = (select min(merchant_id) from entries) and number = 3"
    wrong = f"update entries set source_id = source_id || '_x' where {key}"
    right = f"update entries set source_id = left(source_id, -2) where {key}"
    for damage, finds in ((wrong, True), (right, False)):
        async with repaired_db.transaction() as tx:
            await tx.execute("set local session_replication_role = replica")
            await tx.execute(damage)
            await tx.execute("update ledger_checks set checked_at = 0")
        for _ in range(6):
            await scheduler.IncrementalCheck(repaired_db).turn(2)
        async with repaired_db.connection() as tx:
            rows = await ledger.list_checks(tx, None, 10)
            passes = await ledger.summarize_passes(tx)
        violations = [(one.merchant_id, row.rule) for one in rows for row in one.wrong]
        assert bool(violations) is finds
        assert ((await _gauges(repaired_db))[0] > 0) is finds
        assert all(one.checked_to == 0 and one.finished_at for one in rows)
        assert (passes.unfinished, passes.oldest is None) == (0, False)


async def test_repaired_books_are_consistent(repaired_db: Db) -> None:
    for _ in range(3):
        await scheduler.IncrementalCheck(repaired_db).turn(2)
    assert await _gauges(repaired_db) == (0, 4)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_each_entry_is_checked_wherever_a_range_ends(tx: Tx, limit: int) -> None:
    order = await world.create_order_in(tx, "REFUNDED", platform_fee_rate="0.04")
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
                merchant_id=key[0], currency=key[1], checked_to=0, last_at=0, pass_violations=0,
                **dict.fromkeys(ACCOUNTS, 0),
            )  # fmt: skip
            wrong = []
            for _ in range(6):
                result = await incremental.check_range(tx, progress, limit)
                wrong += result.violations
                progress = result.progress
                if result.finished:
                    break
            assert result.finished
            assert [found.subject for found in wrong] == [subject]
            await place.rollback()
    await tx.execute("rollback")
    await tx.execute("begin")


# A balance whose difference no bigint holds, so that PostgreSQL cannot compute the rule about fees.
_UNCOMPUTABLE = (
    "update orders set gross_settled_minor = 9223372036854775807, net_settled_minor = -5"
    " where merchant_id = $1"
)


@pytest.fixture
async def damaged_db(make_database: Callable[[], str]) -> AsyncIterator[Db]:
    """A database whose books and schema may be left damaged."""
    db = await Db.connect(make_database(), 4, acquire_timeout_s=20)
    try:
        yield db
    finally:
        await db.close()


async def _execute(db: Db, statement: str, *values: object) -> None:
    async with db.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        assert await tx.execute(statement, *values) not in {"UPDATE 0", "DELETE 0"}


async def _without_rules(db: Db, table: str) -> None:
    async with db.transaction() as tx:
        for row in await tx.fetch(
            "select conname from pg_constraint where contype = 'c' and conrelid = $1::regclass",
            table,
        ):
            await tx.execute(f"alter table {table} drop constraint {row['conname']}")


async def _checks(db: Db) -> dict[str, tuple[int, bool]]:
    """Return the known violations of each merchant, and whether a pass has finished."""
    async with db.connection() as tx:
        rows = await ledger.list_checks(tx, None, 10)
    return {one.merchant_id: (one.violations, one.finished_at is not None) for one in rows}


async def _overdue(db: Db, days: int) -> int:
    """Return how many balances are overdue in some days if no pass ends until then."""
    async with db.connection() as tx:
        return await ledger.count_overdue(tx, now_ms() + (days - 2) * 86_400_000)


async def test_a_disputed_order_without_its_dispute_is_reported(damaged_db: Db) -> None:
    order = await damaged_db.run(lambda tx: world.create_order_in(tx, "DISPUTED"))
    async with damaged_db.connection() as tx:
        dispute_id = await tx.fetchval("select id from disputes")
    await _execute(damaged_db, "delete from disputes where merchant_id = $1", order.merchant_id)
    for _ in range(3):
        await scheduler.IncrementalCheck(damaged_db).turn()
        await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    async with damaged_db.connection() as tx:
        checks = await ledger.list_checks(tx, None, 10)  # as the console's page reads them
    assert [
        (violation.subject, violation.detail) for check in checks for violation in check.wrong
    ] == [
        (order.id, "DISPUTED, charged back 0: 0 open, 0 lost, of 0"),
        (dispute_id, "dispute.created: 0 expected, 1 written"),
    ]


async def test_a_failing_rule_does_not_stop_other_rules_or_merchants(damaged_db: Db) -> None:
    await _without_rules(damaged_db, "orders")
    first = await _business(damaged_db)
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert await _checks(damaged_db) == {first: (0, True)}
    await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    await _execute(damaged_db, _UNCOMPUTABLE, first)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", first
    )
    second = await _business(damaged_db)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", second
    )
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            await scheduler.IncrementalCheck(damaged_db).turn()
    failed = [one for one in log if one["event"] == "rule not checked"]
    assert {one["merchant"] for one in failed} == {first}
    assert len(failed) == len({one["rule"] for one in failed}) > 0  # each once, not again and again
    wrong = {one["merchant"] for one in log if one["event"] == "books wrong"}
    assert wrong == {first, second}
    checks = await _checks(damaged_db)
    assert checks[first][0] > 0
    assert checks[second][0] > 0
    assert checks[second][1]


async def test_a_rule_that_times_out_is_postponed_and_the_pass_stays_open(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await _business(damaged_db)
    for each in rules.merchant_rules(first):
        monkeypatch.setattr(each.rule, "timeout_s", 0.2)
    with structlog.testing.capture_logs() as log:
        async with damaged_db.transaction() as tx:
            await tx.execute("lock table disputes in access exclusive mode")
            await scheduler.IncrementalCheck(damaged_db).turn()
    late = [one for one in log if one["event"] == "rule not checked"]
    assert late
    assert await _checks(damaged_db) == {first: (0, False)}
    assert [await _overdue(damaged_db, days) for days in (1, 3)] == [0, 1]
    assert (await _gauges(damaged_db))[1] == 4  # its entries are checked all the same
    second = await _business(damaged_db)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", second
    )
    await scheduler.IncrementalCheck(damaged_db).turn()
    checks = await _checks(damaged_db)
    assert checks.pop(second)[0] > 0
    assert checks == {first: (0, False)}
    await _execute(
        damaged_db, "update ledger_checks set checked_at = 0 where merchant_id = $1", first
    )
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert (await _checks(damaged_db))[first] == (0, True)
    assert await _overdue(damaged_db, 3) == 2
    await _execute(damaged_db, "update ledger_checks set finished_at = finished_at + 2 * 86400000")
    assert await _overdue(damaged_db, 3) == 0


async def test_a_rule_that_runs_out_of_disk_space_is_postponed(
    damaged_db: Db,
) -> None:
    shop = await _business(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    refuses = "begin raise exception 'temporary file size' using errcode = '53400'; end"
    for statement in (
        f"create function no_room() returns boolean language plpgsql as $$ {refuses} $$",
        "alter table disputes rename to kept_disputes",
        "create view disputes as select * from kept_disputes where (select no_room())",
    ):
        await _execute(damaged_db, statement)
    with structlog.testing.capture_logs() as log:
        await scheduler.IncrementalCheck(damaged_db).turn()
    refused = {one["rule"] for one in log if one["event"] == "rule not checked"}
    assert 0 < len(refused) < len(rules.merchant_rules(shop))
    (check,) = (await _checks(damaged_db)).values()
    assert (check[0] > 0, check[1]) == (
        True,
        False,
    )  # violations were found by the rules that ran; the check is unfinished


async def test_violations_stand_until_the_rules_are_checked_again(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await _business(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    await scheduler.IncrementalCheck(damaged_db).turn()
    before = (await _checks(damaged_db))[shop]
    assert before[0] > 0
    for rule in (integrity_queries.MERCHANT_HISTORY, integrity_queries.MERCHANT_EVENTS):
        monkeypatch.setattr(rule, "timeout_s", 0.2)
    await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    async with damaged_db.transaction() as tx:
        await tx.execute("lock table order_history in access exclusive mode")
        await scheduler.IncrementalCheck(damaged_db).turn()
    async with damaged_db.connection() as tx:
        (row,) = await ledger.list_checks(tx, None, 10)
    assert (row.violations, row.finished_at is not None) == before
    assert len(row.wrong) == row.violations


async def test_slow_rules_are_checked_between_other_merchants(damaged_db: Db) -> None:
    first = await _business(damaged_db)
    second = await _business(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)  # one rule of a merchant in a turn
    turns = 0
    while not all(whole for _, whole in (await _checks(damaged_db) or {"": (0, False)}).values()):
        await check.turn()
        turns += 1
        assert set(await _checks(damaged_db)) == {first, second}  # from the first turn on
    checks = await _checks(damaged_db)
    assert checks[first][0] == checks[second][0] > 0
    assert turns >= len(rules.merchant_rules(first))  # some turns go on with both


async def test_rules_are_checked_even_if_a_check_takes_longer_than_the_interval(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each merchant is due again before its rules are through: nothing begins anew by that."""
    monkeypatch.setattr(scheduler, "REST_MS", 0)
    shops = [await _business(damaged_db) for _ in range(3)]
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    # How many rules a turn checks depends on how long the last one took.
    for _ in range(100 * len(rules.merchant_rules(shops[0]))):
        await check.turn()
        if await _checks(damaged_db) == dict.fromkeys(shops, (0, True)):
            break
    assert await _checks(damaged_db) == dict.fromkeys(shops, (0, True))


async def test_a_rules_violations_are_stored_before_the_next_rule_is_checked(
    damaged_db: Db,
) -> None:
    shop = await _business(damaged_db)
    await _execute(damaged_db, "update orders set reserve_minor = reserve_minor + 1")
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    while (await _checks(damaged_db) or {shop: (0, False)})[shop] == (0, False):
        await check.turn()
    assert (await _checks(damaged_db))[shop][0] > 0
    # Rules are left, and stay left if the worker dies.
    assert not (await _checks(damaged_db))[shop][1]


async def test_a_worker_that_lost_its_lease_stores_nothing(damaged_db: Db) -> None:
    shop = await _business(damaged_db)
    slow = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    await slow.turn()
    await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert await _checks(damaged_db) == {shop: (0, True)}
    await _execute(damaged_db, "update orders set reserve_minor = reserve_minor + 1")
    for _ in range(2 * len(rules.merchant_rules(shop))):
        await slow.turn()
    assert await _checks(damaged_db) == {shop: (0, True)}


@pytest.mark.parametrize("limit", [2, 50])
async def test_unreadable_entries_do_not_stop_other_merchants(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    first = await _business(damaged_db)
    await scheduler.IncrementalCheck(damaged_db).turn(2)  # a part of them
    monkeypatch.setattr(incremental_queries.SUMS, "timeout_s", 0.2)
    with structlog.testing.capture_logs() as log:
        async with damaged_db.transaction() as tx:
            await tx.execute("lock table entries in access exclusive mode")
            await scheduler.IncrementalCheck(damaged_db).turn(limit)
    assert [one["merchant"] for one in log if one["event"] == "entries not checked"] == [first]
    second = await _business(damaged_db)
    damage = "update entries set source_id = 'order_x' where number = 1 and merchant_id = $1"
    await _execute(damaged_db, damage, second)
    for _ in range(8):
        await scheduler.IncrementalCheck(damaged_db).turn(limit)
    checks = await _checks(damaged_db)
    assert (checks[first], checks[second][0] > 0) == ((0, True), True)


async def test_a_merchant_with_many_entries_does_not_delay_others(db: Db) -> None:
    first = await _business(db)
    await scheduler.IncrementalCheck(db).turn(1)
    second = await _business(db)
    await scheduler.IncrementalCheck(db).turn(1)
    async with db.connection() as tx:
        rows = await ledger.list_checks(tx, None, 10)
    assert {one.merchant_id: one.checked_to for one in rows} == {first: 1, second: 1}


async def test_shutdown_does_not_wait_for_a_rule(database_url: str) -> None:
    """One statement may take an hour; ``adjustments`` are read by no other job."""
    db = await Db.connect(database_url, 4, acquire_timeout_s=20)
    await _business(db)
    settings = Settings(
        database_url=database_url, db_prepared=pooler.prepared(database_url), sandbox=True,
        secret_key="k" * 32, sandbox_secret="k" * 32,
    )  # fmt: skip
    server = create_app(settings, run_worker=True)
    try:
        async with db.transaction() as tx:
            await tx.execute("lock table adjustments in access exclusive mode")
            async with server.router.lifespan_context(server):
                async with asyncio.timeout(20):
                    while await waits(tx) is None:
                        await asyncio.sleep(0.05)
                begun = time.monotonic()
            assert time.monotonic() - begun < 10
            async with asyncio.timeout(10):
                while await waits(tx) is not None:  # PostgreSQL has given it up too
                    await asyncio.sleep(0.05)
    finally:
        await db.close()


def test_every_statement_of_the_check_has_the_longer_timeout() -> None:
    all_ = [rule for rule, _ in rules.statements()]
    of_one = [each.rule for each in rules.merchant_rules("")]
    for rule in (*all_, *of_one):
        assert rule.timeout_s is not None
        assert rule.timeout_s >= 3600
    assert len(of_one) == len({each.holds for each in rules.merchant_rules("")})


async def test_two_workers_at_once_count_once(db: Db) -> None:
    await _business(db)
    await asyncio.gather(*(scheduler.IncrementalCheck(db).turn(2) for _ in range(4)))
    for _ in range(4):
        await scheduler.IncrementalCheck(db).turn(2)
    assert await _gauges(db) == (0, 4)


async def _remove_order(db: Db, status: str | None) -> world.Order:
    """Make an order that is CREATING while nobody will ask about it, as a defect might."""
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order))
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
async def test_every_order_is_checked(db: Db, status: str | None, after: str) -> None:
    order = await _remove_order(db, status)
    assert await jobs.find_forgotten(db, world.NOW + jobs.STUCK_MS - 1) == 0
    late = world.NOW + jobs.STUCK_MS
    async with db.connection() as tx:
        assert await jobs.count_stuck(tx, late) == 1
    assert await jobs.find_forgotten(db, late) == 1
    assert await jobs.find_forgotten(db, late) == 0
    async with db.connection() as tx:
        assert (await world.orders.find(tx, order.merchant_id, order.id)).status == after
        due = await attempt_queries.CLAIM_ATTEMPTS.all(
            tx, now=late, lease_until=late + 1, limit=10, gateways=None, included=True
        )
        assert len(due) == (after == "CREATING")


async def test_another_amount_is_queried_again(db: Db) -> None:
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order))
    wrong = world.Money(5, "USD")
    await db.run(lambda tx: world.report_payment(tx, attempt, "SUCCEEDED", amount=wrong))
    assert await jobs.find_forgotten(db, world.NOW + jobs.STUCK_MS) == 1
    async with db.connection() as tx:
        assert (
            await attempt_queries.CLAIM_ATTEMPTS.all(
                tx,
                now=world.NOW + jobs.STUCK_MS,
                lease_until=0,
                limit=10,
                gateways=None,
                included=True,
            )
            != []
        )


async def test_the_gauges_count_only_what_is_due(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    attempts = [await db.run(lambda tx: world.create_order_in(tx, "CREATING")) for _ in range(2)]
    refunds = [await db.run(lambda tx: world.create_refund(tx, order, "1.00")) for _ in range(2)]
    async with db.connection() as tx:
        for table, rows in (("payment_attempts", attempts), ("refunds", refunds)):
            column, key = (
                ("check_at", "order_id") if table == "payment_attempts" else ("try_at", "id")
            )
            for row, at in zip(rows, (world.NOW, world.NOW + 1), strict=True):
                await tx.execute(f"update {table} set {column} = $2 where {key} = $1", row.id, at)
        assert await jobs.count_due(tx, world.NOW) == 1
        assert await refund_jobs.count_due(tx, world.NOW) == 1
    await scheduler.IncrementalCheck(db).turn(2)  # a part of what there is
    half = (await _gauges(db))[1]
    assert half == 2
    for _ in range(4):
        await scheduler.IncrementalCheck(db).turn(2)
    assert (await _gauges(db))[1] > half


async def test_books_of_several_times_are_consistent(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    await db.run(lambda tx: world.settle_order(tx, order, world.NOW + world.HOUR))
    async with db.connection() as tx:
        assert await tx.fetchval("select count(distinct created_at) from entries") == 2
        await assert_books(tx)
    for _ in range(3):
        await scheduler.IncrementalCheck(db).turn(2)
    assert (await _gauges(db))[0] == 0
