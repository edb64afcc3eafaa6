"""After the clock was set back, rows that are due in the future become due at once."""

from collections.abc import AsyncIterator

import pytest

from db.lock_examples import fill
from opentill import mail
from opentill.db.database import Tx
from opentill.db.query import Command
from opentill.disputes import jobs as dispute_jobs
from opentill.epay import jobs as epay_jobs
from opentill.orders import jobs as order_jobs
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import jobs as webhook_jobs
from support import world
from support.statements import EVERYWHERE
from support.transactions import rolled_back

# For each statement: the table that it changes, and the column that says when a row is due.
DUE_COLUMNS = {
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
    """A transaction that is rolled back without a check of the books."""
    async with rolled_back(rollback_database_url) as connection:
        yield connection


def test_every_statement_that_makes_rows_due_is_tested() -> None:
    assert {name for name in EVERYWHERE if ".MAKE_" in name} == set(DUE_COLUMNS)


@pytest.mark.parametrize(("name", "table", "due"), [(n, *row) for n, row in DUE_COLUMNS.items()])
async def test_rows_due_in_the_future_become_due_and_others_stay(
    tx: Tx, name: str, table: str, due: str
) -> None:
    await fill(tx)
    if table == "mails":  # the statement does not change the leases of mails that are being sent
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
        count = await statement.run(tx, now=world.NOW)
        assert (count > 0) == (before > world.NOW)
        assert await tx.fetchval(
            f"select array_agg(distinct {due}) from {table} where {due} is not null"
        ) == [after]
        assert await tx.fetch(f"select {key} from {table} where {due} is null order by 1") == idle


async def test_the_jobs_make_all_their_rows_due(tx: Tx) -> None:
    await fill(tx)
    await tx.execute("delete from mails where status <> 'WAITING'")
    for table, due in DUE_COLUMNS.values():
        await tx.execute(f"update {table} set {due} = $1 where {due} is not null", world.NOW + 1)
    for make_due in (
        order_jobs.make_due, refund_jobs.make_due, dispute_jobs.make_due,
        epay_jobs.make_due, webhook_jobs.make_due, mail.make_due,
    ):  # fmt: skip
        await make_due(tx, world.NOW)
    for table, due in DUE_COLUMNS.values():
        assert await tx.fetchval(f"select max({due}) from {table}") == world.NOW, table
