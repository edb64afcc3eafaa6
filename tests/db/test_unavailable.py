"""What counts as a database that is away, and what as a defect of ours."""

import asyncio
from typing import Any

import asyncpg
import pytest
import structlog

from opentill import health
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx

# statement, parameters
DEFECTS = [
    ("select $1::int", ()),  # one too few
    ("select 1", (2,)),  # one too many
    ("select $1::int", ("two",)),  # of another type
    ("select $1::smallint", (2**40,)),  # too large for its type
    ("select $1::text[]", ("ab",)),  # no list
    ("select nothing", ()),
]


@pytest.mark.parametrize(("statement", "values"), DEFECTS)
async def test_a_statement_gone_wrong_is_a_defect_of_ours(db: Db, statement, values) -> None:
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        async with db.connection() as tx:
            await tx.fetchval(statement, *values)
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        await db.run(lambda tx: tx.fetchval(statement, *values))
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


async def test_a_connection_that_is_gone_is_a_database_away(db: Db) -> None:
    for lend in (db.connection, db.transaction):
        with pytest.raises(Unavailable) as refused:
            async with lend() as tx:
                await tx.fetchval("select 1")
                await _lose(tx)
                await tx.fetchval("select 1")
        assert isinstance(refused.value.__cause__, asyncpg.InterfaceError)
    with pytest.raises(Unavailable):
        async with db.transaction() as tx:
            async for _ in tx.cursor("select generate_series(1, 200)", prefetch=50):
                await _lose(tx)
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


# No disk, no memory, no connection left, more than a limit of the server's.
@pytest.mark.parametrize("code", ["53100", "53200", "53300", "53400"])
async def test_a_database_that_has_nothing_left_is_no_defect(db: Db, code: str) -> None:
    with structlog.testing.capture_logs() as log, pytest.raises(Unavailable):
        async with db.connection() as tx:
            await tx.execute(_RAISE.format(code, "could not extend file"))
    assert [one["error"] for one in log] == ["could not extend file"]
    with pytest.raises(Unavailable):
        await db.run(lambda tx: tx.execute(_RAISE.format(code, "could not extend file")))
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


async def test_figures_of_a_database_that_does_not_respond_say_that_it_is_away(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_READ_S", 0.5)
    settings = Settings(database_url=database_url, gateways=("sandbox",), db_prepared=False)
    async with asyncio.timeout(10), db.transaction() as tx:
        await tx.execute("lock table business_clock")
        readings = await asyncio.to_thread(health.Reader(settings).read)
    assert [(one.name, one.samples) for one in readings] == [
        ("opentill_database_up", [({}, False)])
    ]


@pytest.mark.parametrize("code", ["58030", "XX000"])
async def test_another_error_of_the_database_is_a_defect(db: Db, code: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="cannot find relation"):
        async with db.connection() as tx:
            await tx.execute(_RAISE.format(code, "cannot find relation"))


_RAISE = "do $$ begin raise exception using errcode = '{}', message = '{}'; end $$"


async def _lose(tx: Tx) -> None:
    """Lose the connection between two statements, so that asyncpg knows before the next one."""
    tx._transport.abort()
    while not tx.is_closed():
        await asyncio.sleep(0)


async def test_a_connection_may_be_cut_between_preparing_and_running(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the end of the time of ``Db.connection`` does, where asyncpg has no error for it."""
    prepare = asyncpg.Connection._get_statement

    async def and_cut(connection: Tx, *statement: Any, **options: Any) -> Any:
        prepared = await prepare(connection, *statement, **options)
        connection.terminate()
        return prepared

    monkeypatch.setattr(asyncpg.Connection, "_get_statement", and_cut)
    with pytest.raises(Unavailable):
        async with db.connection() as tx:
            await tx.fetchval("select 1::bigint + 1")


async def test_a_pool_that_is_closed_is_a_database_away(database_url: str) -> None:
    db = await Db.connect(database_url, 2)
    await db.close()
    with pytest.raises(Unavailable):
        async with db.connection():
            pass
