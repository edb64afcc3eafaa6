"""The worker's incremental check reports the violations of the full check, in bounded ranges."""

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
from support.waits import find_waiting_session


async def _create_payments(db: Db) -> str:
    """Create two payments of one merchant, which have four entries."""
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID", platform_fee_rate="0.04"))
    mug = await db.run(lambda tx: world.create_product(tx, order.merchant_id, "5.00"))
    session = await db.run(lambda tx: world.create_session(tx, order.merchant_id, mug.id))
    async with db.connection() as tx:
        second = await world.orders.find(tx, order.merchant_id, session.order_id)
    await db.run(lambda tx: world.pay_order(tx, second))
    return order.merchant_id


async def _read_gauges(db: Db) -> tuple[float, float]:
    readings = await health.readings(db, lambda: world.NOW)
    values = {reading.name: value for reading in readings for _, value in reading.samples}
    return values["opentill_ledger_violations"], values["opentill_ledger_entries_checked"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_a_pass_checks_all_entries_in_ranges_of_any_size(db: Db, limit: int) -> None:
    await _create_payments(db)
    await db.run(lambda tx: world.create_order_in(tx, "REFUNDED"))
    await db.run(world.create_merchant)
    count = sum([await scheduler.IncrementalCheck(db).turn(limit) for _ in range(20)])
    assert count == 8
    assert await _read_gauges(db) == (0, 8)


DAMAGED_TABLES = ("entries", "balances", "orders", "order_history")


@pytest.fixture(scope="module")
async def copied_db(module_database_url: str) -> AsyncIterator[Db]:
    """A database with payments and a copy of the tables that tests damage."""
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    try:
        await _create_payments(db)
        async with db.transaction() as tx:
            await tx.execute("alter table entries drop constraint entries_keep_rules")
            await tx.execute("create schema copies")
            for table in DAMAGED_TABLES:
                await tx.execute(f"create table copies.{table} as table {table}")
        yield db
    finally:
        await db.close()


@pytest.fixture
async def repaired_db(copied_db: Db) -> Db:
    """The database with payments, restored from the copy and without checks."""
    async with copied_db.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        for table in DAMAGED_TABLES:
            await tx.execute(f"delete from {table}")
            await tx.execute(f"insert into {table} table copies.{table}")
        await tx.execute("delete from ledger_checks")
    return copied_db


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
async def test_damage_is_counted(repaired_db: Db, damage: str, limit: int) -> None:
    await _execute(repaired_db, damage)
    for _ in range(6):
        await scheduler.IncrementalCheck(repaired_db).turn(limit)
    assert (await _read_gauges(repaired_db))[0] > 0


async def test_a_violation_is_stored_with_its_rows_until_it_is_repaired(
    repaired_db: Db,
) -> None:
    key = "merchant_id = (select min(merchant_id) from entries) and number = 3"
    damage = f"update entries set source_id = source_id || '_x' where {key}"
    repair = f"update entries set source_id = left(source_id, -2) where {key}"
    for statement, is_violated in ((damage, True), (repair, False)):
        await _execute(repaired_db, statement)
        async with repaired_db.transaction() as tx:
            await tx.execute("update ledger_checks set checked_at = 0")
        for _ in range(6):
            await scheduler.IncrementalCheck(repaired_db).turn(2)
        async with repaired_db.connection() as tx:
            checks = await ledger.list_checks(tx, None, 10)
            passes = await ledger.summarize_passes(tx)
        assert any(check.wrong for check in checks) is is_violated
        assert ((await _read_gauges(repaired_db))[0] > 0) is is_violated
        assert all(check.checked_to == 0 and check.finished_at for check in checks)
        assert (passes.unfinished, passes.oldest is None) == (0, False)


async def test_repaired_books_are_consistent(repaired_db: Db) -> None:
    for _ in range(3):
        await scheduler.IncrementalCheck(repaired_db).turn(2)
    assert await _read_gauges(repaired_db) == (0, 4)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_each_entry_is_checked_in_ranges_of_any_length(tx: Tx, limit: int) -> None:
    order = await world.create_order_in(tx, "REFUNDED", platform_fee_rate="0.04")
    key = (order.merchant_id, order.settled_currency)
    await tx.execute("set local session_replication_role = replica")
    await tx.execute("alter table entries drop constraint entries_keep_rules")
    for number in range(1, 5):
        for damage in (
            "update entries set pending_after = pending_after + 1 where number >= $1",
            "update entries set source_id = 'x', type = 'PAYOUT' where number = $1",
        ):
            savepoint = tx.transaction()
            await savepoint.start()
            await tx.execute(damage, number)
            subject = await tx.fetchval("select id from entries where number = $1", number)
            progress = Progress(
                merchant_id=key[0], currency=key[1], checked_to=0, last_at=0, pass_violations=0,
                **dict.fromkeys(ACCOUNTS, 0),
            )  # fmt: skip
            violations = []
            for _ in range(6):
                result = await incremental.check_range(tx, progress, limit)
                violations += result.violations
                progress = result.progress
                if result.finished:
                    break
            assert result.finished
            assert [violation.subject for violation in violations] == [subject]
            await savepoint.rollback()
    await tx.execute("rollback")
    await tx.execute("begin")


# Computing the fee (gross minus net) of such an order overflows bigint and ends with an error.
_UNCOMPUTABLE = (
    "update orders set gross_settled_minor = 9223372036854775807, net_settled_minor = -5"
    " where merchant_id = $1"
)


@pytest.fixture
async def damaged_db(make_database: Callable[[], str]) -> AsyncIterator[Db]:
    """A database without a check of the books at the end of the test."""
    db = await Db.connect(make_database(), 4, acquire_timeout_s=20)
    try:
        yield db
    finally:
        await db.close()


async def _execute(db: Db, statement: str, *values: object) -> None:
    async with db.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        assert await tx.execute(statement, *values) not in {"UPDATE 0", "DELETE 0"}


async def _drop_checks(db: Db, table: str) -> None:
    async with db.transaction() as tx:
        for row in await tx.fetch(
            "select conname from pg_constraint where contype = 'c' and conrelid = $1::regclass",
            table,
        ):
            await tx.execute(f"alter table {table} drop constraint {row['conname']}")


async def _read_checks(db: Db) -> dict[str, tuple[int, bool]]:
    """Return each merchant's number of violations, and whether a pass has finished."""
    async with db.connection() as tx:
        rows = await ledger.list_checks(tx, None, 10)
    return {row.merchant_id: (row.violations, row.finished_at is not None) for row in rows}


async def _count_overdue(db: Db, days: int) -> int:
    """Return how many balances will be overdue in ``days`` if no pass ends until then."""
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
        checks = await ledger.list_checks(tx, None, 10)
    assert [
        (violation.subject, violation.detail) for check in checks for violation in check.wrong
    ] == [
        (order.id, "DISPUTED, charged back 0: 0 open, 0 lost, of 0"),
        (dispute_id, "dispute.created: 0 expected, 1 written"),
    ]


async def test_a_failing_rule_does_not_stop_other_rules_or_merchants(damaged_db: Db) -> None:
    await _drop_checks(damaged_db, "orders")
    first = await _create_payments(damaged_db)
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert await _read_checks(damaged_db) == {first: (0, True)}
    await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    await _execute(damaged_db, _UNCOMPUTABLE, first)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", first
    )
    second = await _create_payments(damaged_db)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", second
    )
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            await scheduler.IncrementalCheck(damaged_db).turn()
    failures = [line for line in log if line["event"] == "rule not checked"]
    assert {line["merchant"] for line in failures} == {first}
    # Each failing rule is logged once.
    assert len(failures) == len({line["rule"] for line in failures}) > 0
    assert {line["merchant"] for line in log if line["event"] == "books wrong"} == {first, second}
    checks = await _read_checks(damaged_db)
    assert checks[first][0] > 0
    assert checks[second][0] > 0
    assert checks[second][1]


async def test_a_rule_that_times_out_is_postponed_and_the_pass_stays_open(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await _create_payments(damaged_db)
    for each in rules.merchant_rules(first):
        monkeypatch.setattr(each.rule, "timeout_s", 0.2)
    with structlog.testing.capture_logs() as log:
        async with damaged_db.transaction() as tx:
            await tx.execute("lock table disputes in access exclusive mode")
            await scheduler.IncrementalCheck(damaged_db).turn()
    assert "rule not checked" in {line["event"] for line in log}
    assert await _read_checks(damaged_db) == {first: (0, False)}
    assert [await _count_overdue(damaged_db, days) for days in (1, 3)] == [0, 1]
    # All four entries were checked despite the timeout.
    assert (await _read_gauges(damaged_db))[1] == 4
    second = await _create_payments(damaged_db)
    await _execute(
        damaged_db, "delete from order_history where number = 3 and merchant_id = $1", second
    )
    await scheduler.IncrementalCheck(damaged_db).turn()
    checks = await _read_checks(damaged_db)
    assert checks.pop(second)[0] > 0
    assert checks == {first: (0, False)}
    await _execute(
        damaged_db, "update ledger_checks set checked_at = 0 where merchant_id = $1", first
    )
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert (await _read_checks(damaged_db))[first] == (0, True)
    assert await _count_overdue(damaged_db, 3) == 2
    await _execute(damaged_db, "update ledger_checks set finished_at = finished_at + 2 * 86400000")
    assert await _count_overdue(damaged_db, 3) == 0


async def test_a_rule_that_runs_out_of_disk_space_is_postponed(
    damaged_db: Db,
) -> None:
    shop = await _create_payments(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    error = "begin raise exception 'temporary file size' using errcode = '53400'; end"
    for statement in (
        f"create function no_room() returns boolean language plpgsql as $$ {error} $$",
        "alter table disputes rename to stored_disputes",
        "create view disputes as select * from stored_disputes where (select no_room())",
    ):
        await _execute(damaged_db, statement)
    with structlog.testing.capture_logs() as log:
        await scheduler.IncrementalCheck(damaged_db).turn()
    failed_rules = {line["rule"] for line in log if line["event"] == "rule not checked"}
    assert 0 < len(failed_rules) < len(rules.merchant_rules(shop))
    ((violations, is_finished),) = (await _read_checks(damaged_db)).values()
    assert violations > 0  # the rules that ran have found violations
    assert not is_finished


async def test_violations_stand_until_the_rules_are_checked_again(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await _create_payments(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    await scheduler.IncrementalCheck(damaged_db).turn()
    before = (await _read_checks(damaged_db))[shop]
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
    first = await _create_payments(damaged_db)
    second = await _create_payments(damaged_db)
    await _execute(damaged_db, "delete from order_history where number = 3")
    # rules_s=0 lets a turn check one rule per merchant.
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    turns = 0
    while not all(
        done for _, done in (await _read_checks(damaged_db) or {"": (0, False)}).values()
    ):
        await check.turn()
        turns += 1
        # Each turn has checked both merchants.
        assert set(await _read_checks(damaged_db)) == {first, second}
    checks = await _read_checks(damaged_db)
    assert checks[first][0] == checks[second][0] > 0
    # A turn may check one rule of each merchant.
    assert turns >= len(rules.merchant_rules(first))


async def test_rules_are_checked_even_if_a_check_takes_longer_than_the_interval(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merchant that is due again before its last rule is checked does not start over."""
    monkeypatch.setattr(scheduler, "PASS_PAUSE_MS", 0)
    shops = [await _create_payments(damaged_db) for _ in range(3)]
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    # The number of rules in a turn depends on the duration of the last rule, so the number of turns
    # is not fixed.
    for _ in range(100 * len(rules.merchant_rules(shops[0]))):
        await check.turn()
        if await _read_checks(damaged_db) == dict.fromkeys(shops, (0, True)):
            break
    assert await _read_checks(damaged_db) == dict.fromkeys(shops, (0, True))


async def test_a_rules_violations_are_stored_before_the_next_rule_is_checked(
    damaged_db: Db,
) -> None:
    shop = await _create_payments(damaged_db)
    await _execute(damaged_db, "update orders set reserve_minor = reserve_minor + 1")
    check = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    while (await _read_checks(damaged_db) or {shop: (0, False)})[shop] == (0, False):
        await check.turn()
    assert (await _read_checks(damaged_db))[shop][0] > 0
    assert not (await _read_checks(damaged_db))[shop][1]  # the other rules are not checked yet


async def test_a_worker_that_lost_its_lease_stores_nothing(damaged_db: Db) -> None:
    shop = await _create_payments(damaged_db)
    slow = scheduler.IncrementalCheck(damaged_db, rules_s=0)
    await slow.turn()
    await _execute(damaged_db, "update ledger_checks set checked_at = 0")
    await scheduler.IncrementalCheck(damaged_db).turn()
    assert await _read_checks(damaged_db) == {shop: (0, True)}
    await _execute(damaged_db, "update orders set reserve_minor = reserve_minor + 1")
    for _ in range(2 * len(rules.merchant_rules(shop))):
        await slow.turn()
    assert await _read_checks(damaged_db) == {shop: (0, True)}


@pytest.mark.parametrize("limit", [2, 50])
async def test_unreadable_entries_do_not_stop_other_merchants(
    damaged_db: Db, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    first = await _create_payments(damaged_db)
    await scheduler.IncrementalCheck(damaged_db).turn(2)  # this checks two of the four entries
    monkeypatch.setattr(incremental_queries.SUMS, "timeout_s", 0.2)
    with structlog.testing.capture_logs() as log:
        async with damaged_db.transaction() as tx:
            await tx.execute("lock table entries in access exclusive mode")
            await scheduler.IncrementalCheck(damaged_db).turn(limit)
    failures = [line["merchant"] for line in log if line["event"] == "entries not checked"]
    assert failures == [first]
    second = await _create_payments(damaged_db)
    damage = "update entries set source_id = 'order_x' where number = 1 and merchant_id = $1"
    await _execute(damaged_db, damage, second)
    for _ in range(8):
        await scheduler.IncrementalCheck(damaged_db).turn(limit)
    checks = await _read_checks(damaged_db)
    assert (checks[first], checks[second][0] > 0) == ((0, True), True)


async def test_a_merchant_with_many_entries_does_not_delay_others(db: Db) -> None:
    first = await _create_payments(db)
    await scheduler.IncrementalCheck(db).turn(1)
    second = await _create_payments(db)
    await scheduler.IncrementalCheck(db).turn(1)
    async with db.connection() as tx:
        rows = await ledger.list_checks(tx, None, 10)
    assert {row.merchant_id: row.checked_to for row in rows} == {first: 1, second: 1}


async def test_shutdown_does_not_wait_for_a_rule(database_url: str) -> None:
    """A rule may run for an hour. No other job reads ``adjustments``, which the test locks."""
    db = await Db.connect(database_url, 4, acquire_timeout_s=20)
    await _create_payments(db)
    settings = Settings(
        database_url=database_url, db_prepared=pooler.supports_prepared(database_url), sandbox=True,
        secret_key="k" * 32, sandbox_secret="k" * 32,
    )  # fmt: skip
    server = create_app(settings, run_worker=True)
    try:
        async with db.transaction() as tx:
            await tx.execute("lock table adjustments in access exclusive mode")
            async with server.router.lifespan_context(server):
                async with asyncio.timeout(20):
                    while await find_waiting_session(tx) is None:
                        await asyncio.sleep(0.05)
                stopped_at = time.monotonic()
            assert time.monotonic() - stopped_at < 10
            async with asyncio.timeout(10):
                while (
                    await find_waiting_session(tx) is not None
                ):  # PostgreSQL ends the statement a moment after its client
                    await asyncio.sleep(0.05)
    finally:
        await db.close()


def test_every_statement_of_the_check_has_the_longer_timeout() -> None:
    full_rules = [rule for rule, _ in rules.statements()]
    merchant_rules = [each.rule for each in rules.merchant_rules("")]
    for rule in (*full_rules, *merchant_rules):
        assert rule.timeout_s is not None
        assert rule.timeout_s >= 3600
    assert len(merchant_rules) == len({each.holds for each in rules.merchant_rules("")})


async def test_concurrent_workers_count_each_entry_once(db: Db) -> None:
    await _create_payments(db)
    await asyncio.gather(*(scheduler.IncrementalCheck(db).turn(2) for _ in range(4)))
    for _ in range(4):
        await scheduler.IncrementalCheck(db).turn(2)
    assert await _read_gauges(db) == (0, 4)


async def _create_stuck_order(db: Db, status: str | None) -> world.Order:
    """Create an order in CREATING whose attempt is not due for a query, as a defect might."""
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
async def test_a_stuck_order_is_counted_and_repaired(
    db: Db, status: str | None, after: str
) -> None:
    order = await _create_stuck_order(db, status)
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


async def test_a_stuck_attempt_with_another_amount_is_queried_again(db: Db) -> None:
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order))
    amount = world.Money(5, "USD")
    await db.run(lambda tx: world.report_payment(tx, attempt, "SUCCEEDED", amount=amount))
    assert await jobs.find_forgotten(db, world.NOW + jobs.STUCK_MS) == 1
    async with db.connection() as tx:
        late = world.NOW + jobs.STUCK_MS
        assert await attempt_queries.CLAIM_ATTEMPTS.all(
            tx, now=late, lease_until=0, limit=10, gateways=None, included=True
        )


async def test_gauges_count_due_rows_and_checked_entries(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    attempts = [await db.run(lambda tx: world.create_order_in(tx, "CREATING")) for _ in range(2)]
    refunds = [await db.run(lambda tx: world.create_refund(tx, order, "1.00")) for _ in range(2)]
    async with db.connection() as tx:
        for table, rows in (("payment_attempts", attempts), ("refunds", refunds)):
            column, key = (
                ("check_at", "order_id") if table == "payment_attempts" else ("try_at", "id")
            )
            for row, due_at in zip(rows, (world.NOW, world.NOW + 1), strict=True):
                update = f"update {table} set {column} = $2 where {key} = $1"
                await tx.execute(update, row.id, due_at)
        assert await jobs.count_due(tx, world.NOW) == 1
        assert await refund_jobs.count_due(tx, world.NOW) == 1
    await scheduler.IncrementalCheck(db).turn(2)
    assert (await _read_gauges(db))[1] == 2
    for _ in range(4):
        await scheduler.IncrementalCheck(db).turn(2)
    assert (await _read_gauges(db))[1] > 2


async def test_entries_with_different_times_are_consistent(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    await db.run(lambda tx: world.settle_order(tx, order, world.NOW + world.HOUR))
    async with db.connection() as tx:
        assert await tx.fetchval("select count(distinct created_at) from entries") == 2
        await assert_books(tx)
    for _ in range(3):
        await scheduler.IncrementalCheck(db).turn(2)
    assert (await _read_gauges(db))[0] == 0
