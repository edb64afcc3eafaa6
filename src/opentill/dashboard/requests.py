"""A merchant's last refused requests, and the unknown fields of its accepted ones."""

import json
from typing import Final
from zoneinfo import ZoneInfo

from markupsafe import Markup
from starlette.responses import Response

from opentill import merchants
from opentill.core.errors import Problem, or_not_found
from opentill.dashboard import developers
from opentill.http import ignored_log, refused
from opentill.portal import lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.reference import highlighting
from opentill.web.translations import N_

_DAYS: Final = refused.KEEP_MS // 86_400_000


async def show(request: PageRequest) -> Response:
    """List refused requests and unknown fields, newest first."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        rows = await refused.newest(tx, request.merchant_id, request.now)
        ignored = await ignored_log.newest(tx, request.merchant_id, request.now)
        keys = {key.id: key for key in await merchants.keys(tx, request.merchant_id)}
    statuses = sorted({str(row.status) for row in rows})
    key_ids = sorted({row.key_id for row in rows})
    status = lists.choice(request, "status", statuses)
    key_id = lists.choice(request, "key", key_ids)
    zone = ZoneInfo(merchant.time_zone)
    range_ = lists.days(request, zone)
    since, until = range_.range
    rows = [row for row in rows if since <= row.at <= until]
    rows = [
        row for row in rows if status in {None, str(row.status)} and key_id in {None, row.key_id}
    ]
    pager = lists.Pager(lists.page_number(request), len(rows))
    start = (pager.number - 1) * pager.size
    return render.page(
        request,
        "requests.html",
        errors=range_.errors,
        zone=zone,
        days=_DAYS,
        range=range_,
        rows=[(row, _moment(request, row.at, zone)) for row in rows[start : start + pager.size]],
        ignored=[(row, _moment(request, row.last_at, zone)) for row in ignored],
        pager=pager,
        keys=keys,
        statuses=[(text, text) for text in statuses],
        key_names=[(id_, keys[id_].name or keys[id_].hint) for id_ in key_ids],
        chosen_status=status,
        chosen_key=key_id,
    )


async def show_one(request: PageRequest) -> Response:
    """Show a refused request with its error response. Raises NotFound."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        rows = await refused.newest(tx, request.merchant_id, request.now)
        keys = {key.id: key for key in await merchants.keys(tx, request.merchant_id)}
    row = or_not_found(next((row for row in rows if row.id == request.ids["request"]), None))
    zone = ZoneInfo(merchant.time_zone)
    return render.page(
        request,
        "request.html",
        zone=zone,
        days=_DAYS,
        row=row,
        moment=_moment(request, row.at, zone),
        keys=keys,
        response=_response_body(row.code, row.field, row.reason),
        highlight=highlighting.highlight,
    )


def _response_body(code: int, field: str, reason: str) -> str:
    """Return the error response of a request, with the redacted texts of the log."""
    body: dict[str, object] = {"code": code, "message": _messages().get(code, "")}
    if reason or field:
        body["error"] = {"field": field, "reason": reason}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _messages() -> dict[int, str]:
    """Return the message of each code of an error response."""
    kinds = list[type[Problem]](Problem.__subclasses__())
    return {kind.code: kind.message for kind in reversed(kinds)} | {Problem.code: Problem.message}


def _moment(request: PageRequest, time_ms: int, zone: ZoneInfo) -> Markup:
    """Write a time with its seconds, since requests often arrive within the same minute."""
    return request.localizer.time_element(time_ms, zone, request.now, seconds=True)


pages: Final = (
    Page(
        "GET",
        f"{developers.PLACE}/requests",
        "requests.read",
        show,
        menu=N_("API errors"),
        group="developers",
    ),
    Page("GET", f"{developers.PLACE}/requests/{{request:id}}", "requests.read", show_one),
)
