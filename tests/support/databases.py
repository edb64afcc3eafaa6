"""Empty migrated databases for tests.

Creating and dropping a database takes a tenth of a second, twice as long as emptying one, and many
tests need one. So a database that a test gave back is emptied and used again, unless the test
changed its schema. Some connections to it stay open too, because a new one reads the catalogs and
plans all statements again, which takes 50 ms of processor time in most tests.
"""

import asyncio
import contextlib
import itertools
import os
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import asyncpg

from opentill.db.database import Db
from opentill.db.pool import OpenConnection, Pool
from support.books import assert_books
from support.pooler import POOLED

T = TypeVar("T")
_TIMEOUT_S: Final = 120
_MAX_USES: Final = 40  # after more uses, deleted rows would make a database slow
_POOL_SIZE: Final = 10
_ACQUIRE_TIMEOUT_S: Final = 20
_KEPT_CONNECTIONS: Final = 3  # more are opened only by tests of concurrent requests
_CLOSED: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
_STATEMENTS: Final = 1000  # how many statements at most stay prepared on a kept connection
_OF_DATABASE: Final = (
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
    "pg_db_role_setting": _OF_DATABASE,  # this catalog contains the settings of all databases
}
# Counts the rows of each catalog, and those that are newer than transaction $1.
SCHEMA: Final = " union all ".join(
    f"select count(*), count(*) filter (where xmin::text::bigint > $1) from {catalog}{only}"
    for catalog, only in _CATALOGS.items()
)
_TABLES: Final = """
    select relname from pg_class where relnamespace = 'public'::regnamespace
        and relkind in ('r', 'p') and not relispartition order by relname
"""
_TERMINATE_OTHERS: Final = """
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and pid <> all ($1::int[])
"""
# Settings of the connection, which switch off foreign keys and the triggers that protect entries.
# They apply to the whole session, because each change would discard all plans.
_SESSION: Final = {"session_replication_role": "replica", "plan_cache_mode": "force_generic_plan"}


def database_address(url: str, database: str) -> str:
    """Return the address of another database of the same server."""
    return re.sub(r"@/[^?]*", f"@/{database}", url)


def database_name(url: str) -> str:
    """Return the name of the database of an address."""
    return url.partition("@/")[2].partition("?")[0]


class Database:
    """A database, and a connection to it that stays open."""

    def __init__(self, name: str, connection: asyncpg.Connection) -> None:
        self.name = name
        self.connection = connection
        self.uses = 0
        self.created_by = 0  # the id of a transaction that ran after the migrations
        self.schema: list[Any] = []
        # Idle connections of the last test's pool, on the event loop of the tests.
        self.idle: list[asyncpg.Connection] = []
        self.open_connection: OpenConnection


class Databases:
    """The databases of a server that are clones of one template."""

    def __init__(self, url: str, template: str) -> None:
        """``url``: the address of the server's database ``opentill``."""
        self.url = url
        self._template = template
        self._numbers = itertools.count(1)
        self._free: list[Database] = []
        self._lent: dict[str, Database] = {}
        self._unused: list[asyncpg.Connection] = []  # to dropped databases
        self._tables: list[str] = []
        # For each table, the rows that migrations insert, as quoted JSON.
        self._seeds: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="databases")

    def __enter__(self) -> Self:
        """Start a thread with an event loop, because a test may block its own."""
        self._thread.start()
        self._server = self._run(asyncpg.connect(self.url))
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections; the server's end removes the databases."""
        for database in (*self._free, *self._lent.values()):
            self._run(database.connection.close())
        self._run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def borrow(self) -> str:
        """Return the address of a database in the state after the migrations; see ``give_back``."""
        database = self._free.pop() if self._free else self._run(self._make())
        self._lent[database.name] = database
        return self._address(database.name)

    def give_back(self, url: str) -> None:
        """Empty a database for its next use, or drop it."""
        database = self._lent.pop(database_name(url))
        if self._run(self._empty(database)):
            self._free.append(database)
        else:
            self._run(self._drop(database))

    async def open_pool(self, url: str) -> Db:
        """Return a pool of connections to a borrowed database, some of them of an earlier pool."""
        await self._close_unused()
        database = self._lent[database_name(url)]
        if not database.idle:
            return await Db.connect(url, _POOL_SIZE, acquire_timeout_s=_ACQUIRE_TIMEOUT_S)
        db = Db(Pool(database.open_connection, _POOL_SIZE), _ACQUIRE_TIMEOUT_S)
        for connection in database.idle:
            db._pool._lent.add(connection)
            db.give_back(connection)
        return db

    async def close_pool(self, url: str, db: Db) -> None:
        """Close a pool, but keep a few of its connections for the next test."""
        pool = db._pool
        database = self._lent[database_name(url)]
        database.idle = []
        if not POOLED and not pool._lent and not pool._closed:
            database.open_connection = pool._open
            while len(database.idle) < _KEPT_CONNECTIONS and (connection := pool.take_now()):
                pool._lent.discard(connection)
                try:
                    await connection.reset()
                except _CLOSED:  # by the test, and this connection has not noticed
                    connection.terminate()
                    continue
                connection._stmt_cache.set_max_size(_STATEMENTS)
                database.idle.append(connection)
        await db.close()

    async def close_idle(self) -> None:
        """Close all kept connections, before the event loop of the tests is closed."""
        for database in (*self._free, *self._lent.values()):
            self._unused += database.idle
            database.idle = []
        await self._close_unused()

    async def _close_unused(self) -> None:
        for connection in self._unused:
            if not connection.is_closed():
                with contextlib.suppress(*_CLOSED):  # PostgreSQL closed it with its database
                    await connection.close()
            connection.terminate()
        self._unused.clear()

    async def assert_books(self, url: str) -> None:
        """Fail if the books of a test's database are wrong.

        The open connection has planned the long statements for an earlier test; planning them
        takes longer than running them.
        """
        connection = self._lent[database_name(url)].connection
        if connection.is_closed():  # the test has ended this connection
            connection = await asyncpg.connect(url)
            await assert_books(connection)
            await connection.close()
            return
        await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(assert_books(connection), self._loop)
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    def _address(self, name: str) -> str:
        return database_address(self.url, name)

    async def _make(self) -> Database:
        name = f"test_{next(self._numbers)}"
        await self._server.execute(
            f"create database {name} template {self._template} strategy wal_log"
        )
        database = Database(
            name, await asyncpg.connect(self._address(name), server_settings=_SESSION)
        )
        connection = database.connection
        database.created_by = await connection.fetchval("select txid_current()")
        database.schema = await connection.fetch(SCHEMA, database.created_by)
        if not self._tables:
            await self._read_migrated_rows(connection)
        return database

    async def _read_migrated_rows(self, connection: asyncpg.Connection) -> None:
        """Read the tables that the migrations created and the rows that they inserted."""
        self._tables = [row["relname"] for row in await connection.fetch(_TABLES)]
        for table in await self._tables_with_rows(connection):
            self._seeds[table] = await connection.fetchval(
                f"select quote_literal(json_agg(t)::text) from {table} t"
            )

    async def _tables_with_rows(self, connection: asyncpg.Connection) -> list[str]:
        columns = ", ".join(f"(select '{table}' from {table} limit 1)" for table in self._tables)
        row = await connection.fetchrow(f"select {columns}")
        return [table for table in row if table is not None]

    async def _empty(self, database: Database) -> bool:
        """Restore the state after the migrations; False if the database must not be used again."""
        connection = database.connection
        database.uses += 1
        if database.uses >= _MAX_USES or connection.is_closed():
            return False
        idle_pids = [other.get_server_pid() for other in database.idle]
        await connection.fetch(_TERMINATE_OTHERS, idle_pids)
        if await connection.fetch(SCHEMA, database.created_by) != database.schema:
            return False
        tables = set(await self._tables_with_rows(connection)) | set(self._seeds)
        statements = [f"delete from {table}" for table in sorted(tables)] + [
            f"insert into {table} select * from json_populate_recordset(null::{table}, {rows})"
            for table, rows in self._seeds.items()
        ]
        await connection.execute("; ".join(["begin", *statements, "commit"]))
        return True

    async def _drop(self, database: Database) -> None:
        self._unused += database.idle
        await database.connection.close()
        await self._server.execute(f"drop database {database.name} with (force)")


_numbers: Final = itertools.count(1)


@contextmanager
def cloned_database(url: str, template: str) -> Iterator[str]:
    """Create a migrated database, which is dropped at the end of the block."""
    name = f"clone_{os.getpid()}_{next(_numbers)}"
    _run_in_thread(execute(url, f"create database {name} template {template} strategy wal_log"))
    try:
        yield database_address(url, name)
    finally:
        _run_in_thread(execute(url, f"drop database {name} with (force)"))


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a new thread: a test may have left a running event loop in this one."""
    thread = threading.Thread(target=lambda: asyncio.run(work))
    thread.start()
    thread.join()


async def execute(url: str, statement: str) -> None:
    """Run one statement on a new connection."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
