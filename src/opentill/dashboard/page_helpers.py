"""Functions and texts that several pages of the dashboard share."""

from collections import Counter
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, products
from opentill.core.money import EXPONENTS, Money
from opentill.db import rate_limits
from opentill.figures.model import day_bounds, local
from opentill.gateways import Gateways
from opentill.gateways.account import GatewayAccount
from opentill.merchants import Merchant
from opentill.portal import render
from opentill.portal.request import PageRequest
from opentill.products import Product
from opentill.web.templates import isolated

# A filter offers at most this many products.
_MOST_PRODUCTS: Final = 100
WHOLE_CURRENCIES: Final = frozenset(code for code, digits in EXPONENTS.items() if not digits)
_SHOWN_OF_ID: Final = 6  # characters that distinguish identical products


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


def product_names(
    request: PageRequest, choices: Sequence[Product], *, with_prices: bool = False
) -> dict[str, str]:
    """Return the names of products for a select, by id.

    Products of the same name also have their price, and those of the same name and price the end of
    their id. ``with_prices`` adds the price to all.
    """
    names = Counter(product.name for product in choices)
    prices = Counter(_key_of(product) for product in choices)
    labels: dict[str, str] = {}
    for product in choices:
        label = isolated(product.name)
        if with_prices or names[product.name] > 1:
            price = Money(product.price_minor, product.currency)
            label += f" – {request.localizer.amount(price)}"
        if prices[_key_of(product)] > 1:
            label += f" – …{product.id[-_SHOWN_OF_ID:]}"
        labels[product.id] = label
    return labels


def _key_of(product: Product) -> tuple[str, int, str]:
    return product.name, product.price_minor, product.currency


def list_currencies(request: PageRequest) -> list[tuple[str, str]]:
    """Return all currencies as pairs of code and name, by code."""
    return [(code, request.localizer.currency(code)) for code in sorted(EXPONENTS)]


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


def own_accounts(request: PageRequest) -> list[GatewayAccount]:
    """Return the gateway accounts that belong to the merchant of the page."""
    gateways = request.app.gateways
    if not isinstance(gateways, Gateways):
        return []
    merchant_id = request.access.merchant_id
    return [each for each in gateways.accounts.values() if each.merchant_id == merchant_id]
