"""What requests leave behind for a merchant's developers: noted in memory, written now and then.

To note costs a request no statement. Every two seconds a process writes what it has noted; while
the database is away it stays noted, and a process that is killed loses two seconds.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from opentill.core.errors import Unavailable
from opentill.db.database import Db, Tx
from opentill.db.following import following

Batch = TypeVar("Batch")

_EVERY_S: Final = 2.0
_log: Final = structlog.get_logger()


class Noting(ABC, Generic[Batch]):
    """What a process has noted and not written yet; a ``Batch`` is all of it at one moment."""

    what: ClassVar[str]  # it is called in the log

    def __init__(self) -> None:
        """Nothing is noted yet."""
        self._turn = asyncio.Lock()

    @abstractmethod
    def _take(self) -> Batch | None:
        """Return all that is noted, and forget it; None if there is nothing."""

    @abstractmethod
    async def _save(self, tx: Tx, batch: Batch) -> None:
        """Write it, and delete what is beyond a merchant's newest."""

    @abstractmethod
    def _put_back(self, batch: Batch) -> None:
        """Note it again, before what was noted meanwhile."""

    async def write(self, db: Db) -> None:
        """Write what was noted, after what is being written.

        Raises Unavailable, and then it is still noted.
        """
        async with self._turn:
            batch = self._take()
            if batch is None:
                return
            try:
                await db.run(lambda tx: self._save(tx, batch))
            except (Unavailable, asyncio.CancelledError):
                self._put_back(batch)
                raise

    @asynccontextmanager
    async def writing(self, db: Db) -> AsyncIterator[None]:
        """Write every two seconds while the block runs, and when it ends."""
        write = partial(self.write, db)
        try:
            async with following(write, _EVERY_S, f"{self.what} cannot be written"):
                yield
        finally:
            try:
                await write()
            except Unavailable as error:
                _log.warning(f"{self.what} are lost", reason=error.reason)
