"""The check of the books reports every kind of corruption."""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ledger.corruptions import (
    ATTEMPT,
    HISTORY,
    MOVE,
    ORDER_CORRUPTIONS,
    RUNNING,
    SESSION,
    SUM,
    corrupted,
    drop_constraints,
)
from opentill import webhooks
from opentill.core.ids import creation_time, first_id
from opentill.db import connection as connections
from opentill.db.database import Db, Tx
from opentill.db.query import Query
from opentill.integrity import queries
from opentill.integrity.rules import check_all, check_books, event_values, statements
from opentill.ledger import Violation, incremental_queries, rule_sql
from opentill.orders import Order
from support.books import assert_books
from support.world import DAY, create_order_in, create_refund, report_refund


async def create_books(tx: Tx) -> Order:
    """Create the paid order with three refunds that ``ORDER_CORRUPTIONS`` describes."""
    order = await create_order_in(tx, "PAID")
    await create_order_in(tx, "PENDING")
    await create_order_in(tx, "CREATING")
    first, second, _ = [await create_refund(tx, order, f"{amount}.00") for amount in (1, 2, 3)]
    await report_refund(tx, first, "REFUSED")
    await report_refund(tx, second, "SUCCEEDED")
    await tx.execute("set constraints all immediate")
    return order


@pytest.fixture(scope="module")
async def unguarded(module_database_url: str) -> AsyncIterator[tuple[Tx, Order]]:
    """A connection to committed books without constraints, and their order.

    Each test rolls back its corruption.
    """
    connection = await connections.connect(module_database_url)
    try:
        async with connection.transaction():
            order = await create_books(connection)
            assert await assert_books(connection) == 7
        await drop_constraints(connection)
        yield connection, order
    finally:
        await connection.close()


@pytest.mark.parametrize(("statement", "rules"), ORDER_CORRUPTIONS)
async def test_the_check_finds_a_corruption(
    unguarded: tuple[Tx, Order], statement: str, rules: set[str]
) -> None:
    connection, order = unguarded
    async with corrupted(connection, statement):
        _, violations = await check_books(connection)
    assert {violation.rule for violation in violations} >= rules
    merchants = {violation.merchant_id for violation in violations if violation.rule != MOVE}
    assert order.merchant_id in merchants or rules <= {MOVE, SESSION, ATTEMPT, HISTORY}
    assert all(violation.detail for violation in violations)


async def test_the_books_are_consistent_after_a_rollback(unguarded: tuple[Tx, Order]) -> None:
    assert await assert_books(unguarded[0]) == 7


def test_every_rule_describes_a_violation_without_rows() -> None:
    rules = [rule for rule, _ in statements()]
    rules += [queries.MERCHANT_HISTORY, *queries.MERCHANT_RULES]
    rules += [incremental_queries.WRONG, incremental_queries.UNKNOWN]
    beginning, _, _ = rule_sql("HOLDS", "FOUND").partition("(FOUND)")
    pattern = re.escape(beginning).replace("HOLDS", ".+")
    assert [rule.text for rule in rules if re.match(pattern, rule.text) is None] == []


async def test_a_violation_is_reported_even_if_its_detail_fails(tx: Tx) -> None:
    violations = (
        "select 'mer_1' as merchant_id, 'order_1' as subject, 'frozen: ' || null::text as detail"
    )
    (violation,) = await Query(Violation, rule_sql("money is kept", violations)).all(tx)
    assert violation == Violation(
        "money is kept", "mer_1", "order_1", "a row that belongs to it is missing"
    )


async def test_two_connections_report_the_same_violations_of_one_snapshot(
    database_url: str,
) -> None:
    db = await Db.connect(database_url, 4, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            await create_books(tx)
        assert await check_all(db) == (7, [])

        async def corrupt(statement: str) -> None:
            async with db.transaction() as tx:
                await tx.execute("set local session_replication_role = replica")
                await tx.execute(statement)

        await corrupt("update entries set pending_after = pending_after + 1 where number = 3")
        await corrupt("update balances set entries = entries + 1")
        await corrupt("delete from order_history where number = 2")
        expected = await check_all(db)
        assert {violation.rule for violation in expected[1]} >= {RUNNING, SUM, HISTORY}
        async with db.snapshot() as first, db.snapshot(first) as second:
            await corrupt("delete from entries")
            for each in (first, second):
                count, violations = await check_books(each)
                assert (count, sorted(violations, key=repr)) == expected
    finally:
        await db.close()


async def test_an_empty_database_is_consistent(tx: Tx) -> None:
    assert await check_books(tx) == (0, [])


async def test_an_event_from_a_machine_with_a_slow_clock_is_not_missing(tx: Tx) -> None:
    """An event's id may have an earlier time than its order; events are pruned after 90 days."""
    order = await create_order_in(tx, "PAID")
    created_at = creation_time(order.id)
    earlier_id = first_id("evt", created_at - 60_000)[:-2]
    await tx.execute("set local session_replication_role = replica")
    await tx.execute("update events set id = $1 || right(id, 2)", earlier_id)
    for first in (created_at - 30_000, created_at, created_at + 1):
        now = first + webhooks.KEEP_EVENTS_MS - DAY
        assert await queries.EVENTS.all(tx, **event_values(now)) == []
    loss = tx.transaction()
    await loss.start()
    await tx.execute("delete from events")
    now = created_at + webhooks.KEEP_EVENTS_MS - DAY
    assert await queries.EVENTS.all(tx, **event_values(now)) != []
    await loss.rollback()


async def test_the_database_refuses_inconsistent_statements(tx: Tx) -> None:
    """``tests/test_schema.py`` has the statements for which one pending order is enough."""
    await create_books(tx)
    for statement in (
        "update balances set bank = bank + 1",
        "update orders set refund_held_minor = amount_minor + 1",
        "update orders set paid_at = null where paid_at is not null",
        "update refunds set try_at = null",
        "update orders set refunded_minor = refund_held_minor + 1",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            async with tx.transaction():
                await tx.execute(statement)
