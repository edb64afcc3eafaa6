"""The last requests of a merchant that the API refused, and fields that it did not read."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants
from opentill.dashboard import developers
from opentill.http import ignored_log, refused
from opentill.portal import lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest

_DAYS: Final = refused.KEEP_MS // 86_400_000


async def show(request: PageRequest) -> Response:
    """List them, newest first."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        kept = await refused.newest(tx, request.merchant_id, request.now)
        vain = await ignored_log.newest(tx, request.merchant_id, request.now)
        keys = {key.id: key for key in await merchants.keys(tx, request.merchant_id)}
    statuses = sorted({str(one.status) for one in kept})
    used = sorted({one.key_id for one in kept})
    status = lists.choice(request, "status", statuses)
    key_id = lists.choice(request, "key", used)
    found = [
        one for one in kept if status in {None, str(one.status)} and key_id in {None, one.key_id}
    ]
    pager = lists.Pager(lists.page_number(request), len(found))
    start = (pager.number - 1) * pager.size
    zone = ZoneInfo(merchant.time_zone)
    return render.page(
        request,
        "requests.html",
        zone=zone,
        most=refused.MOST,
        days=_DAYS,
        rows=[(one, _moment(request, one.at, zone)) for one in found[start : start + pager.size]],
        vain=[(one, _moment(request, one.last_at, zone)) for one in vain],
        pager=pager,
        keys=keys,
        statuses=[(one, one) for one in statuses],
        used=[(one, keys[one].name or keys[one].hint) for one in used],
        chosen_status=status,
        chosen_key=key_id,
    )


def _moment(request: PageRequest, time_ms: int, zone: ZoneInfo) -> str:
    """Write a time to the second: requests come close together."""
    return f"{request.localizer.moment_in(time_ms, zone)}:{time_ms // 1000 % 60:02d}"


pages: Final = (Page("GET", f"{developers.PLACE}/requests", "requests.read", show),)
