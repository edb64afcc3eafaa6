"""A connection that is in a transaction, as lists want it: as a pool."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from opentill.db.database import Db, Tx

T = TypeVar("T")


class OneConnection(Db):
    """A pool of one connection that is in a transaction already."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    @asynccontextmanager
    async def connection(self, within_s: float | None = None) -> AsyncIterator[Tx]:
        """Lend it."""
        yield self._tx

    @asynccontextmanager
    async def snapshot(self, moment: str | None = None) -> AsyncIterator[Tx]:
        """Lend it: nobody else writes."""
        yield self._tx

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements."""
        return await work(self._tx)
