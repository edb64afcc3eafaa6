"""Which errors of the database mean that it is unavailable, and which are defects."""

import asyncio
from typing import Any

import asyncpg
import pytest
import structlog

from opentill import health
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx

# Each row: a statement, and its parameters.
DEFECTS = [
    ("select $1::int", ()),  # one value is missing
    ("select 1", (2,)),  # there is one value too many
    ("select $1::int", ("two",)),  # the value has another type
    ("select $1::smallint", (2**40,)),  # the value is too large for the type
    ("select $1::text[]", ("ab",)),  # the value is not a list
    ("select nothing", ()),
]


@pytest.mark.parametrize(("statement", "values"), DEFECTS)
async def test_a_wrong_statement_is_a_defect(db: Db, statement, values) -> None:
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        async with db.connection() as tx:
            await tx.fetchval(statement, *values)
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        await db.run(lambda tx: tx.fetchval(statement, *values))
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


async def test_a_lost_connection_means_that_the_database_is_unavailable(db: Db) -> None:
    for connect in (db.connection, db.transaction):
        with pytest.raises(Unavailable) as refused:
            async with connect() as tx:
                await tx.fetchval("select 1")
                await _cut_connection(tx)
                await tx.fetchval("select 1")
        assert isinstance(refused.value.__cause__, asyncpg.InterfaceError)
    with pytest.raises(Unavailable):
        async with db.transaction() as tx:
            async for _ in tx.cursor("select generate_series(1, 200)", prefetch=50):
                await _cut_connection(tx)
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


# These codes mean that the disk, the memory or the connections are used up, or that a configured
# limit is exceeded.
@pytest.mark.parametrize("code", ["53100", "53200", "53300", "53400"])
async def test_exhausted_resources_mean_that_the_database_is_unavailable(db: Db, code: str) -> None:
    with structlog.testing.capture_logs() as log, pytest.raises(Unavailable):
        async with db.connection() as tx:
            await tx.execute(_RAISE.format(code, "could not extend file"))
    assert [entry["error"] for entry in log] == ["could not extend file"]
    with pytest.raises(Unavailable):
        await db.run(lambda tx: tx.execute(_RAISE.format(code, "could not extend file")))
    async with db.connection() as tx:
        assert await tx.fetchval("select 1") == 1


async def test_metrics_report_a_database_that_does_not_respond(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_READ_S", 0.5)
    settings = Settings(database_url=database_url, gateways=("sandbox",), db_prepared=False)
    async with asyncio.timeout(10), db.transaction() as tx:
        await tx.execute("lock table business_clock")
        readings = await asyncio.to_thread(health.Reader(settings).read)
    assert [(reading.name, reading.samples) for reading in readings] == [
        ("opentill_database_up", [({}, False)])
    ]


@pytest.mark.parametrize("code", ["58030", "XX000"])
async def test_any_other_error_of_the_database_is_a_defect(db: Db, code: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="cannot find relation"):
        async with db.connection() as tx:
            await tx.execute(_RAISE.format(code, "cannot find relation"))


_RAISE = "do $$ begin raise exception using errcode = '{}', message = '{}'; end $$"


async def _cut_connection(tx: Tx) -> None:
    """Cut the connection, and wait until asyncpg has noticed."""
    tx._transport.abort()
    while not tx.is_closed():
        await asyncio.sleep(0)


async def test_a_connection_cut_after_preparing_means_that_the_database_is_unavailable(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout of ``Db.connection`` may cut it there, and asyncpg raises no error of its own."""
    prepare = asyncpg.Connection._get_statement

    async def prepare_and_cut(connection: Tx, *statement: Any, **options: Any) -> Any:
        prepared = await prepare(connection, *statement, **options)
        connection.terminate()
        return prepared

    monkeypatch.setattr(asyncpg.Connection, "_get_statement", prepare_and_cut)
    with pytest.raises(Unavailable):
        async with db.connection() as tx:
            await tx.fetchval("select 1::bigint + 1")


async def test_a_closed_pool_means_that_the_database_is_unavailable(database_url: str) -> None:
    db = await Db.connect(database_url, 2)
    await db.close()
    with pytest.raises(Unavailable):
        async with db.connection():
            pass
