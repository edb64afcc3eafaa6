"""Customers: a merchant's payments, grouped by email address. A customer has no row of its own."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Literal, get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import orders
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.dashboard import page_helpers, payments_columns
from opentill.gateways.model import Card
from opentill.http import csvfile
from opentill.list_counts import FOREVER
from opentill.orders import CustomerOrder, CustomerTotal, RecentCustomers
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NEWEST: Final = 1_000  # without a search, the customers of this many newest payments are listed
_EXPORTED: Final = 20_000  # the same for the CSV file
_BATCH: Final = 500  # customers whose totals a statement reads
_COLUMNS: Final = payments_columns.without("customer")
Sort = Literal["recent", "spent", "payments", "name"]
_SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
_FILE_COLUMNS: Final = (
    "email", "name", "currency", "payments", "spent", "refunded", "net_spent",
    "first_payment_utc", "last_payment_utc",
)  # fmt: skip


class Customer(msgspec.Struct, frozen=True):
    """A customer with their newest order, and what they have paid in each currency."""

    newest: CustomerOrder
    totals: Sequence[CustomerTotal] = ()

    @property
    def payments(self) -> int:
        """How many orders the customer has paid."""
        return sum(total.payments for total in self.totals)

    @property
    def settled_minor(self) -> int:
        """What the customer has paid and not got back, in the merchant's settlement currency."""
        return sum(total.settled_minor for total in self.totals)

    @property
    def spent(self) -> list[Money]:
        """What the customer has paid and not got back, in each currency."""
        return [Money(total.spent_minor, total.currency) for total in self.totals]

    @property
    def last_paid_at(self) -> int | None:
        """When the customer paid last, None for never; Unix ms."""
        return max((total.last_paid_at for total in self.totals), default=None)


async def show(request: PageRequest) -> Response:
    """List the customers that match the search, by default those of the newest payments."""
    email, errors = lists.text(request, "email"), dict[str, str]()
    newest, recent = await _find(request, email, errors, _NEWEST)
    if len(newest) == 1 and newest[0].email.lower() == email.lower():
        return page_helpers.redirect(request, "customers", "one", email=newest[0].email)
    sort = lists.choice(request, "sort", _SORTS) or "recent"
    if sort == "recent" and recent is not None and recent.has_more:
        newest = await _complete_last_payments(request, newest)
    pager = Pager(lists.page_number(request), len(newest))
    first, last = (pager.number - 1) * pager.size, pager.number * pager.size
    # The order by name or time needs no totals of customers on other pages.
    needs_all = sort in {"spent", "payments"}
    if sort == "name":
        newest.sort(key=lambda order: (order.name or order.email).casefold())
    shown = newest if needs_all else newest[first:last]
    customers = await _with_totals(request, shown, recent)
    if needs_all:
        customers.sort(
            key=lambda customer: customer.settled_minor if sort == "spent" else customer.payments,
            reverse=True,
        )
        customers = customers[first:last]
    address = request.link("customers", "one")
    query = {name: value for name, value in request.query.items() if name == "email"}
    return render.page(
        request,
        "customers.html",
        email=email,
        errors=errors,
        zone=page_helpers.zone_of(request),
        pager=pager,
        sort=sort,
        sorts=_SORTS,
        csv=request.link("customers.csv") + (f"?{urlencode(query)}" if query else ""),
        rows=[
            (customer, f"{address}?{urlencode({'email': customer.newest.email})}")
            for customer in customers
        ],
        most=_NEWEST,
        is_part=recent is not None and recent.has_more,
    )


async def _find(
    request: PageRequest, email: str, errors: dict[str, str], most: int
) -> tuple[list[CustomerOrder], RecentCustomers | None]:
    """Return the customers that match, or those of the newest ``most`` payments for no text.

    The latter also as ``RecentCustomers``. Adds an error if too many match.
    """
    db = request.app.replica.reading()
    if not email:
        recent = await db.read(lambda tx: orders.recent_customers(tx, request.merchant_id, most))
        return recent.customers, recent
    try:
        return await orders.find_customers(db, request.merchant_id, email), None
    except Invalid:
        errors["email"] = N_("More than 200 customers match: enter more of the name or address")
        return [], None


async def _complete_last_payments(
    request: PageRequest, newest: Sequence[CustomerOrder]
) -> list[CustomerOrder]:
    """Sort customers by their last payment, also those whose newest orders are all unpaid."""
    db = request.app.replica.reading()
    unpaid = [customer for customer in newest if customer.last_paid_at is None]
    completed = await orders.add_last_payments(db, request.merchant_id, unpaid)
    paid = [customer for customer in newest if customer.last_paid_at is not None]
    return orders.sort_customers([*paid, *completed])


async def _with_totals(
    request: PageRequest, newest: Sequence[CustomerOrder], recent: RecentCustomers | None
) -> list[Customer]:
    db, totals = request.app.replica.reading(), dict[str, Sequence[CustomerTotal]]()
    merchant_id = request.merchant_id
    for start in range(0, len(newest), _BATCH):
        emails = [order.email for order in newest[start : start + _BATCH]]
        totals |= (
            await orders.totals_of_customers(db, merchant_id, emails)
            if recent is None
            else await orders.totals_of_recent(db, merchant_id, recent, emails)
        )
    return [Customer(order, totals.get(order.email, ())) for order in newest]


async def export(request: PageRequest) -> Response:
    """Send the customers of the list as CSV, one row for each currency in which they have paid."""
    email, errors = lists.text(request, "email"), dict[str, str]()
    newest, recent = await _find(request, email, errors, _EXPORTED)
    if errors:
        return page_helpers.redirect(request, "customers", email=email)

    async def rows() -> AsyncGenerator[Sequence[str], None]:
        for start in range(0, len(newest), _BATCH):
            for customer in await _with_totals(request, newest[start : start + _BATCH], recent):
                for row in _file_rows(customer):
                    yield row

    return await downloads.table("customers.csv", csvfile.encode_rows(_FILE_COLUMNS, rows()))


def _file_rows(customer: Customer) -> list[Sequence[str]]:
    person = tuple(map(csvfile.format_cell, (customer.newest.email, customer.newest.name)))
    if not customer.totals:
        return [(*person, "", "0", "", "", "", "", "")]
    return [
        (
            *person,
            total.currency,
            str(total.payments),
            money.show(total.paid_minor, total.currency),
            money.show(total.refunded_minor, total.currency),
            money.show(total.spent_minor, total.currency),
            csvfile.format_utc(total.first_paid_at),
            csvfile.format_utc(total.last_paid_at),
        )
        for total in customer.totals
    ]


async def show_one(request: PageRequest) -> Response:
    """Show a customer's totals by currency, and all their payments."""
    db, zone = request.app.replica.reading(), page_helpers.zone_of(request)
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
    sums, methods = await orders.sums_of_customer(db, merchant_id, email)
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
            (row, Money(row.spent_minor, row.currency), Money(row.refunded_minor, row.currency))
            for row in sums
        ],
        methods=[
            (
                row,
                orders.format_card(Card(brand=row.card_brand, last4=row.card_last4))
                if row.card_last4
                else "",
            )
            for row in methods
        ],
        most_summed=orders.MAX_SUMMED if total > orders.MAX_SUMMED else 0,
        first=min(firsts, default=None),
        last=max(lasts, default=None),
        columns=_COLUMNS,
        rows=await payments_columns.rows(request, zone, _COLUMNS, payments),
        pager=Pager(number, total),
    )


_PLACE: Final = f"{DASHBOARD_PATH}/customers"
pages: Final = (
    Page("GET", _PLACE, "customers.read", show, menu=N_("Customers"), group="customers"),
    Page("GET", f"{_PLACE}.csv", "payments.export", export),
    Page("GET", f"{_PLACE}/one", "customers.read", show_one),
)
