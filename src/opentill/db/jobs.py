"""How jobs work through a batch: several rows at once, and each for itself.

A row whose handling fails holds up no other: the failure is logged with the row's id, and the row
comes again when the lease that its claim took is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import msgspec
import structlog

from opentill.core.errors import Unavailable

R = TypeVar("R")

AT_ONCE: Final = 16  # leaves connections of the pool to the requests of the same process
_log: Final = structlog.get_logger()


class GatewayFilter(msgspec.Struct, frozen=True):
    """Which gateways' rows a batch has: those of ``gateways``, or of all others; None: of all.

    Each gateway's rows are worked through by themselves, so that one that responds slowly, or not
    at all, holds up no other.
    """

    gateways: tuple[str, ...] | None = None
    included: bool = True


EVERY_GATEWAY: Final = GatewayFilter()


async def each(
    rows: Iterable[R], work: Callable[[R], Awaitable[object]], name: Callable[[R], str]
) -> int:
    """Run ``work`` for every row and return how many went well; ``name`` is a row's id.

    Raises Unavailable at the end if the database was away for one of them.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(row: R) -> Unavailable | bool:
        async with slots:
            try:
                await work(row)
            except Unavailable as error:
                return error
            except Exception:  # noqa: BLE001 - it is logged, and the others go on
                _log.exception("job failed for a row", row=name(row))
                return False
            return True

    results = await asyncio.gather(*map(one, rows))
    for result in results:
        if isinstance(result, Unavailable):
            raise result
    return sum(result is True for result in results)


async def run_all(*works: Awaitable[object]) -> None:
    """Do all at the same time and to their end; raises what the first of them raised."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
