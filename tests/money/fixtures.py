"""Fixtures of the tests about money."""

import itertools
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from money import world
from opentill.core import connection as connections
from opentill.core.db import Db, Tx
from opentill.core.embedded import find_programs

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def book(postgres_url: str, template: str, through: Callable[[str], str]) -> Iterator[str]:
    """Address of a migrated database in which nothing is ever committed."""
    with _made(postgres_url, template, through) as url:
        yield url


@pytest.fixture(scope="module")
def own_book(postgres_url: str, template: str, through: Callable[[str], str]) -> Iterator[str]:
    """Address of a migrated database for the tests of one file, which commit."""
    with _made(postgres_url, template, through) as url:
        yield url


@contextmanager
def _made(postgres_url: str, template: str, through: Callable[[str], str]) -> Iterator[str]:
    name = f"book_{next(_numbers)}"
    _sql(postgres_url, f"create database {name} template {template} strategy wal_log")
    yield through(postgres_url.replace("@/opentill?", f"@/{name}?"))
    _sql(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
async def tx(book: str) -> AsyncIterator[Tx]:
    """Lend a transaction that is rolled back; the books are right at its end."""
    async with rolled_back(book) as connection:
        yield connection
        await world.assert_books(connection)


@asynccontextmanager
async def rolled_back(url: str) -> AsyncIterator[Tx]:
    """Lend a transaction of a database that is rolled back."""
    connection = await connections.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()
    finally:
        await connection.close()


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Db]:
    """Connect to a database of the test's own; the books are right at its end."""
    db = await Db.connect(database_url, 10, acquire_timeout_s=20)
    try:
        yield db
        async with db.transaction() as tx:
            await world.assert_books(tx)
    finally:
        await db.close()


def _sql(url: str, statement: str) -> None:
    _, programs = find_programs()
    command = [str(programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]
    subprocess.run([*command, "-c", statement], check=True, capture_output=True)
