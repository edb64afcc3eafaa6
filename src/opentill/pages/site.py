"""The pages that are for everyone: the front page, the reference, the agreement, and /static."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from litestar import asgi

from opentill import agreement
from opentill.context import App
from opentill.core.errors import MethodNotAllowed, NotFound
from opentill.http.operations import send_problem
from opentill.pages import assets, docs
from opentill.pages.catalogue import SENTENCES
from opentill.pages.render import ENVIRONMENT
from opentill.pages.responses import POLICY, PageResponse

if TYPE_CHECKING:
    from litestar.handlers import ASGIRouteHandler
    from litestar.types import HTTPScope, Receive, Scope, Send

_HTML: Final = "text/html; charset=utf-8"
_PUBLIC: Final[Mapping[str, str]] = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY.format(picture=""),
}
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


def front_page(scope: "Scope") -> PageResponse:
    """Show where one is, and nothing about the deployment."""
    return _html("landing.html", _base(scope), agreement_path=agreement.PAGE_PATH)


def reference(scope: "Scope") -> PageResponse:
    """Show the API reference."""
    document = getattr(scope["litestar_app"].state, "openapi", None)
    if document is None:
        raise NotFound
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return PageResponse(200, _reference(body, _base(scope)), _HTML, _PUBLIC)


@lru_cache(maxsize=2)
def _reference(document: bytes, base: str) -> bytes:
    return docs.reference(msgspec.json.decode(document), base).encode()


def agreement_page(scope: "Scope") -> PageResponse:
    """Show the merchant services agreement (its ``documentUrl``)."""
    settings = _app(scope).settings
    current = agreement.current(settings)
    content = docs.markdown(current.markdown_content)
    badge = "" if settings.livemode else SENTENCES["en"]["test_mode"]
    return _html(
        "agreement.html", _base(scope), agreement=current, content=content, test_mode=badge
    )


def static(scope: "Scope") -> PageResponse:
    """Serve a style sheet or an icon: for a year if the address names the version."""
    asset = assets.ASSETS.get(scope["path"].removeprefix("/static").strip("/"))
    if asset is None:
        raise NotFound
    current = scope["query_string"] == b"v=" + asset.version.encode()
    return PageResponse(
        200,
        asset.body,
        asset.media_type,
        {
            "cache-control": _FOR_A_YEAR if current else "no-cache",
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        },
    )


def _html(template: str, base: str, **values: object) -> PageResponse:
    html = ENVIRONMENT.get_template(template).render(asset=assets.finder(base), base=base, **values)
    return PageResponse(200, html.encode(), _HTML, _PUBLIC)


def _app(scope: "Scope") -> App:
    app: App = scope["litestar_app"].state.app
    return app


def _base(scope: "Scope") -> str:
    return urlsplit(_app(scope).settings.public_url).path.rstrip("/")


def _read(show: Callable[["Scope"], PageResponse], scope: "Scope") -> PageResponse:
    if cast("HTTPScope", scope)["method"] not in {"GET", "HEAD"}:
        raise MethodNotAllowed
    return show(scope)


def _route(path: str, show: Callable[["Scope"], PageResponse]) -> "ASGIRouteHandler":
    # Mounted where something follows: the framework finds no parameters of plain ASGI handlers.
    @asgi(path.removesuffix("/…"), is_mount=path.endswith("/…"), copy_scope=False)
    async def handle(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001 - ASGI
        cast("dict[str, Any]", scope)["opentill_route"] = path  # for the metrics
        try:
            answer = _read(show, scope)
        except Exception as error:  # noqa: BLE001 - every failure gets the one error body
            await send_problem(send, error)
        else:
            await answer.send(send)

    return handle


PAGES: Final[Mapping[str, Callable[["Scope"], PageResponse]]] = {
    "/": front_page,
    "/docs": reference,
    agreement.PAGE_PATH: agreement_page,
    "/static/…": static,
}
routes: Final[list[Any]] = [_route(path, show) for path, show in PAGES.items()]
