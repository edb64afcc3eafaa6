"""Finding a merchant's orders by e-mail, amount, metadata, and by whatever leads to them.

The index of terms (``terms.py``) has every order but those that wait in ``search_changes``: these
are looked at themselves, so that an order is found from the moment at which it is committed. Both
are read in one snapshot, and totals are exact (decision 0060).
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.list_counts import FOREVER, ListKey, count
from opentill.orders.model import Order
from opentill.orders.queries import LISTS
from opentill.orders.search import lookups, queries, terms
from opentill.orders.search.model import (
    Bucket,
    Candidate,
    Condition,
    ExportCursor,
    Place,
    Sized,
    Wanted,
)

_DAY_MS: Final = 86_400_000
MOST_ADDRESSES: Final = 200  # that may begin with what is searched
_LEAST_OF_ADDRESS: Final = 3  # characters
Found = tuple[int, str]  # when an order was created, and its id


async def by_anything(tx: Tx, merchant_id: str, text: str) -> Condition:
    """Return the condition of the one search box: an id, a number, an e-mail, a value, an amount.

    Where nothing has the text, orders whose e-mail begins with it. Raises Invalid on ``query``.
    """
    found = await lookups.orders_of(tx, [merchant_id], text)
    ids = frozenset(one.order_id for one in found)
    exact = Condition(terms.term_of(text), ids=ids)
    if ids or len(exact.term) < _LEAST_OF_ADDRESS:
        return exact
    if await places_of(tx, merchant_id, exact):
        return exact
    async for candidate in queries.PENDING.each(tx, merchant_id=merchant_id):
        if exact.holds(candidate.id, candidate.terms):
            return exact
    return Condition(exact.term, terms.EMAIL, begins=True)


async def page(
    db: Db, wanted: Wanted, text: str | None, number: int, size: int
) -> tuple[list[Order], int]:
    """Return a page (from 1), newest first, and how many orders there are in all.

    ``text``: what stands in the search box. Raises Invalid.
    """

    async def read(tx: Tx) -> tuple[list[Order], int]:
        search = await Search.of(tx, wanted, text, keep=number * size)
        total = await search.total()
        offset = (number - 1) * size
        most = min(size, total - offset)
        if most <= 0:
            return [], total
        after = total - offset - most
        if after < offset and search.has_all_beside:
            return (await search.oldest(most, after))[::-1], total
        return await search.newest(most, offset), total

    return await db.read_snapshot(read)


async def after(
    db: Db, wanted: Wanted, text: str | None, cursor: ExportCursor, most: int
) -> list[Sized]:
    """Return the next orders after one, oldest first. Raises Invalid."""

    async def read(tx: Tx) -> list[Sized]:
        search = await Search.of(tx, wanted, text, keep=most, after=cursor)
        return await search.after(cursor, most)

    return await db.read_snapshot(read)


class _Beside:
    """Orders that were looked at themselves and are part of the result.

    Only ``keep`` of them are in memory: the newest, or, with a cursor, the oldest after it.
    """

    def __init__(self, keep: int, cursor: ExportCursor | None) -> None:
        self.found: list[Found] = []
        self.count = 0
        self._keep = keep
        self._after = None if cursor is None else (cursor.created_at, cursor.id)

    def add(self, found: Found) -> None:
        self.count += 1
        if self._after is None or found > self._after:
            self.found.append(found)
        if len(self.found) > 2 * self._keep + 1000:
            self.found.sort(reverse=self._after is None)
            del self.found[self._keep :]


class Search:
    """A search in one snapshot; made by ``of``."""

    def __init__(self, tx: Tx, wanted: Wanted) -> None:
        """Use ``of`` instead."""
        self._tx = tx
        self._wanted = wanted
        self._places: list[list[Place]] = []  # of each condition
        self._driver: list[Bucket] = []
        self._driven_by = -1  # the condition; -1: the filters that are columns
        self._apart: list[Found] = []  # not to be taken from the index
        self._beside = _Beside(0, None)

    @classmethod
    async def of(
        cls,
        tx: Tx,
        wanted: Wanted,
        text: str | None,
        *,
        keep: int,
        after: ExportCursor | None = None,
    ) -> "Search":
        """Look at the orders that are not in the index, and choose what to read first."""
        if text is not None:
            more = await by_anything(tx, wanted.merchant_id, text)
            conditions = (*wanted.conditions, more)
            wanted = msgspec.structs.replace(wanted, conditions=conditions)
        made = cls(tx, wanted)
        await made._look(keep, after)
        await made._choose()
        return made

    @property
    def has_all_beside(self) -> bool:
        """Whether all orders that were looked at themselves are in memory."""
        return self._beside.count == len(self._beside.found)

    async def _look(self, keep: int, after: ExportCursor | None) -> None:
        wanted, conditions = self._wanted, self._wanted.conditions
        self._beside = _Beside(keep, after)
        ids = {one for condition in conditions for one in condition.ids}
        seen: set[str] = set()

        def take(candidate: Candidate) -> None:
            if not candidate.is_new:
                self._apart.append((candidate.created_at, candidate.id))
            if candidate.id in ids:
                seen.add(candidate.id)
            if wanted.fits(candidate):
                found = candidate.terms
                if all(one.holds(candidate.id, found) for one in conditions):
                    self._beside.add((candidate.created_at, candidate.id))

        if conditions:
            async for candidate in queries.PENDING.each(self._tx, merchant_id=wanted.merchant_id):
                take(candidate)
        for candidate in await queries.NAMED.all(
            self._tx, merchant_id=wanted.merchant_id, id=sorted(ids - seen)
        ):
            take(candidate)

    async def _choose(self) -> None:
        """Choose the driver: what leaves the fewest orders."""
        wanted, fewest = self._wanted, FOREVER
        for number, condition in enumerate(wanted.conditions):
            places = await places_of(self._tx, wanted.merchant_id, condition)
            self._places.append(places)
            buckets = await self._counted(places)
            rows = sum(bucket.rows for bucket in buckets)
            if rows < fewest:
                fewest, self._driver, self._driven_by = rows, buckets, number
        if not wanted.columns or wanted.session_status is not None:
            return
        if not wanted.conditions or (fewest and await self._of_columns() < fewest):
            self._driven_by = -1

    async def _of_columns(self) -> int:
        """Return how many orders the filters leave that are columns."""
        wanted = self._wanted
        key = ListKey(wanted.merchant_id, "orders", wanted.product_id or "", wanted.status)
        return await count(
            self._tx,
            LISTS,
            wanted.merchant_id,
            wanted.columns,
            key,
            (wanted.since, wanted.until),
        )

    async def _counted(self, places: Sequence[Place]) -> list[Bucket]:
        since, until = self._wanted.since, self._wanted.until
        day = -(-since // _DAY_MS) * _DAY_MS
        days_end = FOREVER if until >= FOREVER else (until + 1) // _DAY_MS * _DAY_MS
        if day > days_end:
            day = days_end = 0
        return await queries.COUNTS.all(
            self._tx,
            **self._range,
            **_arrays(places),
            day=day,
            days_end=days_end,
        )

    @property
    def _range(self) -> dict[str, Any]:
        wanted = self._wanted
        return {
            "merchant_id": wanted.merchant_id,
            "since": wanted.since,
            "until": wanted.until,
        }

    @property
    def _is_plain(self) -> bool:
        """Whether the driver's rows are the result, without another condition."""
        wanted = self._wanted
        more = wanted.columns or wanted.session_status or len(wanted.conditions) > 1
        return self._driven_by >= 0 and not more

    @property
    def _statements(self) -> queries.SearchStatements:
        if self._driven_by < 0:
            return queries.BY_COLUMNS[tuple(self._wanted.columns)]
        return queries.BY_TERM if self._is_plain else queries.BY_TERM_AND_MORE

    async def total(self) -> int:
        """Return how many orders there are."""
        if not self._is_plain:
            return self._beside.count + (
                await self._statements.counted.get(self._tx, **self._of(self._statements.counted))
                or 0
            )
        indexed = sum(bucket.rows for bucket in self._driver)
        if self._apart and indexed:
            places = [Place(bucket.term, bucket.place) for bucket in self._driver]
            indexed -= (
                await queries.INDEXED_OF.get(
                    self._tx,
                    **self._range,
                    **_arrays(places),
                    created_at=[at for at, _ in self._apart],
                    order_id=[order_id for _, order_id in self._apart],
                )
                or 0
            )
        return indexed + self._beside.count

    async def newest(self, size: int, offset: int) -> list[Order]:
        """Return orders, newest first."""
        query = self._statements.newest
        values = self._of(query, size=size, offset=offset, limit=offset + size)
        return await query.all(self._tx, **values)

    async def oldest(self, size: int, offset: int) -> list[Order]:
        """Return orders, oldest first."""
        query = self._statements.oldest
        values = self._of(query, size=size, offset=offset, limit=offset + size)
        return await query.all(self._tx, **values)

    async def after(self, cursor: ExportCursor, most: int) -> list[Sized]:
        """Return the next orders after one, oldest first."""
        query = self._statements.after
        values = self._of(query, limit=most, after_at=cursor.created_at, after_id=cursor.id)
        return await query.all(self._tx, **values)

    def _of(self, statement: Any, **more: Any) -> Mapping[str, Any]:
        """Return the values of a statement: those of its parameters, out of all there are."""
        wanted, also = self._wanted, self._also()
        values = {
            **self._range,
            **_arrays([Place(bucket.term, bucket.place) for bucket in self._driver]),
            "status": wanted.status,
            "product_id": wanted.product_id,
            "session_status": wanted.session_status,
            "number": [number for number, _ in also],
            "also_term": [place.term for _, place in also],
            "also_place": [place.place for _, place in also],
            "conditions": len(self._others),
            "apart": [order_id for _, order_id in self._apart],
            "created_at": [at for at, _ in self._beside.found],
            "id": [order_id for _, order_id in self._beside.found],
            **more,
        }
        return {name: values[name] for name in statement.names}

    @property
    def _others(self) -> list[int]:
        """The numbers of the conditions beside the driver."""
        return [n for n in range(len(self._wanted.conditions)) if n != self._driven_by]

    def _also(self) -> list[tuple[int, Place]]:
        return [(number, place) for number in self._others for place in self._places[number]]


def _arrays(places: Sequence[Place]) -> dict[str, list[str]]:
    return {
        "term": [place.term for place in places],
        "place": [place.place for place in places],
    }


async def places_of(tx: Tx, merchant_id: str, condition: Condition) -> list[Place]:
    """Return where the index has what a condition asks for. Raises Invalid on ``query``."""
    ids = {"merchant_id": merchant_id, "term": condition.term}
    if not condition.begins:
        found = await queries.PLACES.all(tx, **ids)
        field = condition.field
        return [one for one in found if field is None or terms.stands(one.place, field)]
    before = condition.term + chr(sys.maxunicode)  # terms are compared by their code points
    most = MOST_ADDRESSES + 1
    found = await queries.BEGINNING.all(tx, **ids, before=before, limit=most)
    if len(found) > MOST_ADDRESSES:
        reason = f"query must be more of it: more than {MOST_ADDRESSES} texts begin so"
        raise Invalid("query", reason)
    return [one for one in found if terms.stands(one.place, terms.EMAIL)]
