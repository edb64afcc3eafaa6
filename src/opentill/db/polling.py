"""Polling: repeated work of a process on the database, in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from opentill.core.errors import Unavailable

_log: Final = structlog.get_logger()


@asynccontextmanager
async def poll_in_background(
    work: Callable[[], Awaitable[None]], interval_s: float, failure_message: str
) -> AsyncIterator[None]:
    """Call ``work`` every ``interval_s`` seconds while the block runs.

    While the database is away, ``work`` is tried again. Any other exception is a defect: it is
    logged as ``failure_message``, and the polling continues.
    """
    task = asyncio.create_task(_poll(work, interval_s, failure_message))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _poll(
    work: Callable[[], Awaitable[None]], interval_s: float, failure_message: str
) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Unavailable:
            continue
        except Exception:  # noqa: BLE001 - a defect must not stop the polling
            _log.exception(failure_message)
