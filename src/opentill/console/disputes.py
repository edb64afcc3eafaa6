"""Disputes of all merchants: those that are open, due soon, or decided; as a file too."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import disputes, merchants
from opentill.console.labels import DISPUTE_STATUS
from opentill.console.needs import SOON_MS
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Dispute, Sought, Status, export
from opentill.http import csvfile
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# What can be chosen, and the statuses that it stands for; SOON: of the next days' deadlines.
_CHOICES: Final[Mapping[str, tuple[Status, ...]]] = {
    "OPEN": ("OPEN",),
    "SOON": ("OPEN",),
    "WON": ("WON",),
    "LOST": ("LOST",),
    "RECOVERED": ("RECOVERED",),
}
_COLUMNS: Final = (
    "merchantId",
    "merchant",
    *export.COLUMNS,
    "gateway",
    *(column for name, _ in export.TIMES for column in (name, f"{name}Utc")),
)
_OF_FILE: Final = 1000  # rows that are read at once


def _sought(request: PageRequest) -> tuple[Sought, Days, str]:
    days = lists.days(request, ZONE)
    chosen = lists.choice(request, "status", tuple(_CHOICES)) or ""
    sought = Sought(
        statuses=_CHOICES.get(chosen, disputes.STATUSES),
        since=days.since,
        until=days.until,
        due=request.now + SOON_MS if chosen == "SOON" else None,
        after=lists.before(request),
    )
    return sought, days, chosen


async def _some(tx: Tx, sought: Sought, most: int) -> tuple[list[Dispute], Mapping[str, str]]:
    """Return disputes, and the names of their merchants by their ids."""
    found = await disputes.of_all(tx, sought, most)
    return found, await merchants.names(tx, (one.merchant_id for one in found))


async def show(request: PageRequest) -> Response:
    """List disputes of all merchants, newest first; of those due soon the first deadline first."""
    sought, days, chosen = _sought(request)
    read = partial(_some, sought=sought, most=lists.SIZE + 1)
    found, names = await request.app.replica.read(read)
    shown = found[: lists.SIZE]
    return render.page(
        request,
        "disputes.html",
        rows=[(one, Money(one.amount_minor, one.currency)) for one in shown],
        names=names,
        next=shown[-1].id if len(found) > lists.SIZE else None,
        newest=request.console("disputes") + _query(request),
        file=request.console("disputes.csv") + _query(request),
        choices=[(one, request.localizer.gettext(DISPUTE_STATUS[one])) for one in _CHOICES],
        chosen=chosen,
        by_deadline=sought.due is not None,
        days=days,
        zone=ZONE,
    )


def _query(request: PageRequest) -> str:
    """Return the filters of the list as they stand in its address."""
    filters = {name: text for name, text in request.query.items() if name not in {"before", "lang"}}
    return f"?{urlencode(filters)}" if filters else ""


async def file(request: PageRequest) -> Response:
    """Send what the list would show on all of its pages."""
    sought, days, _ = _sought(request)
    if days.errors:  # the page says what is wrong with them
        return render.see_other(request, f"{PLACE}{_query(request)}")

    here = request.app.replica.reading()

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        after = ""
        while True:
            part = msgspec.structs.replace(sought, after=after)
            found, names = await here.read(partial(_some, sought=part, most=_OF_FILE))
            for one in found:
                yield _line(one, names[one.merchant_id])
            if len(found) < _OF_FILE:
                return
            after = found[-1].id

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("disputes.csv", chunks)


def _line(one: Dispute, merchant: str) -> tuple[str, ...]:
    times = [getattr(one, field) for _, field in export.TIMES]
    about = map(csvfile.format_cell, (one.merchant_id, merchant))
    moments = (csvfile.format_cell(cell) for at in times for cell in (at, csvfile.format_utc(at)))
    return (*about, *export.cells(one), csvfile.format_cell(one.gateway), *moments)


PLACE: Final = f"{CONSOLE_PATH}/disputes"
pages: Final = (
    Page("GET", PLACE, "disputes.read", show, menu=N_("Disputes")),
    Page("GET", f"{PLACE}.csv", "disputes.read", file),
)
