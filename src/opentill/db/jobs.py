"""Jobs process the rows of a batch concurrently and independently of each other.

A row that fails does not affect the others: the failure is logged with the row's id, and the row is
claimed again when its lease has expired.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import msgspec
import structlog

from opentill.core.errors import Unavailable

R = TypeVar("R")

# At most this many rows are processed at once, so that connections remain for requests.
AT_ONCE: Final = 16
_log: Final = structlog.get_logger()


class GatewayFilter(msgspec.Struct, frozen=True):
    """Selects the gateways whose rows a job processes; ``gateways`` None means all of them.

    Each gateway has a batch of its own, so that a slow gateway does not delay the others. With
    ``included=False`` the batch contains the rows of all gateways but ``gateways``.
    """

    gateways: tuple[str, ...] | None = None
    included: bool = True


EVERY_GATEWAY: Final = GatewayFilter()


class DueGateway(msgspec.Struct, frozen=True):
    """A gateway or account that has due rows."""

    gateway: str


async def each(
    rows: Iterable[R], work: Callable[[R], Awaitable[object]], name: Callable[[R], str]
) -> int:
    """Run ``work`` for every row and return how many succeeded; ``name`` returns a row's id.

    Raises Unavailable at the end if the database was away for one of them.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def process(row: R) -> Unavailable | bool:
        async with slots:
            try:
                await work(row)
            except Unavailable as error:
                return error
            except Exception:  # noqa: BLE001 - logged, and the other rows continue
                _log.exception("job failed for a row", row=name(row))
                return False
            return True

    results = await asyncio.gather(*map(process, rows))
    for result in results:
        if isinstance(result, Unavailable):
            raise result
    return sum(result is True for result in results)


async def run_all(*works: Awaitable[object]) -> None:
    """Run all concurrently until each has ended; then raise the first exception, if any."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
