"""A pool of connections to one PostgreSQL.

It replaces asyncpg's pool, whose timers, shields and proxies made a round trip a quarter slower
(benchmarks/README.md). OpenTill needs none of them: it keeps no session state that would have to be
reset, and a connection on which something failed is closed and not used again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

IDLE_S: Final = 300.0  # a connection that was not used for this long is closed
OpenConnection = Callable[[], Awaitable[asyncpg.Connection]]
# The future of a waiting caller. Its result is a connection, or None if there may be room for a new
# one.
Waiter = asyncio.Future[asyncpg.Connection | None]


class Pool:
    """At most ``size`` connections; while all are in use, callers wait in order of arrival."""

    def __init__(self, open_: OpenConnection, size: int) -> None:
        """``open_`` opens a connection; it is called when a caller needs one, not before."""
        self._open = open_
        self._size = size
        # Idle connections, each with the time of its last use; the latest is at the end.
        self._idle: deque[tuple[float, asyncpg.Connection]] = deque()
        self._lent: set[asyncpg.Connection] = set()
        self._opening = 0
        self._waiters: deque[Waiter] = deque()
        self._closed = False
        self._all_back = asyncio.Event()

    def take_now(self) -> asyncpg.Connection | None:
        """Return an idle connection, None if there is none."""
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_closed():
                self._lent.add(connection)
                return connection
        return None

    async def take(self, timeout_s: float) -> asyncpg.Connection:
        """Return an idle connection, a new one, or the next one that is given back.

        Raises TimeoutError after ``timeout_s``, and what opening a connection raises.
        """
        end = asyncio.get_running_loop().time() + timeout_s
        while True:
            connection = self.take_now() or await self._open_or_wait(end)
            if connection is not None:
                return connection

    async def _open_or_wait(self, end: float) -> asyncpg.Connection | None:
        """Open a connection if the pool may grow, otherwise wait. Returns None to try again."""
        if self._closed:
            msg = "the pool is closed"
            raise asyncpg.ConnectionDoesNotExistError(msg)
        if len(self._lent) + self._opening < self._size:
            async with asyncio.timeout_at(end):
                return await self._open_connection()
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_at(end, _time_out, waiter)  # this costs a sixth of asyncio.timeout
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                # The waiter got its result at the moment at which the caller was cancelled.
                if (connection := waiter.result()) is None:
                    self._resume_next(None)
                else:
                    self.give_back(connection)
            raise
        finally:
            timer.cancel()

    async def _open_connection(self) -> asyncpg.Connection:
        self._opening += 1
        try:
            connection = await self._open()
        except BaseException:
            self._opening -= 1
            self._resume_next(None)
            raise
        self._opening -= 1
        self._lent.add(connection)
        return connection

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Return a connection to the pool, or drop it if it is closed or in a transaction."""
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            self._lent.discard(connection)
            connection.terminate()
            self._resume_next(None)
        elif not self._resume_next(connection):
            self._lent.discard(connection)
            now = time.monotonic()
            self._idle.append((now, connection))
            if self._idle[0][0] < now - IDLE_S:
                self._idle.popleft()[1].terminate()
        if self._closed and not self._lent:
            self._all_back.set()

    def _resume_next(self, connection: asyncpg.Connection | None) -> bool:
        """Give the first waiter ``connection``, or None to try again. False if nobody waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    async def close(self, within_s: float) -> None:
        """Close all connections, after waiting up to ``within_s`` for those in use."""
        self._closed = True
        while self._resume_next(None):
            pass
        idle = [connection for _, connection in self._idle]
        self._idle.clear()
        if self._lent:
            try:
                await asyncio.wait_for(self._all_back.wait(), within_s)
            except TimeoutError:
                self.terminate()
        for connection in idle:
            try:
                await connection.close(timeout=within_s)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    def terminate(self) -> None:
        """Cut all connections, also those in use."""
        for connection in [*self._lent, *(idle for _, idle in self._idle)]:
            connection.terminate()


def _time_out(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
