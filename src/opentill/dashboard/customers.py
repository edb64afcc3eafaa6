"""Customers: a merchant's payments, grouped by email address. A customer has no row of its own."""

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import orders
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.dashboard import page_helpers, payments_columns
from opentill.list_counts import FOREVER
from opentill.portal import lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NEWEST: Final = 500  # without a search, the customers of this many newest payments are listed
_COLUMNS: Final = payments_columns.without("customer")


async def show(request: PageRequest) -> Response:
    """List the customers that match the search, by default those of the newest payments."""
    db, zone = request.app.replica.reading(), await page_helpers.find_zone(request)
    email, errors = lists.text(request, "email"), dict[str, str]()
    customers: list[orders.CustomerOrder] = []
    if not email:
        customers = await db.read(
            lambda tx: orders.recent_customers(tx, request.merchant_id, _NEWEST)
        )
    else:
        try:
            customers = await orders.find_customers(db, request.merchant_id, email)
        except Invalid:
            errors["email"] = N_("More than 200 customers match: enter more of the name or address")
    if len(customers) == 1 and customers[0].email.lower() == email.lower():
        return page_helpers.redirect(request, "customers", "one", email=customers[0].email)
    pager = Pager(lists.page_number(request), len(customers))
    shown = customers[(pager.number - 1) * pager.size : pager.number * pager.size]
    newest = await db.read(
        lambda tx: orders.find_many(tx, request.merchant_id, [one.order_id for one in shown])
    )
    address = request.link("customers", "one")
    rows = [
        (
            customer,
            Money(customer.amount_minor, customer.currency),
            f"{address}?{urlencode({'email': customer.email})}",
        )
        for customer in shown
    ]
    return render.page(
        request, "customers.html", email=email, errors=errors, zone=zone, pager=pager, rows=rows,
        statuses={order_id: order.shown_status for order_id, order in newest.items()},
    )  # fmt: skip


async def show_one(request: PageRequest) -> Response:
    """Show a customer's totals by currency, and all their payments."""
    db, zone = request.app.replica.reading(), await page_helpers.find_zone(request)
    merchant_id, email = request.merchant_id, lists.text(request, "email", 254)
    if not email:
        return page_helpers.redirect(request, "customers")
    number = lists.page_number(request)
    page, total = await orders.list_customer_page(
        db, merchant_id, email, number, lists.SIZE, since=0, until=FOREVER
    )
    payments = await orders.all_with_livemode(
        db.read, page, deployment=request.app.settings.livemode
    )
    sums = await orders.sums_of_customer(db, merchant_id, email)
    firsts = [row.first_paid_at for row in sums if row.first_paid_at is not None]
    lasts = [row.last_paid_at for row in sums if row.last_paid_at is not None]
    return render.page(
        request,
        "customer.html",
        200 if total else 404,
        email=email,
        name=next((order.customer_name for order in page if order.customer_name), ""),
        zone=zone,
        sums=[
            (row, Money(row.paid_minor, row.currency), Money(row.refunded_minor, row.currency))
            for row in sums
        ],
        most_summed=orders.MAX_SUMMED if total > orders.MAX_SUMMED else 0,
        first=min(firsts, default=None),
        last=max(lasts, default=None),
        columns=_COLUMNS,
        rows=payments_columns.rows(request, zone, _COLUMNS, payments),
        pager=Pager(number, total),
    )


_PLACE: Final = f"{DASHBOARD_PATH}/customers"
pages: Final = (
    Page("GET", _PLACE, "customers.read", show, menu=N_("Customers"), group="customers"),
    Page("GET", f"{_PLACE}/one", "customers.read", show_one),
)
