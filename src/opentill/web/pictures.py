"""Merchants' pictures on our pages: which addresses may be shown, and from which origins.

A picture is shown where it lies, and the page's content policy names its origin and no other.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from opentill.core import hostnames
from opentill.core.links import safe_url

_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_MOST_ORIGINS: Final = 2000  # characters of all in one header, which proxies keep small


def origin_of(address: str) -> str | None:
    """Return ``scheme://host[:port]`` of a checked address in ASCII, as a content policy names it.

    None for a host that a policy would read as something else, such as ``*``.
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


def shown(image: str | None, *, secure: bool) -> str | None:
    """Return a picture's address if it may be shown: on an HTTPS page only an HTTPS one."""
    address = safe_url(image)
    if address is None or origin_of(address) is None:
        return None
    return address if address.startswith("https:") or not secure else None


class Pictures:
    """The pictures of one page, and the origins that they come from."""

    def __init__(self, public_url: str) -> None:
        """No picture yet. ``public_url`` says whether the page comes by HTTPS."""
        self._secure = public_url.startswith("https:")
        self._origins: dict[str, None] = {}

    def address(self, image: str | None) -> str | None:
        """Return a picture's address to be shown, None if the page does without it."""
        found = shown(image, secure=self._secure)
        origin = None if found is None else origin_of(found)
        if origin is None:
            return None
        if len(" ".join((*self._origins, origin))) > _MOST_ORIGINS and origin not in self._origins:
            return None
        self._origins[origin] = None
        return found

    @property
    def origins(self) -> tuple[str, ...]:
        """Where the pictures come from, each origin once."""
        return tuple(self._origins)
