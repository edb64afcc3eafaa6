"""The responses of pages: the headers that keep them private, and redirects.

A page runs no script, or one of ours; none shows itself in a frame, is stored by a cache or gives
its address to another site. Pictures of the merchant's are the one thing from elsewhere, and only
from their own origins.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

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
_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
_OF_ADDRESSES: Final = ":/?#[]@!$&'()*+,;=%"  # RFC 3986 §2.2, and what encodes
PRIVATE: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-robots-tag": "noindex, nofollow",
    "vary": "accept-language, cookie",
}


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
    """Return a page for one reader; pictures may come from ``picture_origins``.

    ``scripts``: it runs some of ours, from /static. ``live``: they ask this service for updates.
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


def is_known(request: Request, tag: str) -> bool:
    """Whether a client has what ``tag`` (an entity tag) names already (RFC 9110 §13.1.2)."""
    known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
    return bool({tag.removeprefix("W/"), "*"} & {each.strip() for each in known})


def takes_gzip(request: Request) -> bool:
    """Whether a client takes gzip, and does not refuse it by ``q=0`` (RFC 9110 §12.5.3)."""
    return _GZIP.search(request.headers.get("accept-encoding", "")) is not None


def see_other(path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Send the browser to a path of ours by GET, whatever its own method was.

    What no address may hold as it stands is encoded; what is encoded already stays.
    """
    own = {**GUARDS, **PRIVATE, "location": quote(path, safe=_OF_ADDRESSES), **(headers or {})}
    return Response(b"", 303, own, "text/plain")


def attachment(content: bytes, media_type: str, name: str) -> Response:
    """Return a file to be kept under a name; opened all the same, it runs nothing.

    ``name`` has no control character and no quotation mark (RFC 6266 §4.3, RFC 8187).
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
    """Return an SVG for one reader; opened by itself, it runs nothing either."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    own = {**GUARDS, **PRIVATE, "content-security-policy": policy}
    return Response(svg, 200, own, "image/svg+xml")
