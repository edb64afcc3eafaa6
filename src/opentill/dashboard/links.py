"""A merchant's payment links: made, listed, shown with their code, switched off and on."""

import re
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, payment_links, people, products
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import EXPONENTS, PRICE_PATTERN, Money
from opentill.dashboard import payments_columns
from opentill.db.database import Tx
from opentill.figures.model import day_bounds, local
from opentill.http import strictjson
from opentill.payment_links import (
    LinkBody,
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
from opentill.web.translations import N_

Entries = dict[str, str]  # what was typed, by the name of its field

_REASON: Final = "on the page of payment links"
_PRICE: Final = re.compile(PRICE_PATTERN)
_MOST_CHOICES: Final = 100  # products
_ACTIVE: Final = {"on": True, "off": False}
_FIELDS: Final = (
    "product", "name", "currency", "price", "least", "most", "quantity", "uses", "expires",
    "reference",
)  # fmt: skip
# field of the service → field of the form, and the text that says what it accepts
_ERRORS: Final = {
    "productId": ("product", N_("Choose one of your active products")),
    "item.name": ("name", N_("Enter a name of 1 to 200 characters")),
    "item.currency": ("currency", N_("Choose one of the currencies")),
    "item.price": (
        "price",
        N_(
            "Enter an amount from 0.01 to 99999999.99 with a point and at "
            "most two decimals, such as 9.99"
        ),
    ),
    "item.minAmount": (
        "least",
        N_(
            "Enter an amount from 0.01 to 99999999.99 with a point and at "
            "most two decimals, such as 9.99"
        ),
    ),
    "item.maxAmount": ("most", N_("Enter an amount that is more than the least one")),
    "item": ("price", N_("Enter either a price, or a least and a largest amount")),
    "maxQuantity": (
        "quantity",
        N_("Enter a whole number from 1 to 99; 1 where the customer enters the amount"),
    ),
    "maxUses": ("uses", N_("Enter a whole number from 1 to 100000, or leave it empty")),
    "expiresAt": ("expires", N_("Choose today or a day to come, or leave it empty")),
    "clientReference": ("reference", N_("Enter at most 200 characters, or leave it empty")),
}


# What can be changed, by the name of its field.
_CHANGES: Final = ("name", "description", "quantity", "uses", "expires", "reference")
_LONGEST_DESCRIPTION: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_NEWEST: Final = 20  # payments
_COLUMNS: Final = (
    *(one for one in payments_columns.COLUMNS if one.unasked and one.name != "product"),
    payments_columns.AMOUNT,
)


class Row(msgspec.Struct, frozen=True):
    """A link in the list; the amounts are of one, equal for a fixed price."""

    link: PaymentLink
    name: str
    least: Money
    most: Money
    usage: Usage
    state: State


def _row(link: PaymentLink, product: Product | None, usage: Usage, now: int) -> Row:
    state = state_of(link, usage, now)
    if product is not None:
        price = Money(product.price_minor, product.currency)
        gone = product.status != "ACTIVE" and state == "ACTIVE"
        return Row(link, product.name, price, price, usage, "INACTIVE" if gone else state)
    currency = link.currency or ""
    least, most = (Money(one or 0, currency) for one in (link.least_minor, link.most_minor))
    return Row(link, link.name or "", least, most, usage, state)


async def show(request: PageRequest) -> Response:
    """List payment links, newest first."""
    return await _list(request)


async def _list(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
) -> Response:
    chosen = lists.choice(request, "active", tuple(_ACTIVE))
    query = PaymentLinksQuery(
        page=lists.page_number(request),
        size=lists.SIZE,
        active=None if chosen is None else _ACTIVE[chosen],
    )
    found, total = await payment_links.list_page(request.app.db, request.merchant_id, query)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        used = await payment_links.find_usage(tx, merchant.id, [one.id for one in found])
        ids = [one.product_id for one in found if one.product_id is not None]
        sold = await products.find_many(tx, merchant.id, ids)
    choices, _ = await products.list_page(
        request.app.db, merchant.id, ProductsQuery(size=_MOST_CHOICES, status="ACTIVE")
    )
    return render.page(
        request,
        "links.html",
        status,
        zone=ZoneInfo(merchant.time_zone),
        rows=[
            _row(one, sold.get(one.product_id or ""), used[one.id], request.now) for one in found
        ],
        pager=lists.Pager(query.page, total),
        chosen=chosen,
        choices=tuple(_ACTIVE),
        products=choices,
        currencies=[(code, request.localizer.currency(code)) for code in sorted(EXPONENTS)],
        entries=entries or {"currency": merchant.settlement_currency, "quantity": "1"},
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _body(entries: Entries, zone: ZoneInfo) -> LinkBody:
    """Check entries as the API checks its bodies. Raises Invalid."""
    given: dict[str, Any] = {"clientReference": entries["reference"] or None}
    if entries["product"]:
        given["productId"] = entries["product"]
    else:
        item = {
            "name": entries["name"],
            "currency": entries["currency"],
            "price": entries["price"],
            "minAmount": entries["least"],
            "maxAmount": entries["most"],
        }
        given["item"] = {name: text for name, text in item.items() if text or name == "name"}
    for field, name in (("maxQuantity", "quantity"), ("maxUses", "uses")):
        if entries[name]:
            given[field] = _whole(entries[name])
    if entries["expires"]:
        given["expiresAt"] = _end_of(entries["expires"], zone)
    return strictjson.decode(msgspec.json.encode(given), LinkBody)


def _end_of(text: str, zone: ZoneInfo) -> int:
    """Return the end of a day, Unix ms. Raises Invalid."""
    try:
        day = date.fromisoformat(text)
        return day_bounds(day, zone).until
    except (ValueError, OverflowError):
        raise Invalid("expiresAt", "expiresAt must be a day to come") from None


def _error(problem: Invalid, entries: Entries) -> dict[str, str]:
    """Return which field of the form was refused, and the key of what it accepts."""
    field = problem.field or ""
    if field == "item":
        field = (problem.reason or "").partition(" ")[0]
        if field == "item":
            field = _malformed(entries)
    name, sentence = _ERRORS.get(
        field, ("add", N_("The link could not be made. Check what you entered"))
    )
    whole = EXPONENTS.get(entries["currency"]) == 0
    if (
        sentence
        == N_(
            "Enter an amount from 0.01 to 99999999.99 with a point and at "
            "most two decimals, such as 9.99"
        )
        and whole
        and "." in entries.get(name, "")
    ):
        sentence = N_("This currency has no decimals: enter an amount such as 1200")
    return {name: sentence}


def _malformed(entries: Entries) -> str:
    """Return which part of an item is no text or amount at all, "item" if none is."""
    if not entries["name"]:
        return "item.name"
    typed = (("item.price", "price"), ("item.minAmount", "least"), ("item.maxAmount", "most"))
    wrong = (part for part, name in typed if entries[name] and not _PRICE.fullmatch(entries[name]))
    return next(wrong, "item")


async def create(request: PageRequest) -> Response:
    """Make a payment link, once for each form."""
    form = await request.form()
    entries = {name: form.get(name, "").strip() for name in _FIELDS}
    actor = people.actor_of(request.login, _REASON)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    try:
        body = _body(entries, ZoneInfo(merchant.time_zone))

        async def work(tx: Tx) -> str:
            link = await payment_links.create(
                tx, request.app.gateways, merchant.id, body, request.now, actor=actor
            )
            return link.id

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
    return _to(request, made, "made")


def _to(request: PageRequest, link_id: str, done: str) -> Response:
    path = f"/dashboard/{request.merchant_id}/links/{link_id}?done={done}"
    return render.see_other(request, path)


async def show_one(request: PageRequest) -> Response:
    """Show a payment link: its address, its code, and what it has sold."""
    return await _link(request)


async def _link(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: Entries | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        link = await payment_links.find(tx, merchant.id, request.ids["link"])
        used = await payment_links.find_usage(tx, merchant.id, [link.id])
        sold = await products.find_many(tx, merchant.id, [link.product_id or ""])
        ids = await payment_links.list_newest_paid(tx, merchant.id, link.id, _NEWEST)
        by_id = await orders.find_many(tx, merchant.id, ids)
    real, zone = request.app.settings.livemode, ZoneInfo(merchant.time_zone)
    paid = await orders.all_with_livemode(
        request.app.db.read, [by_id[one] for one in ids], deployment=real
    )
    row = _row(link, sold.get(link.product_id or ""), used[link.id], request.now)
    return render.page(
        request,
        "link.html",
        status,
        scripts=True,
        zone=zone,
        row=row,
        link=link,
        columns=_COLUMNS,
        rows=payments_columns.rows(request, zone, _COLUMNS, paid),
        most=_NEWEST,
        entries=entries or _kept(link, zone),
        editing=entries is not None,
        sales=[(one, Money(one.paid_minor, one.currency)) for one in row.usage.sales if one.paid],
        address=link.address(request.app.settings.public_url),
        errors=errors or {},
    )


def _kept(link: PaymentLink, zone: ZoneInfo) -> Entries:
    """Return what can be changed of a link, as it would be typed."""
    return {
        "name": link.name or "",
        "description": link.description,
        "quantity": str(link.max_quantity),
        "uses": "" if link.max_uses is None else str(link.max_uses),
        "expires": "" if link.expires_at is None else _last_day(link.expires_at, zone),
        "reference": link.client_reference or "",
    }


def _last_day(moment: int, zone: ZoneInfo) -> str:
    """Return the day in which a moment (Unix ms) is, or which ends with it."""
    return local(moment - 1, zone).date().isoformat()


def _changed(entries: Entries, link: PaymentLink, zone: ZoneInfo) -> LinkUpdate:
    """Check what was typed as the API checks its bodies. Raises Invalid."""
    given: dict[str, Any] = {
        "clientReference": entries["reference"] or None,
        "maxQuantity": _whole(entries["quantity"] or "1"),
        "maxUses": _whole(entries["uses"]) if entries["uses"] else None,
    }
    if link.product_id is None:
        given["item"] = {name: entries[name] for name in ("name", "description")}
    if entries["expires"] != _kept(link, zone)["expires"]:  # the API may have set an hour of it
        given["expiresAt"] = _end_of(entries["expires"], zone) if entries["expires"] else None
    return strictjson.decode(msgspec.json.encode(given), LinkUpdate)


def _whole(text: str) -> int | str:
    """Return a number that was typed, or the text that is none."""
    return int(text) if _NUMBER.fullmatch(text) else text


async def change(request: PageRequest) -> Response:
    """Change a payment link, unless somebody else has meanwhile."""
    form, link_id = await request.form(), request.ids["link"]
    entries = {name: form.get(name, "").strip() for name in _CHANGES}
    entries["description"] = entries["description"].replace("\r\n", "\n")
    version = form.get("version", "")
    seen = int(version) if _NUMBER.fullmatch(version) else 0
    actor = people.actor_of(request.login, _REASON)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        link = await payment_links.find(tx, merchant.id, link_id)
    try:
        body = _changed(entries, link, ZoneInfo(merchant.time_zone))
        await request.app.db.run(
            lambda tx: payment_links.update(
                tx, merchant.id, link_id, body, request.now, seen=seen, actor=actor
            )
        )
    except payment_links.Outdated:
        return await _link(
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
    except Invalid as problem:
        return await _link(request, 400, _change_error(problem, entries), entries)
    return _to(request, link_id, "saved")


def _change_error(problem: Invalid, entries: Entries) -> dict[str, str]:
    """Return which field of the form was refused, and the key of what it accepts."""
    if problem.field == "item":
        if len(entries["description"]) > _LONGEST_DESCRIPTION:
            return {"description": N_("Enter at most 1,000 characters")}
        return {"name": N_("Enter a name of 1 to 200 characters")}
    name, sentence = _ERRORS.get(
        problem.field or "", ("edit", N_("The link could not be changed. Check what you entered"))
    )
    return {name: sentence}


async def switch(request: PageRequest) -> Response:
    """Switch a payment link off or on; sent twice, it is as it was asked for."""
    form, link_id = await request.form(), request.ids["link"]
    active = form.get("active") == "on"
    actor = people.actor_of(request.login, _REASON)
    body = LinkUpdate(active=active)
    await request.app.db.run(
        lambda tx: payment_links.update(
            tx, request.merchant_id, link_id, body, request.now, actor=actor
        )
    )
    return _to(request, link_id, "on" if active else "off")


_PLACE: Final = f"{DASHBOARD_PATH}/links"
_ONE: Final = f"{_PLACE}/{{link:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show, menu=N_("Payment links")),
    Page("POST", _PLACE, "sessions.write", create),
    Page("GET", _ONE, "payments.read", show_one),
    Page("POST", _ONE, "sessions.write", change),
    Page("POST", f"{_ONE}/switch", "sessions.write", switch),
)
