"""Finding a merchant's orders by customer, amount, metadata, ids and numbers.

The index of terms (``terms.py``) has every order except the pending ones in ``search_changes``. A
search reads the pending orders themselves, so that it finds an order as soon as it is committed.
Both are read in one snapshot, and totals are exact (decision 0060).
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentill.core.amounts import read_amount
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.gateways.model import Method
from opentill.list_counts import FOREVER, ListKey, count
from opentill.orders.model import Order
from opentill.orders.queries import LISTS
from opentill.orders.search import customer_words, lookups, queries, shown_counts, terms
from opentill.orders.search.model import (
    Bucket,
    Candidate,
    Condition,
    ExportCursor,
    MerchantPlace,
    OrderFilters,
    Place,
    SizedOrder,
)
from opentill.orders.search.pending import PendingOrders
from opentill.orders.statuses import ShownStatus

_DAY_MS: Final = 86_400_000
MOST_ADDRESSES: Final = 200  # customers that a searched text may match
_WORDS_OF_CUSTOMER: Final = 16  # at most, of a name and an email address
Position = tuple[int, str]  # the sort key of lists: an order's time of creation (Unix ms), its id


async def parse_search_box(
    tx: Tx, merchant_id: str, text: str, pending: PendingOrders
) -> Condition:
    """Return the condition of the search box: an id, a number, a value, an amount or a customer.

    If no order has the text as it is, the condition is an amount in another form; if no order has
    that amount, it is a customer. Raises Invalid on ``query``.
    """
    refs = await lookups.look_up(tx, [merchant_id], text)
    ids = frozenset(ref.order_id for ref in refs)
    exact = Condition(terms.term_of(text), ids=ids)
    if ids or await _is_term_of_any(tx, merchant_id, exact, pending):
        return exact
    amount = condition_of_amount(text)
    if amount is not None and await _is_term_of_any(tx, merchant_id, amount, pending):
        return amount
    if customer_words.is_too_short(customer_words.prefix_of(text)):
        return exact
    return await condition_of_customers(tx, merchant_id, text, pending)


def condition_of_amount(text: str) -> Condition | None:
    """Return the condition that orders have an amount as people write it; None for no amount."""
    conditions = [
        Condition(terms.term_of(reading.text), field)
        for reading in read_amount(text)
        for field in [*map(terms.amount_place, reading.currencies)] or [terms.AMOUNT]
    ]
    if not conditions:
        return None
    return msgspec.structs.replace(conditions[0], others=tuple(conditions[1:]))


async def condition_of_customers(
    tx: Tx, merchant_id: str, text: str, pending: PendingOrders
) -> Condition:
    """Return the condition that a part of the customer's name or email begins with a text.

    Raises Invalid on ``query`` if more than ``MOST_ADDRESSES`` customers match.
    """
    nobody = Condition(terms.term_of(text), terms.EMAIL)
    prefix = customer_words.prefix_of(text)
    if not prefix:
        return nobody
    addresses = {row.term for row in await places_of_customers(tx, [merchant_id], prefix)}
    async for candidate in pending.each():
        if candidate.customer_email and any(
            word.startswith(prefix)
            for word in customer_words.words_of(candidate.customer_email, candidate.customer_name)
        ):
            addresses.add(terms.term_of(candidate.customer_email))
    if len(addresses) > MOST_ADDRESSES:
        reason = f"query must be more of it: more than {MOST_ADDRESSES} customers match it"
        raise Invalid("query", reason)
    others = tuple(Condition(address, terms.EMAIL) for address in sorted(addresses))
    return msgspec.structs.replace(nobody, others=others)


async def places_of_customers(
    tx: Tx, merchant_ids: Sequence[str], prefix: str, most: int = MOST_ADDRESSES + 1
) -> list[MerchantPlace]:
    """Return terms and places of indexed customers with a word that begins with ``prefix``.

    Of each merchant, at most ``most`` are returned.
    """
    return await queries.WORDS.all(
        tx,
        merchant_id=list(merchant_ids),
        word=prefix,
        before=prefix + chr(sys.maxunicode),  # words are compared by code points
        rows=most * _WORDS_OF_CUSTOMER,
        limit=most,
    )


async def _is_term_of_any(
    tx: Tx, merchant_id: str, condition: Condition, pending: PendingOrders
) -> bool:
    """Whether any order of a merchant fulfills a condition by its terms."""
    if await places_of(tx, merchant_id, condition):
        return True
    async for candidate in pending.each():
        if condition.holds(candidate.id, candidate.terms):
            return True
    return False


async def list_page(
    db: Db, filters: OrderFilters, text: str | None, number: int, size: int
) -> tuple[list[Order], int]:
    """Return a page of orders (from 1), newest first, and their total number.

    ``text`` is the text of the search box. Raises Invalid.
    """

    async def read(tx: Tx) -> tuple[list[Order], int]:
        search = await Search.start(tx, filters, text, keep=number * size)
        total = await search.total()
        return await search.list_page(number, size, total), total

    return await db.read_snapshot(read)


async def list_after(
    db: Db, filters: OrderFilters, text: str | None, cursor: ExportCursor, most: int
) -> list[SizedOrder]:
    """Return the orders after a cursor, oldest first. Raises Invalid."""

    async def read(tx: Tx) -> list[SizedOrder]:
        search = await Search.start(tx, filters, text, keep=most, after=cursor)
        return await search.list_after(cursor, most)

    return await db.read_snapshot(read)


class _PendingMatches:
    """The matches that were read from orders instead of the index.

    At least ``keep`` of them stay in memory: the newest or, with a cursor, the oldest after the
    cursor.
    """

    def __init__(self, keep: int, cursor: ExportCursor | None) -> None:
        self.positions: list[Position] = []
        self.count = 0
        self._keep = keep
        self._after = None if cursor is None else (cursor.created_at, cursor.id)

    def add(self, position: Position) -> None:
        self.count += 1
        if self._after is None or position > self._after:
            self.positions.append(position)
        if len(self.positions) > 2 * self._keep + 1000:
            self.positions.sort(reverse=self._after is None)
            del self.positions[self._keep :]


class Search:
    """A search in one snapshot; ``start`` creates it."""

    def __init__(self, tx: Tx, filters: OrderFilters) -> None:
        """Use ``start`` instead."""
        self._tx = tx
        self._filters = filters
        self._places: list[list[Place]] = []  # for each condition, the places that fulfill it
        self._driver: list[Bucket] = []
        # Number of the condition whose orders are read first; -1: the orders that the columns
        # select are.
        self._driven_by = -1
        self._outdated: list[Position] = []  # pending orders with index rows, which are outdated
        self._pending = _PendingMatches(0, None)

    @classmethod
    async def start(
        cls,
        tx: Tx,
        filters: OrderFilters,
        text: str | None,
        *,
        keep: int,
        after: ExportCursor | None = None,
    ) -> "Search":
        """Read the pending orders, and choose which condition's orders are read first."""
        pending = PendingOrders(tx, filters.merchant_id)
        if text is not None:
            condition = await parse_search_box(tx, filters.merchant_id, text, pending)
            conditions = (*filters.conditions, condition)
            filters = msgspec.structs.replace(filters, conditions=conditions)
        search = cls(tx, filters)
        await search._read_pending(pending, keep, after)
        await search._choose_driver()
        return search

    @property
    def has_all_pending(self) -> bool:
        """Whether all matches among the pending orders are in memory."""
        return self._pending.count == len(self._pending.positions)

    async def _read_pending(
        self, pending: PendingOrders, keep: int, after: ExportCursor | None
    ) -> None:
        filters, conditions = self._filters, self._filters.conditions
        self._pending = _PendingMatches(keep, after)
        ids = {order_id for condition in conditions for order_id in condition.ids}
        pending_ids: set[str] = set()

        def examine(candidate: Candidate) -> None:
            if not candidate.is_new:
                self._outdated.append((candidate.created_at, candidate.id))
            if candidate.id in ids:
                pending_ids.add(candidate.id)
            if filters.fits(candidate):
                order_terms = candidate.terms
                if all(condition.holds(candidate.id, order_terms) for condition in conditions):
                    self._pending.add((candidate.created_at, candidate.id))

        if conditions:
            async for candidate in pending.each():
                examine(candidate)
        if named := sorted(ids - pending_ids):
            merchant_id = filters.merchant_id
            for candidate in await queries.NAMED.all(self._tx, merchant_id=merchant_id, id=named):
                examine(candidate)

    async def _choose_driver(self) -> None:
        """Choose the condition, or the filters that are columns, that the fewest orders match.

        These orders are read first, and checked against the other conditions.
        """
        filters, fewest = self._filters, FOREVER
        for number, condition in enumerate(filters.conditions):
            places = await places_of(self._tx, filters.merchant_id, condition)
            self._places.append(places)
            buckets = await self._count_buckets(places)
            rows = sum(bucket.rows for bucket in buckets)
            if rows < fewest:
                fewest, self._driver, self._driven_by = rows, buckets, number
        is_narrowed = filters.session_status is not None
        if not (filters.columns or filters.shown) or is_narrowed:
            return
        if not filters.conditions or (fewest and await self._count_by_columns() < fewest):
            self._driven_by = -1

    async def _count_by_columns(self) -> int:
        """Return how many orders pass the filters that are columns, whatever their method is."""
        filters, within = self._filters, (self._filters.since, self._filters.until)
        merchant_id, product_id = filters.merchant_id, filters.product_id
        if filters.shown:
            counts = await shown_counts.count(self._tx, merchant_id, product_id, within)
            return sum(counts[status] for status in filters.shown)
        key = ListKey(merchant_id, "orders", product_id or "", filters.status)
        return await count(self._tx, LISTS, merchant_id, filters.columns, key, within)

    async def _count_of_method(self, method: Method) -> int:
        filters, within = self._filters, (self._filters.since, self._filters.until)
        counts = await shown_counts.count_of_method(
            self._tx, filters.merchant_id, filters.product_id, method, within
        )
        return sum(counts[status] for status in filters.shown)

    async def _count_buckets(self, places: Sequence[Place]) -> list[Bucket]:
        since, until = self._filters.since, self._filters.until
        day = -(-since // _DAY_MS) * _DAY_MS
        days_end = FOREVER if until >= FOREVER else (until + 1) // _DAY_MS * _DAY_MS
        if day > days_end:
            day = days_end = 0
        if not places:
            return []
        return await queries.COUNTS.all(
            self._tx,
            **self._range,
            **_arrays(places),
            day=day,
            days_end=days_end,
        )

    @property
    def _range(self) -> dict[str, Any]:
        filters = self._filters
        return {
            "merchant_id": filters.merchant_id,
            "since": filters.since,
            "until": filters.until,
        }

    @property
    def _has_one_condition(self) -> bool:
        """Whether there is only one condition, so that its index rows are the result."""
        filters = self._filters
        is_narrowed = (
            filters.columns
            or filters.shown
            or filters.session_status
            or len(filters.conditions) > 1
        )
        return self._driven_by >= 0 and not is_narrowed

    @property
    def _is_counted(self) -> bool:
        """Whether the only filters are columns whose values have counts."""
        filters = self._filters
        others = (filters.conditions, filters.status, filters.session_status)
        return bool(filters.shown) and not any(others)

    @property
    def _statements(self) -> queries.SearchStatements:
        if self._driven_by < 0 and self._filters.shown:
            return queries.BY_SHOWN[self._filters.columns_with_shown]
        if self._driven_by < 0:
            return queries.BY_COLUMNS[tuple(self._filters.columns)]
        return queries.BY_TERM if self._has_one_condition else queries.BY_TERM_AND_MORE

    async def total(self) -> int:
        """Return the number of orders."""
        if self._is_counted:
            method = self._filters.method
            return await (self._count_of_method(method) if method else self._count_by_columns())
        if not self._has_one_condition:
            statement = self._statements.counted
            counted = await statement.get(self._tx, **self._values(statement))
            return self._pending.count + (counted or 0)
        indexed = sum(bucket.rows for bucket in self._driver)
        if self._outdated and indexed:
            places = [Place(bucket.term, bucket.place) for bucket in self._driver]
            indexed -= (
                await queries.INDEXED_OF.get(
                    self._tx,
                    **self._range,
                    **_arrays(places),
                    created_at=[at for at, _ in self._outdated],
                    order_id=[order_id for _, order_id in self._outdated],
                )
                or 0
            )
        return indexed + self._pending.count

    async def count_shown(self) -> Counter[ShownStatus]:
        """Return the number of orders by the status that pages show, by reading the orders."""
        statement = self._statements.shown
        rows = await statement.all(self._tx, **self._values(statement))
        return shown_counts.add_up(rows)

    async def list_page(self, number: int, size: int, total: int) -> list[Order]:
        """Return a page of the orders (from 1) by their total number, newest first."""
        offset = (number - 1) * size
        most = min(size, total - offset)
        if most <= 0:
            return []
        older = total - offset - most
        if older < offset and self.has_all_pending:
            return (await self.list_oldest(most, older))[::-1]
        return await self.list_newest(most, offset)

    async def list_newest(self, size: int, offset: int) -> list[Order]:
        """Return orders, newest first."""
        query = self._statements.newest
        values = self._values(query, size=size, offset=offset, limit=offset + size)
        return await query.all(self._tx, **values)

    async def list_oldest(self, size: int, offset: int) -> list[Order]:
        """Return orders, oldest first."""
        query = self._statements.oldest
        values = self._values(query, size=size, offset=offset, limit=offset + size)
        return await query.all(self._tx, **values)

    async def list_after(self, cursor: ExportCursor, most: int) -> list[SizedOrder]:
        """Return the orders after a cursor, oldest first."""
        query = self._statements.after
        values = self._values(query, limit=most, after_at=cursor.created_at, after_id=cursor.id)
        return await query.all(self._tx, **values)

    def _values(self, statement: Any, **paging: Any) -> Mapping[str, Any]:
        """Return the values of a statement's parameters."""
        filters, other_places = self._filters, self._other_places()
        values = {
            **self._range,
            **_arrays([Place(bucket.term, bucket.place) for bucket in self._driver]),
            "status": filters.status,
            "product_id": filters.product_id,
            "session_status": filters.session_status,
            "shown": list(filters.shown),
            "method": filters.method,
            "number": [number for number, _ in other_places],
            "also_term": [place.term for _, place in other_places],
            "also_place": [place.place for _, place in other_places],
            "conditions": len(self._other_conditions),
            "apart": [order_id for _, order_id in self._outdated],
            "created_at": [at for at, _ in self._pending.positions],
            "id": [order_id for _, order_id in self._pending.positions],
            **paging,
        }
        return {name: values[name] for name in statement.names}

    @property
    def _other_conditions(self) -> list[int]:
        """The numbers of the conditions that are not the driver."""
        return [n for n in range(len(self._filters.conditions)) if n != self._driven_by]

    def _other_places(self) -> list[tuple[int, Place]]:
        numbers = self._other_conditions
        return [(number, place) for number in numbers for place in self._places[number]]


def _arrays(places: Sequence[Place]) -> dict[str, list[str]]:
    return {
        "term": [place.term for place in places],
        "place": [place.place for place in places],
    }


async def places_of(tx: Tx, merchant_id: str, condition: Condition) -> list[Place]:
    """Return the terms and places of the index that fulfill a condition."""
    rows = await merchants_places_of(tx, [merchant_id], condition)
    return [Place(row.term, row.place) for row in rows]


async def merchants_places_of(
    tx: Tx, merchant_ids: Sequence[str], condition: Condition
) -> list[MerchantPlace]:
    """Return the terms and places of the index of some merchants that fulfill a condition."""
    fields: dict[str, set[str | None]] = {}
    for alternative in condition.every:
        fields.setdefault(alternative.term, set()).add(alternative.field)
    rows = await queries.PLACES.all(tx, merchant_id=list(merchant_ids), term=list(fields))
    return [
        row
        for row in rows
        if any(field is None or terms.has_field(row.place, field) for field in fields[row.term])
    ]
