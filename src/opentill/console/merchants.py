"""All merchants, found by a part of their name, by their id, or by their status."""

from collections.abc import AsyncGenerator
from typing import Final, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import merchants
from opentill.console.labels import MERCHANT_STATUS
from opentill.console.zone import ZONE
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
_OF_FILE: Final = 1000  # rows that are read at once


async def show(request: PageRequest) -> Response:
    """List merchants, newest first."""
    text, number = lists.text(request, "query"), lists.page_number(request)
    status = lists.choice(request, "status", _STATUSES)
    async with request.app.db.connection() as tx:
        found, total = await merchants.search(tx, text, number, lists.SIZE, status)
    if total == 1 and found and found[0].id == text:
        return render.see_other(request, f"{PLACE}/{text}")
    filters = {"query": text, "status": status or ""}
    query = urlencode({name: value for name, value in filters.items() if value})
    return render.page(
        request,
        "merchants.html",
        text=text,
        chosen=status,
        statuses=[(one, request.localizer.gettext(MERCHANT_STATUS[one])) for one in _STATUSES],
        merchants=found,
        pager=Pager(number, total),
        file=request.console("merchants.csv") + (f"?{query}" if query else ""),
        zone=ZONE,
    )


async def file(request: PageRequest) -> Response:
    """Send what the list shows on all of its pages, newest first."""
    text = lists.text(request, "query")
    status = lists.choice(request, "status", _STATUSES)

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        sent, number, total = set[str](), 0, 1
        while number * _OF_FILE < total:
            number += 1
            async with request.app.db.connection() as tx:
                found, total = await merchants.search(tx, text, number, _OF_FILE, status)
            for one in found:
                if one.id not in sent:  # a new merchant has moved it to this page
                    sent.add(one.id)
                    yield _line(one)

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("merchants.csv", chunks)


def _line(one: Merchant) -> tuple[str, ...]:
    cells = (
        one.id, one.name, one.display_name, one.status, one.settlement_currency,
        one.charge_off, one.refund_off, one.payout_off, one.created_at,
        csvfile.format_utc(one.created_at),
    )  # fmt: skip
    return tuple(map(csvfile.format_cell, cells))


PLACE: Final = f"{CONSOLE_PATH}/merchants"
pages: Final = (
    Page("GET", PLACE, "merchants.read", show, menu=N_("Merchants")),
    Page("GET", f"{PLACE}.csv", "merchants.read", file),
)
