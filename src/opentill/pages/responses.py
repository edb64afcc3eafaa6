"""How pages are sent: the headers that keep them private, the ways to go on, and the errors.

No page runs a script, shows itself in a frame, is kept by a cache or tells its address to another
site. A picture of the merchant's is the one thing from elsewhere, and only from its own origin.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from opentill.core.errors import (
    MethodNotAllowed,
    NotFound,
    Problem,
    TooManyRequests,
    Unavailable,
)
from opentill.pages import render
from opentill.pages.model import Trouble

if TYPE_CHECKING:
    from litestar.types import Send

_log: Final = structlog.get_logger()

POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'{picture}; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# "same-origin" and not "no-referrer": with the latter, browsers send "Origin: null" with our own
# form, and it could not be told from a foreign one. No address leaves for another site by either.
# (The edge adds nosniff to every answer.)
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


class PageResponse:
    """An answer before it is sent."""

    def __init__(
        self, status: int, body: bytes, media_type: str, headers: Mapping[str, str]
    ) -> None:
        """``headers`` come on top of type, length and the guards."""
        self.status = status
        self.body = body
        self.headers = {
            "content-type": media_type,
            "content-length": str(len(body)),
            **GUARDS,
            **headers,
        }

    async def send(self, send: "Send") -> None:
        """Send head and body."""
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        await send(
            {"type": "http.response.start", "status": self.status, "headers": pairs},
        )
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def page(
    made: render.Page, language: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> PageResponse:
    """Answer with a page for one customer."""
    picture = f" {made.picture_origin}" if made.picture_origin else ""
    own = {
        **PRIVATE,
        "content-security-policy": POLICY.format(picture=picture),
        "content-language": language,
    }
    return PageResponse(
        status, made.html.encode(), "text/html; charset=utf-8", {**own, **(headers or {})}
    )


def see_other(path: str, headers: Mapping[str, str] | None = None) -> PageResponse:
    """Send the browser on to a path of ours, by GET, whatever it did before."""
    own = {**PRIVATE, "location": path, **(headers or {})}
    return PageResponse(303, b"", "text/plain; charset=utf-8", own)


def drawing(svg: bytes) -> PageResponse:
    """Answer with an SVG for one customer; opened by itself, it runs nothing either."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    return PageResponse(200, svg, "image/svg+xml", {**PRIVATE, "content-security-policy": policy})


def trouble(
    error: Exception, visit: render.Visit, again: str | None, allow: str = ""
) -> PageResponse:
    """Answer with the page of a problem; any other exception is a defect of ours, and logged."""
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
            headers["allow"] = allow
        case NotFound():
            again = None
        case _:
            pass
    made = render.trouble_page(_TROUBLES.get(status, "refused"), visit, again)
    return page(made, visit.tongue.language, status, headers)
