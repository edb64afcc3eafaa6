"""How much all exports of a process may do at once, and what share of it one merchant has.

However many exports a merchant runs, another's finds a statement free: a merchant has half of those
that run at once. One that runs too many is refused, as the best-known APIs do with what is costly,
and asked to come back: a queue would keep a connection for each that waits.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from opentill.core.errors import TooManyAtOnce

STATEMENTS: Final = 4  # at once, of all exports of the process: payments keep most connections
STATEMENTS_EACH: Final = 2  # of one merchant
EXPORTS_EACH: Final = 4  # of one merchant
RETRY_AFTER_S: Final = 5

Readers = AbstractAsyncContextManager[Any]
"""Entered around each statement, by several tasks at once; a semaphore is one."""


class _Merchant:
    """The exports of one merchant that run."""

    def __init__(self) -> None:
        self.exports = 0
        self.statements = asyncio.Semaphore(STATEMENTS_EACH)


class _Both(Readers):
    """A statement of a merchant's among those of all."""

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
    """The exports of a process."""

    def __init__(self) -> None:
        """Nobody exports yet."""
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
            yield _Both(merchant.statements, self._statements)
        finally:
            merchant.exports -= 1
            if not merchant.exports:
                del self._merchants[merchant_id]
