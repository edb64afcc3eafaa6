"""Payments of all merchants: one search box, and the newest of a merchant that is chosen.

An id or a number leads straight to its payment, of whichever merchant. Texts, such as an e-mail,
a reference of the shop's or the digits of a card, are searched within one merchant, since the
index is kept by merchant.
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

_LONGEST: Final = 500  # characters of the search box


class Asked(msgspec.Struct, frozen=True):
    """What the address asks for; ``errors`` are texts by field."""

    query: str
    merchant: str
    status: Status | None
    days: Days
    errors: dict[str, str]


def _asked(request: PageRequest) -> Asked:
    days = lists.days(request, ZONE)
    return Asked(
        query=lists.text(request, "query", _LONGEST),
        merchant=lists.text(request, "merchant"),
        status=lists.choice(request, "status", get_args(Status)),
        days=days,
        errors=dict(days.errors),
    )


async def show(request: PageRequest) -> Response:
    """Lead to the payment of an id, or list what is found of a merchant."""
    asked = _asked(request)
    async with request.app.db.connection() as tx:
        merchant = await _merchant(tx, asked)
        led = await _led(tx, asked, merchant)
        names = await merchants.names(tx, [one.merchant_id for one in led])
    found, pager = list[Order](), Pager(1, 0)
    if merchant is not None:
        await people.visit(request.app.db, request.login, merchant.id, request.now)
        found, pager = await _page(request, merchant, asked)
    if _leads_straight(asked, led, pager if merchant else None):
        return render.see_other(request, f"{PLACE}/{led[0].order_id}")
    return render.page(
        request,
        "payments.html",
        asked=asked,
        errors=asked.errors,
        merchant=merchant,
        names=names,
        led=led if merchant is None else [],
        found=[(one, request.localizer.amount(Money(one.amount_minor, one.currency)))
               for one in found],
        pager=pager,
        statuses=[(one, request.localizer.gettext(ORDER_STATUS[one])) for one in get_args(Status)],
        zone=ZONE,
    )  # fmt: skip


def _leads_straight(asked: Asked, led: list[OrderRef], pager: Pager | None) -> bool:
    """Return whether an id or a number leads to one order, and nothing else was found by it."""
    is_filtered = asked.status is not None or asked.days.first or asked.days.last
    return len(led) == 1 and not is_filtered and (pager is None or pager.total == 1)


async def _merchant(tx: Tx, asked: Asked) -> Merchant | None:
    """Return the merchant that is chosen, by its id or by all of its name."""
    if not asked.merchant:
        return None
    found, _ = await merchants.search(tx, asked.merchant, 1, 2)
    exact = [one for one in found if asked.merchant in {one.id, one.name}]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    asked.errors["merchant"] = (
        N_("Several merchants have this in their name. Enter all of the name, or the id")
        if found
        else N_("No merchant has this id or name")
    )
    return None


async def _led(tx: Tx, asked: Asked, merchant: Merchant | None) -> list[OrderRef]:
    """Return the orders that an id or a number leads to."""
    if not asked.query or (asked.merchant and merchant is None):
        return []
    if merchant is not None:
        searched = [merchant.id]
    else:
        searched = [one.id for one in await merchants.all_merchants(tx)]
    return await orders.look_up(tx, searched, asked.query)


async def _page(
    request: PageRequest, merchant: Merchant, asked: Asked
) -> tuple[list[Order], Pager]:
    """Return the orders of the page. What the search box finds too much of is said at it."""
    here, number = request.app.replica.reading(), lists.page_number(request)
    wanted: dict[str, Any] = {"page": number, "size": lists.SIZE}
    if asked.query:
        wanted["query"] = asked.query
    if asked.status is not None:
        wanted["status"] = asked.status
    if asked.days.since > 0:
        wanted["startDate"] = asked.days.since
    if asked.days.until < FOREVER:
        wanted["endDate"] = asked.days.until
    try:
        found, total = await orders.list_page(
            here, merchant.id, msgspec.convert(wanted, OrdersQuery)
        )
    except (Invalid, msgspec.ValidationError):
        asked.errors["query"] = N_(
            "Too much is found by this, or it is too long. Enter more of "
            "what you look for, or add days"
        )
        return [], Pager(1, 0)
    return found, Pager(number, total)


PLACE: Final = f"{CONSOLE_PATH}/payments"
pages: Final = (Page("GET", PLACE, "payments.read", show, menu=NC_("menu", "Payments")),)
