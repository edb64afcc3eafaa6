"""Merchants' pictures on pages: which addresses may be shown, and their origins.

A page shows a picture from its own address; its content security policy lists these origins only.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from opentill.core import hostnames
from opentill.core.links import safe_url

_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
# All origins together have at most this many characters, because proxies limit the size of headers.
_MOST_ORIGINS: Final = 2000


def origin_of(address: str) -> str | None:
    """Return ``scheme://host[:port]`` of a URL in ASCII, as a Content-Security-Policy names it.

    None if the URL is not valid, or if a policy would interpret the host otherwise, such as ``*``.
    """
    parts = urlsplit(address)
    try:
        host = hostnames.to_ascii(parts.hostname or "")
    except hostnames.BadHost:
        return None
    if _HOST.fullmatch(host) is None:
        return None
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def displayable_address(image: str | None, *, secure: bool) -> str | None:
    """Return a picture's address if it may be shown. HTTPS pages show only HTTPS pictures."""
    address = safe_url(image)
    if address is None or origin_of(address) is None:
        return None
    return address if address.startswith("https:") or not secure else None


class Pictures:
    """The pictures of a page and their origins."""

    def __init__(self, public_url: str) -> None:
        """``public_url`` shows whether the page is served by HTTPS."""
        self._secure = public_url.startswith("https:")
        self._origins: dict[str, None] = {}

    def address(self, image: str | None) -> str | None:
        """Register a picture and return its address, None if it cannot be shown."""
        address = displayable_address(image, secure=self._secure)
        origin = None if address is None else origin_of(address)
        if origin is None:
            return None
        if len(" ".join((*self._origins, origin))) > _MOST_ORIGINS and origin not in self._origins:
            return None
        self._origins[origin] = None
        return address

    @property
    def origins(self) -> tuple[str, ...]:
        """The unique origins of the pictures."""
        return tuple(self._origins)
