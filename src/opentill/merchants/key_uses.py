"""When each API key was last used, to the minute.

Authentication notes a use in memory, which costs it no statement. Once a minute a process writes
what it has noted in one statement, a key at most once for each minute, however many processes there
are. A process that is killed loses up to a minute of it; nothing else depends on it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import structlog

from opentill.core.errors import Unavailable
from opentill.db.database import Db
from opentill.db.following import following
from opentill.merchants import queries

_EVERY_S: Final = 60.0
_MINUTE_MS: Final = 60_000
_MOST: Final = 10_000  # keys; more are not noted before these are written
_log: Final = structlog.get_logger()


class KeyUses:
    """What a process has noted and not written yet: at most one time for each key."""

    def __init__(self) -> None:
        """Nothing is noted yet."""
        self._used: dict[str, int] = {}

    def note(self, key_id: str, now: int) -> None:
        """Note that a key was used."""
        used = self._used
        if key_id in used or len(used) < _MOST:
            used[key_id] = now

    async def write(self, db: Db) -> None:
        """Write what was noted. Raises Unavailable, and then it is still noted."""
        used, self._used = self._used, {}
        if not used:
            return
        minutes = [now // _MINUTE_MS * _MINUTE_MS for now in used.values()]
        try:
            async with db.connection() as tx:
                await queries.NOTE_USES.run(tx, id=list(used), used_at=minutes)
        except (Unavailable, asyncio.CancelledError):
            self._used = used | self._used
            raise

    @asynccontextmanager
    async def writing(self, db: Db) -> AsyncIterator[None]:
        """Write once a minute while the block runs, and when it ends."""
        write = partial(self.write, db)
        try:
            async with following(write, _EVERY_S, "uses of keys cannot be written"):
                yield
        finally:
            try:
                await write()
            except Unavailable as error:
                _log.warning("uses of keys are lost", reason=error.reason)
