"""Connections lent by the pool, callers that wait for one, and rows as structs."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import msgspec
import pytest

from opentill.core.errors import Unavailable
from opentill.db import connection
from opentill.db.database import Db, Tx, retry_while_away, storing_nothing
from opentill.db.pool import Pool
from opentill.db.query import Query


@pytest.fixture
async def db(postgres_url: str) -> AsyncIterator[Db]:
    db = await Db.connect(postgres_url, 1, acquire_timeout_s=10)
    yield db
    await db.close()


@pytest.fixture
async def pool(postgres_url: str) -> AsyncIterator[Pool]:
    """A pool of one connection."""
    pool = Pool(lambda: connection.connect(postgres_url), 1)
    yield pool
    pool.terminate()


async def test_a_statement_that_hangs_ends_with_the_time_of_its_loan(db: Db) -> None:
    started = time.monotonic()
    with pytest.raises(Unavailable):
        async with db.connection(0.2) as tx:
            await tx.fetchval("select pg_sleep(60)")
    assert time.monotonic() - started < 55
    async with db.connection(30) as tx:  # the pool opens another connection
        # PostgreSQL does not notice that its client is gone, and would hold locks for a minute.
        terminate = "select pg_terminate_backend(pid) from pg_stat_activity where query = $1"
        assert await tx.fetchval(terminate, "select pg_sleep(60)")


async def test_waiting_for_a_connection_counts_towards_the_time_of_the_loan(db: Db) -> None:
    async with db.connection():
        started = time.monotonic()
        with pytest.raises(Unavailable):
            async with db.connection(0.2):
                pass
        assert time.monotonic() - started < 9  # acquire_timeout_s is longer
    async with db.connection(30) as tx:
        assert await tx.fetchval("select 1") == 1


async def test_the_timeout_of_a_loan_ends_with_the_loan(db: Db) -> None:
    async with db.connection(30):
        pass  # opens the pool's connection before the short loan
    async with db.connection(0.6) as tx:
        first = tx
    async with db.connection() as tx:
        assert tx is first
        await asyncio.sleep(0.8)
        assert await tx.fetchval("select 1") == 1


async def test_no_statement_runs_after_the_time_of_a_loan(db: Db) -> None:
    with pytest.raises(Unavailable):
        async with db.connection(0.05) as tx:
            await asyncio.sleep(0.3)
            await tx.fetchval("select 1")


async def test_a_caller_whose_wait_timed_out_leaves_the_queue(pool: Pool) -> None:
    lent = await pool.take(10)
    with pytest.raises(TimeoutError):
        await pool.take(0.05)
    next_caller = asyncio.create_task(pool.take(30))
    await asyncio.sleep(0)
    pool.give_back(lent)
    assert await next_caller is lent


async def test_a_connection_for_a_cancelled_caller_goes_to_the_next_one(pool: Pool) -> None:
    lent = await pool.take(10)
    first, second = (asyncio.create_task(pool.take(30)) for _ in range(2))
    await asyncio.sleep(0)
    pool.give_back(lent)  # the first caller gets it, but is cancelled before it runs
    first.cancel()
    assert await second is lent
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_opening_a_connection_is_limited_by_the_callers_timeout() -> None:
    async def hang() -> asyncpg.Connection:
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(TimeoutError):
        await Pool(hang, 1).take(0.05)


class _Positional(msgspec.Struct, frozen=True):
    a: int
    b: str | None


class _KeywordOnly(msgspec.Struct, frozen=True, kw_only=True):
    a: int
    b: str | None


class _Single(msgspec.Struct, frozen=True):
    a: int


@pytest.mark.parametrize(
    ("struct", "sql", "expected"),
    [
        (_Positional, "select 1 as a, 'x' as b", _Positional(1, "x")),
        # The columns are in another order.
        (_Positional, "select 'x' as b, 1 as a", _Positional(1, "x")),
        # ``later`` is a column that a later version adds
        (_Positional, "select null as b, 2 as later, 1 as a", _Positional(1, None)),
        (_KeywordOnly, "select 'x' as b, 1 as a", _KeywordOnly(a=1, b="x")),
        (_KeywordOnly, "select 'x' as b, 2 as later, 1 as a", _KeywordOnly(a=1, b="x")),
        (_Single, "select 1 as a", _Single(1)),
        (_Single, "select 2 as later, 1 as a", _Single(1)),
    ],
)
async def test_columns_become_fields_by_their_names(
    db: Db, struct: type[msgspec.Struct], sql: str, expected: msgspec.Struct
) -> None:
    async with db.connection() as tx:
        assert await Query(struct, sql).first(tx) == expected


async def test_a_missing_column_is_an_error(db: Db) -> None:
    async with db.connection() as tx:
        with pytest.raises(KeyError):
            await Query(_Positional, "select 1 as a, 2 as c").first(tx)


async def test_a_connection_given_back_inside_a_transaction_is_not_lent_again(pool: Pool) -> None:
    lent = await pool.take(10)
    await lent.execute("begin")
    await lent.execute("create temporary table half_done (n int)")
    pool.give_back(lent)
    assert lent.is_closed()
    fresh = await pool.take(30)
    assert fresh is not lent
    assert not fresh.is_in_transaction()
    assert await fresh.fetchval("select to_regclass('half_done')") is None


async def test_a_closed_connection_makes_room_for_a_waiting_caller(pool: Pool) -> None:
    lent = await pool.take(10)
    waiting = asyncio.create_task(pool.take(30))
    await asyncio.sleep(0)
    await lent.execute("begin")
    pool.give_back(lent)
    assert await (await waiting).fetchval("select 1") == 1


async def test_the_pool_never_exceeds_its_size(postgres_url: str) -> None:
    broken = True

    async def open_connection() -> asyncpg.Connection:
        if broken:
            raise ConnectionRefusedError
        return await connection.connect(postgres_url)

    pool = Pool(open_connection, 2)
    try:
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await pool.take(10)
        broken = False
        lent = [await pool.take(10), await pool.take(10)]
        with pytest.raises(TimeoutError):
            await pool.take(0.05)
        assert len(set(lent)) == 2
    finally:
        pool.terminate()


async def test_a_start_waits_until_the_database_is_available(
    postgres_url: str, tmp_path: Path
) -> None:
    """The socket appears in its directory only after the first attempts."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(postgres_url).query).items()}
    name = f".s.PGSQL.{query['port']}"
    url = postgres_url.split("?", maxsplit=1)[0] + "?" + urlencode(query | {"host": str(tmp_path)})
    with pytest.raises(Unavailable):
        await retry_while_away(lambda: Db.connect(url, 1), patience_s=0.3)
    starting = asyncio.create_task(retry_while_away(lambda: Db.connect(url, 1)))
    await asyncio.sleep(0.3)
    assert not starting.done()
    (tmp_path / name).symlink_to(Path(query["host"]) / name)
    db = await starting
    async with db.connection(30) as tx:
        assert await tx.fetchval("select 1") == 1
    await db.close()


async def test_a_block_that_stores_nothing_refuses_transactions_that_could_commit(db: Db) -> None:
    async def read(tx: Tx) -> object:
        return await tx.fetchval("select 1")

    with storing_nothing():
        for run in (db.run, db.autocommit):
            with pytest.raises(AssertionError, match="stores nothing"):
                await asyncio.create_task(run(read))
        assert await db.read(read) == 1
        with storing_nothing(is_set=False):
            assert await db.run(read) == 1
        with pytest.raises(AssertionError, match="stores nothing"):
            await db.run(read)
    assert await db.run(read) == 1
