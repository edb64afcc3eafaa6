"""Functions and texts that several pages of the dashboard share."""

from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, products
from opentill.db import rate_limits
from opentill.figures.model import day_bounds, local
from opentill.merchants import Merchant
from opentill.portal import render
from opentill.portal.request import PageRequest
from opentill.products import Product

# A filter offers at most this many products.
_MOST_PRODUCTS: Final = 100


async def find_merchant(request: PageRequest) -> Merchant:
    """Read the merchant in the path."""
    async with request.app.db.connection() as tx:
        return await merchants.find(tx, request.merchant_id)


def zone_of(request: PageRequest) -> ZoneInfo:
    """Return the time zone of the merchant in the path."""
    return ZoneInfo(request.access.time_zone)


async def product_choices(request: PageRequest, chosen_id: str) -> list[Product]:
    """Return the products that a filter offers: the newest, and the chosen one if it is older.

    ``chosen_id`` is "" or the id of a product of the merchant.
    """
    newest = await products.list_newest(request.app.db, request.merchant_id, _MOST_PRODUCTS)
    if not chosen_id or any(product.id == chosen_id for product in newest):
        return newest
    async with request.app.db.connection() as tx:
        return [await products.find(tx, request.merchant_id, chosen_id), *newest]


def format_end(request: PageRequest, end: int | None, zone: ZoneInfo) -> str | None:
    """Return the last day before an end (Unix ms), or the end itself if it is within a day.

    Forms have a field for the last day; the API also accepts a time within a day. None: no end.
    """
    if end is None:
        return None
    if day_bounds(local(end - 1, zone).date(), zone).until == end:
        return request.localizer.recent_date(end - 1, zone, request.now)
    return request.localizer.recent_moment(end, zone, request.now)


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
