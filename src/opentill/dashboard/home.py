"""The first page of a merchant, and the choice between several merchants."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import (
    agreement,
    disputes,
    figures,
    merchants,
    orders,
    payouts,
    people,
    products,
    webhooks,
)
from opentill.core.money import Money
from opentill.dashboard import home_figures
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page, Todo
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NEWEST: Final = 10
_DAY_MS: Final = 86_400_000
_RECENT_MS: Final = 14 * _DAY_MS  # for so long a failed payout is shown


async def choose(request: PageRequest) -> Response:
    """Lead to the only merchant that somebody is a member of, or let them choose."""
    async with request.app.db.connection() as tx:
        workplaces = await people.workplaces(tx, request.login)
    if len(workplaces) == 1:
        return render.see_other(request, f"/dashboard/{workplaces[0].merchant_id}/")
    return render.page(request, "choose.html", workplaces=workplaces)


async def show(request: PageRequest) -> Response:
    """Show what needs somebody, figures with charts, the balance, and the newest payments."""
    access = request.access
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, access.merchant_id)
        newest = await orders.list_newest(tx, merchant.id, _NEWEST)
        todo = await _todo(tx, request)
    zone = ZoneInfo(merchant.time_zone)
    await figures.catch_up(request.app.db, merchant.id)
    found = await figures.read(request.app.db, merchant.id, zone, request.now)
    start: list[Todo] = []
    if not any(one.ever.payments for one in found.currencies):
        async with request.app.db.connection() as tx:
            start = await _first_payment(tx, request, newest)
    has_balance = access.may("balance.read")
    shown = home_figures.Shown(request.localizer, zone, found, with_balance=has_balance)
    return render.page(
        request,
        "home.html",
        scripts=True,
        zone=zone,
        merchant=merchant,
        off=[one for one in merchants.CAPABILITIES if merchant.off(one)],
        todo=todo,
        start=start,
        figures=shown,
        payments=[(one, Money(one.amount_minor, one.currency)) for one in newest],
    )


async def _todo(tx: Tx, request: PageRequest) -> list[Todo]:
    """Return what needs somebody, of what this person may see."""
    access, merchant_id = request.access, request.access.merchant_id
    found: list[Todo] = []
    if access.may("disputes.read"):
        number = await disputes.count_open(tx, merchant_id)
        found.append(
            Todo(N_("Open disputes: {number}"), number, "/disputes", disputes.MOST_COUNTED)
        )
    if access.may("agreement.read"):
        accepted = await agreement.acceptances(tx, merchant_id)
        status = agreement.status(agreement.current(request.app.settings), accepted)
        found.append(
            Todo(
                N_("The merchant services agreement is to be accepted"),
                int(status != "ACCEPTED"),
                "/agreement",
            )
        )
    if access.may("endpoints.read"):
        endpoints = await webhooks.search(tx, merchant_id)
        disabled = sum(one.status == "DISABLED" for one in endpoints)
        found.append(
            Todo(
                N_("Webhook endpoints that are disabled: {number}"),
                disabled,
                "/developers/webhooks",
            )
        )
    if access.may("payouts.read"):
        since = request.now - _RECENT_MS
        failed = await payouts.failed_since(tx, merchant_id, since)
        found.append(
            Todo(
                N_("Payouts of the last two weeks that failed: {number}"),
                len(failed),
                "/payouts",
                payouts.MOST_FAILED,
            )
        )
    return [one for one in found if one.number]


async def _first_payment(tx: Tx, request: PageRequest, newest: list[Order]) -> list[Todo]:
    """Return the way to the first payment; ``number`` is 1 for what is done."""
    access, merchant_id = request.access, request.access.merchant_id
    product = await products.find_newest_active(tx, merchant_id)
    has_product = product is not None or await products.has_any(tx, merchant_id)
    unpaid = [one for one in newest if one.status == "PENDING"]
    way = [
        Todo(N_("Add a product"), int(has_product), "/products"),
        Todo(
            N_("Open a checkout session"),
            int(bool(newest)),
            "/products" if product is None else f"/products/{product.id}",
        ),
        Todo(
            N_("Have it paid"), 0, f"/sessions/{unpaid[0].checkout_id}" if unpaid else "/sessions"
        ),
    ]
    shop: list[Todo] = []
    if access.may("keys.read"):
        keys = await merchants.keys(tx, merchant_id)
        key = any(one.revoked_at is None for one in keys)
        shop.append(Todo(N_("Create an API key"), int(key), "/developers/keys"))
    if access.may("endpoints.read"):
        endpoints = await webhooks.search(tx, merchant_id)
        shop.append(
            Todo(
                N_("Add a webhook endpoint, so that your shop is notified of payments"),
                int(bool(endpoints)),
                "/developers/webhooks",
            )
        )
    return [way[0], *shop, *way[1:]]


pages: Final = (
    Page("GET", "/dashboard", "a person", choose),
    Page("GET", DASHBOARD_PATH, "home.read", show, menu=N_("Home")),
)
