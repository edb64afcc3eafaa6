"""The time of last use of each API key, to the minute.

Authentication records uses in memory, which costs no statement. Once a minute a process writes them
in one statement; a key's row changes at most once a minute, however many processes there are. A
killed process loses up to a minute of uses, on which nothing else depends.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import structlog

from opentill.core.errors import Unavailable
from opentill.db.database import Db
from opentill.db.polling import poll_in_background
from opentill.merchants import queries

_WRITE_INTERVAL_S: Final = 60.0
_MINUTE_MS: Final = 60_000
# The buffer holds the uses of at most this many keys. Until it is written, uses of further keys are
# not recorded.
_MAX_KEYS: Final = 10_000
_log: Final = structlog.get_logger()


class KeyUses:
    """The last use of each key in this process that is not written to the database yet."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._used: dict[str, int] = {}

    def record(self, key_id: str, now: int) -> None:
        """Record that a key was used."""
        used = self._used
        if key_id in used or len(used) < _MAX_KEYS:
            used[key_id] = now

    async def write(self, db: Db) -> None:
        """Write the recorded uses. If this raises Unavailable, they stay recorded."""
        uses, self._used = self._used, {}
        if not uses:
            return
        minutes = [now // _MINUTE_MS * _MINUTE_MS for now in uses.values()]
        try:
            async with db.connection() as tx:
                await queries.UPDATE_LAST_USED.run(tx, id=list(uses), used_at=minutes)
        except (Unavailable, asyncio.CancelledError):
            self._used = uses | self._used
            raise

    @asynccontextmanager
    async def writing(self, db: Db) -> AsyncIterator[None]:
        """Write once a minute while the block runs, and once more when it ends."""
        write = partial(self.write, db)
        try:
            async with poll_in_background(
                write, _WRITE_INTERVAL_S, "uses of keys cannot be written"
            ):
                yield
        finally:
            try:
                await write()
            except Unavailable as error:
                _log.warning("uses of keys are lost", reason=error.reason)
