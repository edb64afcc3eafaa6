"""The clock has gone back: what waits for later is tried at once, and nothing else is touched."""

from collections.abc import AsyncIterator

import pytest

from db.test_row_locks import fill
from opentill.db.database import Tx
from opentill.db.query import Command
from support import world
from support.statements import EVERYWHERE
from support.transactions import rolled_back

# What is woken, and when it is due.
PLACES = {
    "orders.payments.queries.MAKE_DUE": ("payment_attempts", "check_at"),
    "refunds.queries.MAKE_DUE": ("refunds", "try_at"),
    "refunds.queries.MAKE_CASES_DUE": ("refund_cases", "try_at"),
    "disputes.queries.MAKE_DUE": ("unmatched_disputes", "try_at"),
    "webhooks.queries.MAKE_DUE": ("webhook_deliveries", "try_at"),
    "epay.queries.MAKE_NOTICES_DUE": ("epay_notifications", "due_at"),
    "mail.queries.MAKE_DUE": ("mails", "due_at"),
}


@pytest.fixture
async def tx(rollback_database_url: str) -> AsyncIterator[Tx]:
    """Lend a transaction that is rolled back; its rows need not be books that add up."""
    async with rolled_back(rollback_database_url) as connection:
        yield connection


def test_all_that_wakes_is_looked_at() -> None:
    assert {name for name in EVERYWHERE if ".MAKE_" in name} == set(PLACES)


@pytest.mark.parametrize(("name", "place"), PLACES.items(), ids=str)
async def test_what_waits_for_later_is_due_and_what_is_due_stays(
    tx: Tx, name: str, place: tuple[str, str]
) -> None:
    table, due = place
    await fill(tx)
    if table == "mails":  # what is being sent is left to its lease
        await tx.execute("delete from mails where status <> 'WAITING'")
    statement = EVERYWHERE[name]
    assert isinstance(statement, Command)
    key = "order_id" if table == "epay_notifications" else "ctid"
    for before, after in (
        (world.NOW - 5, world.NOW - 5),
        (world.NOW, world.NOW),
        (world.NOW + 1, world.NOW),
        (world.NOW + 10**9, world.NOW),
    ):
        await tx.execute(f"update {table} set {due} = $1 where {due} is not null", before)
        idle = await tx.fetch(f"select {key} from {table} where {due} is null order by 1")
        woken = await statement.run(tx, now=world.NOW)
        assert (woken > 0) == (before > world.NOW)
        assert await tx.fetchval(
            f"select array_agg(distinct {due}) from {table} where {due} is not null"
        ) == [after]
        assert await tx.fetch(f"select {key} from {table} where {due} is null order by 1") == idle
