"""How many rows a long list has, and where in it a page begins: exact, without reading the list.

The counts and the changes that they do not hold yet are read in one statement, so their sum is the
number of rows in that statement's snapshot, whoever writes meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
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
Range = tuple[int, int]  # inclusive Unix ms; 0 and FOREVER where a side is open
EVER: Final[Range] = (0, FOREVER)
NEAR: Final = 1000  # rows that are skipped by reading them: some milliseconds


async def of_all_time(tx: Tx, which: ListKey) -> int:
    """Return how many rows a list has, exact in the snapshot of one statement."""
    return await queries.TOTAL.get(tx, which) or 0


async def of_parts(
    tx: Tx, merchant_id: str, which: ListName, parts: Sequence[str]
) -> list[PartCount]:
    """Return how many rows some parts of a list have, by kind, in the snapshot of one statement.

    A kind of which a part has none may be missing, or be there with 0.
    """
    return await queries.TOTALS_OF_PARTS.all(
        tx, merchant_id=merchant_id, list=which, parts=list(parts)
    )


class Paginator(Generic[S]):
    """The rows of a list that a query asks for, to be read by pages."""

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
        """``filters`` are those that are given, in the order of the query's fields.

        ``counts`` says the same where the list is counted beforehand; any other is counted by
        reading it. ``near`` is how many rows are skipped by reading them. Raises ValueError for a
        filter that the counts do not know: the total would be of more than what is listed.
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
        """Return a page (from 1), newest first, and how many rows there are in all.

        The first pages are read from the newest row on, the last ones from the oldest; one in
        between from the hour that it is in, found by the counts. Statements that must agree see one
        snapshot.
        """
        offset = (number - 1) * size
        if offset <= self._near and within == EVER:
            return await self._db.read(lambda tx: self._first(tx, size, offset))
        return await self._db.read_snapshot(lambda tx: self._any(tx, within, size, offset))

    async def _first(self, tx: Tx, size: int, offset: int) -> tuple[list[S], int]:
        return await self._newest(tx, EVER, size, offset), await self.total(tx, EVER)

    async def _any(self, tx: Tx, within: Range, size: int, offset: int) -> tuple[list[S], int]:
        found = await self.total(tx, within)
        size = min(size, found - offset)
        if size <= 0:
            return [], found
        if offset <= self._near:
            return await self._newest(tx, within, size, offset), found
        after = found - offset - size
        if after <= self._near:
            rows = await self._some(self._statements.oldest, tx, within, size, after)
            return rows[::-1], found
        end, newer = await self._seek(tx, within, offset)
        return await self._newest(tx, (within[0], end), size, offset - newer), found

    async def _newest(self, tx: Tx, within: Range, size: int, offset: int) -> list[S]:
        return await self._some(self._statements.newest, tx, within, size, offset)

    async def _some(
        self, query: Query[S], tx: Tx, within: Range, size: int, offset: int
    ) -> list[S]:
        since, until = within
        return await query.all(
            tx, **self._values, since=since, until=until, limit=size, offset=offset
        )

    async def total(self, tx: Tx, within: Range = EVER) -> int:
        """Return how many rows there are in a range of time, exact in one snapshot.

        The snapshot is the statement's for all time and for whole hours, and that of ``tx`` where
        the range has edges, whose rows are counted one by one.
        """
        return await _count(tx, self._statements, self._values, self._counts, within)

    async def _seek(self, tx: Tx, within: Range, offset: int) -> tuple[int, int]:
        """Return the end of the hour in which the row after ``offset`` newer ones is.

        And how many of the range's rows are newer than that hour. Halves the hours of the range: at
        most some 26 looks into the counts, however many rows there are.
        """
        start, end = within
        low, high = start // HOUR_MS, min(end, LATEST) // HOUR_MS + 1
        newer = 0
        while high - low > 1:  # the row is not before hour `low`, and before hour `high`
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
    """Return how many rows of a list there are in a range of time, as ``Paginator.total``."""
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
        return await of_all_time(tx, counts)
    cut = page_window(*within)
    found = 0
    if cut.pieces:
        pieces = columns(Piece, cut.pieces)
        whole = {"start": cut.since, "end": cut.before}
        found = await queries.TOTAL_IN_HOURS.get(tx, counts, **whole, **pieces) or 0
    for edge in cut.edges:
        found += await read(*edge)
    return found


async def respond(
    request: ApiRequest[Q, Nothing],
    lists: Lists[S],
    show: Callable[[S], T],
    counts: ListKey | None = None,
) -> Listing[T]:
    """Return the page of a list that a request asks for, newest first, each row shown by ``show``.

    ``lists`` and ``counts`` as ``Paginator`` takes them.
    """
    query, replica = request.query, request.app.replica.reading()
    rows = Paginator(replica, lists, request.merchant_id, active_filters(query), counts)
    items, total = await rows.page(query.page, query.size)
    return listing([show(item) for item in items], query.page, query.size, total)


async def roll_up(db: Db, merchant_id: str, batch: int = 5000) -> int:
    """Move the changes of a merchant's lists into the counts, and return how many there were."""
    done = 0
    while True:
        moved = (
            await db.run(lambda tx: queries.ROLL.get(tx, merchant_id=merchant_id, limit=batch)) or 0
        )
        done += moved
        if moved < batch:
            return done
