"""Transactions with retries on a pool of connections; ``query.py`` has statements.

The first parameter of a function says what it may do. With ``tx`` it works inside the caller's
transaction and never commits. With ``db`` it opens its own transactions, and may call other servers
between them, never inside one.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self, TypeVar, cast
from uuid import uuid4

import asyncpg
import structlog

from opentill.core import tracing
from opentill.core.errors import Contended, Unavailable
from opentill.db import connection as connections
from opentill.db import queries
from opentill.db.connection import COLLIDED, Backoff
from opentill.db.pool import Pool
from opentill.db.query import Tx as Tx  # noqa: PLC0414 - every feature imports it from here

T = TypeVar("T")
# Whether the running task must not store anything, see ``storing_nothing``.
_stores_nothing: Final = ContextVar("stores_nothing", default=False)
_log: Final = structlog.get_logger()

START_PATIENCE_S: Final = 30.0
_START_PAUSE_S: Final = 0.2
_PATIENCE_S: Final = 10.0  # seconds; longest wait for a free connection while the database responds
# The errors of a database that is away, shuts down or has no connection, memory or disk space left
# (53…); errors of a wrong statement are not among them. With a full disk the database still serves
# reads; /readyz returns 503 until writes succeed again.
AWAY: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,  # the server has announced the end of the connection
    asyncpg.ReadOnlySQLTransactionError,
)
_NO_WRITES: Final = (asyncpg.DiskFullError, asyncpg.ReadOnlySQLTransactionError)
# After these errors a connection is useless: its response may never arrive, or its server is not
# the primary any more.
_FATAL: Final = (
    TimeoutError,
    asyncio.CancelledError,
    asyncpg.InternalClientError,
    asyncpg.ReadOnlySQLTransactionError,
)


class PooledConnection:
    """A connection of the pool for the length of a block: ``async with db.connection() as tx``."""

    __slots__ = ("_connection", "_db", "_timer", "_within_s")

    def __init__(self, db: "Db", within_s: float | None) -> None:
        """The connection is taken from the pool only when the block begins."""
        self._db = db
        self._within_s = within_s
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Tx:
        """Take a connection. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        end = None if self._within_s is None else loop.time() + self._within_s
        try:
            self._connection = await self._db.borrow(end)
        except AWAY as error:
            raise Unavailable(reason=_why(error)) from error
        if end is not None:
            # The timer closes the connection, which makes the running statement fail. It costs a
            # sixth of what asyncio.timeout costs.
            self._timer = loop.call_at(end, self._connection.terminate)
        return self._connection

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Give the connection back. Raises Unavailable if the database is away."""
        if self._timer is not None:
            self._timer.cancel()
        away = isinstance(error, AWAY) or _is_cut(self._connection, error)
        if isinstance(error, _FATAL):
            self._connection.terminate()
        self._db.give_back(self._connection)
        if isinstance(error, _NO_WRITES):
            self._db.refuses_writes = True
        if isinstance(error, asyncpg.InsufficientResourcesError):
            # The shortage may last and affect a single statement, and no other check reports it.
            _log.error("the database has too little for a statement", error=str(error))
        if away and error is not None:
            raise Unavailable(reason=_why(error)) from error


def _is_cut(connection: asyncpg.Connection, error: BaseException | None) -> bool:
    """Whether asyncpg raised an error because the connection was cut.

    InterfaceError may also be a defect of ours, such as a missing parameter. AttributeError occurs
    if the connection was cut between preparing and running a statement.
    """
    is_possible = isinstance(error, (asyncpg.InterfaceError, AttributeError))
    return is_possible and connection.is_closed()


async def limit_lock_waits(tx: Tx, longest: str) -> None:
    """Wait for each lock no longer than ``longest``, such as ``2s``, until the transaction ends."""
    await queries.LIMIT_LOCK_WAITS.get(tx, longest=longest)


def after_commit(tx: Tx, work: Callable[[], None]) -> None:
    """Run ``work``, which must not fail, after the commit of the transaction, if it commits.

    Outside ``Db.transaction``, where each statement commits, it runs immediately.
    """
    callbacks: list[Callable[[], None]] | None = getattr(tx, "after_commit", None)
    if callbacks is None:
        work()
    else:
        callbacks.append(work)


async def retry_while_away(
    work: Callable[[], Awaitable[T]], patience_s: float = START_PATIENCE_S
) -> T:
    """Retry ``work`` while the database is away; raises Unavailable after ``patience_s``.

    Use it when a process starts: unlike a request, a start should succeed even on a busy machine.
    """
    end = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await work()
        except Unavailable:
            if asyncio.get_running_loop().time() >= end:
                raise
            await asyncio.sleep(_START_PAUSE_S)


class Db:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, pool: Pool, acquire_timeout_s: float) -> None:
        """Use ``connect`` to open a pool."""
        self._pool = pool
        self._acquire_timeout_s = acquire_timeout_s
        # Whether PostgreSQL refused a write because its disk is full or it is a standby;
        # ``try_write`` resets it.
        self.refuses_writes = False
        # When a connection was last borrowed, by the event loop's clock in seconds.
        self._taken_at = 0.0

    @classmethod
    async def connect(
        cls,
        url: str,
        size: int = 10,
        *,
        acquire_timeout_s: float = 2.0,
        prepared: bool = True,
        eager: bool = True,
    ) -> Self:
        """Open the pool; ``eager`` raises Unavailable if the database does not respond.

        ``prepared``: keep prepared statements, which not every pooler supports.
        """
        session = {"application_name": "opentill", "timezone": "UTC"}
        if not eager and prepared:
            # This is the pool of a replica, which cannot run serializable transactions.
            session["default_transaction_isolation"] = "read committed"
        open_ = functools.partial(
            asyncpg.connect,
            url,
            timeout=acquire_timeout_s,
            command_timeout=30,
            server_settings=session,
            **connections.options(prepared=prepared),
        )

        async def open_traced() -> asyncpg.Connection:
            connection = await open_()
            connection.add_query_logger(tracing.record_statement)
            return connection

        db = cls(Pool(open_traced if tracing.is_on() else open_, size), acquire_timeout_s)
        if eager:
            try:
                db.give_back(await db.borrow())
            except (*AWAY, asyncpg.InterfaceError) as error:
                # A wrong address raises InterfaceError.
                await db.close()
                reason = f"the database does not respond: {connections.why(error)}"
                raise Unavailable(reason=reason) from error
        return db

    async def try_write(self) -> None:
        """Try a write and roll it back; set ``refuses_writes`` by whether PostgreSQL refused it.

        Raises Unavailable if the write did not succeed.
        """
        async with self.connection() as tx:
            transaction = tx.transaction()
            await transaction.start()
            try:
                await queries.WRITE_TO_DISK.run(tx, subject=uuid4().hex)
            finally:
                await transaction.rollback()
        self.refuses_writes = False

    async def close(self) -> None:
        """Close all connections, after waiting up to five seconds for those in use."""
        await self._pool.close(5)

    def connection(self, within_s: float | None = None) -> AbstractAsyncContextManager[Tx]:
        """Lend a connection on which each statement is a transaction of its own.

        Raises Unavailable if the database is away, or if the block takes longer than ``within_s``.
        """
        return PooledConnection(self, within_s)

    async def borrow(self, until: float | None = None) -> asyncpg.Connection:
        """Take a connection, which the caller gives back; wait for one while all are in use.

        If no connection becomes free, the database may be away, or all of them may be busy. So this
        waits as long as other callers get connections, but not longer than ``until`` on the loop's
        clock. Raises TimeoutError, and the exceptions of opening a connection.
        """
        connection = self._pool.take_now()
        clock = asyncio.get_running_loop().time
        if connection is None:
            end = clock() + _PATIENCE_S if until is None else until
            while connection is None:
                wait = min(self._acquire_timeout_s, end - clock())
                try:
                    connection = await self._pool.take(wait)
                except TimeoutError:
                    now = clock()
                    if now - self._taken_at > self._acquire_timeout_s or now >= end:
                        raise
        self._taken_at = clock()
        return connection

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Return a borrowed connection to the pool."""
        self._pool.give_back(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Lend a connection inside a transaction, committed unless the block raises."""
        _require_storing()
        callbacks: list[Callable[[], None]] = []
        async with self.connection() as tx:
            connection = cast("connections.Connection", tx)
            connection.after_commit = callbacks
            try:
                async with connection.transaction():
                    yield connection
            finally:
                connection.after_commit = None
            for work in callbacks:
                work()

    @asynccontextmanager
    async def snapshot(self, other: Tx | None = None) -> AsyncIterator[Tx]:
        """Lend a connection inside a read-only transaction that sees one snapshot of the database.

        The snapshot is a new one or, with ``other``, the snapshot of that transaction, which must
        still run.
        """
        async with (
            self.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            if other is not None:
                snapshot_id = await queries.EXPORT_SNAPSHOT.get(other)
                # PostgreSQL accepts this only as the first statement of a transaction.
                await connection.execute(queries.IMPORT_SNAPSHOT.format(snapshot_id))
            yield connection

    async def run(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``work`` in a transaction, and again if it collides with another transaction.

        Nothing was committed after 40001, 40P01, or the error for a plan that a migration made
        outdated, so ``work`` is run again after a pause. It is not run again after a lost
        connection, because the commit may have arrived: the caller gets a 503.
        """
        return await _retry(self.transaction, work)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, each in a transaction of its own."""
        async with self.connection() as tx:
            return await work(tx)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, all in one snapshot of the database."""
        async with self.snapshot() as tx:
            return await work(tx)

    async def autocommit(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``work`` without a transaction, and again as ``run`` does.

        Only its last statement may write, because each statement is a transaction of its own.
        """
        _require_storing()
        return await _retry(self.connection, work)

    def reading(self) -> "Db":
        """Return the database from which to read one whole list or export: this one."""
        return self


@contextmanager
def storing_nothing(*, is_set: bool = True) -> Iterator[None]:
    """Raise AssertionError for each transaction of the block that could be committed.

    ``is_set=False`` allows one again inside such a block, for a transaction that always rolls back.
    """
    token = _stores_nothing.set(is_set)
    try:
        yield
    finally:
        _stores_nothing.reset(token)


def _require_storing() -> None:
    if _stores_nothing.get():
        msg = "a rehearsal stores nothing: use PageRequest.transact"
        raise AssertionError(msg)


async def _retry(
    lend: Callable[[], AbstractAsyncContextManager[Tx]], work: Callable[[Tx], Awaitable[T]]
) -> T:
    backoff = Backoff()
    while True:
        try:
            async with lend() as tx:
                return await work(tx)
        except COLLIDED as error:
            await backoff.pause(error)
        except asyncpg.LockNotAvailableError as error:
            raise Contended(reason="somebody keeps a row locked, try again") from error


def _why(error: BaseException) -> str:
    return f"the database is away ({type(error).__name__})"
