"""Fixtures of the tests about money."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import pytest

from opentill.db import connection as connections
from opentill.db.database import Db, Tx
from support.books import assert_books
from support.databases import Databases, clone

Step = Callable[[Tx], Awaitable[None]]
Each = Callable[[Step], None]
_PREPARED: Final = 1000  # statements that a worker's tests run on one connection


@pytest.fixture(scope="session")
def rollback_database_url(
    postgres_url: str, template: str, through: Callable[[str], str]
) -> Iterator[str]:
    """Address of a migrated database in which nothing is ever committed."""
    with clone(postgres_url, template) as url:
        yield through(url)


@pytest.fixture(scope="module")
def module_database_url(
    postgres_url: str, template: str, through: Callable[[str], str]
) -> Iterator[str]:
    """Address of a migrated database for the tests of one file, which commit."""
    with clone(postgres_url, template) as url:
        yield through(url)


class RollbackConnection:
    """The connection of a worker to a database in which nothing is ever committed.

    It is kept from test to test: a new one would plan every statement anew.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection | None = None

    async def connection(self) -> asyncpg.Connection:
        """Return it, a new one if a test has closed it."""
        if self._connection is None or self._connection.is_closed():
            options = {"statement_cache_size": _PREPARED, **connections.options()}
            self._connection = await asyncpg.connect(self._url, timeout=10, **options)
        return self._connection

    async def close(self) -> None:
        """Close it if it is open."""
        if self._connection is not None:
            await self._connection.close()


@pytest.fixture(scope="session")
async def rollback_connection(rollback_database_url: str) -> AsyncIterator[RollbackConnection]:
    """Keep a connection to ``book``."""
    connection = RollbackConnection(rollback_database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def tx(rollback_connection: RollbackConnection) -> AsyncIterator[Tx]:
    """Lend a transaction that is rolled back; the books are right at its end."""
    async with _rolled_back(await rollback_connection.connection()) as connection:
        yield connection
        await assert_books(connection)


@asynccontextmanager
async def rolled_back(url: str) -> AsyncIterator[Tx]:
    """Lend a transaction of a database that is rolled back, on a connection of its own."""
    connection = await connections.connect(url)
    try:
        async with _rolled_back(connection):
            yield connection
    finally:
        await connection.close()


@pytest.fixture
def each_rolled_back(rollback_database_url: str) -> Iterator[Each]:
    """Lend what runs steps, each in a transaction that is rolled back: the examples of one test.

    All on one connection, so that the statements are planned once.
    """
    with asyncio.Runner() as runner:
        connection = runner.run(connections.connect(rollback_database_url))

        async def taken(step: Step) -> None:
            async with _rolled_back(connection) as tx:
                await step(tx)

        yield lambda step: runner.run(taken(step))
        runner.run(connection.close())


@asynccontextmanager
async def _rolled_back(connection: asyncpg.Connection) -> AsyncIterator[Tx]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection
    finally:
        await transaction.rollback()


@pytest.fixture
async def db(databases: Databases, database_url: str) -> AsyncIterator[Db]:
    """Connect to a database of the test's own; the books are right at its end."""
    db = await Db.connect(database_url, 10, acquire_timeout_s=20)
    try:
        yield db
        await databases.assert_books(database_url)
    finally:
        await db.close()
