"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from opentill.db.database import Db, Tx
from opentill.db.query import Value
from opentill.http import csvfile
from opentill.orders.export import queries
from opentill.orders.export_columns import COLUMNS, LOCAL_COLUMNS, Column
from opentill.orders.model import Order
from opentill.orders.search import service as search
from opentill.orders.search.filters import Selection
from opentill.orders.search.model import ExportCursor, SizedOrder
from opentill.orders.service import find_many
from opentill.server.export_limits import Exports, Readers

# A part of the file has about this many bytes; the estimate ignores that quotes are doubled.
_PART_BYTES: Final = 128 * 1024
_SCANNED: Final = 20_000  # one statement reads this many orders to find the ends of parts
_SEARCHED: Final = 2_000  # a search's statement returns at most this many orders
_READ: Final = 1_000  # ``read_selection`` reads this many orders at a time
_AT_ONCE: Final = 2  # an export reads this many parts at a time; more would overload PostgreSQL
# A part of the file: the orders after the first cursor up to the second, or a list of order ids.
Part: TypeAlias = tuple[ExportCursor, ExportCursor] | list[str]


class _Format(NamedTuple):
    """The columns of a file, and the statements that write the lines of its parts."""

    columns: tuple[Column, ...]
    for_range: Value[bytes]
    for_ids: Value[bytes]


_UTC: Final = _Format(COLUMNS, queries.EXPORT, queries.EXPORT_OF)
_LOCAL: Final = _Format((*COLUMNS, *LOCAL_COLUMNS), queries.LOCAL_EXPORT, queries.LOCAL_EXPORT_OF)


def filename(start: int | None, end: int | None) -> str:
    """Return a name such as ``orders_2025-01-01_2025-01-31.csv``; ``all`` for an open side."""
    return csvfile.range_filename("orders", start, end)


async def export_csv(
    db: Db,
    merchant_id: str,
    selection: Selection | None,
    readers: Readers,
    *,
    livemode: bool,
    zone: str | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the file, oldest order first, in constant memory.

    PostgreSQL writes the lines in parts of equal size, each by a statement of its own. Two parts
    are read at a time, so that PostgreSQL uses two processors. However slowly a client fetches the
    file, no connection and no snapshot is held meanwhile, and only two parts are in memory.
    ``selection`` is None for no orders. ``readers`` is entered for each statement. ``livemode`` is
    whether real money can be paid in this deployment. ``zone`` adds columns with times in this time
    zone; None adds none. Raises Invalid.
    """
    values: dict[str, str | bool] = {"merchant_id": merchant_id, "livemode": livemode}
    file_format = _UTC
    if zone is not None:
        values["zone"], file_format = zone, _LOCAL

    async def read_lines(part: Part) -> bytes:
        async def read(tx: Tx) -> bytes | None:
            if isinstance(part, list):
                status = None if selection is None else selection.filters.status
                return await file_format.for_ids.get(tx, **values, ids=part, status=status)
            after, until = part
            return await file_format.for_range.get(
                tx,
                **values,
                after_at=after.created_at,
                after_id=after.id,
                until_at=until.created_at,
                until_id=until.id,
            )

        async with readers:
            return await db.read(read) or b""

    ahead: deque[asyncio.Task[bytes]] = deque()
    parts = _parts(db, selection, readers)
    try:
        first = await anext(parts, None)  # if it raises Invalid, nothing was sent yet
        yield csvfile.encode_row([column.name for column in file_format.columns])
        if first is not None:
            ahead.append(asyncio.create_task(read_lines(first)))
        async for part in parts:
            ahead.append(asyncio.create_task(read_lines(part)))
            if len(ahead) == _AT_ONCE:
                yield await ahead.popleft()
        while ahead:
            yield await ahead.popleft()
    finally:  # also if the client closes the connection, which ends the generator early
        await _stop(*ahead)
        await parts.aclose()


async def export_csv_limited(
    exports: Exports,
    db: Db,
    merchant_id: str,
    selection: Selection | None,
    *,
    livemode: bool,
    zone: str | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the file within the export limit. Raises TooManyAtOnce before the first chunk."""
    with exports.turn(merchant_id) as readers:
        chunks = export_csv(db, merchant_id, selection, readers, livemode=livemode, zone=zone)
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk


async def read_selection(db: Db, selection: Selection | None) -> AsyncGenerator[list[Order], None]:
    """Yield the orders of a selection in parts, oldest first, for a file with other columns.

    ``selection`` is None for no orders. Raises Invalid before the first part.
    """
    if selection is None:
        return
    cursor = ExportCursor(selection.filters.since, "")
    while orders := await _read_after(db, selection, cursor):
        yield orders
        cursor = ExportCursor(orders[-1].created_at, orders[-1].id)


async def _read_after(db: Db, selection: Selection, cursor: ExportCursor) -> list[Order]:
    filters, merchant_id = selection.filters, selection.filters.merchant_id
    if selection.is_everything:
        return await db.read(
            lambda tx: queries.AFTER.all(
                tx,
                merchant_id=merchant_id,
                after_at=cursor.created_at,
                after_id=cursor.id,
                until=filters.until,
                limit=_READ,
            )
        )
    rows = await search.list_after(db, filters, selection.text, cursor, _READ)
    ids = [row.id for row in rows]
    by_id = await db.read(partial(find_many, merchant_id=merchant_id, ids=ids))
    return [by_id[order_id] for order_id in ids]


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks that read ahead, and wait until they have given their connections back."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _parts(
    db: Db, selection: Selection | None, readers: Readers
) -> AsyncGenerator[Part, None]:
    """Yield the parts of the file. Raises Invalid before the first."""
    if selection is None:
        return
    divide = _divide_range if selection.is_everything else _divide_search
    parts = divide(db, selection, readers)
    async with contextlib.aclosing(parts):
        async for part in parts:
            yield part


async def _divide_range(
    db: Db, selection: Selection, readers: Readers
) -> AsyncGenerator[tuple[ExportCursor, ExportCursor], None]:
    """Yield the parts of a range of time: the orders after a cursor up to another cursor."""
    filters = selection.filters

    async def find_ends(after: ExportCursor) -> list[ExportCursor]:
        async with readers:
            return await db.read(
                lambda tx: queries.EXPORT_EDGES.all(
                    tx,
                    merchant_id=filters.merchant_id,
                    after_at=after.created_at,
                    after_id=after.id,
                    until=filters.until,
                    bytes=_PART_BYTES,
                    limit=_SCANNED,
                )
            )

    last = ExportCursor(filters.since, "")
    ends = await find_ends(last)
    while ends:
        ahead = asyncio.create_task(find_ends(ends[-1]))
        try:
            for end in ends:
                yield last, end
                last = end
            ends = await ahead
        finally:
            await _stop(ahead)
    yield last, ExportCursor(filters.until + 1, "")


async def _divide_search(
    db: Db, selection: Selection, readers: Readers
) -> AsyncGenerator[list[str], None]:
    """Yield the parts of a search as lists of order ids."""

    async def read_after(cursor: ExportCursor) -> list[SizedOrder]:
        async with readers:
            return await search.list_after(db, selection.filters, selection.text, cursor, _SEARCHED)

    orders = await read_after(ExportCursor(selection.filters.since, ""))
    while orders:
        last = orders[-1]
        ahead = asyncio.create_task(read_after(ExportCursor(last.created_at, last.id)))
        try:
            for part in _divide(orders):
                yield part
            orders = await ahead
        finally:
            await _stop(ahead)


def _divide(orders: Sequence[SizedOrder]) -> Iterator[list[str]]:
    """Divide orders into parts of at most ``_PART_BYTES``; a longer order is a part by itself."""
    part: list[str] = []
    size = 0
    for order in orders:
        if part and size + order.size > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append(order.id)
        size += order.size
    if part:
        yield part
