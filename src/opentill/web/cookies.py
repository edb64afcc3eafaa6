"""Reading and setting cookies."""

from collections.abc import Mapping
from urllib.parse import urlsplit


def read_cookie(headers: Mapping[bytes, bytes], name: str) -> bytes:
    """Return the value of a request's cookie, empty if it is absent."""
    for part in headers.get(b"cookie", b"").split(b";"):
        cookie_name, _, content = part.strip().partition(b"=")
        if cookie_name == name.encode():
            return content
    return b""


def cookie_header(
    name: str,
    content: str,
    *,
    public_url: str,
    path: str = "/",
    age_s: int,
    whole_host: bool = False,
) -> str:
    """Return a ``set-cookie`` header; ``path`` is relative to the public URL.

    With ``whole_host`` the cookie's path is ``/`` even if the public URL has another path.
    """
    parts = urlsplit(public_url)
    full_path = "/" if whole_host else parts.path.rstrip("/") + path
    header = f"{name}={content}; Path={full_path}; Max-Age={age_s}; HttpOnly; SameSite=Lax"
    return f"{header}; Secure" if parts.scheme == "https" else header
