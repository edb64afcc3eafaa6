"""What both clients share around their calls: the address, the headers, lists and file names."""

import platform
import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2

from opentill import __version__
from opentill.client.series import Retries

USUAL: Final = Retries()
TIMEOUT_S: Final = 30.0
USER_AGENT: Final = (
    f"opentill-python/{__version__} "
    f"(python {platform.python_version()}; httpx2 {httpx2.__version__})"
)
_REMEMBERED: Final = 1000  # ids of a list: more than ten pages
_FILENAME: Final = re.compile(r'filename="([^"/\\]{1,200})"')


class Identified(Protocol):
    """What lists hold."""

    @property
    def id(self) -> str:
        """The item's id."""
        ...


class Recent:
    """Tells what a list showed already.

    Lists are newest first, so whatever is made while somebody walks moves the rest on: what was
    last on one page is first on the next.
    """

    def __init__(self) -> None:
        """Begin a list."""
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, item: Identified) -> bool:
        """Tell whether an item was not here before, and remember it."""
        if item.id in self._seen:
            return False
        self._seen[item.id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True


def options(
    base_url: str, api_key: str, headers: Mapping[str, str] | None, timeout_s: float
) -> dict[str, Any]:
    """Return what both kinds of httpx2's clients are made with. Raises ValueError."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        message = "base_url must be the http or https address of a server, such as https://pay.example.com"
        raise ValueError(message)
    if not re.fullmatch(r"[!-~]*", api_key):
        message = "api_key must be a key as `opentill keys create` prints it"
        raise ValueError(message)
    own = {"user-agent": USER_AGENT, "accept": "application/json"}
    if api_key:
        own["x-api-key"] = api_key
    return {
        "base_url": url,
        "headers": {**own, **(headers or {})},
        "timeout": timeout_s,
        "follow_redirects": False,  # a key goes to no other address
    }


def filename(response: httpx2.Response) -> str:
    """Return the name that the server gives a file, "" for none."""
    headers: Mapping[str, str] = response.headers
    found = _FILENAME.search(headers.get("content-disposition", ""))
    return found[1] if found else ""


def unfinished(path: Path) -> Path:
    """Return where a file stays until it is whole."""
    return path.with_name(path.name + ".part")
