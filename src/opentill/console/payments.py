"""Payments of all merchants or of a chosen one: the newest, or those that a search finds.

An id or a number of any merchant's payment leads to its page. The list of all merchants has no
total, and a search there shows the newest matches (``orders/search/across_merchants.py``).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, people
from opentill.console.filters import find_merchant, query_string
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.list_counts import FOREVER
from opentill.merchants import Merchant
from opentill.orders import SHOWN_STATUSES, Order, OrderRef, OrdersQuery, ShownStatus
from opentill.portal import lists, render, search
from opentill.portal.labels import SHOWN_STATUS
from opentill.portal.lists import Days, Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

_LONGEST_QUERY: Final = 500  # characters


class Filters(msgspec.Struct, frozen=True):
    """The filters in the address, and their error texts by field."""

    query: str
    merchant: str
    status: ShownStatus | None
    days: Days
    errors: dict[str, str]

    @property
    def are_narrowed(self) -> bool:
        """Whether the payments are also filtered by status or days."""
        return self.status is not None or bool(self.days.first or self.days.last)

    @property
    def choice(self) -> orders.ListChoice:
        """The filter by status."""
        return orders.ListChoice(shown=() if self.status is None else (self.status,))

    def fit(self, order: Order) -> bool:
        """Whether an order passes the filters by status and days."""
        is_within = self.days.since <= order.created_at <= self.days.until
        return is_within and self.status in {None, order.shown_status}


def read_filters(request: PageRequest) -> Filters:
    """Read the filters of the list; a filter with an error shows no rows."""
    days = lists.days(request, ZONE)
    return Filters(
        query=lists.text(request, "query", _LONGEST_QUERY),
        merchant=lists.text(request, "merchant"),
        status=lists.choice(request, "status", SHOWN_STATUSES),
        days=days,
        errors=dict(days.errors),
    )


async def list_payments(request: PageRequest) -> Response:
    """List payments of a merchant or of all, or redirect to the one that has the searched id."""
    filters = read_filters(request)
    async with request.app.db.connection() as tx:
        _, merchant, merchant_errors = await find_merchant(tx, request)
        filters.errors.update(merchant_errors)
        refs = [] if merchant is None else await _find_by_number(tx, filters, merchant)
    if merchant is None:
        return await _list_of_all(request, filters)
    await people.visit(request.app.db, request.login, merchant.id, request.now)
    rows, pager = await _list_page(request, merchant, filters)
    if len(refs) == 1 and not filters.are_narrowed and pager.total == 1:
        return render.see_other(request, f"{PLACE}/{refs[0].order_id}")
    return _render(request, filters, rows, merchant=merchant, pager=pager)


async def _list_of_all(request: PageRequest, filters: Filters) -> Response:
    """List the newest payments of all merchants, or the newest that a search matches."""
    db = request.app.replica.reading()
    names = await db.read(merchants.all_names)
    rows, is_complete, older = list[Order](), True, ""
    if len(filters.query) > search.LONGEST:
        filters.errors["query"] = search.TOO_LONG
    elif filters.query and not filters.merchant:
        matches = await db.read_snapshot(
            lambda tx: orders.find_matches(tx, list(names), filters.query, lists.SIZE)
        )
        if matches.is_number and len(matches.orders) == 1 and not filters.are_narrowed:
            return render.see_other(request, f"{PLACE}/{matches.orders[0].id}")
        rows = [order for order in matches.orders if filters.fit(order)]
        is_complete = matches.is_complete
    elif not filters.merchant:
        rows = await db.read(lambda tx: _read_newest(tx, filters, lists.before(request)))
        if len(rows) > lists.SIZE:
            rows = rows[: lists.SIZE]
            older = rows[-1].id
    return _render(request, filters, rows, names=names, is_complete=is_complete, older=older)


async def _read_newest(tx: Tx, filters: Filters, before_id: str) -> list[Order]:
    """Read a page of the newest payments, and one more, which shows that another page follows.

    ``before_id`` is the last order of the previous page, "" for the first page.
    """
    before = filters.days.until + 1, ""
    if before_id:
        last = await orders.find_anywhere(tx, before_id)
        before = min(before, (last.created_at, last.id))
    return await orders.list_newest_of_all(
        tx,
        lists.SIZE + 1,
        status=filters.status,
        since=filters.days.since,
        before=before,
    )


def _render(
    request: PageRequest, filters: Filters, rows: Sequence[Order], **shown: object
) -> Response:
    localizer = request.localizer
    values: dict[str, Any] = {
        "merchant": None, "names": {}, "pager": Pager(1, 0), "is_complete": True, "older": "",
        **shown,
    }  # fmt: skip
    return render.page(
        request,
        "payments.html",
        filters=filters,
        errors=filters.errors,
        rows=[(row, localizer.amount(Money(row.amount_minor, row.currency))) for row in rows],
        statuses=[(status, localizer.gettext(text)) for status, text in SHOWN_STATUS.items()],
        file=PLACE + ".csv" + query_string(request)
        if rows and _has_file(request, filters, values["merchant"])
        else "",
        zone=ZONE,
        **values,
    )


def _has_file(request: PageRequest, filters: Filters, merchant: Merchant | None) -> bool:
    """Whether the list has a file: a search at all merchants finds just the newest matches."""
    is_found = merchant is not None or not filters.query
    return is_found and not filters.errors and request.may("payments.export")


async def _find_by_number(tx: Tx, filters: Filters, merchant: Merchant) -> list[OrderRef]:
    """Find the merchant's orders that have the id or number in the search box."""
    return await orders.look_up(tx, [merchant.id], filters.query) if filters.query else []


async def _list_page(
    request: PageRequest, merchant: Merchant, filters: Filters
) -> tuple[list[Order], Pager]:
    """Read a page of the merchant's orders. Adds an error if the search has too many results."""
    replica, number = request.app.replica.reading(), lists.page_number(request)
    query: dict[str, Any] = {"page": number, "size": lists.SIZE}
    if filters.query:
        query["query"] = filters.query
    if filters.days.since > 0:
        query["startDate"] = filters.days.since
    if filters.days.until < FOREVER:
        query["endDate"] = filters.days.until
    try:
        rows, total = await orders.list_page(
            replica,
            merchant.id,
            msgspec.convert(query, OrdersQuery),
            filters.choice,
        )
    except (Invalid, msgspec.ValidationError):
        filters.errors["query"] = N_(
            "Too much is found by this, or it is too long. Enter more of "
            "what you look for, or add days"
        )
        return [], Pager(1, 0)
    return rows, Pager(number, total)


PLACE: Final = f"{CONSOLE_PATH}/payments"
pages: Final = (
    Page(
        "GET", PLACE, "payments.read", list_payments, menu=NC_("menu", "Payments"), group="payments"
    ),
)
