"""A ``Db`` that lends one transaction, for functions that need a pool."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from opentill.db.database import Db, Tx

T = TypeVar("T")


class SingleTransactionDb(Db):
    """A pool whose only connection is already in a transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._lock = asyncio.Lock()  # a job may use several connections at once

    @asynccontextmanager
    async def connection(self, within_s: float | None = None) -> AsyncIterator[Tx]:
        """Lend the transaction to one task at a time."""
        async with self._lock:
            yield self._tx

    async def run(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``work`` in a savepoint."""
        async with self._lock, self._tx.transaction():
            return await work(self._tx)

    @asynccontextmanager
    async def snapshot(self, other: Tx | None = None) -> AsyncIterator[Tx]:
        """Lend the transaction; no other connection can change its rows."""
        yield self._tx

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run statements in the transaction."""
        return await work(self._tx)
