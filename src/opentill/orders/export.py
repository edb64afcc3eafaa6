"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from opentill.core import money
from opentill.core.db import Db
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
# Cells that begin so are run as formulas by spreadsheets (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def utc(millis: int | None) -> str:
    """Write a time as people read it: ``2025-01-15T09:15:00.000Z``, or nothing."""
    if millis is None:
        return ""
    moment = datetime.fromtimestamp(millis // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def cell(value: Any) -> str:
    """Write one cell; text that a spreadsheet would run gets an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()  # a JSON object begins with a brace
    text = str(value).replace("\x00", "")
    if isinstance(value, str) and text.lstrip(" ").startswith(_FORMULA):
        return "'" + text
    return text


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
    sides = ["all" if side is None else utc(side)[:10] for side in (start, end)]
    return f"orders_{sides[0]}_{sides[1]}.csv"


async def chunks(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the file, oldest order first, in constant memory. Times are inclusive Unix ms.

    Read in batches that go on after the last row, each a statement of its own: however slowly the
    file is fetched, no connection and no snapshot is held meanwhile.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # its defaults are RFC 4180 with CRLF
    writer.writerow(COLUMNS)
    last = (start, "")
    while True:
        async with db.connection() as tx:
            orders = await queries.EXPORT.all(tx, merchant_id, *last, end, _BATCH)
        writer.writerows(map(row, orders))
        yield buffer.getvalue().encode()
        if len(orders) < _BATCH:
            return
        last = (orders[-1].created_at, orders[-1].id)
        buffer.seek(0)
        buffer.truncate()
