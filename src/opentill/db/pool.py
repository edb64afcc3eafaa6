"""Connections to one PostgreSQL, lent and taken back.

It stands in for asyncpg's own pool, whose timers, shields and proxies made a round trip a quarter
slower (benchmarks/README.md). It can do without them: no session state is kept, so nothing has to
be reset, and a connection on which something went wrong is closed and not used again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

IDLE_S: Final = 300.0  # a connection that was not used for so long is closed
Open = Callable[[], Awaitable[asyncpg.Connection]]
Place = asyncio.Future[asyncpg.Connection | None]  # of one who waits; None: look again


class Pool:
    """At most ``size`` connections; who asks while all are lent waits in turn."""

    def __init__(self, open_: Open, size: int) -> None:
        """``open_`` opens a connection; it is awaited when one is wanted, not before."""
        self._open = open_
        self._size = size
        self._idle: deque[tuple[float, asyncpg.Connection]] = (
            deque()
        )  # the one that was used last is at the end
        self._lent: set[asyncpg.Connection] = set()
        self._opening = 0
        self._waiting: deque[Place] = deque()
        self._closed = False
        self._all_back = asyncio.Event()

    def take_now(self) -> asyncpg.Connection | None:
        """Return a connection that is at hand, None if there is none."""
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_closed():
                self._lent.add(connection)
                return connection
        return None

    async def take(self, timeout_s: float) -> asyncpg.Connection:
        """Return a connection: one at hand, a new one, or the next that comes back.

        Raises TimeoutError after ``timeout_s``, and what opening one raises.
        """
        end = asyncio.get_running_loop().time() + timeout_s
        while True:
            connection = self.take_now() or await self._open_or_wait(end)
            if connection is not None:
                return connection

    async def _open_or_wait(self, end: float) -> asyncpg.Connection | None:
        """Open one if there may be more, otherwise wait; None: look again."""
        if self._closed:
            msg = "the pool is closed"
            raise asyncpg.ConnectionDoesNotExistError(msg)
        if len(self._lent) + self._opening < self._size:
            async with asyncio.timeout_at(end):
                return await self._opened()
        loop = asyncio.get_running_loop()
        place: Place = loop.create_future()
        self._waiting.append(place)
        alarm = loop.call_at(end, _too_late, place)  # a sixth of what asyncio.timeout costs
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and not place.exception():
                self._hand_on(place.result())  # it was handed over in the same moment
            raise
        finally:
            alarm.cancel()

    async def _opened(self) -> asyncpg.Connection:
        self._opening += 1
        try:
            connection = await self._open()
        except BaseException:
            self._opening -= 1
            self._hand_over(None)
            raise
        self._opening -= 1
        self._lent.add(connection)
        return connection

    def give_back(self, connection: asyncpg.Connection) -> None:
        """Take a connection back that was lent; one that is closed makes room for a new one."""
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            self._lent.discard(connection)
            connection.terminate()
            self._hand_over(None)
        elif not self._hand_over(connection):
            self._lent.discard(connection)
            now = time.monotonic()
            self._idle.append((now, connection))
            if self._idle[0][0] < now - IDLE_S:
                self._idle.popleft()[1].terminate()
        if self._closed and not self._lent:
            self._all_back.set()

    def _hand_on(self, connection: asyncpg.Connection | None) -> None:
        """Give to the next who waits what was handed to one that was cancelled meanwhile."""
        if connection is None:
            self._hand_over(None)
        else:
            self.give_back(connection)

    def _hand_over(self, connection: asyncpg.Connection | None) -> bool:
        """Hand a connection to the first who waits, or with None let it look again.

        Returns False if nobody waits.
        """
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(connection)
                return True
        return False

    async def close(self, within_s: float) -> None:
        """Close all connections, after waiting a moment for those that are lent."""
        self._closed = True
        while self._hand_over(None):
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
        """Cut all connections, also those that are lent."""
        for connection in [*self._lent, *(idle for _, idle in self._idle)]:
            connection.terminate()


def _too_late(place: Place) -> None:
    if not place.done():
        place.set_exception(TimeoutError())
