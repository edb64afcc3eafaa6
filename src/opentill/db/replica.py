"""Reading from a replica: lists and exports, which may be a little behind; never anything else.

A replica that does not respond, or is further behind than the deployment allows, is not used: the
primary is read instead. No request gets a 503 because of a replica.
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
from opentill.db.following import following

T = TypeVar("T")
FOLLOW_S: Final = 1.0
_LOOK_S: Final = 2.0  # for asking a server for its position
_KEPT: Final = 4000  # positions of the primary: those of more than an hour

# No connection, a refused password, a schema that is not there yet: the primary is read instead.
_TROUBLE: Final = (Unavailable, asyncpg.PostgresError)
_log: Final = structlog.get_logger()


class Replica(Db):
    """A pool of connections to a replica, and the primary for when that is not usable."""

    primary: Db
    most_lag_s: float
    seen: deque[tuple[float, int]]  # at which time the primary was at which position
    lag_s: float | None = None  # None: unknown
    follows: bool = False  # whether it responds and is a replica of this primary
    same_cluster: bool = False  # whether its primary's cluster was found to be this one
    never_written: int | None = None  # a position of it that the primary had not reached
    why: str = ""  # why it did not respond when it was looked at last

    @classmethod
    async def open(cls, primary: Db, settings: Settings) -> Self:
        """Open the pool; the replica need not be there yet. It is used once it was looked at."""
        made = await cls.connect(
            settings.database_read_url or "",
            settings.db_pool_size,
            acquire_timeout_s=1.0,
            prepared=settings.db_prepared,
            eager=False,
        )
        made.primary = primary
        made.most_lag_s = settings.read_lag_s
        made.seen = deque(maxlen=_KEPT)
        return made

    @property
    def usable(self) -> bool:
        """Whether it responds and is not too far behind."""
        return self.lag_s is not None and self.lag_s <= self.most_lag_s

    @property
    def state(self) -> str:
        """The replica's state, for ``/readyz``: ``used``, ``behind`` or ``away``."""
        if self.usable:
            return "used"
        return "behind" if self.follows else "away"

    async def borrow(self, until: float | None = None) -> asyncpg.Connection:
        """Take a connection. Raises Unavailable too, for an address that cannot be read.

        A start refuses such an address; later a certificate's file may be away for a while.
        """
        try:
            return await super().borrow(until)
        except connections.UNREADABLE as error:
            raise Unavailable(reason=connections.why(error)) from error

    def reading(self) -> Db:
        """Return where one list or export is read from beginning to end."""
        return _Reading(self)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read, on the primary if the replica is not usable."""
        return await self.reading().read(work)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that read one moment, on the primary if the replica is not usable."""
        return await self.reading().read_snapshot(work)

    async def look(self) -> None:
        """Find out how far behind it is: how long ago the primary was at the replica's position.

        Raises Unavailable if the primary does not respond: then nothing is known.
        """
        written = await self._written()
        now = time.monotonic()
        if self.seen and written < self.seen[-1][1]:
            self.seen.clear()  # another one is the primary now, with a log of its own
        self.seen.append((now, written))
        why = self.why
        replayed = await self._replayed()
        if replayed is not None and written < replayed and await self._written() < replayed:
            self.never_written = replayed  # and not a moment ago
            self.seen.clear()  # nor does it follow when the primary has come so far
        before = self.usable
        self.lag_s, self.follows = None, False
        if replayed is not None and replayed != self.never_written:
            self.lag_s, self.follows = self._behind_s(now, replayed), True
        if before != self.usable or why != self.why:
            _log.warning("replica", usable=self.usable, lag_s=self.lag_s, why=self.why)

    async def _written(self) -> int:
        """Return the position of the primary. Raises Unavailable."""
        async with self.primary.connection(_LOOK_S) as tx:
            return await queries.WRITTEN.get(tx) or 0

    async def _replayed(self) -> int | None:
        """Return its position, None if it does not respond or is of another primary."""
        theirs = None if self.same_cluster else await _cluster(self.primary)
        self.why = ""
        try:
            async with self.connection(_LOOK_S) as tx:
                replayed = await queries.REPLAYED.get(tx)
            own = None if theirs is None else await _cluster(self)
        except _TROUBLE as error:
            self.why = str(error)
            return None
        if replayed is not None:
            self.same_cluster = theirs is None or own is None or own == theirs
        return replayed if self.same_cluster else None

    def _behind_s(self, now: float, replayed: int) -> float | None:
        """Return the seconds since the primary was first seen beyond the position ``replayed``.

        None where it was never seen before that: then it may have passed it at any time.
        """
        passed = [at for at, written in self.seen if written > replayed]
        if len(passed) == len(self.seen):
            return None
        return now - passed[0] if passed else 0.0

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Look again and again while the block runs."""
        with suppress(Unavailable):
            await self.look()
        async with following(self._look_again, FOLLOW_S, "the replica cannot be looked at"):
            yield

    async def _look_again(self) -> None:
        """Look; whatever else goes wrong, the replica is not used until it is seen again."""
        try:
            await self.look()
        except Unavailable:
            raise
        except Exception:
            self.lag_s, self.follows = None, False
            raise


async def _cluster(db: Db) -> int | None:
    """Return what a primary and its replicas share, None if the server does not say it."""
    try:
        async with db.connection(_LOOK_S) as tx:
            return await queries.CLUSTER.get(tx)
    except asyncpg.PostgresError:  # such as for want of permission
        return None


@asynccontextmanager
async def beside(primary: Db, settings: Settings) -> AsyncIterator[Replica | None]:
    """Lend the replica that the settings name, None if they name none, while the block runs."""
    if settings.database_read_url is None:
        yield None
        return
    replica = await Replica.open(primary, settings)
    try:
        async with replica.following():
            yield replica
    finally:
        await replica.close()


class _Reading(Db):
    """One list or export: read from the replica, and after its first failure from the primary.

    It never goes back: the replica may not have yet what was read from the primary. Of a connection
    or a snapshot that is lent, the primary can take the place only before the block begins.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._here = replica.usable

    @asynccontextmanager
    async def connection(self, within_s: float | None = None) -> AsyncIterator[Tx]:
        """Lend a connection of the replica if it has one, otherwise one of the primary."""
        lent = False
        if self._here:
            try:
                async with self._replica.connection(within_s) as tx:
                    lent = True
                    yield tx
                    return
            except Unavailable:
                self._leave()
                if lent:
                    raise
        async with self._replica.primary.connection(within_s) as tx:
            yield tx

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that only read; what the replica refuses is asked of the primary."""
        return await self._first_here(Db.read, work)

    async def read_snapshot(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements that read one moment, all of them again where the replica refuses one."""
        return await self._first_here(Db.read_snapshot, work)

    async def _first_here(
        self,
        read: Callable[[Db, Callable[[Tx], Awaitable[T]]], Awaitable[T]],
        work: Callable[[Tx], Awaitable[T]],
    ) -> T:
        """Run ``work`` on the replica, and again on the primary if that does not succeed.

        The replica may not have the product yet whose orders are listed.
        """
        if self._here:
            try:
                return await read(self._replica, work)
            except _TROUBLE:
                self._leave()
            except Problem:
                self._here = False
        return await read(self._replica.primary, work)

    def _leave(self) -> None:
        """Use the replica for no other list or export before the next look."""
        self._here = False
        self._replica.lag_s, self._replica.follows = None, False
