"""Business time: the real one or, with the sandbox bank only, moved ahead to try things out.

``business_clock`` says how far it is ahead. Every process follows that row, so that servers,
workers and commands agree within a second. Real time (``now_ms``) is only for what is compared
with the clock of another machine, such as the age of a callback's signature.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from opentill.core.errors import Unavailable
from opentill.db.database import Db, Tx, patiently
from opentill.db.query import Command, Value

FOLLOW_S: Final = 0.5
FURTHEST_MS: Final = 20 * 366 * 86_400_000  # later, the four digits of years are still enough

AHEAD: Final = Value(int, "select ahead_ms from business_clock")
ADVANCE: Final = Command(
    """
    update business_clock set ahead_ms = ahead_ms + :step_ms
    where ahead_ms + :step_ms <= :furthest_ms
    """,
)
RESET: Final = Command("update business_clock set ahead_ms = 0")
_log: Final = structlog.get_logger()


def now_ms() -> int:
    """Return the real time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def movable(gateways: tuple[str, ...]) -> bool:
    """Tell whether business time may be moved: no gateway but the sandbox bank is switched on."""
    return gateways == ("sandbox",)


async def business_now(tx: Tx, gateways: tuple[str, ...]) -> int:
    """Return business time in Unix ms, read once; real time where it must not be moved."""
    return now_ms() + (await AHEAD.get(tx) or 0 if movable(gateways) else 0)


class Clock:
    """Business time for a process that runs on: ``now`` is what it hands to everything."""

    def __init__(self, db: Db, gateways: tuple[str, ...]) -> None:
        """Follow the row of ``db``, unless another gateway than the sandbox bank is there."""
        self._db = db
        self._movable = movable(gateways)
        self._ahead_ms = 0

    def now(self) -> int:
        """Return business time in Unix milliseconds."""
        return now_ms() + self._ahead_ms

    async def refresh(self) -> None:
        """Read how far business time is ahead. Raises Unavailable."""
        async with self._db.connection() as tx:
            self._ahead_ms = await AHEAD.get(tx) or 0

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the row while the block runs; the first time is right when it begins."""
        if not self._movable:
            yield
            return
        await patiently(self.refresh)
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        """Read again and again; while the database is away, time goes on as it was."""
        while True:
            await asyncio.sleep(FOLLOW_S)
            try:
                await self.refresh()
            except Unavailable:
                continue
            except Exception:  # noqa: BLE001 - a defect must not leave this process behind
                _log.exception("business time cannot be read")
