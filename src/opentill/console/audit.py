"""The audit log of operators and staff: its list with a search, its file and its verification."""

import re
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants
from opentill.console import audit_entries, audit_reasons, filters
from opentill.console.zone import ZONE
from opentill.db.database import Tx
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
_FILE_PAGE: Final = 1000  # each query for the file reads this many rows


async def _read_query(tx: Tx, request: PageRequest) -> tuple[AuditQuery, Days, dict[str, str]]:
    """Return the query with its filters and cursor, the days, and the filters' errors by field."""
    days = lists.days(request, ZONE)
    _, merchant, errors = await filters.find_merchant(tx, request)
    query = AuditQuery(
        text=lists.text(request, "query"),
        action=lists.choice(request, "action", tuple(audit_entries.ACTION)) or "",
        merchant_id=merchant.id if merchant else "",
        since=days.since,
        until=days.until,
    )
    before = request.query.get("before", "")
    if _NUMBER.fullmatch(before):
        query = msgspec.structs.replace(query, before=int(before))
    return query, days, errors | days.errors


async def list_audit_rows(request: PageRequest) -> Response:
    """List the rows of the audit log, newest first."""
    async with request.app.db.connection() as tx:
        query, days, errors = await _read_query(tx, request)
        page = [] if errors else await merchants.search_audit(tx, query, lists.SIZE + 1)
        names = await merchants.names(tx, (row.merchant_id for row in page if row.merchant_id))
    rows, localizer = page[: lists.SIZE], request.localizer
    return render.page(
        request,
        "audit.html",
        rows=[
            (row, audit_entries.name(localizer, row.action), audit_entries.details(request, row))
            for row in rows
        ],
        actions=sorted(
            ((action, localizer.gettext(text)) for action, text in audit_entries.ACTION.items()),
            key=lambda choice: choice[1],
        ),
        reason=partial(audit_reasons.write, localizer),
        action=query.action,
        names=names,
        next=rows[-1].number if len(page) > lists.SIZE else None,
        newest=request.console("audit") + filters.query_string(request),
        file=request.console("audit.csv") + filters.query_string(request),
        text=query.text,
        merchant=lists.text(request, "merchant"),
        days=days,
        errors=errors,
        zone=ZONE,
    )


async def export_audit_rows(request: PageRequest) -> Response:
    """Stream all pages of the list as CSV. Errors in the filters are shown by the list."""
    async with request.app.db.connection() as tx:
        query, _, errors = await _read_query(tx, request)
    if errors:
        return render.see_other(request, f"{PLACE}{filters.query_string(request)}")

    async def rows() -> AsyncGenerator[tuple[str, ...], None]:
        before = query.before
        while True:
            next_query = msgspec.structs.replace(query, before=before)
            async with request.app.db.connection() as tx:
                page = await merchants.search_audit(tx, next_query, _FILE_PAGE)
            for row in page:
                yield _cells(row)
            if len(page) < _FILE_PAGE:
                return
            before = page[-1].number or 0

    chunks = csvfile.encode_rows(_COLUMNS, rows())
    return await downloads.table("audit.csv", chunks)


def _cells(row: AuditRow) -> tuple[str, ...]:
    cells = (row.number, row.at, csvfile.format_utc(row.at), row.who, row.action, row.merchant_id)
    return tuple(map(csvfile.format_cell, (*cells, row.subject, row.reason, row.hash)))


async def verify_audit_log(request: PageRequest) -> Response:
    """Verify the chain of hashes, also against the head that an earlier verification has shown."""
    text, errors = lists.text(request, "expect"), dict[str, str]()
    head = _HEAD.fullmatch(text)
    if text and head is None:
        errors["expect"] = N_("Enter the whole proof: a number, a colon and 64 characters")
    verdict = None
    if request.query.get("now") and not errors:
        expected = None if head is None else AuditHead(int(head[1]), head[2])
        async with request.app.db.snapshot() as tx:
            verdict = await merchants.verify_audit(tx, expected)
    return render.page(
        request, "verify.html", expect=text, verdict=verdict, errors=errors, most=100
    )


PLACE: Final = f"{CONSOLE_PATH}/audit"
pages: Final = (
    Page("GET", PLACE, "audit.read", list_audit_rows, menu=N_("Audit log"), group="security"),
    Page("GET", f"{PLACE}.csv", "audit.read", export_audit_rows),
    Page("GET", f"{PLACE}/verify", "audit.read", verify_audit_log),
)
