"""A value of the database that a process reads again and again in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from opentill.core.errors import Unavailable

_log: Final = structlog.get_logger()


@asynccontextmanager
async def following(
    read: Callable[[], Awaitable[None]], every_s: float, trouble: str
) -> AsyncIterator[None]:
    """Call ``read`` every ``every_s`` seconds while the block runs.

    A database that is away is asked again; anything else that ``read`` raises is a defect, which is
    logged as ``trouble`` and ends nothing.
    """
    task = asyncio.create_task(_follow(read, every_s, trouble))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(read: Callable[[], Awaitable[None]], every_s: float, trouble: str) -> None:
    while True:
        await asyncio.sleep(every_s)
        try:
            await read()
        except Unavailable:
            continue
        except Exception:  # noqa: BLE001 - a defect must not leave this process behind
            _log.exception(trouble)
