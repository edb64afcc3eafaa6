"""The list of a merchant's disputes, its CSV file, and the dispute rates."""

from collections.abc import Mapping
from datetime import UTC
from typing import Final, Literal

from starlette.responses import Response

from opentill import disputes, figures, orders
from opentill.core.money import Money
from opentill.dashboard import menu_counts, page_helpers
from opentill.figures.model import local
from opentill.orders import OrderCustomer
from opentill.portal import dispute_rates, downloads, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The filter of the list; "OPEN" is the choice of older links: open disputes of all states.
_CHOICES: Final[tuple[disputes.State | Literal["OPEN"], ...]] = (*disputes.STATES, "OPEN")
_RARE: Final = ("ACCEPTED", "RECOVERED")


async def show_list(request: PageRequest) -> Response:
    """Show the disputes of a range of days, open ones first."""
    zone = page_helpers.zone_of(request)
    days = lists.days(request, zone)
    state = _read_choice(request)
    number = lists.page_number(request)
    customers = dict[tuple[str, str], OrderCustomer]()
    async with request.app.db.snapshot() as tx:
        rows, counts = await disputes.page(
            tx, request.merchant_id, state, days.range, number, lists.SIZE
        )
        cases = await menu_counts.read_cases(request, tx)
        stakes = await disputes.sum_at_stake(tx, request.merchant_id, with_contested=True)
        unforwarded = await disputes.find_unforwarded(tx, request.merchant_id, rows)
        if request.access.may("customers.read"):
            customers = await orders.find_customers_of_orders(
                tx, ((row.merchant_id, row.order_id) for row in rows)
            )
        month_start = local(request.now, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        opened = await disputes.count_by_state(
            tx, request.merchant_id, (int(month_start.timestamp() * 1000), request.now)
        )
        this_month = await dispute_rates.read_in(
            tx, request.localizer, request.merchant_id, request.now, months=1
        )
    return render.page(
        request,
        "disputes.html",
        zone=zone,
        customers=customers,
        unforwarded=unforwarded,
        days=days,
        chosen=state,
        tabs=_tabs(counts, state),
        cases=cases,
        most=disputes.MOST_COUNTED,
        at_stake=[Money(stake.loss_minor, stake.currency) for stake in stakes],
        pager=lists.Pager(number, disputes.total_of(counts, state)),
        filters=_read_query_string(request),
        opened=opened,
        this_month=this_month[0] if this_month else None,
        rows=[(row, Money(row.amount_minor, row.currency)) for row in rows],
    )


def _tabs(counts: Mapping[disputes.State, int], chosen: str | None) -> list[tuple[str, int]]:
    """Return the parts of the list with their numbers, "" for all disputes.

    Rare parts are left out while they are empty.
    """
    parts = [("", sum(counts.values())), *((state, counts[state]) for state in disputes.STATES)]
    if chosen == "OPEN":
        parts.insert(1, (chosen, sum(counts[state] for state in disputes.STATES[:3])))
    return [(name, n) for name, n in parts if n or name == chosen or name not in _RARE]


def _read_choice(request: PageRequest) -> disputes.State | Literal["OPEN"] | None:
    return lists.choice(request, "status", _CHOICES)


def _read_query_string(request: PageRequest) -> str:
    """Return the query string of the list with its ``?``, "" if there is none."""
    _, mark, query = request.url().partition("?")
    return mark + query


async def show_rate(request: PageRequest) -> Response:
    """Show the dispute rates of the last months, by payment method and card brand."""
    await figures.catch_up(request.app.db, request.merchant_id)
    rows, charts = await request.app.db.read_snapshot(
        lambda tx: dispute_rates.read_with_charts(
            tx, request.localizer, request.merchant_id, request.now
        )
    )
    return render.page(request, "disputes_rate.html", scripts=True, rows=rows, rate_charts=charts)


async def show_file(request: PageRequest) -> Response:
    """Send all pages of the list as CSV."""
    zone = page_helpers.zone_of(request)
    days = lists.days(request, zone)
    if days.errors:  # redirect to the page, which shows the errors
        return page_helpers.redirect(request, "disputes", **request.query)
    state = _read_choice(request)
    chunks = disputes.export_csv(request.app.db, request.merchant_id, state, days.range, zone)
    return await downloads.table(days.filename("disputes"), chunks)


_LIST: Final = f"{DASHBOARD_PATH}/disputes"
pages: Final = (
    Page("GET", _LIST, "disputes.read", show_list, menu=N_("Disputes"), group="payments"),
    Page("GET", f"{_LIST}/rate", "disputes.read", show_rate),
    Page("GET", f"{_LIST}.csv", "disputes.read", show_file),
)
