"""The filters of lists, exports and searches of orders, and their meaning."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Meta

from opentill import list_counts
from opentill.core import pasted
from opentill.core.errors import Invalid
from opentill.core.ids import is_id
from opentill.db.database import Db, Tx
from opentill.gateways.model import Method
from opentill.http.fields import meaning
from opentill.http.paging import Millis
from opentill.orders import queries
from opentill.orders.model import Order
from opentill.orders.search import service, shown_counts, shown_queries, terms
from opentill.orders.search.model import Condition, OrderFilters
from opentill.orders.statuses import SHOWN_STATUSES, RefundProgress, ShownStatus, Status

_STORABLE: Final = r"^[^\x00]*\Z"  # excludes NUL, which PostgreSQL's text cannot contain
Email: TypeAlias = Annotated[
    str,
    Meta(
        max_length=254,
        pattern=r"^ *[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+ *\Z",
        description="the whole email address of a customer, in capitals or not",
    ),
]
_Amount: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,15}(\.[0-9]{1,2})?\Z",
        description="decimal text with at most two fraction digits, in any currency: `9.99`",
    ),
]
_Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=_STORABLE)]
_Value: TypeAlias = Annotated[str, Meta(max_length=1000, pattern=_STORABLE)]
_Metadata: TypeAlias = Annotated[
    dict[_Key, _Value],
    Meta(
        max_length=10,
        description="at most ten keys of the metadata, each with the value that it has: "
        "`metadata[cart]=42`",
    ),
]
_Text: TypeAlias = Annotated[
    str,
    Meta(
        max_length=200,
        pattern=_STORABLE,
        description="text of at most 200 characters: an id, a number, an email address, a value "
        "of the metadata or an amount",
    ),
]


_OfCustomer: TypeAlias = Annotated[
    Email | None, meaning("Only orders of the customer with this email address, in any case.")
]
_OfAmount: TypeAlias = Annotated[
    _Amount | None, meaning("Only orders of this amount, in any currency: `9.99`.")
]
_WithMetadata: TypeAlias = Annotated[
    _Metadata | None,
    meaning(
        "Only orders whose metadata have these keys with these values, at most ten: "
        "`metadata[cart]=42`."
    ),
]
_Found: TypeAlias = Annotated[
    _Text | None,
    meaning(
        "Only orders that this leads to: any id (order, session, attempt, refund, dispute, event, "
        "balance transaction or product), a `refundNo`, an Epay `trade_no` or `out_trade_no`, a "
        "customer's name or email address or the beginning of a part of it, a value of the "
        "metadata, an amount, or the last four digits of the card."
    ),
]


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The orders to export; times are inclusive."""

    start_date: Annotated[
        Millis | None, meaning("Only orders created at or after this time, in Unix ms.")
    ] = None
    end_date: Annotated[
        Millis | None, meaning("Only orders created at or before this time, in Unix ms.")
    ] = None
    status: Annotated[
        Annotated[Status, Meta(description="an order status such as PENDING, PAID or REFUNDED")]
        | None,
        meaning("Only orders of this status."),
    ] = None
    product_id: Annotated[
        Annotated[str, Meta(description="the id of one of your products")] | None,
        meaning("Only orders of this product."),
    ] = None
    customer_email: _OfCustomer = None
    amount: _OfAmount = None
    metadata: _WithMetadata = None
    query: _Found = None


class OrdersQuery(queries.ListQuery, frozen=True, rename="camel"):
    """The orders to list or search."""

    customer_email: _OfCustomer = None
    amount: _OfAmount = None
    metadata: _WithMetadata = None
    query: _Found = None


def period(query: OrdersQuery | ExportQuery) -> tuple[int, int]:
    """Return the range of time of a query. Raises Invalid on ``endDate``."""
    start = 0 if query.start_date is None else query.start_date
    end = list_counts.FOREVER if query.end_date is None else query.end_date
    if start > end:
        raise Invalid("endDate", "endDate must not be before startDate")
    return start, end


def conditions(query: OrdersQuery | ExportQuery) -> tuple[Condition, ...]:
    """Return the conditions of a query's filters on terms, without its search box."""
    result: list[Condition] = []
    if query.customer_email is not None:
        result.append(Condition(terms.term_of(pasted.trim(query.customer_email)), terms.EMAIL))
    if query.amount is not None:
        result.append(Condition(terms.term_of(_plain(query.amount)), terms.AMOUNT))
    for key, value in (query.metadata or {}).items():
        result.append(Condition(terms.term_of(value), terms.metadata_place(key, value)))
    return tuple(result)


def _plain(amount: str) -> str:
    """Return an amount without leading zeros."""
    units, dot, fraction = amount.partition(".")
    return f"{units.lstrip('0') or '0'}{dot}{fraction}"


Range: TypeAlias = tuple[int, int]  # first and last time, Unix ms; 0 and FOREVER if a side is open


class ListChoice(msgspec.Struct, frozen=True):
    """Filters of the pages that list orders, which the API does not have.

    ``amount``: only orders of an amount as people write it (core/amounts.py), "" for any;
    ``shown``: only orders with one of these statuses that pages show, () for any; ``method``: only
    orders that were paid by it.
    """

    amount: str = ""
    shown: tuple[ShownStatus, ...] = ()
    method: Method | None = None


_ANY: Final = ListChoice()
# Matches of a search are counted by status up to this number: some 10 milliseconds.
_MOST_GROUPED: Final = 2000


class Selection(msgspec.Struct, frozen=True):
    """The orders that a query selects: by its filters, and by the text of the search box."""

    filters: OrderFilters
    text: str | None

    @property
    def is_searched(self) -> bool:
        """Whether the orders are found by a search, and not by the list of orders."""
        filters = self.filters
        is_narrowed = filters.conditions or filters.shown
        return bool(is_narrowed) or self.text is not None

    @property
    def is_everything(self) -> bool:
        """Whether the query selects all orders of its range of time."""
        return not self.is_searched and not self.filters.columns


async def resolve_query(
    db: Db,
    merchant_id: str,
    query: OrdersQuery | ExportQuery,
    choice: ListChoice = _ANY,
) -> Selection | None:
    """Return the selection of a query, None if no order can match. Raises Invalid."""
    since, until = period(query)
    text = pasted.trim(query.query or "") or None
    product_id = query.product_id
    if text is not None and text.startswith("prod_") and is_id(text):
        if product_id not in {None, text}:
            return None
        product_id, text = text, None
    if product_id is not None and not await has_product(db, merchant_id, product_id):
        return None
    shown = choice.shown
    if choice.method is not None:
        shown = shown or SHOWN_STATUSES
    written_amount = service.condition_of_amount(choice.amount)
    filters = OrderFilters(
        merchant_id=merchant_id,
        since=since,
        until=until,
        conditions=(*conditions(query), *([written_amount] if written_amount else [])),
        status=query.status,
        shown=shown,
        product_id=product_id,
        method=choice.method,
    )
    return Selection(filters, text)


async def has_product(db: Db, merchant_id: str, product_id: str) -> bool:
    """Whether a merchant has a product."""

    async def read(tx: Tx) -> bool | None:
        return await queries.HAS_PRODUCT.get(tx, merchant_id=merchant_id, product_id=product_id)

    return is_id(product_id) and bool(await db.read(read))


async def list_page(
    db: Db,
    merchant_id: str,
    query: OrdersQuery,
    choice: ListChoice = _ANY,
) -> tuple[list[Order], int]:
    """Return a page of the selected orders, newest first, and their total number.

    Raises Invalid.
    """
    selection = await resolve_query(db, merchant_id, query, choice)
    if selection is None:
        return [], 0
    filters = selection.filters
    if selection.is_searched:
        return await service.list_page(db, filters, selection.text, query.page, query.size)
    counts = list_counts.ListKey(merchant_id, "orders", filters.product_id or "", filters.status)
    paginator = list_counts.Paginator(db, queries.LISTS, merchant_id, filters.columns, counts)
    return await paginator.page(query.page, query.size, (filters.since, filters.until))


async def list_customer_page(
    db: Db, merchant_id: str, email: str, number: int, size: int, **fields: Any
) -> tuple[list[Order], int]:
    """Return a page of a customer's orders, newest first, and their total number.

    ``fields`` are further fields of ``OrderFilters``, such as the range of time.
    """
    condition = Condition(terms.term_of(email), terms.EMAIL)
    filters = OrderFilters(merchant_id=merchant_id, conditions=(condition,), **fields)
    return await service.list_page(db, filters, None, number, size)


async def count(
    tx: Tx, merchant_id: str, status: Status | None, product_id: str | None, within: Range
) -> int:
    """Return the exact number of orders in the snapshot of ``tx``, without reading them."""
    filters = {"status": status, "product_id": product_id}
    columns = {name: value for name, value in filters.items() if value is not None}
    key = list_counts.ListKey(merchant_id, "orders", product_id or "", status)
    return await list_counts.count(tx, queries.LISTS, merchant_id, columns, key, within)


class CountedPage(msgspec.Struct, frozen=True):
    """A page of selected orders, newest first, and their exact number.

    ``counts`` are the numbers of the orders that would be selected by any status that pages show,
    by that status; None if a search selects too many to read.
    """

    orders: list[Order]
    total: int
    counts: Counter[ShownStatus] | None


async def list_counted(
    db: Db, merchant_id: str, query: OrdersQuery, choice: ListChoice = _ANY
) -> CountedPage:
    """Like ``list_page``, with counts; both are read in one snapshot. Raises Invalid."""
    selection = await resolve_query(db, merchant_id, query, choice)
    if selection is None:
        return CountedPage([], 0, Counter())
    filters, number, size = selection.filters, query.page, query.size

    async def read(tx: Tx) -> CountedPage:
        if any((filters.conditions, filters.status, selection.text)):
            return await _search_counted(tx, selection, number, size)
        product_id, within = filters.product_id, (filters.since, filters.until)
        if filters.method is None:
            counts = await shown_counts.count(tx, merchant_id, product_id, within)
        else:
            method = filters.method
            counts = await shown_counts.count_of_method(tx, merchant_id, product_id, method, within)
        if filters.shown:
            total = sum(counts[status] for status in filters.shown)
            search = await service.Search.start(tx, filters, None, keep=number * size)
            return CountedPage(await search.list_page(number, size, total), total, counts)
        key = list_counts.ListKey(merchant_id, "orders", product_id or "")
        paginator = list_counts.Paginator(db, queries.LISTS, merchant_id, filters.columns, key)
        total = counts.total()
        return CountedPage(await paginator.read(tx, number, size, within, total), total, counts)

    return await db.read_snapshot(read)


async def _search_counted(tx: Tx, selection: Selection, number: int, size: int) -> CountedPage:
    filters, text = selection.filters, selection.text
    keep = max(number * size, _MOST_GROUPED)
    search = await service.Search.start(tx, filters, text, keep=keep)
    total = await search.total()
    page = await search.list_page(number, size, total)
    counts: Counter[ShownStatus] | None
    any_status = () if filters.method is None else SHOWN_STATUSES
    if filters.shown != any_status:
        filters = msgspec.structs.replace(filters, shown=any_status)
        search = await service.Search.start(tx, filters, text, keep=_MOST_GROUPED)
        counts = await _count_by_reading(search, await search.total())
    elif len(page) == total:
        counts = Counter(order.shown_status for order in page)
    else:
        counts = await _count_by_reading(search, total)
    return CountedPage(page, total, counts)


async def _count_by_reading(search: service.Search, total: int) -> Counter[ShownStatus] | None:
    if total > _MOST_GROUPED or not search.has_all_pending:
        return None
    return await search.count_shown()


async def count_by_refunds(tx: Tx, merchant_id: str, progress: RefundProgress) -> int:
    """Return the number of orders whose refunds have this progress, whatever their status."""
    (statement,) = shown_queries.COUNT_BY_REFUNDS[(progress,)]
    return await statement.get(tx, merchant_id=merchant_id) or 0


async def count_of_products(
    tx: Tx, merchant_id: str, product_ids: Sequence[str]
) -> dict[str, Counter[Status]]:
    """Return the exact number of orders of each product and status, without reading orders."""
    counts: dict[str, Counter[Status]] = {product_id: Counter() for product_id in product_ids}
    for row in await list_counts.count_parts(tx, merchant_id, "orders", product_ids):
        counts[row.part][cast("Status", row.kind)] = row.rows
    return counts


async def count_late_payments(
    tx: Tx, merchant_id: str, product_id: str | None, within: Range
) -> int:
    """Return how many orders were paid after their sessions had expired."""
    since, until = within
    values = {"merchant_id": merchant_id, "product_id": product_id, "since": since, "until": until}
    return await queries.COUNT_LATE.get(tx, **values) or 0
