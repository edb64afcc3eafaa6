"""Business time: real time or, with the sandbox bank only, moved ahead for trying things out.

The row of ``business_clock`` says how far it is ahead. Every process polls that row, so that
servers, workers and commands agree within a second. Use real time (``now_ms``) only to compare with
the clock of another machine, such as for the age of a callback's signature.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from opentill.db import queries
from opentill.db.database import Db, Tx, retry_while_away
from opentill.db.polling import poll_in_background

POLL_S: Final = 0.5
# Business time may be 20 years ahead at most, so that years keep four digits.
FURTHEST_MS: Final = 20 * 366 * 86_400_000


def now_ms() -> int:
    """Return the real time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def movable(gateways: tuple[str, ...]) -> bool:
    """Whether business time may be moved: the sandbox bank is the only gateway switched on."""
    return gateways == ("sandbox",)


async def ahead_ms(tx: Tx) -> int:
    """Return how far business time is ahead of real time, in milliseconds."""
    return await queries.AHEAD.get(tx) or 0


async def advance(tx: Tx, by_ms: int) -> bool:
    """Move business time ahead; False if it would be more than ``FURTHEST_MS`` ahead."""
    return await queries.ADVANCE.run(tx, by_ms=by_ms, furthest_ms=FURTHEST_MS) > 0


async def reset(tx: Tx) -> None:
    """Go back to real time."""
    await queries.RESET_CLOCK.run(tx)


async def business_now(tx: Tx, gateways: tuple[str, ...]) -> int:
    """Return business time in Unix ms, with an offset read just now if time is ``movable``."""
    return now_ms() + (await ahead_ms(tx) if movable(gateways) else 0)


class Clock:
    """Business time for a long-running process, which passes ``now`` to its functions."""

    def __init__(self, db: Db, gateways: tuple[str, ...]) -> None:
        """``gateways`` are the names of the gateways in use; they decide ``movable``."""
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
    async def polling(self) -> AsyncIterator[None]:
        """Read the offset before the block begins, and repeatedly while the block runs."""
        if not self._movable:
            yield
            return
        await retry_while_away(self.refresh)
        # While the database is away, the last offset stays in use.
        async with poll_in_background(self.refresh, POLL_S, "business time cannot be read"):
            yield
