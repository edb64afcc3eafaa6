"""PostgreSQL through asyncpg: the pool, and transactions that retry. Statements: see query.py.

The first parameter of a function is its permit. ``tx`` is work inside the caller's transaction: it
never commits. ``db`` owns its transactions and may call the outside between them, never inside one.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final, Self, TypeVar, cast
from uuid import uuid4

import asyncpg
import structlog

from opentill.core import tracing
from opentill.core.errors import Contended, Unavailable
from opentill.db import connection as connections
from opentill.db import queries
from opentill.db.connection import COLLIDED, Tries
from opentill.db.pool import Pool
from opentill.db.query import Tx as Tx  # noqa: PLC0414 - every feature imports it from here

T = TypeVar("T")
_log: Final = structlog.get_logger()

START_PATIENCE_S: Final = 30.0
_AGAIN_S: Final = 0.2
_PATIENCE_S: Final = 10.0  # for a free connection, while the database is alive
# Errors that say that the database is away, shuts down or has no connection, memory or disk left
# (53…), and not that a statement is wrong. One whose disk is full still serves what only reads;
# ``/readyz`` says 503 until it takes writes again.
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
# PostgreSQL runs and refuses what writes.
_NO_WRITES: Final = (asyncpg.DiskFullError, asyncpg.ReadOnlySQLTransactionError)
# After these a connection is of no use: what it waits for may never come, or it leads to a server
# that is not the primary any more.
_HOPELESS: Final = (
    TimeoutError,
    asyncio.CancelledError,
    asyncpg.InternalClientError,
    asyncpg.ReadOnlySQLTransactionError,
)


class Lent:
    """A connection on loan: ``async with db.connection() as tx``."""

    __slots__ = ("_alarm", "_connection", "_db", "_within_s")

    def __init__(self, db: "Db", within_s: float | None) -> None:
        """Nothing is taken before the block begins."""
        self._db = db
        self._within_s = within_s
        self._alarm: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Tx:
        """Take a connection. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        end = None if self._within_s is None else loop.time() + self._within_s
        try:
            self._connection = await self._db.borrow(end)
        except AWAY as error:
            raise Unavailable(reason=_why(error)) from error
        if end is not None:
            # When the time is over the connection is cut, and the statement that waits on it
            # fails. This costs a sixth of what asyncio.timeout costs.
            self._alarm = loop.call_at(end, self._connection.terminate)
        return self._connection

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Give it back, fit for the next. Raises Unavailable if the database is away."""
        if self._alarm is not None:
            self._alarm.cancel()
        away = isinstance(error, AWAY) or _ended(self._connection, error)
        if isinstance(error, _HOPELESS):
            self._connection.terminate()
        self._db.give_back(self._connection)
        if isinstance(error, _NO_WRITES):
            self._db.refuses_writes = True
        if isinstance(error, asyncpg.InsufficientResourcesError):
            # Unlike an absence it may stay, and be of one statement: nobody else would see it.
            _log.error("the database has too little for a statement", error=str(error))
        if away and error is not None:
            raise Unavailable(reason=_why(error)) from error


def _ended(connection: asyncpg.Connection, error: BaseException | None) -> bool:
    """Return whether asyncpg refused something because the connection is gone.

    It has one class of errors for that and for defects of ours, such as a parameter too few. Where
    the connection was cut after a statement was prepared and before it ran, it fails at an
    attribute that is gone.
    """
    refused = isinstance(error, (asyncpg.InterfaceError, AttributeError))
    return refused and connection.is_closed()


async def limit_lock_waits(tx: Tx, longest: str) -> None:
    """Wait for each lock no longer than ``longest``, such as ``2s``, until the transaction ends."""
    await queries.LIMIT_LOCK_WAITS.get(tx, longest=longest)


def once_committed(tx: Tx, work: Callable[[], None]) -> None:
    """Do ``work``, which must not fail, when the transaction is committed; never if it is not.

    Where no ``Db.transaction`` runs, each statement is its own: then it is done at once.
    """
    waiting: list[Callable[[], None]] | None = getattr(tx, "once_committed", None)
    if waiting is None:
        work()
    else:
        waiting.append(work)


async def patiently(work: Callable[[], Awaitable[T]], patience_s: float = START_PATIENCE_S) -> T:
    """Run what a start needs again while the database is away; raises Unavailable in the end.

    A request is refused after two seconds; a server that starts beside a busy disk is to come up.
    """
    end = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await work()
        except Unavailable:
            if asyncio.get_running_loop().time() >= end:
                raise
            await asyncio.sleep(_AGAIN_S)


class Db:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, pool: Pool, acquire_timeout_s: float) -> None:
        """Use ``connect``; this only keeps what it is given."""
        self._pool = pool
        self._acquire_timeout_s = acquire_timeout_s
        # Whether PostgreSQL refused a write, for want of disk or as a standby. ``try_write`` looks.
        self.refuses_writes = False
        self._alive_at = 0.0  # when a connection was taken last, on the loop's clock

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
        """Open the pool. Raises Unavailable if the database does not respond and it is ``eager``.

        ``prepared``: statements stay prepared on their connection, unless a pooler stands between.
        """
        session = {"application_name": "opentill", "timezone": "UTC"}
        if not eager and prepared:  # a replica cannot be serializable, whatever the primary is
            session["default_transaction_isolation"] = "read committed"
        open_ = functools.partial(
            asyncpg.connect,
            url,
            timeout=acquire_timeout_s,
            command_timeout=30,
            server_settings=session,
            **connections.options(prepared=prepared),
        )

        async def traced() -> asyncpg.Connection:
            connection = await open_()
            connection.add_query_logger(tracing.record_statement)
            return connection

        db = cls(Pool(traced if tracing.is_on() else open_, size), acquire_timeout_s)
        if eager:
            try:
                db.give_back(await db.borrow())
            except (*AWAY, asyncpg.InterfaceError) as error:  # the latter: a strange address
                await db.close()
                reason = f"the database does not respond: {connections.why(error)}"
                raise Unavailable(reason=reason) from error
        return db

    async def try_write(self) -> None:
        """Write what needs room on the disk, and take it back. Raises Unavailable.

        ``refuses_writes`` says afterwards whether that was refused.
        """
        async with self.connection() as tx:
            undone = tx.transaction()
            await undone.start()
            try:
                await queries.WRITE_FOR_TRIAL.run(tx, subject=uuid4().hex)
            finally:
                await undone.rollback()
        self.refuses_writes = False

    async def close(self) -> None:
        """Close all connections, waiting a moment for those in use."""
        await self._pool.close(5)

    def connection(self, within_s: float | None = None) -> AbstractAsyncContextManager[Tx]:
        """Lend a connection on which each statement is a transaction of its own.

        Raises Unavailable if the database is away, or if all of it takes longer than ``within_s``.
        """
        return Lent(self, within_s)

    async def borrow(self, until: float | None = None) -> asyncpg.Connection:
        """Take a connection, which the caller gives back; wait for one while all are in use.

        A database that is away and one whose connections are all busy look the same: none becomes
        free. As long as other callers get connections this one waits, but no longer than ``until``
        on the loop's clock. Raises TimeoutError, and what opening a connection raises.
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
                    if now - self._alive_at > self._acquire_timeout_s or now >= end:
                        raise
        self._alive_at = clock()
        return connection

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Take a borrowed connection back."""
        self._pool.give_back(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Lend a connection inside a transaction, committed unless the block raises."""
        waiting: list[Callable[[], None]] = []
        async with self.connection() as lent:
            connection = cast("connections.Connection", lent)
            connection.once_committed = waiting
            try:
                async with connection.transaction():
                    yield connection
            finally:
                connection.once_committed = None
            for work in waiting:
                work()

    @asynccontextmanager
    async def snapshot(self, other: Tx | None = None) -> AsyncIterator[Tx]:
        """Lend a connection that sees the database of one moment, and cannot change it.

        The moment is now, or that of another snapshot, whose block must still run.
        """
        async with (
            self.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            if other is not None:
                moment = await queries.EXPORT_SNAPSHOT.get(other)
                # It must be the first statement of the transaction.
                await connection.execute(queries.IMPORT_SNAPSHOT.format(moment))
            yield connection

    async def run(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``work`` in a transaction, again if PostgreSQL says that it collided with another.

        40001, 40P01 and a plan that a migration outdated are retried with a short growing pause,
        since nothing was committed. A lost connection is not: whether the commit arrived is
        unknown, and the caller gets a 503.
        """
        tries = Tries()
        while True:
            try:
                async with self.transaction() as tx:
                    return await work(tx)
            except COLLIDED as error:
                await tries.pause(error)
            except asyncpg.LockNotAvailableError as error:
                raise Contended(reason="somebody keeps a row locked, try again") from error

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, each in a transaction of its own."""
        async with self.connection() as tx:
            return await work(tx)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, all of which see the database of one moment."""
        async with self.snapshot() as tx:
            return await work(tx)

    async def autocommit(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run work whose last statement is the only one that writes, and so its transaction."""
        async with self.connection() as tx:
            return await work(tx)

    def reading(self) -> "Db":
        """Return where one list or export is read from beginning to end: here."""
        return self


def _why(error: BaseException) -> str:
    return f"the database is away ({type(error).__name__})"
