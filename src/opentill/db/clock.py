"""Business time: the real one or, with the sandbox bank only, moved ahead to try things out.

``business_clock`` says how far it is ahead. Every process follows that row, so that servers,
workers and commands agree within a second. Real time (``now_ms``) is only for what is compared
with the clock of another machine, such as the age of a callback's signature.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from opentill.db import queries
from opentill.db.database import Db, Tx, patiently
from opentill.db.following import following

FOLLOW_S: Final = 0.5
FURTHEST_MS: Final = 20 * 366 * 86_400_000  # so that years keep four digits


def now_ms() -> int:
    """Return the real time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def movable(gateways: tuple[str, ...]) -> bool:
    """Return whether business time may be moved: no gateway but the sandbox bank is switched on."""
    return gateways == ("sandbox",)


async def ahead_ms(tx: Tx) -> int:
    """Return how far business time is ahead of the real one, in milliseconds."""
    return await queries.AHEAD.get(tx) or 0


async def advance(tx: Tx, by_ms: int) -> bool:
    """Move business time ahead; False if that would lead further than ``FURTHEST_MS``."""
    return await queries.ADVANCE.run(tx, by_ms=by_ms, furthest_ms=FURTHEST_MS) > 0


async def reset(tx: Tx) -> None:
    """Go back to real time."""
    await queries.RESET_CLOCK.run(tx)


async def business_now(tx: Tx, gateways: tuple[str, ...]) -> int:
    """Return business time in Unix ms, read once; real time where it must not be moved."""
    return now_ms() + (await ahead_ms(tx) if movable(gateways) else 0)


class Clock:
    """Business time for a process that runs on: ``now`` is what it hands to everything."""

    def __init__(self, db: Db, gateways: tuple[str, ...]) -> None:
        """Follow the row of ``db``, unless another gateway than the sandbox bank is on."""
        self._db = db
        self._movable = movable(gateways)
        self._ahead_ms = 0

    def now(self) -> int:
        """Return business time in Unix milliseconds."""
        return now_ms() + self._ahead_ms

    async def refresh(self) -> None:
        """Read how far business time is ahead. Raises Unavailable."""
        async with self._db.connection() as tx:
            self._ahead_ms = await ahead_ms(tx)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the row while the block runs; the first time is right when it begins."""
        if not self._movable:
            yield
            return
        await patiently(self.refresh)
        # While the database is away, time goes on as it was.
        async with following(self.refresh, FOLLOW_S, "business time cannot be read"):
            yield
