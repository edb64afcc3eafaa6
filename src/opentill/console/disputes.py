"""The list of disputes of all merchants, filtered by status and days; also as a file."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
from starlette.responses import Response

from opentill import disputes, merchants, orders
from opentill.console import filters
from opentill.console.labels import DISPUTE_CHOICE
from opentill.console.needs import SOON_MS
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Dispute, DisputeFilter, State, export
from opentill.http import csvfile
from opentill.orders import OrderCustomer
from opentill.portal import dispute_rates, downloads, lists, render
from opentill.portal.dispute_rates import Row
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The choices of the filter. SOON: open with a deadline within three days.
_CHOICES: Final[tuple[Literal["OPEN", "SOON"] | State, ...]] = ("OPEN", "SOON", *disputes.STATES)
_COLUMNS: Final = (
    "merchantId",
    "merchant",
    *export.COLUMNS,
    "gateway",
    *(column for name, _ in export.TIMES for column in (name, f"{name}Utc")),
)
_FILE_PAGE: Final = 1000  # each query for the file reads this many rows


def _read_query(request: PageRequest) -> tuple[DisputeFilter, Days, str]:
    """Return the filter with its cursor, the days with their errors, and the chosen status."""
    days = lists.days(request, ZONE)
    choice = lists.choice(request, "status", _CHOICES)
    chosen = disputes.filter_of("OPEN" if choice == "SOON" else choice)
    query = DisputeFilter(
        statuses=(chosen.status,) if chosen.status else disputes.STATUSES,
        response=chosen.response,
        since=days.since,
        until=days.until,
        due=request.now + SOON_MS if choice == "SOON" else None,
        after=lists.before(request),
    )
    return query, days, choice or ""


async def _read_page(
    tx: Tx, query: DisputeFilter, most: int
) -> tuple[list[Dispute], Mapping[str, str]]:
    """Return disputes, and the names of their merchants by id."""
    page = await disputes.search_all(tx, query, most)
    return page, await merchants.names(tx, (dispute.merchant_id for dispute in page))


async def _find_unforwarded(tx: Tx, rows: Sequence[Dispute]) -> frozenset[str]:
    """Return the ids of those disputes whose response has not gone to the bank."""
    unforwarded = frozenset[str]()
    for merchant_id in {row.merchant_id for row in rows if row.response}:
        own = [row for row in rows if row.merchant_id == merchant_id]
        unforwarded |= await disputes.find_unforwarded(tx, merchant_id, own)
    return unforwarded


async def list_disputes(request: PageRequest) -> Response:
    """List disputes, newest first, or by deadline if the choice is SOON."""
    query, days, choice = _read_query(request)
    read = partial(_read_page, query=query, most=lists.SIZE + 1)
    page, names = await request.app.replica.read(read)
    rows = page[: lists.SIZE]
    unforwarded = await request.app.replica.read(lambda tx: _find_unforwarded(tx, rows))
    customers = dict[tuple[str, str], OrderCustomer]()
    if request.may("customers.read"):
        places = [(row.merchant_id, row.order_id) for row in rows]
        customers = await request.app.replica.read(
            lambda tx: orders.find_customers_of_orders(tx, places)
        )
    this_month = await dispute_rates.read(
        request.app.replica.reading(), request.localizer, None, request.now, months=1
    )
    return render.page(
        request,
        "disputes.html",
        rows=[(row, Money(row.amount_minor, row.currency)) for row in rows],
        names=names,
        customers=customers,
        unforwarded=unforwarded,
        next=rows[-1].id if len(page) > lists.SIZE else None,
        newest=request.console("disputes") + filters.query_string(request),
        file=request.console("disputes.csv") + filters.query_string(request),
        choices=[(name, request.localizer.gettext(DISPUTE_CHOICE[name])) for name in _CHOICES],
        choice=choice,
        soon=SOON_MS,
        decides=request.may("disputes.decide"),
        by_deadline=query.due is not None,
        this_month=next(iter(this_month), None),
        days=days,
        zone=ZONE,
    )


async def show_rate(request: PageRequest) -> Response:
    """Show the dispute rates of the last months, of all merchants or of the one in the query."""
    async with request.app.db.connection() as tx:
        typed, merchant, errors = await filters.find_merchant(tx, request)
    rows = list[Row]()
    if not errors:
        merchant_id = merchant.id if merchant else None
        rows = await dispute_rates.read(request.app.db, request.localizer, merchant_id, request.now)
    return render.page(
        request,
        "disputes_rate.html",
        rows=rows,
        months=request.localizer.number(dispute_rates.MONTHS),
        merchant=merchant,
        typed=typed,
        errors=errors,
    )


async def export_disputes(request: PageRequest) -> Response:
    """Stream all pages of the list as CSV. Errors in the filters are shown by the list."""
    query, days, _ = _read_query(request)
    if days.errors:
        return render.see_other(request, f"{PLACE}{filters.query_string(request)}")

    replica = request.app.replica.reading()

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        after = ""
        while True:
            next_query = msgspec.structs.replace(query, after=after)
            page, names = await replica.read(partial(_read_page, query=next_query, most=_FILE_PAGE))
            for dispute in page:
                yield _cells(dispute, names[dispute.merchant_id])
            if len(page) < _FILE_PAGE:
                return
            after = page[-1].id

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("disputes.csv", chunks)


def _cells(dispute: Dispute, merchant: str) -> tuple[str, ...]:
    times = [getattr(dispute, field) for _, field in export.TIMES]
    about = map(csvfile.format_cell, (dispute.merchant_id, merchant))
    moments = (csvfile.format_cell(cell) for at in times for cell in (at, csvfile.format_utc(at)))
    return (*about, *export.cells(dispute), csvfile.format_cell(dispute.gateway), *moments)


PLACE: Final = f"{CONSOLE_PATH}/disputes"
pages: Final = (
    Page("GET", PLACE, "disputes.read", list_disputes, menu=N_("Disputes"), group="payments"),
    Page("GET", f"{PLACE}/rate", "disputes.read", show_rate),
    Page("GET", f"{PLACE}.csv", "disputes.read", export_disputes),
)
