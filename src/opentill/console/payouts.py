"""The list of payouts of all merchants, with its filters; also as a file."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import merchants, payouts
from opentill.console import filters
from opentill.console.payout_labels import PAYOUT_FILTER_ERROR, PAYOUT_STATUS
from opentill.console.zone import ZONE
from opentill.core import amounts, money
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.http import csvfile
from opentill.payouts import Payout, PayoutFilter, RunOfPayout
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_TIMES: Final = (  # columns of times, and the payout's fields that they show
    ("createdAt", "created_at"),
    ("paidAt", "paid_at"),
    ("failedAt", "failed_at"),
)
_COLUMNS: Final = (
    "merchantId",
    "merchant",
    "id",
    "status",
    "amount",
    "fee",
    "currency",
    "reference",
    "bankReference",
    "failureReason",
    "runId",
    "runReference",
    "createdBy",
    "approvedBy",
    *(column for name, _ in _TIMES for column in (name, f"{name}Utc")),
)
_FILE_PAGE: Final = 1000  # each query for the file reads this many rows


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The filters in the address, and their error texts by field."""

    criteria: PayoutFilter
    days: Days
    merchant: str
    amount: str
    errors: Mapping[str, str]


class PayoutPage(msgspec.Struct, frozen=True, kw_only=True):
    """Payouts, the names of their merchants by id, and their runs by the ids of both."""

    payouts: list[Payout]
    names: Mapping[str, str]
    runs: Mapping[tuple[str, str], RunOfPayout]


async def _read_search(request: PageRequest) -> Search:
    """Read the filters and the cursor of the list."""
    days = lists.days(request, ZONE)
    status = lists.choice(request, "status", payouts.STATUSES)
    amount = lists.text(request, "amount")
    async with request.app.db.connection() as tx:
        typed, merchant, errors = await filters.find_merchant(tx, request)
    errors = {**days.errors, **errors}
    if amount and not amounts.read_amount(amount):
        errors["amount"] = PAYOUT_FILTER_ERROR["amount"]
    criteria = PayoutFilter(
        merchant_id=merchant.id if merchant else None,
        statuses=(status,) if status else payouts.STATUSES,
        amounts=tuple(amounts.minor_amounts(amount)) if amount else None,
        since=days.since,
        until=days.until,
        after=lists.before(request),
    )
    return Search(criteria=criteria, days=days, merchant=typed, amount=amount, errors=errors)


async def _read_payouts(tx: Tx, criteria: PayoutFilter, most: int) -> PayoutPage:
    page = await payouts.search_all(tx, criteria, most)
    return PayoutPage(
        payouts=page,
        names=await merchants.names(tx, (payout.merchant_id for payout in page)),
        runs=await payouts.find_runs_of_payouts(tx, page),
    )


async def list_payouts(request: PageRequest) -> Response:
    """List payouts, newest first. A filter with an error shows no rows."""
    search, localizer = await _read_search(request), request.localizer
    rows = PayoutPage(payouts=[], names={}, runs={})
    if not search.errors:
        read = partial(_read_payouts, criteria=search.criteria, most=lists.SIZE + 1)
        rows = await request.app.replica.read(read)
    shown = rows.payouts[: lists.SIZE]
    return render.page(
        request,
        "payouts.html",
        rows=[(row, localizer.amount(Money(row.amount_minor, row.currency))) for row in shown],
        names=rows.names,
        runs=rows.runs,
        next=shown[-1].id if len(rows.payouts) > lists.SIZE else None,
        newest=request.console("payouts") + filters.query_string(request),
        file=request.console("payouts.csv") + filters.query_string(request),
        search=search,
        errors=search.errors,
        chosen=lists.choice(request, "status", payouts.STATUSES),
        statuses=[(name, localizer.gettext(text)) for name, text in PAYOUT_STATUS.items()],
        zone=ZONE,
    )


async def export_payouts(request: PageRequest) -> Response:
    """Stream all pages of the list as CSV. Errors in the filters are shown by the list."""
    search = await _read_search(request)
    if search.errors:
        return render.see_other(request, f"{PLACE}{filters.query_string(request)}")
    replica = request.app.replica.reading()

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        criteria = msgspec.structs.replace(search.criteria, after="")
        while True:
            page = await replica.read(partial(_read_payouts, criteria=criteria, most=_FILE_PAGE))
            for payout in page.payouts:
                run = page.runs.get((payout.merchant_id, payout.id))
                yield _format_cells(payout, page.names[payout.merchant_id], run)
            if len(page.payouts) < _FILE_PAGE:
                return
            criteria = msgspec.structs.replace(criteria, after=page.payouts[-1].id)

    return await downloads.table("payouts.csv", csvfile.encode_rows(_COLUMNS, rows()))


def _format_cells(payout: Payout, merchant: str, run: RunOfPayout | None) -> tuple[str, ...]:
    cells: list[Any] = [
        payout.merchant_id, merchant, payout.id, payout.status,
        money.show(payout.amount_minor, payout.currency),
        money.show(payout.fee_minor, payout.currency), payout.currency, payout.reference,
        payout.bank_reference, payout.failure_reason, run.run_id if run else "",
        run.reference if run else "", payout.created_by, payout.approved_by,
    ]  # fmt: skip
    for _, field in _TIMES:
        at: int | None = getattr(payout, field)
        cells += [at, csvfile.format_utc(at)]
    return tuple(map(csvfile.format_cell, cells))


PLACE: Final = f"{CONSOLE_PATH}/payouts"
pages: Final = (
    Page("GET", PLACE, "payouts.read", list_payouts, menu=N_("Payouts"), group="money"),
    Page("GET", f"{PLACE}.csv", "payouts.read", export_payouts),
)
