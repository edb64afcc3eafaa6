"""Customers: a merchant's payments by e-mail. What is shown of one is what their payments say."""

from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, orders
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.dashboard import payments_columns
from opentill.list_counts import FOREVER
from opentill.portal import lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_LOOKED_AT: Final = 500  # payments, whose customers are shown before one is searched
_COLUMNS: Final = (
    *(one for one in payments_columns.COLUMNS if one.unasked and one.name != "customer"),
    payments_columns.AMOUNT,
)


async def _zone(request: PageRequest) -> ZoneInfo:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    return ZoneInfo(merchant.time_zone)


async def show(request: PageRequest) -> Response:
    """Show the customers whose e-mail begins as asked, or those of the newest payments."""
    here, zone = request.app.replica.reading(), await _zone(request)
    email, errors = lists.text(request, "email"), dict[str, str]()
    found: list[orders.CustomerOrder] = []
    if not email:
        found = await here.read(
            lambda tx: orders.recent_customers(tx, request.merchant_id, _LOOKED_AT)
        )
    else:
        try:
            found = await orders.find_customers(here, request.merchant_id, email)
        except Invalid:
            errors["email"] = N_("More than 200 addresses begin so: enter more of it")
    if len(found) == 1 and found[0].email.lower() == email.lower():
        return render.see_other(request, _place(request, found[0].email))
    pager = Pager(lists.page_number(request), len(found))
    shown = found[(pager.number - 1) * pager.size : pager.number * pager.size]
    rows = [
        (one, Money(one.amount_minor, one.currency), request.base + _place(request, one.email))
        for one in shown
    ]
    return render.page(
        request, "customers.html", email=email, errors=errors, zone=zone, pager=pager, rows=rows,
        looked_at=_LOOKED_AT,
    )  # fmt: skip


def _place(request: PageRequest, email: str) -> str:
    query = urlencode({"email": email})
    return f"/dashboard/{request.merchant_id}/customers/one?{query}"


async def show_one(request: PageRequest) -> Response:
    """Show what one customer paid and got back, by currency, and all their payments."""
    here, zone = request.app.replica.reading(), await _zone(request)
    merchant_id, email = request.merchant_id, lists.text(request, "email", 254)
    if not email:
        return render.see_other(request, f"/dashboard/{merchant_id}/customers")
    number = lists.page_number(request)
    found, total = await orders.list_customer_page(
        here, merchant_id, email, number, lists.SIZE, since=0, until=FOREVER
    )
    real = request.app.settings.livemode
    known = await orders.all_with_livemode(here.read, found, deployment=real)
    sums = await orders.sums_of_customer(here, merchant_id, email)
    firsts = [each.first_paid_at for each in sums if each.first_paid_at is not None]
    lasts = [each.last_paid_at for each in sums if each.last_paid_at is not None]
    return render.page(
        request,
        "customer.html",
        200 if total else 404,
        email=email,
        zone=zone,
        sums=[
            (each, Money(each.paid_minor, each.currency), Money(each.refunded_minor, each.currency))
            for each in sums
        ],
        summed=orders.MAX_SUMMED if total > orders.MAX_SUMMED else 0,
        first=min(firsts, default=None),
        last=max(lasts, default=None),
        columns=_COLUMNS,
        rows=payments_columns.rows(request, zone, _COLUMNS, known),
        pager=Pager(number, total),
    )


_PLACE: Final = f"{DASHBOARD_PATH}/customers"
pages: Final = (
    Page("GET", _PLACE, "customers.read", show, menu=N_("Customers")),
    Page("GET", f"{_PLACE}/one", "customers.read", show_one),
)
