"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import msgspec

from opentill.core import csvfile, money
from opentill.core.csvfile import cell, utc
from opentill.core.db import Db, Tx
from opentill.orders import queries
from opentill.orders.model import Order, OrderOut

COLUMNS: Final = (
    *(field.encode_name for field in msgspec.structs.fields(OrderOut)),
    "refundStatus",
    "refundedAmount",
    "createdAtUtc",
    "paidAtUtc",
)
_BATCH: Final = 500


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


async def _batch(tx: Tx, merchant_id: str, last: tuple[int, str], end: int) -> list[Order]:
    return await queries.EXPORT.all(tx, merchant_id, *last, end, _BATCH)


async def _rows(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[list[str]]:
    last = (start, "")
    while True:
        batch = await db.read(partial(_batch, merchant_id=merchant_id, last=last, end=end))
        for order in batch:
            yield row(order)
        if len(batch) < _BATCH:
            return
        last = (batch[-1].created_at, batch[-1].id)


def chunks(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the file, oldest order first, in constant memory. Times are inclusive Unix ms.

    Read in batches that go on after the last row, each a statement of its own: however slowly the
    file is fetched, no connection and no snapshot is held meanwhile.
    """
    return csvfile.chunks(COLUMNS, _rows(db, merchant_id, start, end))
