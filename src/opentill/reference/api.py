"""The routes of the reference: ``/docs``, its chapters, groups and search."""

import asyncio
import gzip
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.core.errors import NotFound
from opentill.reference.book import GUIDES, LLMS, MARKDOWN, Book, CachedPage
from opentill.web import responses

# Pages run only scripts of this service, and only this service gets the requests that readers send
# from the "Try it" boxes.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    **responses.GUARDS,
    "cache-control": "no-cache",
    "content-language": "en",
    "content-security-policy": _POLICY,
    "vary": "accept-encoding",
}


async def home(request: Request) -> Response:
    """Show the home page."""
    return await _page(request, "")


async def chapter(request: Request) -> Response:
    """Show a chapter."""
    return await _page(request, GUIDES + request.path_params["name"])


async def group(request: Request) -> Response:
    """Show the operations of a group, or the events."""
    return await _page(request, request.path_params["name"])


async def search(request: Request) -> Response:
    """Show search results."""
    query = request.query_params.get("q", "")
    html = await asyncio.to_thread(_book(request).search_page, query)
    return Response(html, 200, {**_HEADERS, "cache-control": "no-store"}, "text/html")


async def llms(request: Request) -> Response:
    """Return the list of all pages for programs."""
    return await _page(request, LLMS)


async def _page(request: Request, path: str) -> Response:
    # Render the page in a thread, so that the event loop remains free for payments.
    try:
        page = await asyncio.to_thread(_book(request).page, path)
    except NotFound:
        is_browser = "text/html" in request.headers.get("accept", "")
        if path.endswith(MARKDOWN) or not is_browser:
            raise
        html = await asyncio.to_thread(_book(request).missing_page)
        return Response(html, 404, {**_HEADERS, "cache-control": "no-store"}, "text/html")
    return _response(request, page)


def _response(request: Request, page: CachedPage) -> Response:
    headers = {**_HEADERS, "etag": page.tag}
    type_ = page.media_type
    if responses.matches_etag(request, page.tag):
        return Response(status_code=304, headers=headers)
    if responses.takes_gzip(request):
        headers["content-encoding"] = "gzip"
        return Response(page.compressed, 200, headers, type_)
    return Response(gzip.decompress(page.compressed), 200, headers, type_)


def _book(request: Request) -> Book:
    book: Book = request.app.state.reference
    return book


routes: Final = (
    Route("/llms.txt", llms),
    Route("/docs", home),
    Route("/docs/search", search),
    Route("/docs/guides/{name}", chapter),
    Route("/docs/{name}", group),
)
