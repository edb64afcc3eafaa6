"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import msgspec

from opentill.core import csvfile, money
from opentill.core.csvfile import cell, utc
from opentill.core.db import Db
from opentill.orders import queries
from opentill.orders.model import Edge, Order, OrderOut

COLUMNS: Final = (
    *(name for name in OrderOut.__struct_encode_fields__ if name != "livemode"),
    "refundStatus",
    "refundedAmount",
    "createdAtUtc",
    "paidAtUtc",
    "livemode",  # the last one: those before keep their places
)
_BATCH: Final = 2000  # orders of a stretch, somewhat less than a megabyte
_EDGES: Final = 50  # stretches that are looked up at once
_AT_ONCE: Final = 2  # of one export: a file is not worth more of PostgreSQL's processors


def row(order: Order) -> list[str]:
    """Write an order as the cells of a row."""
    listed = OrderOut.of(order)
    refunded = order.refunded_minor
    values = msgspec.structs.asdict(listed)
    livemode = values.pop("livemode")
    return [
        *map(cell, values.values()),
        order.refund_status,
        money.show(refunded, order.currency) if refunded else "0",
        utc(order.created_at),
        utc(order.paid_at),
        "true" if livemode else "false",
    ]


def filename(start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    return csvfile.filename("orders", start, end)


async def chunks(
    db: Db,
    merchant_id: str,
    start: int,
    end: int,
    readers: asyncio.Semaphore,
    *,
    livemode: bool,
) -> AsyncIterator[bytes]:
    """Yield the file, oldest order first, in constant memory. Times are inclusive Unix ms.

    PostgreSQL writes the lines, as ``row`` would; here they are only passed on. Read in stretches,
    each a statement of its own and two at the same time, so that PostgreSQL uses two processors:
    however slowly the file is fetched, no connection and no snapshot is held meanwhile. ``readers``
    is how many statements all exports of a process may run at once, ``livemode`` whether real money
    can be paid in this deployment.
    """

    async def read(after: Edge, until: Edge) -> bytes:
        values = (merchant_id, after.created_at, after.id, until.created_at, until.id)
        async with readers:
            lines = await db.read(lambda tx: queries.EXPORT.get(tx, *values, livemode))
        return (lines or "").encode()

    yield csvfile.line(COLUMNS)
    ahead: deque[asyncio.Task[bytes]] = deque()
    stretches = _stretches(db, merchant_id, start, end, readers)
    try:
        async for after, until in stretches:
            ahead.append(asyncio.create_task(read(after, until)))
            if len(ahead) == _AT_ONCE:
                yield await ahead.popleft()
        while ahead:
            yield await ahead.popleft()
    finally:  # whoever fetched it may have gone
        await _stop(*ahead)
        await stretches.aclose()


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what is read ahead for nobody, and wait until it has given its connection back."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _stretches(
    db: Db, merchant_id: str, start: int, end: int, readers: asyncio.Semaphore
) -> AsyncGenerator[tuple[Edge, Edge], None]:
    """Yield stretches of the list of orders: after one order, until another or the end."""

    async def edges(after: Edge) -> list[Edge]:
        values = (merchant_id, after.created_at, after.id, end, _BATCH, _BATCH * _EDGES)
        async with readers:
            return await db.read(lambda tx: queries.EXPORT_EDGES.all(tx, *values))

    last = Edge(start, "")
    found = await edges(last)
    while len(found) == _EDGES:
        ahead = asyncio.create_task(edges(found[-1]))
        try:
            for edge in found:
                yield last, edge
                last = edge
            found = await ahead
        finally:
            await _stop(ahead)
    for edge in found:
        yield last, edge
        last = edge
    yield last, Edge(end + 1, "")
