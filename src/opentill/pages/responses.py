"""Responses with customers' pages, including error pages."""

from collections.abc import Mapping
from typing import Final

import structlog
from starlette.responses import Response

from opentill.core.errors import (
    MethodNotAllowed,
    NotFound,
    Problem,
    TooManyRequests,
    Unavailable,
)
from opentill.pages import render
from opentill.pages.model import Trouble
from opentill.web import responses

_log: Final = structlog.get_logger()
# status → page; any other status gets "refused"
_TROUBLES: Final[Mapping[int, Trouble]] = {
    404: "missing",
    429: "busy",
    500: "unavailable",
    503: "unavailable",
}
_RETRY_S: Final = 2


def page(
    html: render.Page, language: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response with a page."""
    origins = () if html.picture_origin is None else (html.picture_origin,)
    return responses.page(html.html, language, status, headers, picture_origins=origins)


def trouble(error: Exception, visit: render.Visit, again: str | None) -> Response:
    """Return the page of an error; log it unless it is a Problem. ``again``: path to try again."""
    if not isinstance(error, Problem):
        _log.error("internal error", exc_info=error)
    status = error.status if isinstance(error, Problem) else 500
    headers: dict[str, str] = {}
    match error:
        case TooManyRequests():
            headers["retry-after"] = str(error.retry_after_s)
        case Unavailable():
            headers["retry-after"] = str(_RETRY_S)
        case MethodNotAllowed():
            headers["allow"] = error.allow
        case NotFound():
            again = None
        case _:
            pass
    html = render.trouble_page(_TROUBLES.get(status, "refused"), visit, again)
    return page(html, visit.localizer.language, status, headers)
