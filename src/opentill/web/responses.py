"""Responses of pages, with security headers, and redirects.

Pages run only scripts of their own site, cannot be framed, are not cached and do not disclose
their address to other sites. Only the merchant's pictures come from other origins, which the
policy names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from opentill.core.errors import MethodNotAllowed, Problem, TooManyRequests, Unavailable
from opentill.http.responses import log_defect

_RETRY_S: Final = 2
Trouble = Literal["missing", "refused", "busy", "unavailable"]
# HTTP status → the error page. Any other status gets "refused".
TROUBLES: Final[Mapping[int, Trouble]] = {
    404: "missing",
    429: "busy",
    500: "unavailable",
    503: "unavailable",
}
POLICY: Final = (
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'{picture}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The referrer policy "same-origin" discloses no address to other sites. With "no-referrer" browsers
# would send "Origin: null" with this site's own forms. (The request middleware adds nosniff.)
GUARDS: Final[Mapping[str, str]] = {
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "accelerometer=(), browsing-topics=(), camera=(), geolocation=(), "
    "gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
}
_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
# A URL may contain these unquoted: the reserved characters of RFC 3986 §2.2, and the percent sign.
_URL_CHARACTERS: Final = ":/?#[]@!$&'()*+,;=%"
PRIVATE: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-robots-tag": "noindex, nofollow",
    "vary": "accept-language, cookie",
}


def error_headers(error: Exception) -> tuple[int, dict[str, str]]:
    """Return the status and headers of an error page; an error that is no Problem is logged."""
    match error:
        case TooManyRequests():
            return error.status, {"retry-after": str(error.retry_after_s)}
        case Unavailable():
            return error.status, {"retry-after": str(_RETRY_S)}
        case MethodNotAllowed():
            return error.status, {"allow": error.allow}
        case Problem():
            return error.status, {}
        case _:
            log_defect(error)
            return 500, {}


def page(
    html: str,
    language: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    picture_origins: Sequence[str] = (),
    scripts: bool = False,
    live: bool = False,
) -> Response:
    """Return a private page; pictures may come from ``picture_origins``.

    ``scripts`` allows scripts from /static. ``live`` also allows them to request updates.
    """
    picture = "".join(f" {origin}" for origin in picture_origins)
    policy = POLICY.format(picture=picture) + ("; script-src 'self'" if scripts or live else "")
    policy += "; connect-src 'self'" if live else ""
    own = {
        **PRIVATE,
        "content-security-policy": policy,
        "content-language": language,
    }
    return Response(html, status, {**GUARDS, **own, **(headers or {})}, "text/html")


def matches_etag(request: Request, tag: str) -> bool:
    """Whether the client's copy has this entity tag (If-None-Match, RFC 9110 §13.1.2)."""
    tags = request.headers.get("if-none-match", "").replace("W/", "").split(",")
    return bool({tag.removeprefix("W/"), "*"} & {other.strip() for other in tags})


def takes_gzip(request: Request) -> bool:
    """Whether the client accepts gzip, also considering ``q=0`` (RFC 9110 §12.5.3)."""
    return _GZIP.search(request.headers.get("accept-encoding", "")) is not None


def see_other(path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Redirect the browser to a path of this site by GET (303).

    Characters that are not allowed in a URL are encoded; existing encodings are kept.
    """
    own = {**GUARDS, **PRIVATE, "location": quote(path, safe=_URL_CHARACTERS), **(headers or {})}
    return Response(b"", 303, own, "text/plain")


def post_again(path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Let the browser send the same form to another path of this site (307)."""
    response = see_other(path, headers)
    response.status_code = 307
    return response


def attachment(content: bytes, media_type: str, name: str) -> Response:
    """Return a download; even if the browser opens it, its content runs no script.

    ``name`` must have no control characters and quotation marks (RFC 6266 §4.3, RFC 8187).
    """
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    own = {
        **GUARDS,
        **PRIVATE,
        "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "content-disposition": disposition,
    }
    return Response(content, 200, own, media_type)


def drawing(svg: bytes) -> Response:
    """Return a private SVG, which runs no script if it is opened by itself."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    own = {**GUARDS, **PRIVATE, "content-security-policy": policy}
    return Response(svg, 200, own, "image/svg+xml")
