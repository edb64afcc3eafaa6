"""The pages that are for everyone: the front page, the reference, the agreement, and /static."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import agreement, context
from opentill.core.errors import NotFound
from opentill.pages import assets, docs
from opentill.pages.catalogue import SENTENCES
from opentill.pages.markdown import markdown
from opentill.pages.render import ENVIRONMENT
from opentill.pages.responses import GUARDS, POLICY

_PUBLIC: Final[Mapping[str, str]] = {
    **GUARDS,
    "cache-control": "no-cache",
    "content-security-policy": POLICY.format(picture=""),
}
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


async def front_page(request: Request) -> Response:
    """Show what this service is, and nothing about the deployment."""
    return _html("landing.html", _base(request), agreement_path=agreement.PAGE_PATH)


async def reference(request: Request) -> Response:
    """Show the API reference."""
    body = _reference(request.app.state.openapi, _base(request))
    return Response(body, 200, _PUBLIC, "text/html")


@lru_cache(maxsize=2)
def _reference(document: bytes, base: str) -> bytes:
    return docs.reference(msgspec.json.decode(document), base).encode()


async def agreement_page(request: Request) -> Response:
    """Show the merchant services agreement (its ``documentUrl``)."""
    settings = context.of(request.scope).settings
    current = agreement.current(settings)
    content = markdown(current.markdown_content)
    badge = "" if settings.livemode else SENTENCES["en"]["test_mode"]
    return _html(
        "agreement.html", _base(request), agreement=current, content=content, test_mode=badge
    )


async def static(request: Request) -> Response:
    """Serve a style sheet or an icon: for a year if the address names the version."""
    asset = assets.ASSETS.get(request.path_params["name"])
    if asset is None:
        raise NotFound
    current = request.scope["query_string"] == b"v=" + asset.version.encode()
    headers = {
        **GUARDS,
        "cache-control": _FOR_A_YEAR if current else "no-cache",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        "content-type": asset.media_type,
    }
    return Response(asset.body, 200, headers)


def _html(template: str, base: str, **values: object) -> Response:
    html = ENVIRONMENT.get_template(template).render(asset=assets.finder(base), base=base, **values)
    return Response(html, 200, _PUBLIC, "text/html")


def _base(request: Request) -> str:
    return urlsplit(context.of(request.scope).settings.public_url).path.rstrip("/")


routes: Final = (
    Route("/", front_page),
    Route("/docs", reference),
    Route(agreement.PAGE_PATH, agreement_page),
    Route("/static/{name:path}", static),
)
