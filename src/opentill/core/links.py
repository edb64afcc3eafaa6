"""Validation of external addresses that pages link to."""

from urllib.parse import urlsplit

from opentill.core import hostnames


def safe_url(text: str | None) -> str | None:
    """Return an absolute http(s) URL without credentials, with its host in ASCII; None for others.

    An ASCII host leads browsers of any age to the same server. Services have validated the address
    before; pages check again, because a single ``javascript:`` link would be an exploit.
    """
    if not text or not text.isprintable() or any(c in text for c in "\"'<>\\^`{|} "):
        return None
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        return None
    try:
        return hostnames.with_ascii_host(text)
    except ValueError:
        return None
