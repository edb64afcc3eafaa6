"""The check of the books finds every kind of corruption. One that finds nothing is worthless."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from opentill.db import connection as connections
from opentill.db.database import Db, Tx
from opentill.integrity.rules import check_all, check_books
from opentill.orders import Order
from support.books import assert_books
from support.world import in_status, refund_said, refunded, submitted

RUNNING = "each balance after is the one before plus this entry, numbered 1, 2, 3 …"
SUM = "the balance equals the sum of its entries"
ZERO = "the sum over all accounts is zero"
ROW = "entries have a balance row"
MOVE = "every entry is a movement of the table"
PAYMENT = "an order has its PAYMENT exactly when it was paid"
FEE = "an order has the FEE of its gross less its net exactly when it was paid"
ATTEMPT = "a paid order was paid by exactly one attempt"
COUNTS = "an order counts its refunds, and they are at most what was paid"
REFUND = "a refund is frozen while it is processing, then refunded or unfrozen"
KEPT = "each balance is what orders, refunds, disputes and the operator keep there"
SOURCE = "every entry of an order or refund has one"
SESSION = "a session is open as long as its order can be paid"
HISTORY = "the history leads to the status, by transitions of the table"

# The world: a paid order (entries 1 PAYMENT, 2 FEE) with three refunds: 1.00 failed (FREEZE 3,
# UNFREEZE 6), 2.00 succeeded (FREEZE 4, REFUND 7), 3.00 processing (FREEZE 5). $1: the merchant.
CORRUPTIONS = (
    # what somebody does, and what is found
    ("update entries set amount_minor = 1000 where number = 1", {RUNNING, SUM, PAYMENT}),
    ("update entries set amount_minor = 1, shown_minor = -1 where number = 2", {RUNNING, SUM, FEE}),
    ("update entries set pending_after = pending_after + 1 where number = 3", {RUNNING}),
    ("update entries set available_after = 1 where number = 2", {RUNNING}),
    ("update entries set frozen_after = 0 where number = 4", {RUNNING}),
    ("update entries set reserve_after = 7 where number = 7", {RUNNING}),
    ("update entries set number = 8 where number = 7", {RUNNING}),
    ("update entries set number = number + 1 where number = 7", {RUNNING}),
    ("update entries set created_at = created_at - 1 where number = 4", {RUNNING}),
    ("update entries set created_at = created_at + 1 where number = 4", {RUNNING, SUM}),
    ("delete from entries where number = 7", {SUM, REFUND}),
    ("delete from entries where number = 1", {RUNNING, SUM, PAYMENT}),
    ("delete from entries where number = 2", {RUNNING, SUM, FEE}),
    ("delete from entries where number = 3", {RUNNING, SUM, REFUND}),
    ("delete from entries", {SUM, PAYMENT, FEE, REFUND}),
    ("delete from balances", {ROW, KEPT}),
    ("update balances set pending = pending + 1, gateway = gateway - 1", {SUM}),
    ("update balances set frozen = frozen + 1, gateway = gateway - 1", {SUM, KEPT}),
    ("update balances set bank = bank + 1", {SUM, ZERO}),
    ("update balances set entries = entries + 1", {SUM}),
    ("update balances set last_at = last_at + 1", {SUM}),
    ("update entries set type = 'PAYOUT' where number = 1", {MOVE, PAYMENT}),
    ("update entries set type = 'CHARGEBACK' where number = 2", {MOVE, FEE}),
    ("update entries set shown_minor = -shown_minor where number = 1", {MOVE}),
    ("update entries set from_account = 'bank' where number = 1", {MOVE, SUM}),
    ("update entries set from_account = 'available' where number = 5", {RUNNING, SUM, REFUND}),
    ("update entries set source_id = 'order_other' where number = 1", {PAYMENT, SOURCE}),
    ("update entries set source_id = 're_other' where number = 7", {REFUND, SOURCE}),
    ("update orders set paid_at = null, status = 'PENDING' where paid_at is not null",
     {PAYMENT, FEE, ATTEMPT, COUNTS, SESSION, HISTORY}),
    ("update orders set gross_settled_minor = 1000 where paid_at is not null", {PAYMENT, FEE}),
    ("update orders set net_settled_minor = 960 where paid_at is not null", {FEE}),
    ("update orders set paid_attempt_id = 'att_other' where paid_at is not null", {ATTEMPT}),
    ("update payment_attempts set status = 'DECLINED' where status = 'SUCCEEDED'", {ATTEMPT}),
    ("update payment_attempts set status = 'SUCCEEDED' where status = 'SUBMITTED'", {ATTEMPT}),
    ("update orders set refunded_minor = 201 where paid_at is not null", {COUNTS}),
    ("update orders set refund_held_minor = 501 where paid_at is not null", {COUNTS}),
    ("update orders set refund_debit_minor = 499 where paid_at is not null", {COUNTS}),
    ("update refunds set amount_minor = 301 where status = 'PROCESSING'", {COUNTS}),
    ("update refunds set debit_minor = 301 where status = 'PROCESSING'", {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'SUCCEEDED', try_at = null, succeeded_at = 1 "
     "where status = 'PROCESSING'"), {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'FAILED', try_at = null, failed_at = 1 "
     "where status = 'PROCESSING'"), {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'SUCCEEDED', failed_at = null, succeeded_at = 1 "
     "where status = 'FAILED'"), {COUNTS, REFUND}),
    ("delete from refunds where status = 'SUCCEEDED'", {COUNTS, SOURCE}),
    (("update orders set status = 'REFUNDED', refunded_minor = amount_minor, "
     "refund_held_minor = amount_minor where paid_at is not null"), {COUNTS, HISTORY}),
    ("update checkouts set status = 'OPEN' where status = 'COMPLETE'", {SESSION}),
    ("update checkouts set status = 'COMPLETE' where status = 'OPEN'", {SESSION}),
    ("delete from order_history where number = 2", {HISTORY}),
    ("delete from order_history", {HISTORY}),
    ("update order_history set to_status = 'FAILED' where number = 2", {HISTORY}),
    ("update order_history set event = 'voided' where event = 'confirmed'", {HISTORY}),
    ("update order_history set at = at - 1 where number = 2", {HISTORY}),
    ("update orders set status = 'CREATING' where status = 'PENDING'", {HISTORY}),
    ("update orders set history_number = history_number + 1", {HISTORY}),
)  # fmt: skip


async def world(tx: Tx) -> Order:
    order = await in_status(tx, "PAID")
    await in_status(tx, "PENDING")
    await in_status(tx, "CREATING")
    first, second, _ = [await refunded(tx, order, f"{amount}.00") for amount in (1, 2, 3)]
    await refund_said(tx, first, "REFUSED")
    await refund_said(tx, second, "SUCCEEDED")
    await tx.execute("set constraints all immediate")  # nothing waits for a commit
    return order


@pytest.fixture(scope="module")
async def unguarded(module_database_url: str) -> AsyncIterator[tuple[Tx, Order]]:
    """The world, committed, in a database whose constraints a superuser has dropped.

    Once for all corruptions: the order, and a connection on which each is made and rolled back.
    """
    connection = await connections.connect(module_database_url)
    try:
        async with connection.transaction():
            order = await world(connection)
            assert await assert_books(connection) == 7
        dropped = await connection.fetch(
            "select format('alter table %s drop constraint %I', conrelid::regclass, conname)"
            " from pg_constraint where contype in ('c', 'f') and conparentid = 0"
            " and connamespace = 'public'::regnamespace"
        )
        await connection.execute("; ".join(row[0] for row in dropped))
        yield connection, order
    finally:
        await connection.close()


@pytest.mark.parametrize(("statement", "found"), CORRUPTIONS)
async def test_it_finds(unguarded: tuple[Tx, Order], statement: str, found: set[str]) -> None:
    connection, order = unguarded
    corruption = connection.transaction()
    await corruption.start()
    try:
        await connection.execute("set local session_replication_role = replica")
        assert await connection.execute(statement) not in {"UPDATE 0", "DELETE 0"}
        _, violations = await check_books(connection)
    finally:
        await corruption.rollback()
    assert {violation.rule for violation in violations} >= found
    places = {violation.merchant_id for violation in violations if violation.rule != MOVE}
    assert order.merchant_id in places or found <= {MOVE, SESSION, ATTEMPT, HISTORY}
    assert all(violation.detail for violation in violations)


async def test_what_was_rolled_back_is_right(unguarded: tuple[Tx, Order]) -> None:
    assert await assert_books(unguarded[0]) == 7


def test_every_rule_has_a_corruption_that_it_finds() -> None:
    rules = {
        RUNNING, SUM, ZERO, ROW, MOVE, PAYMENT, FEE, ATTEMPT, COUNTS, REFUND, KEPT, SOURCE,
        SESSION, HISTORY,
    }  # fmt: skip
    assert set().union(*(found for _, found in CORRUPTIONS)) == rules


async def test_two_at_a_time_find_the_same_and_of_one_moment(database_url: str) -> None:
    db = await Db.connect(database_url, 4, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            await world(tx)
        assert await check_all(db) == (7, [])

        async def corrupt(statement: str) -> None:
            async with db.transaction() as tx:
                await tx.execute("set local session_replication_role = replica")
                await tx.execute(statement)

        await corrupt("update entries set pending_after = pending_after + 1 where number = 3")
        await corrupt("update balances set entries = entries + 1")
        await corrupt("delete from order_history where number = 2")
        found = await check_all(db)
        assert {violation.rule for violation in found[1]} >= {RUNNING, SUM, HISTORY}
        async with db.snapshot() as first, db.snapshot(first) as second:
            await corrupt("delete from entries")
            for each in (first, second):
                count, violations = await check_books(each)
                assert (count, sorted(violations, key=repr)) == found
    finally:
        await db.close()


async def test_an_empty_database_is_right(tx: Tx) -> None:
    assert await check_books(tx) == (0, [])


async def test_what_the_database_itself_refuses(tx: Tx) -> None:
    order = await world(tx)
    for statement in (
        "update balances set bank = bank + 1",
        "update balances set frozen = -1",
        "update orders set refund_held_minor = amount_minor + 1",
        "update orders set status = 'REFUNDED' where paid_at is not null",
        "update orders set paid_at = null where paid_at is not null",
        "update refunds set try_at = null",
        "update orders set refunded_minor = refund_held_minor + 1",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            async with tx.transaction():
                await tx.execute(statement)
    await submitted(tx, await in_status(tx, "PENDING"))
    assert order.status == "PAID"
