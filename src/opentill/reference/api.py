"""The routes of the reference: ``/docs``, its chapters, groups and search."""

import asyncio
import gzip
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.reference.book import GUIDES, Book, Kept
from opentill.web import responses

# Our own script alone, and requests to this service alone: the box that tries an operation out.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    **responses.GUARDS,
    "cache-control": "no-cache",
    "content-language": "en",
    "content-security-policy": _POLICY,
    "vary": "accept-encoding",
}


async def home(request: Request) -> Response:
    """Show what there is."""
    return await _page(request, "")


async def chapter(request: Request) -> Response:
    """Show a chapter."""
    return await _page(request, GUIDES + request.path_params["name"])


async def group(request: Request) -> Response:
    """Show the operations of a group, or the events."""
    return await _page(request, request.path_params["name"])


async def search(request: Request) -> Response:
    """Show what was found."""
    query = request.query_params.get("q", "")
    html = await asyncio.to_thread(_book(request).found, query)
    return Response(html, 200, {**_HEADERS, "cache-control": "no-store"}, "text/html")


async def _page(request: Request, path: str) -> Response:
    # Drawn beside the event loop, which has payments to take.
    kept = await asyncio.to_thread(_book(request).page, path)
    return _response(request, kept)


def _response(request: Request, kept: Kept) -> Response:
    headers = {**_HEADERS, "etag": kept.tag}
    if responses.is_known(request, kept.tag):
        return Response(status_code=304, headers=headers)
    if responses.takes_gzip(request):
        headers["content-encoding"] = "gzip"
        return Response(kept.compressed, 200, headers, "text/html")
    return Response(gzip.decompress(kept.compressed), 200, headers, "text/html")


def _book(request: Request) -> Book:
    book: Book = request.app.state.reference
    return book


routes: Final = (
    Route("/docs", home),
    Route("/docs/search", search),
    Route("/docs/guides/{name}", chapter),
    Route("/docs/{name}", group),
)
