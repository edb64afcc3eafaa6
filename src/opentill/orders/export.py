"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

from opentill.db.database import Db
from opentill.http import csvfile
from opentill.orders import export_queries
from opentill.orders.model import ExportCursor
from opentill.server.export_limits import Exports, Readers

_PART: Final = 128 * 1024  # bytes; quotes, which are doubled, are counted once
_LOOKED_UP: Final = 20_000  # orders, to find where parts end; far more than one part has
_AT_ONCE: Final = 2  # of one export: a file is not worth more of PostgreSQL's processors


def filename(start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    return csvfile.filename("orders", start, end)


async def chunks(
    db: Db, merchant_id: str, start: int, end: int, readers: Readers, *, livemode: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the file, oldest order first, in constant memory. Times are inclusive Unix ms.

    PostgreSQL writes the lines; here they are only passed on. They are read in parts of so many
    bytes, however long the orders are, each a statement of its own and two at the same time, so
    that PostgreSQL uses two processors: however slowly the file is fetched, no connection and no
    snapshot is held meanwhile, and only two parts in memory. ``readers`` is entered for each
    statement, ``livemode`` is whether real money can be paid in this deployment.
    """

    async def read(after: ExportCursor, until: ExportCursor) -> bytes:
        async with readers:
            lines = await db.read(
                lambda tx: export_queries.EXPORT.get(
                    tx,
                    merchant_id=merchant_id,
                    after_at=after.created_at,
                    after_id=after.id,
                    until_at=until.created_at,
                    until_id=until.id,
                    livemode=livemode,
                )
            )
        return lines or b""

    yield csvfile.line([column.name for column in export_queries.COLUMNS])
    ahead: deque[asyncio.Task[bytes]] = deque()
    parts = _parts(db, merchant_id, start, end, readers)
    try:
        async for after, until in parts:
            ahead.append(asyncio.create_task(read(after, until)))
            if len(ahead) == _AT_ONCE:
                yield await ahead.popleft()
        while ahead:
            yield await ahead.popleft()
    finally:  # whoever fetched it may have gone
        await _stop(*ahead)
        await parts.aclose()


async def counted(
    exports: Exports, db: Db, merchant_id: str, start: int, end: int, *, livemode: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the file as one of the exports of a process. Raises TooManyAtOnce at its beginning."""
    with exports.turn(merchant_id) as readers:
        file = chunks(db, merchant_id, start, end, readers, livemode=livemode)
        async with contextlib.aclosing(file) as made:
            async for chunk in made:
                yield chunk


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what is read ahead for nobody, and wait until it has given its connection back."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _parts(
    db: Db, merchant_id: str, start: int, end: int, readers: Readers
) -> AsyncGenerator[tuple[ExportCursor, ExportCursor], None]:
    """Yield the parts of the list of orders: after one order, until another or the end."""

    async def edges(after: ExportCursor) -> list[ExportCursor]:
        async with readers:
            return await db.read(
                lambda tx: export_queries.EXPORT_EDGES.all(
                    tx,
                    merchant_id=merchant_id,
                    after_at=after.created_at,
                    after_id=after.id,
                    until=end,
                    bytes=_PART,
                    limit=_LOOKED_UP,
                )
            )

    last = ExportCursor(start, "")
    found = await edges(last)
    while found:
        ahead = asyncio.create_task(edges(found[-1]))
        try:
            for edge in found:
                yield last, edge
                last = edge
            found = await ahead
        finally:
            await _stop(ahead)
    yield last, ExportCursor(end + 1, "")
