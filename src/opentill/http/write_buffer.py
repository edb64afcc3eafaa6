"""Write-behind buffers for records of requests that merchants' developers read.

Recording a request costs no statement: a process buffers its records in memory and writes them
every two seconds. They stay buffered while the database is unavailable; a process that is killed
loses at most two seconds of them.
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
from opentill.db.polling import poll_in_background

Batch = TypeVar("Batch")

_EVERY_S: Final = 2.0
_log: Final = structlog.get_logger()


class WriteBuffer(ABC, Generic[Batch]):
    """Buffers records until they are written to the database; a ``Batch`` is all of its content."""

    label: ClassVar[str]  # the name of these records in the log

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._lock = asyncio.Lock()

    @abstractmethod
    def _take(self) -> Batch | None:
        """Empty the buffer and return its content, None if it was empty."""

    @abstractmethod
    async def _save(self, tx: Tx, batch: Batch) -> None:
        """Write a batch, and delete the oldest rows of each merchant over its limit."""

    @abstractmethod
    def _put_back(self, batch: Batch) -> None:
        """Put a batch that could not be written back into the buffer, before newer records."""

    async def write(self, db: Db) -> None:
        """Write the buffered records, after any write in progress.

        Raises Unavailable; the records are then still buffered.
        """
        async with self._lock:
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
        """Write every two seconds while the block runs, and once more when it ends."""
        write = partial(self.write, db)
        try:
            async with poll_in_background(write, _EVERY_S, f"{self.label} cannot be written"):
                yield
        finally:
            try:
                await write()
            except Unavailable as error:
                _log.warning(f"{self.label} are lost", reason=error.reason)
