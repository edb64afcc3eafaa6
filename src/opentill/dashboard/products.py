"""A merchant's products: the list, one of them, and what is done to them."""

import re
from typing import Any, Final, TypeVar, get_args
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import checkouts, gateways, merchants, orders, people, products, rates
from opentill.checkouts import Sales, Session, SessionsQuery
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import EXPONENTS, Money
from opentill.dashboard import payments_columns
from opentill.db.database import Tx
from opentill.http import strictjson
from opentill.merchants import Merchant
from opentill.orders import Order, OrdersQuery
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.products import Product, ProductBody, ProductsQuery, ProductUpdate
from opentill.web.language import names
from opentill.web.pictures import Pictures
from opentill.web.translations import N_

Entries = dict[str, str]  # what was typed, by the name of its field
B = TypeVar("B", ProductBody, ProductUpdate)

_SIZE: Final = 25
LASTING_MIN: Final = (1440, 720, 120, 30)  # minutes that a session can be paid
_NEWEST: Final = 10
_STATUSES: Final[tuple[products.Status, ...]] = get_args(products.Status)
_COLUMNS: Final = (
    *(one for one in payments_columns.COLUMNS if one.unasked and one.name != "product"),
    payments_columns.AMOUNT,
)
_REASON: Final = "on the page of products"
_VERSION: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
# field of the service → the text that says what it accepts
_ERRORS: Final = {
    "name": N_("Enter a name of 1 to 200 characters"),
    "price": N_(
        "Enter an amount from 0.01 to 99999999.99 with a point and at "
        "most two decimals, such as 9.99"
    ),
    "currency": N_("Choose one of the currencies"),
    "description": N_("Enter at most 1,000 characters"),
    "image": N_(
        "Enter a whole address such as https://shop.example.com/page, "
        "of at most 2,048 characters, without spaces, user name and "
        "password"
    ),
}


class Row(msgspec.Struct, frozen=True):
    """A product in the list; ``picture`` is an address that the page may show."""

    product: Product
    price: Money
    picture: str | None
    sales: Sales


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown of one product; ``unrated`` is set where its currency lacks a rate."""

    product: Product
    merchant: Merchant
    price: Money
    sales: Sales
    payments: list[Order]
    sessions: list[Session]
    unrated: bool


async def show(request: PageRequest) -> Response:
    """List products, newest first."""
    return await _list(request)


async def _list(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
) -> Response:
    chosen = lists.choice(request, "status", _STATUSES)
    query = ProductsQuery(page=lists.page_number(request), size=_SIZE, status=chosen)
    found, total = await products.list_page(request.app.db, request.merchant_id, query)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        sales = await checkouts.find_sales(tx, merchant.id, [one.id for one in found])
    pictures = Pictures(request.app.settings.public_url)
    rows = [Row(one, _price(one), pictures.address(one.image), sales[one.id]) for one in found]
    return render.page(
        request,
        "products.html",
        status,
        picture_origins=pictures.origins,
        rows=rows,
        pager=lists.Pager(query.page, total, _SIZE),
        statuses=_STATUSES,
        chosen=chosen,
        currencies=_currencies(request),
        entries=entries or {"currency": merchant.settlement_currency},
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _price(product: Product) -> Money:
    return Money(product.price_minor, product.currency)


def _currencies(request: PageRequest) -> list[tuple[str, str]]:
    """Return all currencies with their names, by code."""
    return [(code, request.localizer.currency(code)) for code in sorted(EXPONENTS)]


def _entries(form: dict[str, str]) -> Entries:
    """Return what was typed: trimmed, with the line breaks of texts and not of forms."""
    typed = {name: form.get(name, "").strip() for name in _ERRORS}
    return {name: text.replace("\r\n", "\n") for name, text in typed.items()}


def _body(entries: Entries, body: type[B]) -> B:
    """Check entries as the API checks its bodies. Raises Invalid."""
    optional = {name: entries[name] or None for name in ("description", "image")}
    return strictjson.decode(msgspec.json.encode({**entries, **optional}), body)


def _error(problem: Invalid, entries: Entries) -> dict[str, str]:
    """Return which field was refused, and the key of what it accepts."""
    field = problem.field or ""
    if field == "price" and EXPONENTS.get(entries["currency"]) == 0 and "." in entries["price"]:
        return {field: N_("This currency has no decimals: enter an amount such as 1200")}
    return {field: _ERRORS[field]}


async def create(request: PageRequest) -> Response:
    """Make a product, once for each form."""
    entries = _entries(await request.form())
    actor = people.actor_of(request.login, _REASON)
    try:
        body = _body(entries, ProductBody)

        async def work(tx: Tx) -> str:
            product = await products.create(tx, request.merchant_id, body, request.now, actor=actor)
            return product.id

        made = await form_ids.run_once(request, work)
    except KeyReused:
        return await _list(
            request,
            422,
            {
                "add": N_(
                    "This form was sent before, with other entries, and has done "
                    "its work. Send it again if you want another one"
                )
            },
            entries,
        )
    except Invalid as problem:
        return await _list(request, 400, _error(problem, entries), entries)
    return _to(request, made)


def _to(request: PageRequest, product_id: str, done: str = "") -> Response:
    path = f"/dashboard/{request.merchant_id}/products/{product_id}"
    return render.see_other(request, f"{path}?done={done}" if done else path)


async def show_one(request: PageRequest) -> Response:
    """Show a product."""
    return await page_of(request)


async def page_of(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
    **values: object,
) -> Response:
    """Show the product in the path, perhaps with what was typed into one of its forms.

    ``values`` are more of the template's: ``opening``, the entries of a session to be opened.
    """
    detail = await _detail(request)
    product = detail.product
    pictures = Pictures(request.app.settings.public_url)
    picture = pictures.address(product.image)
    kept = {
        "name": product.name,
        "price": _typed_price(product),
        "currency": product.currency,
        "description": product.description,
        "image": product.image or "",
    }
    zone = ZoneInfo(detail.merchant.time_zone)
    more: dict[str, Any] = {"opening": {}, **values}
    offered = gateways.offered_methods(request.app.gateways, product.currency)
    return render.page(
        request,
        "product.html",
        status,
        page_languages=names("customer"),
        picture_origins=pictures.origins,
        detail=detail,
        product=product,
        picture=picture,
        zone=zone,
        columns=_COLUMNS,
        rows=payments_columns.rows(request, zone, _COLUMNS, detail.payments),
        money=Money,
        currencies=_currencies(request),
        entries=entries or kept,
        editing=entries is not None,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
        offered=offered,
        lasting=LASTING_MIN,
        **more,
    )


async def _detail(request: PageRequest) -> Detail:
    """Read a product and what became of it. Raises NotFound."""
    db, merchant_id, now = request.app.db, request.merchant_id, request.now
    oldest = rates.oldest_valid_from(now, request.app.settings.rates_max_age_days)
    async with db.connection() as tx:
        product = await products.find(tx, merchant_id, request.ids["product"])
        merchant = await merchants.find(tx, merchant_id)
        sales = await checkouts.find_sales(tx, merchant_id, [product.id])
        settled = merchant.settlement_currency
        rate = await rates.find(tx, product.currency, settled, now, oldest)
    found, _ = await orders.list_page(
        db, merchant_id, OrdersQuery(product_id=product.id, size=_NEWEST)
    )
    real = request.app.settings.livemode
    payments = await orders.all_with_livemode(db.read, found, deployment=real)
    sessions, _ = await checkouts.list_page(
        db, merchant_id, SessionsQuery(product_id=product.id, status="OPEN", size=_NEWEST)
    )
    return Detail(
        product=product,
        merchant=merchant,
        price=_price(product),
        sales=sales[product.id],
        payments=payments,
        sessions=sessions,
        unrated=rate is None,
    )


def _typed_price(product: Product) -> str:
    """Return a price as somebody would type it."""
    text = _price(product).text
    return text if EXPONENTS[product.currency] else text.removesuffix(".00")


async def change(request: PageRequest) -> Response:
    """Change a product, unless somebody else has meanwhile."""
    form = await request.form()
    entries, version = _entries(form), form.get("version", "")
    seen = int(version) if _VERSION.fullmatch(version) else 0
    actor = people.actor_of(request.login, _REASON)
    product_id = request.ids["product"]
    try:
        body = _body(entries, ProductUpdate)
        await request.app.db.run(
            lambda tx: products.update(
                tx, request.merchant_id, product_id, body, request.now, seen=seen, actor=actor
            )
        )
    except products.Outdated:
        return await page_of(
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
    except Invalid as problem:
        return await page_of(request, 400, _error(problem, entries), entries)
    return _to(request, product_id, "saved")


async def archive(request: PageRequest) -> Response:
    """Archive a product; sent twice, it is archived once."""
    product_id = request.ids["product"]
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: products.archive(tx, request.merchant_id, product_id, request.now, actor=actor)
    )
    return _to(request, product_id, "archived")


_PLACE: Final = f"{DASHBOARD_PATH}/products"
_ONE: Final = f"{_PLACE}/{{product:id}}"
pages: Final = (
    Page("GET", _PLACE, "products.read", show, menu=N_("Products")),
    Page("POST", _PLACE, "products.write", create),
    Page("GET", _ONE, "products.read", show_one),
    Page("POST", _ONE, "products.write", change),
    Page("POST", f"{_ONE}/archive", "products.write", archive),
)
