"""Exact totals and pages of long lists, without reading the list.

One statement reads the counts and the changes that are not in them yet, so their sum is the number
of rows in that statement's snapshot, despite concurrent writes.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from opentill.db.database import Db, Tx
from opentill.db.query import Query, columns
from opentill.http.operations import ApiRequest, Nothing
from opentill.http.paging import Listing, PageQuery, active_filters, listing
from opentill.list_counts import queries
from opentill.list_counts.model import (
    FOREVER,
    HOUR_MS,
    LATEST,
    ListKey,
    ListName,
    PartCount,
    Piece,
    page_window,
)
from opentill.list_counts.queries import Lists, ListStatements

S = TypeVar("S", bound=msgspec.Struct)
Q = TypeVar("Q", bound=PageQuery)
T = TypeVar("T")
Range = tuple[int, int]  # first and last time, Unix ms; 0 and FOREVER if a side is open
EVER: Final[Range] = (0, FOREVER)
# A page is found by reading the rows before it if these are at most this many, which takes a few
# milliseconds. A page farther away is found by the counts.
NEAR: Final = 1000


async def count_all(tx: Tx, key: ListKey) -> int:
    """Return the exact number of rows of a list, in the snapshot of one statement."""
    return await queries.TOTAL.get(tx, key) or 0


async def count_parts(
    tx: Tx, merchant_id: str, list_name: ListName, parts: Sequence[str]
) -> list[PartCount]:
    """Return how many rows of each kind these parts of a list have, in one statement's snapshot.

    A kind without rows may be missing or be 0.
    """
    return await queries.TOTALS_OF_PARTS.all(
        tx, merchant_id=merchant_id, list=list_name, parts=list(parts)
    )


async def count_kinds(tx: Tx, merchant_id: str, list_name: ListName) -> list[PartCount]:
    """Return how many rows of each kind a list has, in one statement's snapshot.

    A kind without rows may be missing or be 0.
    """
    return await queries.TOTALS_OF_KINDS.all(tx, merchant_id=merchant_id, list=list_name)


async def count_kinds_within(
    tx: Tx,
    key: ListKey,
    within: Range,
    read_edge: Callable[[int, int], Awaitable[Mapping[str, int]]],
) -> Counter[str]:
    """Return how many rows of each kind a list has in a range of time.

    ``read_edge`` counts rows by reading them, between two inclusive times. The numbers are exact
    if ``tx`` is a snapshot.
    """
    if within == EVER:
        parts = [key.part]
        all_rows = await (
            count_parts(tx, key.merchant_id, key.list, parts)
            if key.part
            else count_kinds(tx, key.merchant_id, key.list)
        )
        return Counter({row.kind: row.rows for row in all_rows})
    window = page_window(*within)
    totals = Counter[str]()
    if window.pieces:
        rows = await queries.TOTALS_OF_KINDS_IN_HOURS.all(
            tx,
            merchant_id=key.merchant_id,
            list=key.list,
            part=key.part,
            start=window.since,
            end=window.before,
            **columns(Piece, window.pieces),
        )
        totals.update({row.kind: row.rows for row in rows})
    for edge in window.edges:
        totals.update(await read_edge(*edge))
    return totals


class Paginator(Generic[S]):
    """Reads the rows of a filtered list by pages."""

    def __init__(
        self,
        db: Db,
        lists: Lists[S],
        merchant_id: str,
        filters: Mapping[str, Any],
        counts: ListKey | None = None,
        *,
        near: int = NEAR,
    ) -> None:
        """``filters`` are the filters that are set, in the order of the query's fields.

        ``counts`` is the key of the list's counts; a list without counts is counted by reading it.
        At most ``near`` rows are skipped by reading them. Raises ValueError if the filters and
        the key differ, because the total would be wrong.
        """
        if counts is not None and counts.filters != len(filters):
            msg = f"{counts} does not count a list by {', '.join(filters) or 'no filter'}"
            raise ValueError(msg)
        self._db = db
        self._statements = lists[tuple(filters)]
        self._values = {"merchant_id": merchant_id, **filters}
        self._counts = counts
        self._near = near

    async def page(self, number: int, size: int, within: Range = EVER) -> tuple[list[S], int]:
        """Return a page (from 1), newest first, and the total number of rows.

        The first pages are read from the newest row, and the last ones from the oldest. Pages in
        between are read from the hour of their first row, which the counts determine. Unless the
        page is near the newest row, one snapshot gives both the page and the total.
        """
        offset = (number - 1) * size
        if offset <= self._near and within == EVER:
            return await self._db.read(lambda tx: self._first_page(tx, size, offset))
        return await self._db.read_snapshot(
            lambda tx: self._page_anywhere(tx, within, size, offset)
        )

    async def newest(self, size: int) -> list[S]:
        """Return the first page without the total number of rows."""
        return await self._db.read(lambda tx: self._newest(tx, EVER, size, 0))

    async def _first_page(self, tx: Tx, size: int, offset: int) -> tuple[list[S], int]:
        rows = await self._newest(tx, EVER, size, offset)
        is_last = len(rows) < size and (rows or not offset)
        return rows, offset + len(rows) if is_last else await self.total(tx, EVER)

    async def _page_anywhere(
        self, tx: Tx, within: Range, size: int, offset: int
    ) -> tuple[list[S], int]:
        total = await self.total(tx, within)
        return await self._rows(tx, within, size, offset, total), total

    async def read(self, tx: Tx, number: int, size: int, within: Range, total: int) -> list[S]:
        """Return a page (from 1), newest first, if the total is known in the snapshot of ``tx``."""
        return await self._rows(tx, within, size, (number - 1) * size, total)

    async def _rows(self, tx: Tx, within: Range, size: int, offset: int, total: int) -> list[S]:
        size = min(size, total - offset)
        if size <= 0:
            return []
        if offset <= self._near:
            return await self._newest(tx, within, size, offset)
        after = total - offset - size
        if after <= self._near:
            return (await self._fetch(self._statements.oldest, tx, within, size, after))[::-1]
        end, newer = await self._find_hour(tx, within, offset)
        return await self._newest(tx, (within[0], end), size, offset - newer)

    async def _newest(self, tx: Tx, within: Range, size: int, offset: int) -> list[S]:
        return await self._fetch(self._statements.newest, tx, within, size, offset)

    async def _fetch(
        self, query: Query[S], tx: Tx, within: Range, size: int, offset: int
    ) -> list[S]:
        since, until = within
        return await query.all(
            tx, **self._values, since=since, until=until, limit=size, offset=offset
        )

    async def total(self, tx: Tx, within: Range = EVER) -> int:
        """Return the exact number of rows in a range of time.

        For all time and for whole hours it is exact in the snapshot of one statement. If the range
        has edges, whose rows are counted by reading them, it is exact if ``tx`` is a snapshot.
        """
        return await _count(tx, self._statements, self._values, self._counts, within)

    async def _find_hour(self, tx: Tx, within: Range, offset: int) -> tuple[int, int]:
        """Find the hour that contains row ``offset`` (newest first).

        Returns its end and the number of newer rows. Binary search, with at most 26 counts.
        """
        start, end = within
        low, high = start // HOUR_MS, min(end, LATEST) // HOUR_MS + 1
        newer = 0
        # Invariant: the row's time is in hour `low` or later, and before hour `high`.
        while high - low > 1:
            middle = (low + high) // 2
            since = await self.total(tx, (middle * HOUR_MS, end))
            if since > offset:
                low = middle
            else:
                high, newer = middle, since
        return min(end, high * HOUR_MS - 1), newer


async def count(
    tx: Tx,
    lists: Lists[S],
    merchant_id: str,
    filters: Mapping[str, Any],
    counts: ListKey,
    within: Range = EVER,
) -> int:
    """Return the number of rows of a list in a range of time, like ``Paginator.total``."""
    values = {"merchant_id": merchant_id, **filters}
    return await _count(tx, lists[tuple(filters)], values, counts, within)


async def _count(
    tx: Tx,
    statements: ListStatements[S],
    values: Mapping[str, Any],
    counts: ListKey | None,
    within: Range,
) -> int:
    async def read(since: int, until: int) -> int:
        return await statements.counted.get(tx, **values, since=since, until=until) or 0

    if counts is None:
        return await read(*within)
    if within == EVER:
        return await count_all(tx, counts)
    window = page_window(*within)
    total = 0
    if window.pieces:
        pieces = columns(Piece, window.pieces)
        whole = {"start": window.since, "end": window.before}
        total = await queries.TOTAL_IN_HOURS.get(tx, counts, **whole, **pieces) or 0
    for edge in window.edges:
        total += await read(*edge)
    return total


async def respond(
    request: ApiRequest[Q, Nothing],
    lists: Lists[S],
    show: Callable[[S], T],
    counts: ListKey | None = None,
) -> Listing[T]:
    """Return the page of a list for a request, newest first, with each row converted by ``show``.

    ``lists`` and ``counts`` are the arguments of ``Paginator``.
    """
    query, replica = request.query, request.app.replica.reading()
    rows = Paginator(replica, lists, request.merchant_id, active_filters(query), counts)
    items, total = await rows.page(query.page, query.size)
    return listing([show(item) for item in items], query.page, query.size, total)


async def roll_up(db: Db, merchant_id: str, batch: int = 5000) -> int:
    """Move the changes of a merchant's lists into the counts; return their number."""
    rolled_up = 0
    while True:
        moved = (
            await db.run(lambda tx: queries.ROLL.get(tx, merchant_id=merchant_id, limit=batch)) or 0
        )
        rolled_up += moved
        if moved < batch:
            return rolled_up
