"""Shared by both clients: connection options, methods for operations, lists and file names."""

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
# At most this many ids of a list are remembered: ten pages of the largest size.
_MAX_SEEN: Final = 1000
_FILENAME: Final = re.compile(r'filename="([^"/\\]{1,200})"')


class Resource:
    """The operations on one kind of resource, such as ``client.orders``."""

    def __init__(self, sender: Any) -> None:
        """``sender`` is the sender of the client."""
        self.sender = sender


class Method(Generic[P, R]):
    """A method of a resource, with the parameters of its operation."""

    def __init__(
        self, operation: Callable[P, Request[Any]], send: Callable[[Any, Request[Any]], R]
    ) -> None:
        """``operation`` is from ``operations.py``; ``send`` takes the sender and the request."""
        self.operation = operation
        self.send = send

    def __get__(self, resource: Resource, owner: type[Resource]) -> Callable[P, R]:
        """Return the method of a resource."""

        @functools.wraps(self.operation)
        def method(*args: P.args, **options: P.kwargs) -> R:
            return self.send(resource.sender, self.operation(*args, **options))

        return method


class Identified(Protocol):
    """An object with an id, as the API's lists contain."""

    @property
    def id(self) -> str:
        """The item's id."""
        ...


class SeenItems:
    """Remembers the last items of a list, which the next page may repeat.

    Lists are newest first, so a new item moves the others back: the last item of one page is then
    the first of the next.
    """

    def __init__(self) -> None:
        """Start without any item."""
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, item: Identified) -> bool:
        """Add an item; return whether it is new."""
        if item.id in self._ids:
            return False
        self._ids[item.id] = None
        if len(self._ids) > _MAX_SEEN:
            self._ids.popitem(last=False)
        return True


def http_options(
    base_url: str, api_key: str, headers: Mapping[str, str] | None, timeout_s: float
) -> dict[str, Any]:
    """Return the arguments that both clients of httpx2 take. Raises ValueError."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        message = "base_url must be the http or https address of a server, such as https://pay.example.com"
        raise ValueError(message)
    api_key = api_key.strip(" \t\r\n")  # a key read from a file or copied may have spaces around it
    if not re.fullmatch(r"[!-~]*", api_key):
        message = "api_key must be a key as `opentill keys create` prints it"
        raise ValueError(message)
    default_headers = {"user-agent": USER_AGENT, "accept": "application/json"}
    if api_key:
        default_headers["x-api-key"] = api_key
    return {
        "base_url": url,
        "headers": {**default_headers, **(headers or {})},
        "timeout": timeout_s,
        "follow_redirects": False,  # the key must not be sent to another URL
    }


def filename(response: httpx2.Response) -> str:
    """Return the file name in a response, "" if it has none."""
    headers: Mapping[str, str] = response.headers
    match = _FILENAME.search(headers.get("content-disposition", ""))
    return match[1] if match else ""


def partial_path(path: Path) -> Path:
    """Return the path to which a file is written until it is complete."""
    return path.with_name(path.name + ".part")
