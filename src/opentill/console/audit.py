"""The audit log: what operators and staff did, searched, as a file, and verified."""

import re
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import merchants
from opentill.console.zone import ZONE
from opentill.core.ids import is_id
from opentill.http import csvfile
from opentill.merchants import AuditHead, AuditQuery, AuditRow
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_COLUMNS: Final = (
    "number",
    "at",
    "atUtc",
    "who",
    "action",
    "merchantId",
    "subject",
    "reason",
    "hash",
)
_OF_FILE: Final = 1000  # rows that are read at once


def _sought(request: PageRequest) -> tuple[AuditQuery, Days]:
    days = lists.days(request, ZONE)
    merchant_id, before = lists.text(request, "merchant"), request.query.get("before", "")
    sought = AuditQuery(
        text=lists.text(request, "query"),
        merchant_id=merchant_id if is_id(merchant_id) else "",
        since=days.since,
        until=days.until,
    )
    if _NUMBER.fullmatch(before):
        sought = msgspec.structs.replace(sought, before=int(before))
    return sought, days


def _errors(request: PageRequest, days: Days) -> dict[str, str]:
    merchant_id, errors = lists.text(request, "merchant"), dict(days.errors)
    if merchant_id and not is_id(merchant_id):
        errors["merchant"] = N_("Enter the id of a merchant, such as mer_…, or nothing")
    return errors


async def show(request: PageRequest) -> Response:
    """List what was done, newest first."""
    sought, days = _sought(request)
    async with request.app.db.connection() as tx:
        found = await merchants.search_audit(tx, sought, lists.SIZE + 1)
        names = await merchants.names(tx, (one.merchant_id for one in found if one.merchant_id))
    shown = found[: lists.SIZE]
    return render.page(
        request,
        "audit.html",
        rows=shown,
        names=names,
        next=shown[-1].number if len(found) > lists.SIZE else None,
        newest=request.console("audit") + _query(request),
        file=request.console("audit.csv") + _query(request),
        text=sought.text,
        merchant=lists.text(request, "merchant"),
        days=days,
        errors=_errors(request, days),
        zone=ZONE,
    )


def _query(request: PageRequest) -> str:
    """Return the filters of the list as they stand in its address."""
    filters = {name: text for name, text in request.query.items() if name not in {"before", "lang"}}
    return f"?{urlencode(filters)}" if filters else ""


async def file(request: PageRequest) -> Response:
    """Send what the list would show on all of its pages, newest first."""
    sought, days = _sought(request)
    if _errors(request, days):  # the page says what is wrong
        return render.see_other(request, f"{PLACE}{_query(request)}")

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        before = sought.before
        while True:
            part = msgspec.structs.replace(sought, before=before)
            async with request.app.db.connection() as tx:
                found = await merchants.search_audit(tx, part, _OF_FILE)
            for row in found:
                yield _line(row)
            if len(found) < _OF_FILE:
                return
            before = found[-1].number or 0

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("audit.csv", chunks)


def _line(row: AuditRow) -> tuple[str, ...]:
    cells = (row.number, row.at, csvfile.format_utc(row.at), row.who, row.action, row.merchant_id)
    return tuple(map(csvfile.format_cell, (*cells, row.subject, row.reason, row.hash)))


async def verify(request: PageRequest) -> Response:
    """Read the whole chain and say what was changed in it, beginning with a place noted earlier."""
    given, errors = lists.text(request, "expect"), dict[str, str]()
    noted = _HEAD.fullmatch(given)
    if given and noted is None:
        errors["expect"] = N_("Enter it as NUMBER:HASH, or nothing")
    verdict = None
    if request.query.get("now") and not errors:
        expected = None if noted is None else AuditHead(int(noted[1]), noted[2])
        async with request.app.db.snapshot() as tx:
            verdict = await merchants.verify_audit(tx, expected)
    return render.page(
        request, "verify.html", expect=given, verdict=verdict, errors=errors, most=100
    )


PLACE: Final = f"{CONSOLE_PATH}/audit"
pages: Final = (
    Page("GET", PLACE, "audit.read", show, menu=N_("Audit log")),
    Page("GET", f"{PLACE}.csv", "audit.read", file),
    Page("GET", f"{PLACE}/verify", "audit.read", verify),
)
