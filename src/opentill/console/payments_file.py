"""The payments of all merchants or of a chosen one as a CSV file, with the filters of the list."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, people
from opentill.console.filters import find_merchant, query_string
from opentill.console.payments import PLACE, Filters, read_filters
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.http import csvfile
from opentill.list_counts import FOREVER
from opentill.orders import ExportQuery, Order
from opentill.portal import downloads, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest

_REASON: Final = "on the page of payments"
_TIMES: Final = (  # columns of times, and the order's fields that they show
    ("createdAt", "created_at"),
    ("paidAt", "paid_at"),
    ("settledAt", "settled_at"),
)
_COLUMNS: Final = (
    "merchantId",
    "merchant",
    "id",
    "status",
    "customerEmail",
    "customerName",
    "productName",
    "paymentMethod",
    "amount",
    "refundedAmount",
    "currency",
    "clientReference",
    *(column for name, _ in _TIMES for column in (name, f"{name}Utc")),
    "paymentStatus",
)


async def export_payments(request: PageRequest) -> Response:
    """Stream the list's payments on all pages as CSV, by merchant, and record it.

    Errors in the filters are shown by the list. A text is searched only at a chosen merchant,
    because a search at all merchants finds just the newest matches.
    """
    filters = read_filters(request)
    async with request.app.db.connection() as tx:
        _, merchant, errors = await find_merchant(tx, request)
        names = {merchant.id: merchant.name} if merchant else await merchants.all_names(tx)
    if errors or filters.errors or (filters.query and merchant is None):
        return _show_list(request)
    rows = _read_rows(request, names, _build_query(filters), filters)
    try:
        response = await downloads.table(
            filters.days.filename("payments"), csvfile.encode_rows(_COLUMNS, rows)
        )
    except Invalid:  # the text matches too many customers
        return _show_list(request)
    actor = people.actor_of(request.login, _REASON)
    merchant_id = merchant.id if merchant else ""
    about = "&".join(sorted(query_string(request).removeprefix("?").split("&")))
    await request.app.db.run(
        lambda tx: merchants.record_audit(
            tx, actor, "payments export", merchant_id, about, request.now
        )
    )
    return response


def _show_list(request: PageRequest) -> Response:
    return render.see_other(request, f"{PLACE}{query_string(request)}")


def _build_query(filters: Filters) -> ExportQuery:
    query: dict[str, Any] = {"query": filters.query or None}
    if filters.days.since > 0:
        query["startDate"] = filters.days.since
    if filters.days.until < FOREVER:
        query["endDate"] = filters.days.until
    return msgspec.convert(query, ExportQuery)


async def _read_rows(
    request: PageRequest, names: Mapping[str, str], query: ExportQuery, filters: Filters
) -> AsyncGenerator[tuple[str, ...], None]:
    replica = request.app.replica.reading()
    for merchant_id, name in names.items():
        selection = await orders.resolve_query(replica, merchant_id, query, filters.choice)
        async for part in orders.read_selection(replica, selection):
            for order in part:
                yield _format_cells(order, name)


def _format_cells(order: Order, merchant: str) -> tuple[str, ...]:
    write_amount = partial(money.show, currency=order.currency)
    cells: list[Any] = [
        order.merchant_id, merchant, order.id, order.status, order.customer_email,
        order.customer_name, order.product_name, order.payment_method,
        write_amount(order.amount_minor), write_amount(order.refunded_minor), order.currency,
        order.client_reference,
    ]  # fmt: skip
    for _, field in _TIMES:
        at: int | None = getattr(order, field)
        cells += [at, csvfile.format_utc(at)]
    cells.append(orders.EXPORTED_STATUS[order.shown_status])
    return tuple(map(csvfile.format_cell, cells))


pages: Final = (Page("GET", f"{PLACE}.csv", "payments.export", export_payments),)
