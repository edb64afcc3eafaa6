"""How merchants present themselves on their customers' pages: logo, colour, whom to ask."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import context, merchants
from opentill.checkouts import PublicSession
from opentill.core.errors import NotFound
from opentill.core.ids import is_id
from opentill.merchants import Merchant
from opentill.pages.model import Brand
from opentill.web import accent
from opentill.web.responses import GUARDS, matches_etag

# What is at one of these addresses never changes.
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_DIGEST: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_ACCENT: Final = re.compile(r"([0-9a-f]{6})\.(css|svg)", re.ASCII)
_ACCENTS: Final = {
    "css": (accent.style_sheet, "text/css; charset=utf-8"),
    "svg": (accent.drawing, "image/svg+xml"),
}


def brand_of(merchant: Merchant | PublicSession) -> Brand:
    """Return what the payment page shows of a merchant beside its name.

    A session as its page finds it has that too.
    """
    return Brand(
        logo=merchant.logo_path,
        accent=merchant.accent_color,
        email=merchant.support_email,
        url=merchant.support_url,
        terms=merchant.terms_url,
    )


async def logo(request: Request) -> Response:
    """Serve a logo. The address has the digest of the file, which is its entity tag too."""
    merchant_id, digest = (request.path_params[name] for name in ("merchant", "digest"))
    if not is_id(merchant_id) or not _DIGEST.fullmatch(digest):
        raise NotFound
    async with context.app_of(request.scope).db.connection() as tx:
        found = await merchants.find_logo(tx, merchant_id, digest)
    own = {**_headers(), "etag": f'"{digest}"', "content-type": found.media_type}
    if matches_etag(request, own["etag"]):
        return Response(status_code=304, headers=own)
    return Response(found.content, 200, own)


async def accent_file(request: Request) -> Response:
    """Serve the style sheet or the drawing of a colour."""
    found = _ACCENT.fullmatch(request.path_params["name"])
    if found is None:
        raise NotFound
    make, media_type = _ACCENTS[found[2]]
    own = {**_headers(), "content-type": media_type}
    if request.scope["query_string"] != f"v={accent.VERSION}".encode():
        own["cache-control"] = "no-cache"
    return Response(make(f"#{found[1]}").encode(), 200, own)


def _headers() -> dict[str, str]:
    return {**GUARDS, "cache-control": _FOR_EVER, "content-security-policy": _POLICY}


routes: Final = (
    Route("/logos/{merchant:id}/{digest}", logo),
    Route("/accents/{name}", accent_file),
)
