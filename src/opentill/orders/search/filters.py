"""The filters of orders: what lists, exports and searches take, and what they mean."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Meta

from opentill import list_counts
from opentill.core.errors import Invalid
from opentill.core.ids import is_id
from opentill.db.database import Db, Tx
from opentill.http.fields import meaning
from opentill.http.paging import Millis
from opentill.orders import queries
from opentill.orders.model import Order, Status
from opentill.orders.search import service, terms
from opentill.orders.search.model import Condition, Wanted

_STORABLE: Final = r"^[^\x00]*$"  # by PostgreSQL
Email: TypeAlias = Annotated[
    str,
    Meta(
        max_length=254,
        pattern=r"^ *[^@\s]+@[^@\s]+ *$",
        description="the whole e-mail address of a customer, in capitals or not",
    ),
]
_Amount: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,15}(\.[0-9]{1,2})?$",
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
        description="text of at most 200 characters: an id, a number, an e-mail address, a value "
        "of the metadata or an amount",
    ),
]


_OfCustomer: TypeAlias = Annotated[
    Email | None, meaning("Only orders of the customer with this e-mail, in capitals or not.")
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
        "balance transaction or product), a `refundNo`, an Epay `trade_no` or `out_trade_no`, an "
        "e-mail address or the beginning of one, a value of the metadata, an amount, or the last "
        "four digits of the card."
    ),
]


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which orders to export; times are inclusive."""

    start_date: Annotated[
        Millis | None, meaning("Only orders that were made at this time or later, Unix ms.")
    ] = None
    end_date: Annotated[
        Millis | None, meaning("Only orders that were made at this time or earlier, Unix ms.")
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
    """Which orders to list or search."""

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
    """Return what a query asks of the terms of orders, its search box aside."""
    made: list[Condition] = []
    if query.customer_email is not None:
        made.append(Condition(terms.term_of(query.customer_email), terms.EMAIL))
    if query.amount is not None:
        made.append(Condition(terms.term_of(_plain(query.amount)), terms.AMOUNT))
    for key, value in (query.metadata or {}).items():
        made.append(Condition(terms.term_of(value), terms.metadata_place(key, value)))
    return tuple(made)


def _plain(amount: str) -> str:
    """Return an amount without leading zeros."""
    whole, dot, fraction = amount.partition(".")
    return f"{whole.lstrip('0') or '0'}{dot}{fraction}"


Range: TypeAlias = tuple[int, int]  # inclusive Unix ms; 0 and FOREVER where a side is open


class Chosen(msgspec.Struct, frozen=True):
    """Which orders a query asks for: those wanted, and what stands in the search box."""

    wanted: Wanted
    text: str | None

    @property
    def is_searched(self) -> bool:
        """Whether the index of terms is asked."""
        return bool(self.wanted.conditions) or self.text is not None

    @property
    def is_everything(self) -> bool:
        """Whether it is all orders of the range of time."""
        return not self.is_searched and not self.wanted.columns


async def choose(here: Db, merchant_id: str, query: OrdersQuery | ExportQuery) -> Chosen | None:
    """Return which orders a query asks for, None for none. Raises Invalid."""
    since, until = period(query)
    text = (query.query or "").strip(" ") or None
    product_id = query.product_id
    if text is not None and text.startswith("prod_") and is_id(text):
        if product_id not in {None, text}:
            return None
        product_id, text = text, None
    if product_id is not None and not await has_product(here, merchant_id, product_id):
        return None
    wanted = Wanted(
        merchant_id=merchant_id,
        since=since,
        until=until,
        conditions=conditions(query),
        status=query.status,
        product_id=product_id,
    )
    return Chosen(wanted, text)


async def has_product(here: Db, merchant_id: str, product_id: str) -> bool:
    """Return whether a merchant has a product."""

    async def read(tx: Tx) -> bool:
        found = await queries.HAS_PRODUCT.get(tx, merchant_id=merchant_id, product_id=product_id)
        return bool(found)

    return is_id(product_id) and await here.read(read)


async def page(here: Db, merchant_id: str, query: OrdersQuery) -> tuple[list[Order], int]:
    """Return the page that a query asks for, newest first, and how many orders there are.

    Raises Invalid.
    """
    chosen = await choose(here, merchant_id, query)
    if chosen is None:
        return [], 0
    wanted = chosen.wanted
    if chosen.is_searched:
        return await service.page(here, wanted, chosen.text, query.page, query.size)
    counts = list_counts.ListKey(merchant_id, "orders", wanted.product_id or "", wanted.status)
    rows = list_counts.Paginator(here, queries.LISTS, merchant_id, wanted.columns, counts)
    return await rows.page(query.page, query.size, (wanted.since, wanted.until))


async def of_customer(
    here: Db, merchant_id: str, email: str, number: int, size: int, **more: Any
) -> tuple[list[Order], int]:
    """Return a page of a customer's orders, newest first, and how many there are.

    ``more`` is of ``Wanted``: the range of time and other filters.
    """
    condition = Condition(terms.term_of(email), terms.EMAIL)
    wanted = Wanted(merchant_id=merchant_id, conditions=(condition,), **more)
    return await service.page(here, wanted, None, number, size)


async def count(
    tx: Tx, merchant_id: str, status: Status | None, product_id: str | None, within: Range
) -> int:
    """Return how many orders there are, exact in the snapshot of ``tx``, without reading them."""
    filters = {"status": status, "product_id": product_id}
    given = {name: value for name, value in filters.items() if value is not None}
    key = list_counts.ListKey(merchant_id, "orders", product_id or "", status)
    return await list_counts.count(tx, queries.LISTS, merchant_id, given, key, within)


async def count_of_products(
    tx: Tx, merchant_id: str, product_ids: Sequence[str]
) -> dict[str, Counter[Status]]:
    """Return how many orders of each status some products have, exact, without reading orders."""
    found: dict[str, Counter[Status]] = {one: Counter() for one in product_ids}
    for one in await list_counts.count_parts(tx, merchant_id, "orders", product_ids):
        found[one.part][cast("Status", one.kind)] = one.rows
    return found


async def count_late(tx: Tx, merchant_id: str, product_id: str | None, within: Range) -> int:
    """Return how many orders were paid after their sessions had expired."""
    since, until = within
    found = await queries.COUNT_LATE.get(
        tx, merchant_id=merchant_id, product_id=product_id, since=since, until=until
    )
    return found or 0
