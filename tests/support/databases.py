"""Fresh migrated databases for tests, at the price of emptying one that was used before.

To clone and to drop a database costs a tenth of a second, most of it in files that no test has
touched. So a database that a test gave back is emptied and given out again, unless the test changed
its schema.
"""

import asyncio
import itertools
import os
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import asyncpg

from support.books import assert_books

T = TypeVar("T")
_PATIENCE_S: Final = 120
_USES: Final = 40  # then the rows that were deleted have made it slow
_OWN: Final = (
    " where setdatabase = (select oid from pg_database where datname = current_database())"
)
_CATALOGS: Final = {
    "pg_class": "",
    "pg_attribute": "",
    "pg_constraint": "",
    "pg_index": "",
    "pg_trigger": "",
    "pg_proc": "",
    "pg_namespace": "",
    "pg_db_role_setting": _OWN,  # it has those of all databases
}
# Rows of the catalogs, and how many of them are newer than the transaction $1.
SCHEMA: Final = " union all ".join(
    f"select count(*), count(*) filter (where xmin::text::bigint > $1) from {catalog}{only}"
    for catalog, only in _CATALOGS.items()
)
_TABLES: Final = """
    select relname from pg_class where relnamespace = 'public'::regnamespace
        and relkind in ('r', 'p') and not relispartition order by relname
"""
_OTHERS: Final = """
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
# Of the kept connection: rows are deleted and written without the triggers that keep entries from
# being changed, and without foreign keys; to say so for a moment would forget all plans each time.
_SESSION: Final = {"session_replication_role": "replica", "plan_cache_mode": "force_generic_plan"}


def named(url: str, database: str) -> str:
    """Return the address of another database of the same server."""
    return re.sub(r"@/[^?]*", f"@/{database}", url)


def name_of(url: str) -> str:
    """Return the name of the database of an address."""
    return url.partition("@/")[2].partition("?")[0]


class Database:
    """One of them, and a connection that is kept while it waits for its next use."""

    def __init__(self, name: str, connection: asyncpg.Connection) -> None:
        self.name = name
        self.connection = connection
        self.uses = 0
        self.born = 0
        self.schema: list[Any] = []


class Databases:
    """The databases of one server that are clones of one template."""

    def __init__(self, url: str, template: str) -> None:
        """``url``: of the database ``opentill`` of the server."""
        self.url = url
        self._template = template
        self._numbers = itertools.count(1)
        self._free: list[Database] = []
        self._lent: dict[str, Database] = {}
        self._tables: list[str] = []
        self._seeds: dict[str, str] = {}  # rows that the migrations write: JSON, quoted
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="databases")

    def __enter__(self) -> Self:
        """Start the thread that speaks with the server: a test may hold the loop of its own."""
        self._thread.start()
        self._server = self._run(asyncpg.connect(self.url))
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections; the databases go with their server."""
        for database in (*self._free, *self._lent.values()):
            self._run(database.connection.close())
        self._run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def take(self) -> str:
        """Return the address of a database that is as the migrations leave it."""
        database = self._free.pop() if self._free else self._run(self._make())
        self._lent[database.name] = database
        return self._address(database.name)

    def give_back(self, url: str) -> None:
        """Take a database back, whatever was done to it."""
        database = self._lent.pop(name_of(url))
        if self._run(self._clean(database)):
            self._free.append(database)
        else:
            self._run(self._drop(database))

    async def assert_books(self, url: str) -> None:
        """Fail if the books in a database that is lent are not right.

        The connection that is kept has planned the long statements for the test before; a new one
        would take longer to plan them than to run them.
        """
        connection = self._lent[name_of(url)].connection
        if connection.is_closed():  # by the test
            connection = await asyncpg.connect(url)
            await assert_books(connection)
            await connection.close()
            return
        await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(assert_books(connection), self._loop)
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    def _address(self, name: str) -> str:
        return named(self.url, name)

    async def _make(self) -> Database:
        name = f"test_{next(self._numbers)}"
        await self._server.execute(
            f"create database {name} template {self._template} strategy wal_log"
        )
        database = Database(
            name, await asyncpg.connect(self._address(name), server_settings=_SESSION)
        )
        connection = database.connection
        database.born = await connection.fetchval("select txid_current()")
        database.schema = await connection.fetch(SCHEMA, database.born)
        if not self._tables:
            await self._learn(connection)
        return database

    async def _learn(self, connection: asyncpg.Connection) -> None:
        """Note the tables that the migrations created and the rows that they inserted."""
        self._tables = [row["relname"] for row in await connection.fetch(_TABLES)]
        for table in await self._filled(connection):
            self._seeds[table] = await connection.fetchval(
                f"select quote_literal(json_agg(t)::text) from {table} t"
            )

    def _sown(self) -> list[str]:
        """Return the statements that write what the migrations have written."""
        return [
            f"insert into {table} select * from json_populate_recordset(null::{table}, {rows})"
            for table, rows in self._seeds.items()
        ]

    async def _filled(self, connection: asyncpg.Connection) -> list[str]:
        looks = ", ".join(f"(select '{table}' from {table} limit 1)" for table in self._tables)
        row = await connection.fetchrow(f"select {looks}")
        return [table for table in row if table is not None]

    async def _clean(self, database: Database) -> bool:
        """Empty a database; False if it is not fit to be used again."""
        connection = database.connection
        database.uses += 1
        if database.uses >= _USES or connection.is_closed():
            return False
        await connection.execute(_OTHERS)
        if await connection.fetch(SCHEMA, database.born) != database.schema:
            return False
        filled = set(await self._filled(connection)) | set(self._seeds)
        statements = [f"delete from {table}" for table in sorted(filled)] + self._sown()
        await connection.execute("; ".join(["begin", *statements, "commit"]))
        return True

    async def _drop(self, database: Database) -> None:
        await database.connection.close()
        await self._server.execute(f"drop database {database.name} with (force)")


_numbers: Final = itertools.count(1)


@contextmanager
def clone(url: str, template: str) -> Iterator[str]:
    """Lend a migrated database that nobody else has, as long as the block runs."""
    name = f"clone_{os.getpid()}_{next(_numbers)}"
    _apart(execute(url, f"create database {name} template {template} strategy wal_log"))
    try:
        yield named(url, name)
    finally:
        _apart(execute(url, f"drop database {name} with (force)"))


def _apart(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread: a test may have left a running loop in this one."""
    thread = threading.Thread(target=lambda: asyncio.run(work))
    thread.start()
    thread.join()


async def execute(url: str, statement: str) -> None:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
