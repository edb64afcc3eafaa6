"""OpenTill on a database that is serializable by default; docs/testing.md runs all tests on one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from db.concurrent_posts import assert_concurrent_posts
from opentill.core.settings import Settings
from opentill.db import connection
from opentill.db.database import Db, Tx
from opentill.db.query import Command, Value
from support.api_server import SECRETS, ApiServer, serving
from support.books import assert_books
from support.concurrent_movements import run_movements


@pytest.fixture
async def db(postgres_url: str, database_url: str) -> AsyncIterator[Db]:
    """A database whose default isolation is serializable; its books are checked at the end."""
    # Connects without a pooler, whose sessions would keep old settings.
    admin = await connection.connect(postgres_url)
    name = urlsplit(database_url).path[1:]
    await admin.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")
    await admin.close()
    db = await Db.connect(database_url, 10, acquire_timeout_s=20)
    try:
        async with db.connection() as tx:
            assert await tx.fetchval("show transaction_isolation") == "serializable"
        yield db
        async with db.snapshot() as tx:
            await assert_books(tx)
    finally:
        await db.close()


@pytest.fixture
def api_server(db: Db, database_url: str, tmp_path: Path) -> Iterator[ApiServer]:
    """A server on that database, with a rate limit whose rows every request writes."""
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=900, **SECRETS
    )
    with serving(settings) as running:
        yield running


async def test_concurrent_movements_succeed_when_serializable(db: Db, database_url: str) -> None:
    await run_movements(db, database_url, seconds=1)


async def test_concurrent_requests_succeed_when_serializable(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    order = shop.create_paid_order(shop.create_product(price="5.00")["id"])
    with ThreadPoolExecutor(20) as threads:
        assert_concurrent_posts(shop, threads, order["id"])


async def test_a_single_statement_is_retried(db: Db) -> None:
    """Ten connections update one row: without a retry, nine of ten would fail."""
    insert = Command("insert into directory (id, merchant_id) values ('count', '0')")
    count = Command("update directory set merchant_id = (merchant_id::int + 1)::text")
    read = Value(str, "select merchant_id from directory")
    async with db.connection() as tx:
        await insert.run(tx)

    async def add() -> None:
        async with db.connection() as tx:
            await count.run(tx)

    await asyncio.gather(*(add() for _ in range(40)))
    async with db.connection() as tx:
        assert await read.get(tx) == "40"


async def test_a_whole_transaction_is_retried(db: Db) -> None:
    async def add(tx: Tx) -> None:
        count = await tx.fetchval("select count(*) from directory")
        await tx.execute("insert into directory (id, merchant_id) values ($1, 'x')", f"id{count}")

    await asyncio.gather(*(db.run(add) for _ in range(20)))
    async with db.connection() as tx:
        assert await tx.fetchval("select count(*) from directory") == 20
