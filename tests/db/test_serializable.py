"""A database whose default isolation is serializable. The whole suite: see docs/testing.md."""

import asyncio
import collections
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from opentill.core.settings import Settings
from opentill.db import connection
from opentill.db.database import Db, Tx
from opentill.db.query import Command, Value
from support.api_server import SECRETS, TEA, ApiServer, serving
from support.books import assert_books
from support.concurrent_movements import hammered


@pytest.fixture
async def db(postgres_url: str, database_url: str) -> AsyncIterator[Db]:
    """Connect to a database where every transaction is serializable unless it says otherwise."""
    first = await connection.connect(postgres_url)  # a pooler would keep a session from before
    name = urlsplit(database_url).path[1:]
    await first.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")
    await first.close()
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
    """A server on it, with limits that nobody reaches but whose rows everybody writes."""
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=900, **SECRETS
    )
    with serving(settings) as running:
        yield running


async def test_everything_at_once_is_serializable(db: Db, database_url: str) -> None:
    await hammered(db, database_url, seconds=1)


def test_many_requests_at_once_are_serializable(api_server: ApiServer) -> None:
    shop = api_server.shop()
    path = f"/v1/orders/{shop.paid(shop.product(price='5.00')['id'])['id']}/refunds"
    with ThreadPoolExecutor(20) as many:
        answers = list(
            many.map(lambda _: shop.post_until_decided(path, {"amount": "0.10"}), range(60))
        )
        keyed = list(
            many.map(lambda _: shop.post_until_decided("/v1/products", TEA, "k"), range(30))
        )
    counted = collections.Counter(answer.status_code for answer in answers)
    assert counted == {201: 50, 400: 10}
    assert {answer.status_code for answer in keyed} <= {201, 409}
    assert len({answer.content for answer in keyed if answer.status_code == 201}) == 1


async def test_a_single_statement_tries_again(db: Db) -> None:
    """Ten at once on one row: without trying again, all but one of each round would fail."""
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


async def test_a_transaction_is_run_again_as_a_whole(db: Db) -> None:
    async def add(tx: Tx) -> None:
        count = await tx.fetchval("select count(*) from directory")
        await tx.execute("insert into directory (id, merchant_id) values ($1, 'x')", f"id{count}")

    await asyncio.gather(*(db.run(add) for _ in range(20)))
    async with db.connection() as tx:
        assert await tx.fetchval("select count(*) from directory") == 20
