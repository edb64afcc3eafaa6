"""A merchant's payment links: the list, the page of each, and the forms that change them."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, payment_links, people, products
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import Money
from opentill.dashboard import link_form, page_helpers, payments_columns
from opentill.dashboard.link_form import Entries
from opentill.db.database import Tx
from opentill.payment_links import (
    LinkUpdate,
    PaymentLink,
    PaymentLinksQuery,
    State,
    Usage,
    state_of,
)
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.products import Product, ProductsQuery
from opentill.web import forms
from opentill.web.translations import N_

_NEWEST: Final = 20  # the page of a link shows this many payments
_MOST_PAYMENTS: Final = 200  # with all payments, the page shows at most this many
_REASON: Final = "on the page of payment links"
_MOST_CHOICES: Final = 100  # the form offers at most this many products
# Tab of the list → whether its links are active, None for all.
_TABS: Final = {"active": True, "deactivated": False, "all": None}
_COLUMNS: Final = payments_columns.without("product")


class Row(msgspec.Struct, frozen=True):
    """A link in the list. The amounts are for a quantity of one; a fixed price makes them equal."""

    link: PaymentLink
    name: str
    least: Money
    most: Money
    usage: Usage
    state: State


def _build_row(link: PaymentLink, product: Product | None, usage: Usage, now: int) -> Row:
    state = state_of(link, usage, now)
    if product is not None:
        price = Money(product.price_minor, product.currency)
        is_blocked = product.status != "ACTIVE" and state == "ACTIVE"
        return Row(link, product.name, price, price, usage, "INACTIVE" if is_blocked else state)
    currency = link.currency or ""
    least, most = (Money(minor or 0, currency) for minor in (link.least_minor, link.most_minor))
    return Row(link, link.name or "", least, most, usage, state)


async def show(request: PageRequest) -> Response:
    """List payment links, newest first."""
    return await _render_list(request)


async def _list_page(
    request: PageRequest, tab: str, number: int
) -> tuple[list[PaymentLink], dict[str, int]]:
    """Return a page of the links of a tab, and the numbers of the links of each tab."""
    text, db = lists.text(request, "query"), request.app.db
    if not text:
        pages = {
            name: await payment_links.list_page(
                db,
                request.merchant_id,
                PaymentLinksQuery(active=active, page=number, size=lists.SIZE)
                if name == tab
                else PaymentLinksQuery(active=active, size=1),
            )
            for name, active in _TABS.items()
        }
        return pages[tab][0], {name: total for name, (_, total) in pages.items()}
    async with db.connection() as tx:
        matches = await payment_links.list_matching(tx, request.merchant_id, text)
    parts = {
        name: [match for match in matches if active in {None, match.active}]
        for name, active in _TABS.items()
    }
    page = parts[tab][(number - 1) * lists.SIZE :][: lists.SIZE]
    return page, {name: len(part) for name, part in parts.items()}


def _choose_tab(request: PageRequest) -> str:
    """Return the chosen tab; a search without one is of all links."""
    default = "all" if lists.text(request, "query") else "active"
    return lists.choice(request, "tab", tuple(_TABS)) or default


async def read_pages(request: PageRequest) -> AsyncGenerator[list[PaymentLink], None]:
    """Yield the pages of the chosen tab or search, for a file."""
    tab, number = _choose_tab(request), 1
    while page := (await _list_page(request, tab, number))[0]:
        yield page
        number += 1


async def build_rows(tx: Tx, request: PageRequest, page: Sequence[PaymentLink]) -> list[Row]:
    """Return the rows of links with their products and payments."""
    merchant_id = request.merchant_id
    usage = await payment_links.find_usage(tx, merchant_id, [link.id for link in page])
    ids = [link.product_id for link in page if link.product_id is not None]
    by_id = await products.find_many(tx, merchant_id, ids)
    return [
        _build_row(link, by_id.get(link.product_id or ""), usage[link.id], request.now)
        for link in page
    ]


async def _render_list(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
) -> Response:
    tab = _choose_tab(request)
    number = lists.page_number(request)
    page, totals = await _list_page(request, tab, number)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        rows = await build_rows(tx, request, page)
    choices, _ = await products.list_page(
        request.app.db, merchant.id, ProductsQuery(size=_MOST_CHOICES, status="ACTIVE")
    )
    return render.page(
        request,
        "links.html",
        status,
        money=Money,
        zone=ZoneInfo(merchant.time_zone),
        rows=rows,
        csv=lists.file_address(request, "links.csv", "tab", "query"),
        pager=lists.Pager(number, totals[tab]),
        tab=tab,
        default_tab="all" if lists.text(request, "query") else "active",
        totals=totals,
        products=page_helpers.product_names(request, choices, with_prices=True),
        undecided=link_form.UNDECIDED,
        currencies=page_helpers.list_currencies(request),
        pricings=tuple(link_form.AMOUNTS),
        public_url=request.app.settings.public_url,
        entries=entries
        or {
            "product": _chosen_product(request, choices),
            "currency": merchant.settlement_currency,
            "quantity": "1",
        },
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _chosen_product(request: PageRequest, choices: list[Product]) -> str:
    """Return the product that the form begins with: that of the query, or none yet."""
    requested_id = lists.text(request, "for")
    if any(product.id == requested_id for product in choices):
        return requested_id
    return link_form.UNDECIDED if choices else ""


async def create(request: PageRequest) -> Response:
    """Create a payment link.

    Sending the same form again has no effect.
    """
    form = await request.form()
    entries = {name: form.get(name, "").strip() for name in link_form.FIELDS}
    actor = people.actor_of(request.login, _REASON)
    zone = page_helpers.zone_of(request)
    try:
        body = link_form.build_body(entries, zone)

        async def work(tx: Tx) -> str:
            link = await payment_links.create(
                tx, request.app.gateways, request.merchant_id, body, request.now, actor=actor
            )
            return link.id

        link_id = await form_ids.run_once(request, work)
    except KeyReused:
        return await _render_list(request, 422, {"add": form_ids.FORM_REUSED}, entries)
    except Invalid:
        errors = await link_form.collect_errors(request, entries, zone)
        return await _render_list(request, 400, errors, entries)
    return page_helpers.redirect(request, "links", link_id, done="made")


async def show_one(request: PageRequest) -> Response:
    """Show a payment link with its address, QR code and newest payments."""
    return await _render_link(request)


async def _render_link(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
) -> Response:
    shows_all = request.query.get("payments") == "all"
    most = _MOST_PAYMENTS if shows_all else _NEWEST
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        link = await payment_links.find(tx, merchant.id, request.ids["link"])
        usage = await payment_links.find_usage(tx, merchant.id, [link.id])
        products_by_id = await products.find_many(tx, merchant.id, [link.product_id or ""])
        ids = await payment_links.list_newest_paid(tx, merchant.id, link.id, most)
        orders_by_id = await orders.find_many(tx, merchant.id, ids)
    deployment, zone = request.app.settings.livemode, ZoneInfo(merchant.time_zone)
    payments = await orders.all_with_livemode(
        request.app.db.read, [orders_by_id[order_id] for order_id in ids], deployment=deployment
    )
    product = products_by_id.get(link.product_id or "")
    row = _build_row(link, product, usage[link.id], request.now)
    return render.page(
        request,
        "link.html",
        status,
        scripts=True,
        zone=zone,
        row=row,
        link=link,
        last_day=page_helpers.format_end(request, link.expires_at, zone),
        columns=_COLUMNS,
        rows=await payments_columns.rows(request, zone, _COLUMNS, payments),
        shows_all=shows_all,
        has_more=row.usage.paid > len(ids),
        entries=entries or link_form.stored_entries(link, zone),
        editing=entries is not None,
        sales=[Money(sales.paid_minor, sales.currency) for sales in row.usage.sales if sales.paid]
        or [Money(0, row.most.currency)],
        address=link.address(request.app.settings.public_url),
        errors=errors or {},
    )


async def change(request: PageRequest) -> Response:
    """Change a payment link, unless somebody else has changed it since the form was shown."""
    form, link_id = await request.form(), request.ids["link"]
    entries = {name: form.get(name, "").strip() for name in link_form.CHANGE_FIELDS}
    entries["description"] = entries["description"].replace("\r\n", "\n")
    version = form.get("version", "")
    shown_version = int(version) if link_form.NUMBER.fullmatch(version) else 0
    actor = people.actor_of(request.login, _REASON)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        link = await payment_links.find(tx, merchant.id, link_id)
    if not link.product_id:
        forms.require_fields(form, link_form.ITEM_FIELDS)
    try:
        body = link_form.build_update(entries, link, ZoneInfo(merchant.time_zone))
        await request.app.db.run(
            lambda tx: payment_links.update(
                tx, merchant.id, link_id, body, request.now, seen=shown_version, actor=actor
            )
        )
    except payment_links.Outdated:
        return await _render_link(
            request,
            409,
            {
                "edit": N_(
                    "Somebody has changed this link since you opened the form; "
                    "what is so now stands above"
                )
            },
            entries,
        )
    except Invalid:
        zone = ZoneInfo(merchant.time_zone)
        errors = await link_form.collect_change_errors(entries, link, zone, request.now)
        return await _render_link(request, 400, errors, entries)
    return page_helpers.redirect(request, "links", link_id, done="saved")


async def switch(request: PageRequest) -> Response:
    """Enable or disable a payment link. Idempotent."""
    form, link_id = await request.form(), request.ids["link"]
    active = form.get("active") == "on"
    actor = people.actor_of(request.login, _REASON)
    body = LinkUpdate(active=active)
    await request.app.db.run(
        lambda tx: payment_links.update(
            tx, request.merchant_id, link_id, body, request.now, actor=actor
        )
    )
    return page_helpers.redirect(request, "links", link_id, done="on" if active else "off")


_PLACE: Final = f"{DASHBOARD_PATH}/links"
_ONE: Final = f"{_PLACE}/{{link:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show, menu=N_("Payment links"), group="catalogue"),
    Page("POST", _PLACE, "sessions.write", create, fields=link_form.FIELDS),
    Page("GET", _ONE, "payments.read", show_one),
    Page("POST", _ONE, "sessions.write", change, fields=(*link_form.TERMS_FIELDS, "version")),
    Page("POST", f"{_ONE}/switch", "sessions.write", switch, fields=("active",)),
)
