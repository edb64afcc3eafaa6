"""The CSV export of orders: RFC 4180, streamed, and inert in a spreadsheet."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from opentill.db.database import Db, Tx
from opentill.db.query import Value
from opentill.http import csvfile
from opentill.orders.export import queries
from opentill.orders.search import service as search
from opentill.orders.search.filters import Chosen
from opentill.orders.search.model import ExportCursor, Sized
from opentill.server.export_limits import Exports, Readers

_PART: Final = 128 * 1024  # bytes; quotes, which are doubled, are counted once
_LOOKED_UP: Final = 20_000  # orders, to find where parts end; far more than one part has
_FOUND: Final = 2_000  # orders that filters leave, looked up at once
_AT_ONCE: Final = 2  # of one export: a file is not worth more of PostgreSQL's processors
# A part: after one order until another, or the ids of its orders.
Part: TypeAlias = tuple[ExportCursor, ExportCursor] | list[str]


class _Form(NamedTuple):
    """The columns of a file, and the statements that write the lines of its parts."""

    columns: tuple[queries.Column, ...]
    between: Value[bytes]
    of: Value[bytes]


def _form(*, local: bool) -> _Form:
    columns = queries.COLUMNS
    if local:
        more = queries.LOCAL_COLUMNS
        return _Form((*columns, *more), queries.LOCAL_EXPORT, queries.LOCAL_EXPORT_OF)
    return _Form(columns, queries.EXPORT, queries.EXPORT_OF)


def filename(start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    return csvfile.range_filename("orders", start, end)


async def chunks(
    db: Db,
    merchant_id: str,
    chosen: Chosen | None,
    readers: Readers,
    *,
    livemode: bool,
    zone: str | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the file, oldest order first, in constant memory.

    PostgreSQL writes the lines; here they are only passed on. They are read in parts of so many
    bytes, however long the orders are, each a statement of its own and two at the same time, so
    that PostgreSQL uses two processors: however slowly the file is fetched, no connection and no
    snapshot is held meanwhile, and only two parts in memory. ``chosen``: which orders, None for
    none. ``readers`` is entered for each statement, ``livemode`` is whether real money can be paid
    in this deployment. ``zone``: its times are there too, as a time zone of this name has them.
    Raises Invalid.
    """
    merchant: dict[str, str | bool] = {"merchant_id": merchant_id, "livemode": livemode}
    form = _form(local=zone is not None)
    if zone is not None:
        merchant["zone"] = zone

    async def lines(part: Part) -> bytes:
        async def read(tx: Tx) -> bytes | None:
            if isinstance(part, list):
                status = None if chosen is None else chosen.wanted.status
                return await form.of.get(tx, **merchant, ids=part, status=status)
            after, until = part
            return await form.between.get(
                tx,
                **merchant,
                after_at=after.created_at,
                after_id=after.id,
                until_at=until.created_at,
                until_id=until.id,
            )

        async with readers:
            return await db.read(read) or b""

    ahead: deque[asyncio.Task[bytes]] = deque()
    parts = _parts(db, chosen, readers)
    try:
        first = await anext(parts, None)  # which refuses what is wrong in a search
        yield csvfile.encode_row([column.name for column in form.columns])
        if first is not None:
            ahead.append(asyncio.create_task(lines(first)))
        async for part in parts:
            ahead.append(asyncio.create_task(lines(part)))
            if len(ahead) == _AT_ONCE:
                yield await ahead.popleft()
        while ahead:
            yield await ahead.popleft()
    finally:  # whoever fetched it may have gone
        await _stop(*ahead)
        await parts.aclose()


async def counted(
    exports: Exports,
    db: Db,
    merchant_id: str,
    chosen: Chosen | None,
    *,
    livemode: bool,
    zone: str | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the file as one of the exports of a process. Raises TooManyAtOnce at its beginning."""
    with exports.turn(merchant_id) as readers:
        file = chunks(db, merchant_id, chosen, readers, livemode=livemode, zone=zone)
        async with contextlib.aclosing(file) as made:
            async for chunk in made:
                yield chunk


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what is read ahead for nobody, and wait until it has given its connection back."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _parts(db: Db, chosen: Chosen | None, readers: Readers) -> AsyncGenerator[Part, None]:
    """Yield the parts of the file. Raises Invalid before the first."""
    if chosen is None:
        return
    parts = _ranges(db, chosen, readers) if chosen.is_everything else _lists(db, chosen, readers)
    async with contextlib.aclosing(parts):
        async for part in parts:
            yield part


async def _ranges(
    db: Db, chosen: Chosen, readers: Readers
) -> AsyncGenerator[tuple[ExportCursor, ExportCursor], None]:
    """Yield the parts of the list of all orders: after one order, until another or the end."""
    wanted = chosen.wanted

    async def edges(after: ExportCursor) -> list[ExportCursor]:
        async with readers:
            return await db.read(
                lambda tx: queries.EXPORT_EDGES.all(
                    tx,
                    merchant_id=wanted.merchant_id,
                    after_at=after.created_at,
                    after_id=after.id,
                    until=wanted.until,
                    bytes=_PART,
                    limit=_LOOKED_UP,
                )
            )

    last = ExportCursor(wanted.since, "")
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
    yield last, ExportCursor(wanted.until + 1, "")


async def _lists(db: Db, chosen: Chosen, readers: Readers) -> AsyncGenerator[list[str], None]:
    """Yield the parts of what filters leave: the ids of their orders."""

    async def following(cursor: ExportCursor) -> list[Sized]:
        async with readers:
            return await search.after(db, chosen.wanted, chosen.text, cursor, _FOUND)

    found = await following(ExportCursor(chosen.wanted.since, ""))
    while found:
        last = found[-1]
        ahead = asyncio.create_task(following(ExportCursor(last.created_at, last.id)))
        try:
            for part in _divided(found):
                yield part
            found = await ahead
        finally:
            await _stop(ahead)


def _divided(found: Sequence[Sized]) -> Iterator[list[str]]:
    """Divide orders into parts of so many bytes; one that is longer is a part by itself."""
    part: list[str] = []
    size = 0
    for order in found:
        if part and size + order.size > _PART:
            yield part
            part, size = [], 0
        part.append(order.id)
        size += order.size
    if part:
        yield part
