"""Every statement that locks rows waits for another session's change and then returns it.

The tests collect the statements themselves. One without a row in ``CASES`` fails the first test.
"""

import ast
import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

import opentill
from db.lock_examples import fill
from db.locked_rows import CASES, CHANGING, Case, Row, by_id
from opentill.db.database import Db
from opentill.db.query import Statement
from support.databases import cloned_database
from support.sources import nodes
from support.statements import LOCKING, LOCKS, without_comments

PATIENCE_S: Final = 60.0


def _clause(name: str) -> re.Match[str]:
    match = LOCKS.search(without_comments(LOCKING[name].sql))
    assert match is not None
    return match


# Statements whose locks do not exclude each other; tests/merchants/test_standing.py tests them.
SHARING: Final = sorted(name for name in LOCKING if _clause(name).group(2) == "key share")
WAITING: Final = sorted(
    name for name in LOCKING if not _clause(name).group(4) and name not in SHARING
)
SKIPPING: Final = sorted(set(LOCKING) - set(WAITING) - set(SHARING))


def test_every_statement_that_locks_has_a_case() -> None:
    assert set(CASES) == set(LOCKING) - set(SHARING)
    assert SHARING == ["merchants.queries.FIND_SHARED", "orders.transition_queries.PLACE"]


def test_no_sql_outside_of_statements_locks_rows() -> None:
    statements = [without_comments(statement.text) for statement in LOCKING.values()]
    for path in Path(opentill.__file__).parent.rglob("*.py"):
        if not LOCKS.search(path.read_text()):
            continue
        docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = without_comments(node.value)
                if id(node) not in docstrings and LOCKS.search(text) and " from " in text:
                    assert any(text in sql for sql in statements), f"{path.name}: {text[:60]}"


# ── how cases change a row ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def url(postgres_url: str, template: str) -> Iterator[str]:
    """A filled database of this module, without a pooler, which would mix up sessions."""
    with cloned_database(postgres_url, template) as clone_url:
        asyncio.run(_fill(clone_url))
        yield clone_url


async def _fill(url: str) -> None:
    db = await Db.connect(url, 4, acquire_timeout_s=20)
    try:
        await db.run(fill)
    finally:
        await db.close()


@asynccontextmanager
async def session(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a session; its locks are released at the end of the block."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("set default_transaction_isolation = 'read committed'")
        yield connection
    finally:
        connection.terminate()


class Sessions(NamedTuple):
    """The session that locks first, the one that waits, and two that only observe."""

    first: asyncpg.Connection
    second: asyncpg.Connection
    lock_observer: asyncpg.Connection
    row_observer: asyncpg.Connection

    async def is_blocked(self, task: asyncio.Future[Any]) -> bool:
        """Wait until the second session is blocked by the first; False if ``task`` ends."""
        first_pid = self.first.get_server_pid()
        async with asyncio.timeout(PATIENCE_S):
            while not task.done():
                blocking = await self.lock_observer.fetchval(
                    "select pg_blocking_pids($1)", self.second.get_server_pid()
                )
                if first_pid in blocking:
                    return True
                await asyncio.sleep(0.002)
        return False


@pytest.fixture
async def sessions(url: str) -> AsyncIterator[Sessions]:
    async with (
        session(url) as first,
        session(url) as second,
        session(url) as lock_observer,
        session(url) as row_observer,
    ):
        yield Sessions(first, second, lock_observer, row_observer)


class ChangedRow(NamedTuple):
    """A row that an open transaction has changed."""

    row: Row  # the row before the change
    ctid: str  # PostgreSQL's address of the new row version


async def change_row(sessions: Sessions, case: Case) -> ChangedRow:
    """Begin a transaction in the first session, and change a row of the case."""
    where = f"{case.table} where {case.where}"
    if case.table == "merchants":  # take the merchant that has rows in all features
        where += " and id in (select merchant_id from webhook_endpoints)"
    row = await sessions.row_observer.fetchrow(f"select ctid, * from {where} order by ctid limit 1")
    assert row is not None, f"nothing to lock in {where}"
    await sessions.first.execute("begin")
    ctid = await sessions.first.fetchval(
        f"update {case.table} set {case.change} where ctid = $1 returning ctid", row["ctid"]
    )
    return ChangedRow(row, ctid)


async def commit_change(sessions: Sessions, case: Case, changed: ChangedRow) -> Row:
    """Commit the first session's change, and return the row."""
    await sessions.first.execute("commit")
    row = await sessions.row_observer.fetchrow(
        f"select * from {case.table} where ctid = $1", changed.ctid
    )
    assert row is not None
    return row


async def is_locked(sessions: Sessions, case: Case, row: Row, strength: str) -> bool:
    """Whether another session fails to lock a row ``for strength``."""
    condition = " and ".join(
        f"{name} is not distinct from ${number}" for number, name in enumerate(row.keys(), 1)
    )
    statement = f"select from {case.table} where {condition} for {strength} nowait"
    try:
        async with sessions.row_observer.transaction():
            assert len(await sessions.row_observer.fetch(statement, *row.values())) >= 1
    except asyncpg.LockNotAvailableError:
        return True
    return False


# ── what a second session has to wait for ──────────────────────────────────────────────────────


@pytest.mark.parametrize("name", WAITING)
async def test_a_second_session_waits_and_reads_the_change_of_the_first(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    changed = await change_row(sessions, case)
    await sessions.second.execute("begin")
    second = asyncio.ensure_future(_fetch(sessions.second, statement, case.values(changed.row)))
    assert await sessions.is_blocked(second), "it did not wait"
    row = await commit_change(sessions, case, changed)
    async with asyncio.timeout(PATIENCE_S):
        result = await second
    assert len(result) == 1
    if case.changed_column is not None:
        column = case.changed_column
        assert result[0][column] == row[column] != changed.row[column]


async def test_a_statement_without_its_lock_fails_the_test(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "orders.queries.LOCKED"
    unlocked = re.sub(r"for (no key )?update", "", LOCKING[name].sql)
    assert unlocked != LOCKING[name].sql
    monkeypatch.setattr(LOCKING[name], "sql", unlocked)
    with pytest.raises(AssertionError, match="it did not wait"):
        await test_a_second_session_waits_and_reads_the_change_of_the_first(sessions, name)


@pytest.mark.parametrize("name", WAITING)
async def test_a_lock_lasts_until_the_commit_and_has_the_necessary_strength(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    where = (
        case.where if case.table != "merchants" else "id = (select min(merchant_id) from orders)"
    )
    row = await sessions.row_observer.fetchrow(f"select * from {case.table} where {where} limit 1")
    assert row is not None
    await sessions.second.execute("begin")
    result = await _fetch(sessions.second, statement, case.values(row))
    assert len(result) == 1
    if statement.sql.lstrip().startswith("update") or name in CHANGING:
        await sessions.second.execute("rollback")
        return  # the update has changed the row, so the condition below does not match
    assert await is_locked(sessions, case, row, "no key update")
    # Payments insert rows that refer to rows which operators lock, and must not wait.
    assert await is_locked(sessions, case, row, "key share") == (not case.allows_references)
    await sessions.second.execute("commit")
    assert not await is_locked(sessions, case, row, "update")


@pytest.mark.parametrize("name", SKIPPING)
async def test_locked_rows_are_skipped_and_claimed_afterwards(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    changed = await change_row(sessions, case)

    async def run() -> list[Row]:
        await sessions.second.execute("begin")
        return await _fetch(sessions.second, statement, case.values(changed.row))

    second = asyncio.ensure_future(run())
    assert not await sessions.is_blocked(second), "it waited"
    assert not any(_is_same_row(changed.row, row) for row in await second)
    await sessions.second.execute("rollback")
    await sessions.first.execute("commit")
    await run()
    assert str(changed.ctid) in await _find_locked(sessions, case)


async def _fetch(
    connection: asyncpg.Connection, statement: Statement, values: dict[str, Any]
) -> list[Row]:
    rows: list[Row] = await connection.fetch(statement.sql, *statement.values(None, values))
    return rows


def _is_same_row(row: Row, result: Row) -> bool:
    """Whether a row of a table and a row of a result have the same ids."""
    names = {"merchant_id", "id", "order_id", "endpoint_id", "gateway_ref"} & {*row.keys()}
    common = names & {*result.keys()}
    return bool(common) and all(row[name] == result[name] for name in common)


async def _find_locked(sessions: Sessions, case: Case) -> set[str]:
    """Return the ctids of the locked rows of the case's table."""
    async with sessions.row_observer.transaction():
        rows = await sessions.row_observer.fetch(f"select ctid from {case.table}")
        free = await sessions.row_observer.fetch(
            f"select ctid from {case.table} for no key update skip locked"
        )
    return {str(row["ctid"]) for row in rows} - {str(row["ctid"]) for row in free}


@pytest.mark.parametrize(
    ("name", "table", "key"),
    [
        ("orders.payments.queries.LOCK_MANY", "orders", "id"),
        ("ledger.queries.LOCK_MANY", "balances", "currency"),
    ],
)
async def test_several_rows_are_locked_in_a_fixed_order(
    sessions: Sessions, name: str, table: str, key: str
) -> None:
    rows = await sessions.row_observer.fetch(
        f"select * from {table} order by merchant_id, {key} limit 2"
    )
    assert len(rows) == 2
    requested = list(reversed(rows))
    await sessions.first.execute("begin")
    await sessions.first.fetch(
        f"select from {table} where merchant_id = $1 and {key} = $2 for update",
        rows[0]["merchant_id"],
        rows[0][key],
    )
    await sessions.second.execute("begin")
    second = asyncio.ensure_future(
        _fetch(
            sessions.second,
            LOCKING[name],
            {
                "merchant_id": [row["merchant_id"] for row in requested],
                key: [row[key] for row in requested],
            },
        )
    )
    assert await sessions.is_blocked(second)
    case = Case(table, by_id)
    assert not await is_locked(sessions, case, rows[1], "update")
    await sessions.first.execute("rollback")
    assert [row[key] for row in await second] == [row[key] for row in rows]
    assert await is_locked(sessions, case, rows[1], "update")
