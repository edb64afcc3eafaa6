"""What counts as a database that is away, and what as a defect of ours."""

import asyncio

import asyncpg
import pytest

from opentill.core.errors import Unavailable
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


async def _lose(tx: Tx) -> None:
    """Lose the connection between two statements, so that asyncpg knows before the next one."""
    tx._transport.abort()
    while not tx.is_closed():
        await asyncio.sleep(0)


async def test_a_pool_that_is_closed_is_a_database_away(database_url: str) -> None:
    db = await Db.connect(database_url, 2)
    await db.close()
    with pytest.raises(Unavailable):
        async with db.connection():
            pass
