"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opentill.core import csvfile, money
from opentill.core.csvfile import cell, utc
from opentill.core.db import Db
from opentill.orders import queries
from opentill.orders.model import Lines, Order, OrderOut

COLUMNS: Final = (
    *(field.encode_name for field in msgspec.structs.fields(OrderOut)),
    "refundStatus",
    "refundedAmount",
    "createdAtUtc",
    "paidAtUtc",
)
_BATCH: Final = 2000  # a megabyte


def row(order: Order) -> list[str]:
    """Write an order as the cells of a row."""
    listed = OrderOut.of(order)
    refunded = order.refunded_minor
    return [
        *(cell(value) for value in msgspec.structs.astuple(listed)),
        order.refund_status,
        money.show(refunded, order.currency) if refunded else "0",
        utc(order.created_at),
        utc(order.paid_at),
    ]


def filename(start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    return csvfile.filename("orders", start, end)


async def chunks(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the file, oldest order first, in constant memory. Times are inclusive Unix ms.

    PostgreSQL writes the lines, as ``row`` would; here they are only passed on. Read in batches
    that go on after the last row, each a statement of its own, one ahead: however slowly the file
    is fetched, no connection and no snapshot is held meanwhile.
    """

    async def read(last_at: int, last_id: str) -> Lines | None:
        values = (merchant_id, last_at, last_id, end, _BATCH, csvfile.FORMULA)
        return await db.read(lambda tx: queries.EXPORT.first(tx, *values))

    yield csvfile.line(COLUMNS)
    batch = await read(start, "")
    while batch is not None and batch.lines is not None:
        if batch.orders < _BATCH or batch.last_at is None or batch.last_id is None:
            yield batch.lines.encode()
            return
        ahead = asyncio.create_task(read(batch.last_at, batch.last_id))
        try:
            yield batch.lines.encode()
            batch = await ahead
        finally:
            ahead.cancel()  # whoever fetched it may have gone
