"""The list of merchants, searched by name, id or status; also as a file."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Final, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import figures, ledger, merchants
from opentill.console.labels import MERCHANT_STATUS
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.figures.model import day_bounds, local
from opentill.http import csvfile
from opentill.merchants import Merchant, Status
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_STATUSES: Final[tuple[Status, ...]] = get_args(Status)
_COLUMNS: Final = (
    "id",
    "name",
    "displayName",
    "status",
    "settlementCurrency",
    "chargeOff",
    "refundOff",
    "payoutOff",
    "createdAt",
    "createdAtUtc",
)
_VOLUME_DAYS: Final = 30  # the list shows the payments of this many days, today included
_FILE_PAGE: Final = 1000  # each query for the file reads this many rows


def thirty_days_ago(now: int) -> int:
    """Return the start of the first of the 30 days up to today, Unix ms."""
    first_day = local(now, ZONE).date() - timedelta(days=_VOLUME_DAYS - 1)
    return day_bounds(first_day, ZONE).since


async def list_merchants(request: PageRequest) -> Response:
    """List merchants, newest first. A search for an id leads to the page of its merchant."""
    text, number = lists.text(request, "query"), lists.page_number(request)
    status = lists.choice(request, "status", _STATUSES)
    async with request.app.db.connection() as tx:
        page, total = await merchants.search(tx, text, number, lists.SIZE, status)
        ids = [merchant.id for merchant in page]
        balances = await ledger.find_balances(tx, ids)
        volumes = await figures.sum_by_merchant(
            tx, ids, thirty_days_ago(request.now), request.now + 1
        )
    if total == 1 and page and page[0].id == text:
        return render.see_other(request, f"{PLACE}/{text}")

    def write_amount(minor: int, currency: str) -> str:
        return request.localizer.amount(Money(minor, currency))

    filters = {"query": text, "status": status or ""}
    query = urlencode({name: value for name, value in filters.items() if value})
    return render.page(
        request,
        "merchants.html",
        text=text,
        status_filter=status,
        statuses=[(s, request.localizer.gettext(MERCHANT_STATUS[s])) for s in _STATUSES],
        merchants=page,
        # Money in other currencies than the settlement currency is on the merchant's page.
        balances={
            merchant.id: balance
            for merchant in page
            for balance in balances
            if (balance.merchant_id, balance.currency)
            == (merchant.id, merchant.settlement_currency)
        },
        volumes={(volume.merchant_id, volume.currency): volume.volume_minor for volume in volumes},
        amount=write_amount,
        pager=Pager(number, total),
        file=request.console("merchants.csv") + (f"?{query}" if query else ""),
        zone=ZONE,
    )


async def export_merchants(request: PageRequest) -> Response:
    """Stream all pages of the list as CSV, newest first."""
    text = lists.text(request, "query")
    status = lists.choice(request, "status", _STATUSES)

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        written_ids, number, total = set[str](), 0, 1
        while number * _FILE_PAGE < total:
            number += 1
            async with request.app.db.connection() as tx:
                page, total = await merchants.search(tx, text, number, _FILE_PAGE, status)
            for merchant in page:
                # A merchant created meanwhile moves rows of the previous page to this one.
                if merchant.id not in written_ids:
                    written_ids.add(merchant.id)
                    yield _cells(merchant)

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("merchants.csv", chunks)


def _cells(merchant: Merchant) -> tuple[str, ...]:
    cells = (
        merchant.id, merchant.name, merchant.display_name, merchant.status,
        merchant.settlement_currency, merchant.charge_off, merchant.refund_off,
        merchant.payout_off, merchant.created_at, csvfile.format_utc(merchant.created_at),
    )  # fmt: skip
    return tuple(map(csvfile.format_cell, cells))


PLACE: Final = f"{CONSOLE_PATH}/merchants"
pages: Final = (
    Page("GET", PLACE, "merchants.read", list_merchants, menu=N_("Merchants"), group="merchants"),
    Page("GET", f"{PLACE}.csv", "merchants.read", export_merchants),
)
