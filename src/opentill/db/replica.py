"""Reads lists and exports, which may be a little behind, from a replica.

If the replica does not respond or lags more than the deployment allows, the primary is read
instead. No request gets a 503 because of a replica.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self, TypeVar

import asyncpg
import structlog

from opentill.core.errors import Problem, Unavailable
from opentill.core.settings import Settings
from opentill.db import connection as connections
from opentill.db import queries
from opentill.db.database import Db, Tx
from opentill.db.polling import poll_in_background

T = TypeVar("T")
POLL_S: Final = 1.0
_CHECK_TIMEOUT_S: Final = 2.0
# At most this many positions of the primary are kept: one a second for more than an hour.
_POSITIONS: Final = 4000

# After one of these errors (no connection, a refused password, a schema that is not replayed yet)
# the primary is read instead.
_FAILURES: Final = (Unavailable, asyncpg.PostgresError)
_log: Final = structlog.get_logger()


class Replica(Db):
    """A pool of connections to a replica, which falls back to the primary."""

    primary: Db
    max_lag_s: float
    # Times (monotonic, in seconds), each with the primary's position in its log at that time.
    primary_positions: deque[tuple[float, int]]
    lag_s: float | None = None  # seconds; None if the lag is unknown
    follows: bool = False  # whether the replica responds and follows this primary
    # Whether the replica is known to belong to the primary's cluster.
    same_cluster: bool = False
    # The replica's position when it was ahead of the primary, so that it must follow another
    # primary. None if that never happened.
    foreign_position: int | None = None
    why: str = ""  # why the replica did not respond to the last check; "" if it did

    @classmethod
    async def open(cls, primary: Db, settings: Settings) -> Self:
        """Open the pool; the replica may still be away. It is used after the first check."""
        replica = await cls.connect(
            settings.database_read_url or "",
            settings.db_pool_size,
            acquire_timeout_s=1.0,
            prepared=settings.db_prepared,
            eager=False,
        )
        replica.primary = primary
        replica.max_lag_s = settings.read_lag_s
        replica.primary_positions = deque(maxlen=_POSITIONS)
        return replica

    @property
    def usable(self) -> bool:
        """Whether the replica responds and does not lag too far behind."""
        return self.lag_s is not None and self.lag_s <= self.max_lag_s

    @property
    def state(self) -> str:
        """The replica's state, for ``/readyz``: ``used``, ``behind`` or ``away``."""
        if self.usable:
            return "used"
        return "behind" if self.follows else "away"

    async def borrow(self, until: float | None = None) -> asyncpg.Connection:
        """Take a connection. Raises Unavailable also for an address that cannot be parsed.

        A process does not start with such an address, but later the file of a certificate may be
        missing for a while.
        """
        try:
            return await super().borrow(until)
        except connections.UNREADABLE as error:
            raise Unavailable(reason=connections.why(error)) from error

    def reading(self) -> Db:
        """Return the database from which to read one whole list or export."""
        return _FallbackReader(self)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, on the primary if the replica is not usable."""
        return await self.reading().read(work)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that read one snapshot, on the primary if the replica is not usable."""
        return await self.reading().read_snapshot(work)

    async def check(self) -> None:
        """Measure the lag: how long ago the primary was at the replica's position.

        Raises Unavailable if the primary does not respond: then the lag stays unknown.
        """
        written = await self._primary_position()
        now = time.monotonic()
        if self.primary_positions and written < self.primary_positions[-1][1]:
            self.primary_positions.clear()  # a new primary has a write-ahead log of its own
        self.primary_positions.append((now, written))
        previous_why, was_usable = self.why, self.usable
        replayed = await self._replayed_position()
        if (
            replayed is not None
            and written < replayed
            # The primary may have written meanwhile, so read again.
            and await self._primary_position() < replayed
        ):
            # The replica follows another primary, even if this primary reaches the position later.
            self.foreign_position = replayed
            self.primary_positions.clear()
        self._mark_unusable()
        if replayed is not None and replayed != self.foreign_position:
            self.lag_s, self.follows = self._measure_lag_s(now, replayed), True
        if was_usable != self.usable or previous_why != self.why:
            _log.warning("replica", usable=self.usable, lag_s=self.lag_s, why=self.why)

    async def _primary_position(self) -> int:
        """Return the position of the primary. Raises Unavailable."""
        async with self.primary.connection(_CHECK_TIMEOUT_S) as tx:
            return await queries.WRITTEN_POSITION.get(tx) or 0

    async def _replayed_position(self) -> int | None:
        """Return the replica's position; None if it is away or belongs to another cluster."""
        primary_cluster = None if self.same_cluster else await _cluster_id(self.primary)
        self.why = ""
        try:
            async with self.connection(_CHECK_TIMEOUT_S) as tx:
                replayed = await queries.REPLAYED_POSITION.get(tx)
            own_cluster = None if primary_cluster is None else await _cluster_id(self)
        except _FAILURES as error:
            self.why = str(error)
            return None
        if replayed is not None:
            self.same_cluster = own_cluster is None or own_cluster == primary_cluster
        return replayed if self.same_cluster else None

    def _measure_lag_s(self, now: float, replayed: int) -> float | None:
        """Return the seconds since the primary was first known to be beyond ``replayed``.

        None if all known positions are beyond it: the primary may have passed it long before.
        """
        times = [time_s for time_s, written in self.primary_positions if written > replayed]
        if len(times) == len(self.primary_positions):
            return None
        return now - times[0] if times else 0.0

    @asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """Check the replica before the block begins, and repeatedly while the block runs."""
        with suppress(Unavailable):
            await self.check()
        async with poll_in_background(self._poll, POLL_S, "the replica cannot be looked at"):
            yield

    async def _poll(self) -> None:
        """Check the replica. After an unexpected error it is not used until a check succeeds."""
        try:
            await self.check()
        except Unavailable:
            raise
        except Exception:
            self._mark_unusable()
            raise

    def _mark_unusable(self) -> None:
        """Do not use the replica until the next check."""
        self.lag_s, self.follows = None, False


async def _cluster_id(db: Db) -> int | None:
    """Return the id that a primary and its replicas share, None if the server keeps it secret."""
    try:
        async with db.connection(_CHECK_TIMEOUT_S) as tx:
            return await queries.CLUSTER_ID.get(tx)
    except asyncpg.PostgresError:  # the database's user may lack the permission
        return None


@asynccontextmanager
async def open_replica(primary: Db, settings: Settings) -> AsyncIterator[Replica | None]:
    """Open the replica of the settings while the block runs; None if they have none."""
    if settings.database_read_url is None:
        yield None
        return
    replica = await Replica.open(primary, settings)
    try:
        async with replica.polling():
            yield replica
    finally:
        await replica.close()


class _FallbackReader(Db):
    """Reads one list or export from the replica, and after its first failure from the primary.

    It never returns to the replica, which may lack rows that the primary returned before. Once the
    block of a connection or snapshot has begun, the primary cannot replace the replica.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._uses_replica = replica.usable

    @asynccontextmanager
    async def connection(self, within_s: float | None = None) -> AsyncIterator[Tx]:
        """Lend a connection of the replica if possible, otherwise one of the primary."""
        has_begun = False
        if self._uses_replica:
            try:
                async with self._replica.connection(within_s) as tx:
                    has_begun = True
                    yield tx
                    return
            except Unavailable:
                self._leave_replica()
                if has_begun:
                    raise
        async with self._replica.primary.connection(within_s) as tx:
            yield tx

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, all again on the primary if the replica fails."""
        return await self._read_with_fallback(Db.read, work)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that read one snapshot, all again on the primary if the replica fails."""
        return await self._read_with_fallback(Db.read_snapshot, work)

    async def _read_with_fallback(
        self,
        read: Callable[[Db, Callable[[Tx], Awaitable[T]]], Awaitable[T]],
        work: Callable[[Tx], Awaitable[T]],
    ) -> T:
        """Run ``work`` on the replica, and on the primary if that fails.

        A Problem is a failure too: the replica may lack the product whose orders are listed.
        """
        if self._uses_replica:
            try:
                return await read(self._replica, work)
            except _FAILURES:
                self._leave_replica()
            except Problem:
                self._uses_replica = False
        return await read(self._replica.primary, work)

    def _leave_replica(self) -> None:
        """Read the rest from the primary, and all other lists and exports until the next check."""
        self._uses_replica = False
        self._replica._mark_unusable()  # noqa: SLF001 - the class is in this module
