"""Merchants' branding and images on their customers' pages: logo, accent color and contact."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import context, merchants, products
from opentill.checkouts import PublicSession
from opentill.core.errors import NotFound
from opentill.core.ids import is_id
from opentill.merchants import Merchant
from opentill.pages.model import Brand
from opentill.web import accent
from opentill.web.responses import GUARDS, matches_etag

# Responses may be cached for ever, because a changed logo or color gets another URL.
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_DIGEST: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_ACCENT: Final = re.compile(r"([0-9a-f]{6})\.css", re.ASCII)


def brand_of(merchant: Merchant | PublicSession) -> Brand:
    """Return the branding of a merchant; ``PublicSession`` has the same fields."""
    return Brand(
        logo=merchant.logo_path,
        accent=merchant.accent_color,
        email=merchant.support_email,
        url=merchant.support_url,
        terms=merchant.terms_url,
    )


async def logo(request: Request) -> Response:
    """Serve a logo. Its address contains the digest of the file, which is also its ETag."""
    merchant_id, digest = (request.path_params[name] for name in ("merchant", "digest"))
    if not is_id(merchant_id) or not _DIGEST.fullmatch(digest):
        raise NotFound
    async with context.app_of(request.scope).db.connection() as tx:
        image = await merchants.find_logo(tx, merchant_id, digest)
    return _respond(request, image)


async def product_image(request: Request) -> Response:
    """Serve an uploaded image of a product, by the digest of its file."""
    merchant_id, digest = (request.path_params[name] for name in ("merchant", "digest"))
    if not is_id(merchant_id) or not _DIGEST.fullmatch(digest):
        raise NotFound
    async with context.app_of(request.scope).db.connection() as tx:
        image = await products.find_image(tx, merchant_id, digest)
    return _respond(request, image)


def _respond(request: Request, image: merchants.Logo | products.StoredImage) -> Response:
    headers = {**_headers(), "etag": f'"{image.sha256}"', "content-type": image.media_type}
    if matches_etag(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return Response(image.content, 200, headers)


async def accent_file(request: Request) -> Response:
    """Serve the style sheet of an accent color."""
    match = _ACCENT.fullmatch(request.path_params["name"])
    if match is None:
        raise NotFound
    headers = {**_headers(), "content-type": "text/css; charset=utf-8"}
    if request.scope["query_string"] != f"v={accent.VERSION}".encode():
        headers["cache-control"] = "no-cache"
    return Response(accent.style_sheet(f"#{match[1]}").encode(), 200, headers)


def _headers() -> dict[str, str]:
    return {**GUARDS, "cache-control": _FOR_EVER, "content-security-policy": _POLICY}


routes: Final = (
    Route("/logos/{merchant:id}/{digest}", logo),
    Route("/images/{merchant:id}/{digest}", product_image),
    Route("/accents/{name}", accent_file),
)
