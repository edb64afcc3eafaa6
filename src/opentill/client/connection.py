"""What both clients share: connection options, methods made of operations, lists, file names."""

import functools
import platform
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar

import httpx2

from .request import Request
from .retries import Retries
from .version import __version__

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_RETRIES: Final = Retries()
TIMEOUT_S: Final = 30.0
USER_AGENT: Final = (
    f"opentill-python/{__version__} "
    f"(python {platform.python_version()}; httpx2 {httpx2.__version__})"
)
_REMEMBERED: Final = 1000  # ids of a list: more than ten pages
_FILENAME: Final = re.compile(r'filename="([^"/\\]{1,200})"')


class Resource:
    """The operations on one kind of resource, such as ``client.orders``."""

    def __init__(self, sender: Any) -> None:
        """``sender`` is the client's."""
        self.sender = sender


class Method(Generic[P, R]):
    """A method of a resource: the parameters of an operation, and what becomes of its request."""

    def __init__(
        self, operation: Callable[P, Request[Any]], send: Callable[[Any, Request[Any]], R]
    ) -> None:
        """``operation`` is of ``operations.py``; ``send`` takes the sender and the request."""
        self.operation = operation
        self.send = send

    def __get__(self, resource: Resource, owner: type[Resource]) -> Callable[P, R]:
        """Return the method of a resource."""

        @functools.wraps(self.operation)
        def method(*args: P.args, **options: P.kwargs) -> R:
            return self.send(resource.sender, self.operation(*args, **options))

        return method


class Identified(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str:
        """The item's id."""
        ...


class SeenItems:
    """The items that a list showed last.

    Lists are newest first, so a new item moves the others on: the last item of one page is then
    the first of the next.
    """

    def __init__(self) -> None:
        """Begin a list."""
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, item: Identified) -> bool:
        """Remember an item; return whether it is new."""
        if item.id in self._ids:
            return False
        self._ids[item.id] = None
        if len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
        return True


def http_options(
    base_url: str, api_key: str, headers: Mapping[str, str] | None, timeout_s: float
) -> dict[str, Any]:
    """Return the parameters of either of httpx2's clients. Raises ValueError."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        message = "base_url must be the http or https address of a server, such as https://pay.example.com"
        raise ValueError(message)
    api_key = api_key.strip(" \t\r\n")  # as a line of a file, or copied with what surrounds it
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
    """Return where a file is written until it is whole."""
    return path.with_name(path.name + ".part")
