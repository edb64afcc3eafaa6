"""Payments of all merchants: one search box, and the list of a chosen merchant's payments.

An id or a number of any merchant's payment leads to its page. Other texts, such as an e-mail
address or the digits of a card, are searched within one merchant, since the index is by merchant.
"""

from typing import Any, Final, get_args

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, people
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.list_counts import FOREVER
from opentill.merchants import Merchant
from opentill.orders import Order, OrderRef, OrdersQuery, Status
from opentill.portal import lists, render
from opentill.portal.labels import ORDER_STATUS
from opentill.portal.lists import Days, Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

_LONGEST_QUERY: Final = 500  # characters


class Filters(msgspec.Struct, frozen=True):
    """The filters in the address, and their error texts by field."""

    query: str
    merchant: str
    status: Status | None
    days: Days
    errors: dict[str, str]


def _read_filters(request: PageRequest) -> Filters:
    days = lists.days(request, ZONE)
    return Filters(
        query=lists.text(request, "query", _LONGEST_QUERY),
        merchant=lists.text(request, "merchant"),
        status=lists.choice(request, "status", get_args(Status)),
        days=days,
        errors=dict(days.errors),
    )


async def list_payments(request: PageRequest) -> Response:
    """List a merchant's payments, or redirect to the one payment that has the id in the search."""
    filters = _read_filters(request)
    async with request.app.db.connection() as tx:
        merchant = await _find_merchant(tx, filters)
        matches = await _find_by_number(tx, filters, merchant)
        names = await merchants.names(tx, [match.merchant_id for match in matches])
    rows, pager = list[Order](), Pager(1, 0)
    if merchant is not None:
        await people.visit(request.app.db, request.login, merchant.id, request.now)
        rows, pager = await _list_page(request, merchant, filters)
    if _is_single_match(filters, matches, pager if merchant else None):
        return render.see_other(request, f"{PLACE}/{matches[0].order_id}")
    localizer = request.localizer
    return render.page(
        request,
        "payments.html",
        filters=filters,
        errors=filters.errors,
        merchant=merchant,
        names=names,
        matches=matches if merchant is None else [],
        rows=[(row, localizer.amount(Money(row.amount_minor, row.currency))) for row in rows],
        pager=pager,
        statuses=[(status, localizer.gettext(ORDER_STATUS[status])) for status in get_args(Status)],
        zone=ZONE,
    )


def _is_single_match(filters: Filters, matches: list[OrderRef], pager: Pager | None) -> bool:
    """Whether the search is the id or number of one order and the list has no other order."""
    is_filtered = filters.status is not None or filters.days.first or filters.days.last
    return len(matches) == 1 and not is_filtered and (pager is None or pager.total == 1)


async def _find_merchant(tx: Tx, filters: Filters) -> Merchant | None:
    """Find the merchant of the filter by its id or name. Adds an error if it is not unique."""
    if not filters.merchant:
        return None
    candidates, _ = await merchants.search(tx, filters.merchant, 1, 2)
    exact = [one for one in candidates if filters.merchant in {one.id, one.name}]
    if len(exact) == 1 or len(candidates) == 1:
        return (exact or candidates)[0]
    filters.errors["merchant"] = (
        N_("Several merchants have this in their name. Enter all of the name, or the id")
        if candidates
        else N_("No merchant has this id or name")
    )
    return None


async def _find_by_number(tx: Tx, filters: Filters, merchant: Merchant | None) -> list[OrderRef]:
    """Find the orders that have the id or number in the search box."""
    if not filters.query or (filters.merchant and merchant is None):
        return []
    candidates = [merchant] if merchant else await merchants.all_merchants(tx)
    return await orders.look_up(tx, [one.id for one in candidates], filters.query)


async def _list_page(
    request: PageRequest, merchant: Merchant, filters: Filters
) -> tuple[list[Order], Pager]:
    """Read a page of the merchant's orders. Adds an error if the search has too many results."""
    replica, number = request.app.replica.reading(), lists.page_number(request)
    query: dict[str, Any] = {"page": number, "size": lists.SIZE}
    if filters.query:
        query["query"] = filters.query
    if filters.status is not None:
        query["status"] = filters.status
    if filters.days.since > 0:
        query["startDate"] = filters.days.since
    if filters.days.until < FOREVER:
        query["endDate"] = filters.days.until
    try:
        rows, total = await orders.list_page(
            replica, merchant.id, msgspec.convert(query, OrdersQuery)
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
