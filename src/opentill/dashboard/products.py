"""A merchant's products: the list, the page of each, and the forms that change them."""

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import checkouts, gateways, merchants, orders, payment_links, people, products, rates
from opentill.checkouts import Sales, Session, SessionsQuery
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import EXPONENTS, Money
from opentill.dashboard import page_helpers, payments_columns, product_form
from opentill.dashboard.product_form import Entries
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.orders import GrossSales, Order, OrdersQuery
from opentill.payment_links import PaymentLink
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.products import Product, ProductBody, ProductsQuery, ProductUpdate
from opentill.web.language import names
from opentill.web.pictures import Pictures
from opentill.web.translations import N_

_SIZE: Final = 25
LIFETIMES_MIN: Final = (1440, 720, 120, 30)  # minutes in which a session can be paid
_NEWEST: Final = 10
_NEWEST_DAYS: Final = 30  # of the newest sales
# Tab of the list → the status of its products, None for any.
_TABS: Final[Mapping[str, products.Status | None]] = {
    "active": "ACTIVE",
    "archived": "ARCHIVED",
    "all": None,
}
_COLUMNS: Final = payments_columns.without("product")
_REASON: Final = "on the page of products"
_VERSION: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


class Row(msgspec.Struct, frozen=True):
    """A product in the list; ``picture`` is an address that the page may load."""

    product: Product
    price: Money
    picture: str | None
    sales: Sales


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """A product with its newest payments and sessions, and whether its currency has a rate.

    ``newest_sales`` are those of the last 30 days.
    ``links`` are the payment links that sell it, newest first, at most 200.
    """

    product: Product
    merchant: Merchant
    price: Money
    sales: Sales
    newest_sales: GrossSales
    all_sales: GrossSales
    payments: list[Order]
    sessions: list[Session]
    links: list[PaymentLink]
    has_rate: bool


async def show(request: PageRequest) -> Response:
    """List products, newest first."""
    return await _render_list(request)


async def _list_page(
    request: PageRequest, tab: str, number: int
) -> tuple[list[Product], dict[str, int]]:
    """Return a page of the products of a tab, and the numbers of the products of each tab."""
    text, db = lists.text(request, "query"), request.app.db
    if not text:
        pages = {
            name: await products.list_page(
                db,
                request.merchant_id,
                ProductsQuery(status=status, page=number, size=_SIZE)
                if name == tab
                else ProductsQuery(status=status, size=1),
            )
            for name, status in _TABS.items()
        }
        return pages[tab][0], {name: total for name, (_, total) in pages.items()}
    async with db.connection() as tx:
        matches = await products.search(tx, request.merchant_id, text)
    parts = {
        name: [match for match in matches if status in {None, match.status}]
        for name, status in _TABS.items()
    }
    page = parts[tab][(number - 1) * _SIZE :][:_SIZE]
    return page, {name: len(part) for name, part in parts.items()}


def _choose_tab(request: PageRequest) -> str:
    """Return the chosen tab; a search without one is of all products."""
    default = "all" if lists.text(request, "query") else "active"
    return lists.choice(request, "tab", tuple(_TABS)) or default


async def read_pages(request: PageRequest) -> AsyncGenerator[list[Product], None]:
    """Yield the pages of the chosen tab or search, for a file."""
    tab, number = _choose_tab(request), 1
    while page := (await _list_page(request, tab, number))[0]:
        yield page
        number += 1


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
        sales = await checkouts.find_sales(tx, merchant.id, [product.id for product in page])
    pictures = Pictures(request.app.settings.public_url)
    rows = [
        Row(product, _read_price(product), pictures.address(product.image), sales[product.id])
        for product in page
    ]
    return render.page(
        request,
        "products.html",
        status,
        picture_origins=pictures.origins,
        rows=rows,
        pager=lists.Pager(number, totals[tab], _SIZE),
        tab=tab,
        default_tab="all" if lists.text(request, "query") else "active",
        csv=lists.file_address(request, "products.csv", "tab", "query"),
        totals=totals,
        zone=ZoneInfo(merchant.time_zone),
        currencies=page_helpers.list_currencies(request),
        whole_currencies=page_helpers.WHOLE_CURRENCIES,
        entries=entries or {"currency": merchant.settlement_currency},
        uploads=product_form.uploads_address(request),
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _read_price(product: Product) -> Money:
    return Money(product.price_minor, product.currency)


async def create(request: PageRequest) -> Response:
    """Create a product.

    Sending the same form again has no effect.
    """
    entries, errors = await product_form.read_form(request)
    if errors:
        errors = await product_form.collect_errors(entries) | errors
        return await _render_list(request, 400, errors, entries)
    actor = people.actor_of(request.login, _REASON)
    try:
        body = product_form.build_body(entries, ProductBody)

        async def work(tx: Tx) -> str:
            product = await products.create(tx, request.merchant_id, body, request.now, actor=actor)
            return product.id

        product_id = await form_ids.run_once(request, work)
    except KeyReused:
        return await _render_list(request, 422, {"add": form_ids.FORM_REUSED}, entries)
    except Invalid:
        return await _render_list(request, 400, await product_form.collect_errors(entries), entries)
    return page_helpers.redirect(request, "products", product_id, done="added")


async def show_one(request: PageRequest) -> Response:
    """Show a product."""
    return await product_page(request)


async def product_page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
    **values: object,
) -> Response:
    """Show the product in the path.

    ``entries`` are the input of the form that changes the product; None shows the stored values.
    ``values`` are passed to the template, such as ``opening``, the input of the form that opens a
    session.
    """
    detail = await _read_detail(request)
    product = detail.product
    pictures = Pictures(request.app.settings.public_url)
    picture = pictures.address(product.image)
    stored = {
        "name": product.name,
        "price": _price_entry(product),
        "currency": product.currency,
        "description": product.description,
        "image": product.image or "",
    }
    zone = ZoneInfo(detail.merchant.time_zone)
    form_values: dict[str, Any] = {"opening": {}, **values}
    return render.page(
        request,
        "product.html",
        status,
        public_url=request.app.settings.public_url,
        page_languages=names("customer"),
        picture_origins=pictures.origins,
        detail=detail,
        product=product,
        restorable=product.status == "ARCHIVED" and not products.is_stand_in(product.id),
        picture=picture,
        zone=zone,
        columns=_COLUMNS,
        rows=await payments_columns.rows(request, zone, _COLUMNS, detail.payments),
        money=Money,
        currencies=page_helpers.list_currencies(request),
        whole_currencies=page_helpers.WHOLE_CURRENCIES,
        entries=entries or stored,
        uploads=product_form.uploads_address(request),
        editing=entries is not None,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
        offered_methods=gateways.offered_methods(
            request.app.gateways, product.currency, merchant_id=product.merchant_id
        ),
        lifetimes_min=LIFETIMES_MIN,
        **form_values,
    )


async def _read_detail(request: PageRequest) -> Detail:
    """Read the product in the path with its payments and sessions. Raises NotFound."""
    db, merchant_id, now = request.app.db, request.merchant_id, request.now
    oldest = rates.oldest_valid_from(now, request.app.settings.rates_max_age_days)
    async with db.connection() as tx:
        product = await products.find(tx, merchant_id, request.ids["product"])
        merchant = await merchants.find(tx, merchant_id)
        sales = await checkouts.find_sales(tx, merchant_id, [product.id])
        rate = await rates.find(tx, product.currency, merchant.settlement_currency, now, oldest)
        links = await payment_links.list_matching(tx, merchant_id, product.id)
        all_sales = await orders.sum_product_sales(tx, merchant_id, product.id, 0)
        newest_sales = await orders.sum_product_sales(
            tx, merchant_id, product.id, now - _NEWEST_DAYS * 86_400_000
        )
    payments, _ = await orders.list_page(
        db, merchant_id, OrdersQuery(product_id=product.id, size=_NEWEST)
    )
    payments = await orders.all_with_livemode(
        db.read, payments, deployment=request.app.settings.livemode
    )
    sessions, _ = await checkouts.list_page(
        db, merchant_id, SessionsQuery(product_id=product.id, status="OPEN", size=_NEWEST)
    )
    return Detail(
        product=product,
        merchant=merchant,
        price=_read_price(product),
        sales=sales[product.id],
        newest_sales=newest_sales,
        all_sales=all_sales,
        payments=payments,
        sessions=sessions,
        links=[link for link in links if link.product_id == product.id],
        has_rate=rate is not None,
    )


def _price_entry(product: Product) -> str:
    """Return the price as an entry of the form."""
    text = _read_price(product).text
    return text if EXPONENTS[product.currency] else text.removesuffix(".00")


async def change(request: PageRequest) -> Response:
    """Change a product, unless somebody else has changed it since the form was shown."""
    entries, errors = await product_form.read_form(request)
    if errors:
        return await product_page(
            request, 400, await product_form.collect_errors(entries) | errors, entries
        )
    version = (await request.form()).get("version", "")
    shown_version = int(version) if _VERSION.fullmatch(version) else 0
    actor = people.actor_of(request.login, _REASON)
    product_id = request.ids["product"]
    try:
        body = product_form.build_body(entries, ProductUpdate)
        await request.app.db.run(
            lambda tx: products.update(
                tx,
                request.merchant_id,
                product_id,
                body,
                request.now,
                seen=shown_version,
                actor=actor,
            )
        )
    except products.Outdated:
        return await product_page(
            request,
            409,
            {
                "edit": N_(
                    "Somebody has changed this product since you opened the form; "
                    "at the top is how it is now. Save again to replace that with "
                    "your entries"
                )
            },
            entries,
        )
    except Invalid:
        return await product_page(request, 400, await product_form.collect_errors(entries), entries)
    return page_helpers.redirect(request, "products", product_id, done="saved")


async def archive(request: PageRequest) -> Response:
    """Archive a product. Idempotent."""
    product_id = request.ids["product"]
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: products.archive(tx, request.merchant_id, product_id, request.now, actor=actor)
    )
    return page_helpers.redirect(request, "products", product_id, done="archived")


async def restore(request: PageRequest) -> Response:
    """Make an archived product active again. Idempotent."""
    product_id = request.ids["product"]
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: products.restore(tx, request.merchant_id, product_id, request.now, actor=actor)
    )
    return page_helpers.redirect(request, "products", product_id, done="restored")


_PLACE: Final = f"{DASHBOARD_PATH}/products"
_ONE: Final = f"{_PLACE}/{{product:id}}"
pages: Final = (
    Page("GET", _PLACE, "products.read", show, menu=N_("Products"), group="catalogue"),
    Page(
        "POST",
        _PLACE,
        "products.write",
        create,
        fields=tuple(product_form.ERRORS),
        files=products.MAX_IMAGE_BYTES,
    ),
    Page("GET", _ONE, "products.read", show_one),
    Page(
        "POST",
        _ONE,
        "products.write",
        change,
        fields=(*product_form.ERRORS, "version"),
        files=products.MAX_IMAGE_BYTES,
    ),
    Page("POST", f"{_ONE}/archive", "products.write", archive),
    Page("POST", f"{_ONE}/restore", "products.write", restore),
)
