"""Limits of concurrent exports and of their statements, per process and per merchant.

A merchant can use half of the concurrent statements, so that other merchants' exports always
progress. Excess exports are refused with Retry-After, because a queue would hold a connection for
each.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from opentill.core.errors import TooManyAtOnce

# All exports of a process run at most this many statements at a time, so that connections remain
# for payments.
STATEMENTS: Final = 4
STATEMENTS_EACH: Final = 2  # the exports of one merchant run at most this many statements at a time
EXPORTS_EACH: Final = 4  # a merchant may run this many exports at a time
RETRY_AFTER_S: Final = 5

Readers = AbstractAsyncContextManager[Any]
"""A context around each statement. Like a semaphore, several tasks may enter it concurrently."""


class _Merchant:
    """The running exports of a merchant."""

    def __init__(self) -> None:
        self.exports = 0
        self.statements = asyncio.Semaphore(STATEMENTS_EACH)


class _TwoSemaphores(Readers):
    """Acquires a merchant's semaphore, and then the semaphore that all merchants share."""

    def __init__(self, own: asyncio.Semaphore, of_all: asyncio.Semaphore) -> None:
        self._own = own
        self._of_all = of_all

    async def __aenter__(self) -> None:
        await self._own.acquire()
        try:
            await self._of_all.acquire()
        except BaseException:
            self._own.release()
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._of_all.release()
        self._own.release()


class Exports:
    """Counts and limits the running exports of a process."""

    def __init__(self) -> None:
        """Start without exports."""
        self._statements = asyncio.Semaphore(STATEMENTS)
        self._merchants: dict[str, _Merchant] = {}

    @contextlib.contextmanager
    def turn(self, merchant_id: str) -> Iterator[Readers]:
        """Count an export while the block runs. Raises TooManyAtOnce."""
        merchant = self._merchants.setdefault(merchant_id, _Merchant())
        if merchant.exports >= EXPORTS_EACH:
            raise TooManyAtOnce("exports", EXPORTS_EACH, RETRY_AFTER_S)
        merchant.exports += 1
        try:
            yield _TwoSemaphores(merchant.statements, self._statements)
        finally:
            merchant.exports -= 1
            if not merchant.exports:
                del self._merchants[merchant_id]
