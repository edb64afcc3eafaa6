"""The first page of a merchant, and the choice between several merchants."""

from typing import Final

from starlette.responses import Response

from opentill import ledger, merchants, orders, people
from opentill.core.money import Money
from opentill.dashboard import render
from opentill.dashboard.model import OF_MERCHANT, Page
from opentill.dashboard.request import PageRequest

_NEWEST: Final = 10


async def choose(request: PageRequest) -> Response:
    """Lead to the only merchant that somebody is a member of, or let them choose."""
    async with request.app.db.connection() as tx:
        workplaces = await people.workplaces(tx, request.login)
    if len(workplaces) == 1:
        return render.see_other(request, f"/dashboard/{workplaces[0].merchant_id}/")
    return render.page(request, "choose.html", workplaces=workplaces)


async def show(request: PageRequest) -> Response:
    """Show the balance, for those who may see it, and the newest payments."""
    access = request.access
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, access.merchant_id)
        currency = merchant.settlement_currency
        found = await ledger.balance(tx, merchant.id, currency)
        newest = await orders.newest(tx, merchant.id, _NEWEST)
    balance = None
    if access.may("balance.read"):
        amounts = (0, 0, 0, 0)
        if found is not None:
            amounts = (found.available, found.pending, found.frozen, found.reserve)
        names = ("available", "pending", "frozen", "reserve")
        balance = {
            name: Money(amount, currency) for name, amount in zip(names, amounts, strict=True)
        }
    payments = [(one, Money(one.amount_minor, one.currency)) for one in newest]
    return render.page(request, "home.html", balance=balance, payments=payments)


pages: Final = (
    Page("GET", "/dashboard", "a person", choose),
    Page("GET", OF_MERCHANT, "home.read", show, menu="menu_home"),
)
