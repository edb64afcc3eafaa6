"""Functions and texts that several pages of the dashboard share."""

from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants
from opentill.db import rate_limits
from opentill.merchants import Merchant
from opentill.portal import render
from opentill.portal.request import PageRequest


async def find_merchant(request: PageRequest) -> Merchant:
    """Read the merchant in the path."""
    async with request.app.db.connection() as tx:
        return await merchants.find(tx, request.merchant_id)


async def find_zone(request: PageRequest) -> ZoneInfo:
    """Read the time zone of the merchant in the path."""
    return ZoneInfo((await find_merchant(request)).time_zone)


def redirect(request: PageRequest, /, *path: str, **query: str) -> Response:
    """Redirect to a page of the merchant in the path."""
    address = "/".join(("/dashboard", request.merchant_id, *path))
    return render.see_other(request, f"{address}?{urlencode(query)}" if query else address)


async def limit_resends(request: PageRequest) -> None:
    """Count a resend towards the merchant's limit per minute. Raises TooManyRequests."""
    app = request.app
    await rate_limits.hit_merchant(
        app.db, app.settings, "resends", request.merchant_id, request.now
    )
