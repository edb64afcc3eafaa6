"""Cookies: the one that a request has, and the line that sets one."""

from collections.abc import Mapping
from urllib.parse import urlsplit


def value(headers: Mapping[bytes, bytes], name: str) -> bytes:
    """Return the value of a request's cookie, empty if it has none of that name."""
    for part in headers.get(b"cookie", b"").split(b";"):
        given, _, found = part.strip().partition(b"=")
        if given == name.encode():
            return found
    return b""


def line(
    name: str,
    content: str,
    *,
    public_url: str,
    path: str = "/",
    age_s: int,
    whole_host: bool = False,
) -> str:
    """Return a ``set-cookie`` header; ``path`` is below the public address.

    ``whole_host``: the cookie has the path ``/``, also where the public address has another.
    """
    parts = urlsplit(public_url)
    place = "/" if whole_host else parts.path.rstrip("/") + path
    made = f"{name}={content}; Path={place}; Max-Age={age_s}; HttpOnly; SameSite=Lax"
    return f"{made}; Secure" if parts.scheme == "https" else made
