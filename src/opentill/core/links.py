"""Addresses that a page of ours may lead to, whoever gave them."""

from urllib.parse import urlsplit

from opentill.core import hostnames


def web_address(text: str | None) -> str | None:
    """Return the address if it is absolute http(s) without credentials, otherwise None.

    Its host is in ASCII then, so that a browser of any age goes to the same one.
    Services have checked already; a page does not rely on that, because one ``javascript:`` address
    in a link is enough.
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
