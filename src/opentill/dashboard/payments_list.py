"""The list of payments, which updates itself, with filters and columns in its query, and as CSV."""

from hashlib import sha256
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from opentill import orders
from opentill.core import amounts
from opentill.core.errors import Invalid
from opentill.dashboard import page_helpers, payments_columns, payments_tabs, product_payments
from opentill.dashboard.labels import PAYMENT_FILTER_ERROR
from opentill.dashboard.payments_tabs import TABS, Tab
from opentill.dashboard.product_payments import ProductPayments
from opentill.gateways.model import Method
from opentill.list_counts import FOREVER
from opentill.orders import SHOWN_STATUSES, ExportQuery, Order, OrdersQuery, ShownStatus
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days, Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import NC_

# At most this many characters of a field are read; every filter accepts fewer.
_LONGEST: Final = 2000


class _Field(NamedTuple):
    """A field of the form, and the filter of ``GET /v1/orders`` that it sets."""

    name: str
    filter: str

    @property
    def error(self) -> str:
        return PAYMENT_FILTER_ERROR[self.name]


_FIELDS: Final = (
    _Field("query", "query"),
    _Field("product", "productId"),
    _Field("email", "customerEmail"),
)
_AMOUNT: Final = "amount"  # the field of an amount as people write it
_KEY, _VALUE = "metadata_key", "metadata_value"
_STATUS, _METHOD, _TAB = "status", "method", "tab"  # fields of the page alone
_NAMES: Final = (
    *(field.name for field in _FIELDS),
    *(_AMOUNT, _KEY, _VALUE, _STATUS, _METHOD, _TAB),
)
# These fields are below "More filters".
_FOLDED: Final = ("product", "email", _AMOUNT, _KEY, _VALUE)


_METHODS: Final[tuple[Method, ...]] = get_args(Method)


class Search(msgspec.Struct, frozen=True):
    """The form of the list: its filters by their names in the API, and its entries by field.

    ``errors`` are texts by field; a field with an error does not filter.
    """

    filters: dict[str, Any]
    choice: orders.ListChoice  # the filters that the API lacks
    tab: Tab
    entries: dict[str, str]
    days: Days
    errors: dict[str, str]

    @property
    def is_filtered(self) -> bool:
        """Whether the list has a filter besides its tab."""
        choice = orders.ListChoice(shown=self.tab.statuses)
        return bool(self.filters) or self.choice != choice

    @property
    def shown_tab(self) -> Tab:
        """The tab, or the one that has the status by which the list is filtered."""
        status = self.entries[_STATUS]
        if self.tab.name or not status:
            return self.tab
        return next(tab for tab in TABS if status in tab.statuses)

    @property
    def folded(self) -> tuple[str, ...]:
        """The fields below "More filters" that have an entry."""
        return tuple(name for name in _FOLDED if self.entries[name])

    @property
    def is_unfolded(self) -> bool:
        """Whether a field below "More filters" has an error, so that it must be seen."""
        return any(name in self.errors for name in _FOLDED)


async def _read_search(request: PageRequest, zone: ZoneInfo) -> Search:
    """Read the form from the query."""
    days = lists.days(request, zone)
    entries = {name: lists.text(request, name, _LONGEST) for name in _NAMES}
    filters: dict[str, Any] = {}
    errors = dict(days.errors)
    tab = next((tab for tab in TABS if tab.name == entries[_TAB]), TABS[0])
    shown = _read_shown(tab, entries)
    for field in _FIELDS:
        value = entries[field.name]
        if value and _is_filter(field.filter, value):
            filters[field.filter] = value
        elif value:
            errors[field.name] = field.error
    amount = _read_amount(entries, errors)
    key, value = entries[_KEY], entries[_VALUE]
    if key and value and _is_filter("metadata", {key: value}):
        filters["metadata"] = {key: value}
    elif key or value:
        errors[_VALUE if key else _KEY] = PAYMENT_FILTER_ERROR["metadata"]
    product = filters.get("productId")
    if product is not None and not await orders.has_product(
        request.app.replica.reading(), request.merchant_id, product
    ):
        errors["product"] = PAYMENT_FILTER_ERROR["product"]
        del filters["productId"]
    if days.since > 0:
        filters["startDate"] = days.since
    if days.until < FOREVER:
        filters["endDate"] = days.until
    choice = orders.ListChoice(
        amount=amount,
        shown=shown,
        method=lists.choice(request, _METHOD, _METHODS),
    )
    return Search(filters, choice, tab, entries, days, errors)


def _read_shown(tab: Tab, entries: dict[str, str]) -> tuple[ShownStatus, ...]:
    """Return the statuses by which to filter, () for any.

    Clears the field ``status`` if its choice is unknown, or one of another tab.
    """
    status = entries["status"]
    choice: ShownStatus | None = next((one for one in SHOWN_STATUSES if one == status), None)
    if choice == "CREATING":  # of older links
        choice = entries["status"] = "PENDING"
    if choice is not None and (not tab.statuses or choice in tab.choices):
        return payments_tabs.chosen(choice)
    entries["status"] = ""
    return tab.statuses


def _read_amount(entries: dict[str, str], errors: dict[str, str]) -> str:
    """Return the amount to filter by, as people write it; "" for none. Adds an error to errors."""
    text = entries[_AMOUNT]
    if not text or amounts.read_amount(text):
        return text
    errors[_AMOUNT] = PAYMENT_FILTER_ERROR[_AMOUNT]
    return ""


def _is_filter(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, ExportQuery)
    except msgspec.ValidationError:
        return False
    return True


async def _read_page(request: PageRequest, search: Search) -> orders.CountedPage:
    """Return a page of orders. A search that matches too many addresses shows an error.

    A poll shows no tabs, so that it has no counts.
    """
    db, paging = (
        request.app.replica.reading(),
        {"page": lists.page_number(request), "size": lists.SIZE},
    )

    async def read() -> orders.CountedPage:
        query = msgspec.convert({**search.filters, **paging}, OrdersQuery)
        if request.is_poll:
            listed = await orders.list_page(db, request.merchant_id, query, search.choice)
            return orders.CountedPage(*listed, None)
        return await orders.list_counted(db, request.merchant_id, query, search.choice)

    try:
        page = await read()
    except Invalid:
        search.errors["query"] = PAYMENT_FILTER_ERROR["many"]
        del search.filters["query"]
        page = await read()
    deployment = request.app.settings.livemode
    payments = await orders.all_with_livemode(db.read, page.orders, deployment=deployment)
    return msgspec.structs.replace(page, orders=payments)


async def show(request: PageRequest) -> Response:
    """Show the list. A poll of the page itself gets only the rows, and 304 if they are the same."""
    zone = page_helpers.zone_of(request)
    search = await _read_search(request, zone)
    page = await _read_page(request, search)
    payments, pager = page.orders, Pager(lists.page_number(request), page.total)
    if not request.is_poll and await _names_one_order(request, search, payments, pager):
        return page_helpers.redirect(request, "payments", payments[0].id)
    columns = payments_columns.chosen(request, search.tab.name)
    rows = await payments_columns.rows(request, zone, columns, payments)
    of_products: list[ProductPayments] = []
    if not pager.total and search.filters.get("query") and not search.errors:
        of_products = await product_payments.find(request, search.filters["query"], size=1)
    table = Markup(  # noqa: S704 - our own template has escaped it
        render.fragment(
            request, "payments_rows.html", rows=rows, columns=columns, pager=pager,
            has_filters=search.is_filtered, tab=search.tab, search=search,
            of_products=of_products,
        )
    )  # fmt: skip
    tag = f'"{sha256(table.encode()).hexdigest()[:16]}"'
    can_poll = pager.number == 1 and not search.errors
    polls = can_poll and request.query.get("live") != "off"
    values: dict[str, Any] = {"table": table, "tag": tag, "polls": polls}
    if request.is_poll:
        return _render_update(request, tag, {**values, "pager": pager})
    return render.page(
        request,
        "payments_list.html",
        live=polls,
        zone=zone,
        can_poll=can_poll,
        pager=pager,
        search=search,
        errors=search.errors,
        tabs=payments_tabs.count(page.counts),
        methods=_METHODS,
        longest=_LONGEST,
        products=page_helpers.product_names(
            request,
            await page_helpers.product_choices(request, search.filters.get("productId", "")),
        ),
        chosen=columns,
        all_columns=payments_columns.COLUMNS,
        csv=_csv_address(request),
        **values,
    )


def _render_update(request: PageRequest, tag: str, values: dict[str, Any]) -> Response:
    headers = {"etag": tag}
    if request.headers.get(b"if-none-match", b"").decode("latin-1") == tag:
        return Response(b"", 304, {**responses.GUARDS, **responses.PRIVATE, **headers})
    html = render.fragment(request, "payments_update.html", **values)
    return responses.page(html, request.localizer.language, 200, headers)


async def _names_one_order(
    request: PageRequest, search: Search, payments: list[Order], pager: Pager
) -> bool:
    """Whether the only filter is an id or a number, and the only payment listed has it."""
    is_only_search = set(search.filters) == {"query"} and search.choice == orders.ListChoice()
    if not is_only_search or search.errors or pager.total != 1 or not payments:
        return False
    if not request.portal.has_page("/payments/*"):
        return False
    async with request.app.db.connection() as tx:
        matches = await orders.look_up(tx, [request.merchant_id], search.filters["query"])
    return [match.order_id for match in matches] == [payments[0].id]


def _csv_address(request: PageRequest) -> str:
    """Return the address of the CSV file of the list's payments on all pages."""
    names = {*_NAMES, "from", "to"}
    query = urlencode({name: value for name, value in request.query.items() if name in names})
    return request.link("payments.csv") + (f"?{query}" if query else "")


async def export(request: PageRequest) -> Response:
    """Send the list's payments on all pages as CSV. A wrong filter redirects to the list."""
    zone = page_helpers.zone_of(request)
    search = await _read_search(request, zone)
    db, merchant_id = request.app.replica.reading(), request.merchant_id
    if search.errors:
        return page_helpers.redirect(request, "payments", **request.query)
    query = msgspec.convert(search.filters, ExportQuery)
    chunks = orders.export_csv_limited(
        request.app.exports,
        db,
        merchant_id,
        await orders.resolve_query(db, merchant_id, query, search.choice),
        livemode=request.app.settings.livemode,
        zone=zone.key,
    )
    try:
        return await downloads.table(search.days.filename("orders"), chunks)
    except Invalid:
        return page_helpers.redirect(request, "payments", **request.query)


_PLACE: Final = f"{DASHBOARD_PATH}/payments"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show, menu=NC_("menu", "Payments"), group="payments"),
    Page("GET", f"{_PLACE}.csv", "payments.export", export),
)
