"""The responses of pages: the headers that keep them private, redirects, and error pages.

No page runs a script, shows itself in a frame, is stored by a cache or gives its address to another
site. A picture of the merchant's is the one thing from elsewhere, and only from its own origin.
"""

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

_log: Final = structlog.get_logger()

POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'{picture}; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# "same-origin" and not "no-referrer": with the latter, browsers send "Origin: null" with our own
# form, which would look like a foreign one. No address leaves for another site by either.
# (The request middleware adds nosniff to every response.)
GUARDS: Final[Mapping[str, str]] = {
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "accelerometer=(), browsing-topics=(), camera=(), geolocation=(), "
    "gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
}
PRIVATE: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-robots-tag": "noindex, nofollow",
    "vary": "accept-language, cookie",
}
# status → page; what is not listed is "refused"
_TROUBLES: Final[Mapping[int, Trouble]] = {
    404: "missing",
    429: "busy",
    500: "unavailable",
    503: "unavailable",
}
_RETRY_S: Final = 2


def page(
    made: render.Page, language: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a page for one customer."""
    picture = f" {made.picture_origin}" if made.picture_origin else ""
    own = {
        **PRIVATE,
        "content-security-policy": POLICY.format(picture=picture),
        "content-language": language,
    }
    return Response(made.html, status, {**GUARDS, **own, **(headers or {})}, "text/html")


def see_other(path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Send the browser to a path of ours by GET, whatever its own method was."""
    own = {**GUARDS, **PRIVATE, "location": path, **(headers or {})}
    return Response(b"", 303, own, "text/plain")


def drawing(svg: bytes) -> Response:
    """Return an SVG for one customer; opened by itself, it runs nothing either."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    own = {**GUARDS, **PRIVATE, "content-security-policy": policy}
    return Response(svg, 200, own, "image/svg+xml")


def trouble(error: Exception, visit: render.Visit, again: str | None) -> Response:
    """Return the page of a problem; any other exception is a defect of ours, and logged."""
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
    made = render.trouble_page(_TROUBLES.get(status, "refused"), visit, again)
    return page(made, visit.localizer.language, status, headers)
