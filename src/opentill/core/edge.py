"""The outermost layer of the server: request ids, the client's address, the log, the last resort.

Everything that happens to a request is inside: it numbers it, turns whatever escapes into the one
error body, and writes the one log line. For the API it also counts the request and finds out who
calls, before any routing (product decisions §2: limit, then authentication).
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from litestar.enums import ScopeType

from opentill.core import log, metrics
from opentill.core.http import send_problem
from opentill.core.ids import new_id

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

Door = Callable[[str | None, str], Awaitable[str | None]]  # API key and address to merchant id
_log: Final = structlog.get_logger()
_HOP: Final = re.compile(
    r"\[(?P<six>[0-9a-fA-F:.]+)\](:[0-9]{1,5})?|(?P<four>[0-9.]+):[0-9]{1,5}|[0-9a-fA-F:.]+",
    re.ASCII,
)
_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"),)


def client_address(
    peer: str, forwarded: str | None, trusted: Sequence[IPv4Network | IPv6Network]
) -> str:
    """Return the client's address: the socket's, unless that is a trusted proxy's.

    Then the last address of ``X-Forwarded-For`` that is not a trusted proxy itself; what stands
    before it is whatever the client wrote.
    """
    if not forwarded or not _inside(peer, trusted):
        return peer
    for hop in reversed([part.strip() for part in forwarded.split(",")]):
        address = _bare(hop)
        if address is None:
            return peer
        if not _inside(address, trusted):
            return address
        peer = address
    return peer


def _bare(hop: str) -> str | None:
    """Return the address of ``1.2.3.4``, ``1.2.3.4:5``, ``::1``, ``[::1]`` or ``[::1]:5``."""
    found = _HOP.fullmatch(hop)
    if found is None:
        return None
    address: str = found["six"] or found["four"] or hop
    try:
        ip_address(address)
    except ValueError:
        return None
    return address


def _inside(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in network for network in networks)


class Edge:
    """ASGI middleware around the whole application."""

    def __init__(
        self, app: "ASGIApp", door: Door, trusted: Sequence[IPv4Network | IPv6Network]
    ) -> None:
        """``door`` counts a request and says who calls; it raises what is to be answered."""
        self._app = app
        self._door = door
        self._trusted = trusted

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request through."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = new_id("req")
        status = 500
        begun = False

        async def numbered(message: "Message") -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                begun = True
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *_ALWAYS]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        structlog.contextvars.bind_contextvars(request_id=request_id)
        extra = cast("dict[str, Any]", scope)  # where we add what we find out
        try:
            key: str | None = None
            lines: list[bytes] = []
            for name, value in scope["headers"]:
                if name == b"x-api-key":  # one that stands twice is none: there is no telling which
                    key = value.decode("latin-1") if key is None else ""
                elif name == b"x-forwarded-for":
                    lines.append(value)
            forwarded = b",".join(lines).decode("latin-1")  # one list, however many lines
            client: tuple[str, int] | None = extra.get("client")
            address = client_address(client[0] if client else "", forwarded, self._trusted)
            extra["opentill_address"] = address
            extra["opentill_merchant"] = None
            if scope["path"].startswith("/v1/"):
                extra["opentill_merchant"] = await self._door(key, address)
            await self._app(scope, receive, numbered)
        except Exception as error:  # the last resort
            if begun:  # too late for an answer: the client sees the connection end
                _log.exception("answer broken off")
                raise
            await send_problem(numbered, error)
        finally:
            seconds = time.perf_counter() - started
            route = extra.get("opentill_route") or extra.get("path_template") or "other"
            metrics.count_request(route, scope["method"], status, seconds)
            log.request(request_id, scope["method"], route, status, round(seconds * 1000, 1))
            structlog.contextvars.unbind_contextvars("request_id")
