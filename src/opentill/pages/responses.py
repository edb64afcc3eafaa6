"""Responses with customers' pages, including error pages."""

from collections.abc import Mapping

from starlette.responses import Response

from opentill.core.errors import NotFound
from opentill.pages import render
from opentill.web import responses


def page(
    html: render.Page, language: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response with a page."""
    origins = () if html.picture_origin is None else (html.picture_origin,)
    return responses.page(html.html, language, status, headers, picture_origins=origins)


def trouble(error: Exception, visit: render.Visit, again: str | None) -> Response:
    """Return the page of an error; log it unless it is a Problem. ``again``: path to try again."""
    status, headers = responses.error_headers(error)
    kind = responses.TROUBLES.get(status, "refused")
    html = render.trouble_page(kind, visit, None if isinstance(error, NotFound) else again)
    return page(html, visit.localizer.language, status, headers)
