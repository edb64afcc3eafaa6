"""Fixtures: transactions that are rolled back, and databases for one test or file."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import pytest

from opentill.db import connection as connections
from opentill.db.database import Db, Tx
from support.books import assert_books
from support.databases import Databases, cloned_database

Step = Callable[[Tx], Awaitable[None]]
RunRolledBack = Callable[[Step], None]
_PREPARED: Final = 1000  # how many statements at most stay prepared on a pytest worker's connection


@pytest.fixture(scope="session")
def rollback_database_url(
    postgres_url: str, template: str, pooler_url: Callable[[str], str]
) -> Iterator[str]:
    """Address of the migrated database of tests that commit nothing."""
    with cloned_database(postgres_url, template) as url:
        yield pooler_url(url)


@pytest.fixture(scope="module")
def module_database_url(
    postgres_url: str, template: str, pooler_url: Callable[[str], str]
) -> Iterator[str]:
    """Address of a migrated database for the tests of one file."""
    with cloned_database(postgres_url, template) as url:
        yield pooler_url(url)


class RollbackConnection:
    """A pytest worker's connection to the database of tests that commit nothing.

    The connection stays open between tests, because a new one has to plan all statements again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection | None = None

    async def connection(self) -> asyncpg.Connection:
        """Return the connection, or a new one if a test has closed it."""
        if self._connection is None or self._connection.is_closed():
            options = {"statement_cache_size": _PREPARED, **connections.options()}
            self._connection = await asyncpg.connect(self._url, timeout=10, **options)
        return self._connection

    async def close(self) -> None:
        """Close the connection if it is open."""
        if self._connection is not None:
            await self._connection.close()


@pytest.fixture(scope="session")
async def rollback_connection(rollback_database_url: str) -> AsyncIterator[RollbackConnection]:
    """The connection to ``rollback_database_url`` that all tests of this pytest worker share."""
    connection = RollbackConnection(rollback_database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def tx(rollback_connection: RollbackConnection) -> AsyncIterator[Tx]:
    """A transaction that is rolled back after a check of the books."""
    async with _rolled_back(await rollback_connection.connection()) as connection:
        yield connection
        await assert_books(connection)


@asynccontextmanager
async def rolled_back(url: str) -> AsyncIterator[Tx]:
    """Open a transaction on a new connection, and roll it back at the end of the block."""
    connection = await connections.connect(url)
    try:
        async with _rolled_back(connection):
            yield connection
    finally:
        await connection.close()


@pytest.fixture
def run_rolled_back(rollback_database_url: str) -> Iterator[RunRolledBack]:
    """A function that runs an example of a test in a transaction, which is rolled back.

    All examples run on one connection, so that statements are planned once.
    """
    with asyncio.Runner() as runner:
        connection = runner.run(connections.connect(rollback_database_url))

        async def run(step: Step) -> None:
            async with _rolled_back(connection) as tx:
                await step(tx)

        yield lambda step: runner.run(run(step))
        runner.run(connection.close())


@asynccontextmanager
async def _rolled_back(connection: asyncpg.Connection) -> AsyncIterator[Tx]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection
    finally:
        await transaction.rollback()


@pytest.fixture(scope="session")
async def close_kept_connections(databases: Databases) -> AsyncIterator[None]:
    """Close the connections that outlive a test's ``db``."""
    yield
    await databases.close_idle()


@pytest.fixture
async def db(
    databases: Databases, database_url: str, close_kept_connections: None
) -> AsyncIterator[Db]:
    """A database for one test, whose books are checked at the end."""
    db = await databases.open_pool(database_url)
    try:
        yield db
        await databases.assert_books(database_url)
    finally:
        await databases.close_pool(database_url, db)
