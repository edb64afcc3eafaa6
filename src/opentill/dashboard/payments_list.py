"""The list of payments: filters and columns in its address, live, and the same as CSV."""

from hashlib import sha256
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from opentill import merchants, orders
from opentill.core.errors import Invalid
from opentill.dashboard import payments_columns
from opentill.dashboard.labels import PAYMENT_FILTER_ERROR
from opentill.list_counts import FOREVER
from opentill.orders import ExportQuery, Order, OrdersQuery
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days, Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import N_, NC_

_LONGEST: Final = 2000  # characters of a field; what a filter takes is shorter


class _Field(NamedTuple):
    """A field of the form, and the filter of ``GET /v1/orders`` that it is."""

    name: str
    filter: str

    @property
    def error(self) -> str:
        return PAYMENT_FILTER_ERROR[self.name]


_FIELDS: Final = (
    _Field("query", "query"),
    _Field("status", "status"),
    _Field("product", "productId"),
    _Field("email", "customerEmail"),
    _Field("amount", "amount"),
)
_KEY, _VALUE = "metadata_key", "metadata_value"
# What stands behind "More filters".
_MORE: Final = ("product", "email", "amount", _KEY, _VALUE)


class Asked(msgspec.Struct, frozen=True):
    """What the form asks for: its filters by their names in the API, and what was typed.

    ``errors`` are texts by field; a field with one is no filter.
    """

    filters: dict[str, Any]
    typed: dict[str, str]
    days: Days
    errors: dict[str, str]

    @property
    def more(self) -> bool:
        """Whether one of the fields is filled in that are folded away at first."""
        return any(self.typed[name] for name in _MORE)


async def _read(request: PageRequest, zone: ZoneInfo) -> Asked:
    """Read the form out of the address."""
    days = lists.days(request, zone)
    names = (*(field.name for field in _FIELDS), _KEY, _VALUE)
    typed = {name: lists.text(request, name, _LONGEST) for name in names}
    filters: dict[str, Any] = {}
    errors = dict(days.errors)
    for field in _FIELDS:
        value = typed[field.name]
        if value and _is_filter(field.filter, value):
            filters[field.filter] = value
        elif value:
            errors[field.name] = field.error
    key, value = typed[_KEY], typed[_VALUE]
    if key and value and _is_filter("metadata", {key: value}):
        filters["metadata"] = {key: value}
    elif key or value:
        errors[_VALUE if key else _KEY] = N_(
            "Enter a key of at most 64 characters and the value that it has"
        )
    product = filters.get("productId")
    if product is not None and not await orders.has_product(
        request.app.replica.reading(), request.merchant_id, product
    ):
        errors["product"] = N_("Enter the id of one of your products, as prod_…")
        del filters["productId"]
    if days.since > 0:
        filters["startDate"] = days.since
    if days.until < FOREVER:
        filters["endDate"] = days.until
    return Asked(filters, typed, days, errors)


def _is_filter(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, ExportQuery)
    except msgspec.ValidationError:
        return False
    return True


async def _page(request: PageRequest, asked: Asked) -> tuple[list[Order], Pager]:
    """Return the orders of the page. What the search box finds too much of is said at it."""
    here, number = request.app.replica.reading(), lists.page_number(request)
    more: dict[str, Any] = {"page": number, "size": lists.SIZE}
    try:
        query = msgspec.convert({**asked.filters, **more}, OrdersQuery)
        found, total = await orders.list_page(here, request.merchant_id, query)
    except Invalid:
        asked.errors["query"] = N_("More than 200 addresses begin so: enter more of it")
        del asked.filters["query"]
        query = msgspec.convert({**asked.filters, **more}, OrdersQuery)
        found, total = await orders.list_page(here, request.merchant_id, query)
    real = request.app.settings.livemode
    known = await orders.all_with_livemode(here.read, found, deployment=real)
    return known, Pager(number, total)


async def _zone(request: PageRequest) -> ZoneInfo:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    return ZoneInfo(merchant.time_zone)


async def show(request: PageRequest) -> Response:
    """Show the list; to the page itself, which asks again, only its rows, if they are others."""
    zone = await _zone(request)
    asked = await _read(request, zone)
    found, pager = await _page(request, asked)
    if not request.is_poll and await _leads_straight(request, asked, found, pager):
        return render.see_other(request, f"/dashboard/{request.merchant_id}/payments/{found[0].id}")
    columns = payments_columns.chosen(request)
    rows = payments_columns.rows(request, zone, columns, found)
    inner = Markup(  # noqa: S704 - a template of ours, which escapes what it shows
        render.fragment(
            request, "payments_rows.html", zone=zone, rows=rows, columns=columns, pager=pager,
            filtered=bool(asked.filters),
        )
    )  # fmt: skip
    tag = f'"{sha256(inner.encode()).hexdigest()[:16]}"'
    can_live = pager.number == 1 and not asked.errors
    polls = can_live and request.query.get("live") != "off"
    values: dict[str, Any] = {"rows": inner, "tag": tag, "polls": polls}
    if request.is_poll:
        return _update(request, tag, {**values, "pager": pager})
    return render.page(
        request,
        "payments_list.html",
        live=polls,
        can_live=can_live,
        asked=asked,
        errors=asked.errors,
        statuses=get_args(orders.Status),
        chosen=columns,
        all_columns=payments_columns.COLUMNS,
        csv=_csv_address(request),
        **values,
    )


def _update(request: PageRequest, tag: str, values: dict[str, Any]) -> Response:
    headers = {"etag": tag}
    if request.headers.get(b"if-none-match", b"").decode("latin-1") == tag:
        return Response(b"", 304, {**responses.GUARDS, **responses.PRIVATE, **headers})
    html = render.fragment(request, "payments_update.html", **values)
    return responses.page(html, request.localizer.language, 200, headers)


async def _leads_straight(
    request: PageRequest, asked: Asked, found: list[Order], pager: Pager
) -> bool:
    """Return whether an id or a number was searched that leads to one order, and nothing else."""
    if set(asked.filters) != {"query"} or asked.errors or pager.total != 1 or not found:
        return False
    if not request.portal.has_page("/payments/*"):
        return False
    text = asked.filters["query"]
    async with request.app.db.connection() as tx:
        led = await orders.look_up(tx, [request.merchant_id], text)
    return [one.order_id for one in led] == [found[0].id]


def _csv_address(request: PageRequest) -> str:
    """Return the address of the file with what the list shows, on all its pages."""
    names = {*(field.name for field in _FIELDS), _KEY, _VALUE, "from", "to"}
    query = urlencode({name: value for name, value in request.query.items() if name in names})
    return request.link("payments.csv") + (f"?{query}" if query else "")


async def export(request: PageRequest) -> Response:
    """Send the file of what the list shows; where a filter is wrong, the list says so instead."""
    zone = await _zone(request)
    asked = await _read(request, zone)
    here, merchant_id = request.app.replica.reading(), request.merchant_id
    if asked.errors:
        return _back(request)
    query = msgspec.convert(asked.filters, ExportQuery)
    chunks = orders.export_csv_limited(
        request.app.exports,
        here,
        merchant_id,
        await orders.resolve_query(here, merchant_id, query),
        livemode=request.app.settings.livemode,
        zone=zone.key,
    )
    name = asked.days.filename("orders")
    try:
        return await downloads.table(name, chunks)
    except Invalid:
        return _back(request)


def _back(request: PageRequest) -> Response:
    """Send the browser to the list with the same query, which says what is wrong in it."""
    place = f"/dashboard/{request.merchant_id}/payments"
    return render.see_other(request, f"{place}?{urlencode(request.query)}")


_PLACE: Final = f"{DASHBOARD_PATH}/payments"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show, menu=NC_("menu", "Payments")),
    Page("GET", f"{_PLACE}.csv", "payments.export", export),
)
