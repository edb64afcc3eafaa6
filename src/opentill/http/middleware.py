"""The request middleware: request id, client address, error responses, the log line.

It surrounds every request, and turns every exception into the one error response. For the API it
also counts the request and authenticates it, before any routing (contract.md#order-of-checks).
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, NamedTuple

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opentill.core import log, metrics, tracing
from opentill.core.ids import new_id
from opentill.http.caller import Caller
from opentill.http.handling import IGNORED, SCOPES
from opentill.http.responses import send_problem
from opentill.server.client_address import inside

Authenticate = Callable[[str | None, str], Awaitable[Caller | None]]  # API key, address
ErrorPage = Callable[[Scope, Receive, Exception], ASGIApp | None]
NoteRefused = Callable[[Scope, str, int, bytes], None]  # request id, status, body of the response
NoteAccepted = Callable[[Scope, str], None]  # request id


class Notes(NamedTuple):
    """What takes the requests of merchants that the API refuses, and those with ignored fields."""

    refused: NoteRefused
    accepted: NoteAccepted


_log: Final = structlog.get_logger()
_HOP: Final = re.compile(
    r"\[(?P<six>[0-9a-fA-F:.]+)\](:[0-9]{1,5})?|(?P<four>[0-9.]+):[0-9]{1,5}|[0-9a-fA-F:.]+",
    re.ASCII,
)
_HEALTH_ROUTES: Final = ("/healthz", "/readyz")  # asked every few seconds: logged at debug
_UNTRACED: Final = (*_HEALTH_ROUTES, "/metrics")
_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"),)
# RFC 6797 §6.1: browsers come back by https only, for a year. Nothing about names below ours.
_BY_HTTPS: Final = (b"strict-transport-security", b"max-age=31536000")
# Payments of this deployment may go through the sandbox bank, whose money is not real.
_TEST_MODE: Final = (b"opentill-test-mode", b"sandbox")
_REFUSED: Final = int(HTTPStatus.BAD_REQUEST)  # a plain number compares fastest
NOTICE_S: Final = 60.0  # a proxy that is not trusted is logged once in so many seconds


def client_address(
    peer: str, forwarded: str | None, trusted: Sequence[IPv4Network | IPv6Network]
) -> str:
    """Return the client's address: the socket's, unless that is a trusted proxy's.

    Then the last address of ``X-Forwarded-For`` that is not a trusted proxy itself; what stands
    before it is whatever the client wrote.
    """
    if not forwarded or not inside(peer, trusted):
        return peer
    for hop in reversed([part.strip() for part in forwarded.split(",")]):
        address = _bare(hop)
        if address is None:
            return peer
        if not inside(address, trusted):
            return address
        peer = address
    return peer


def _key_and_hops(headers: Sequence[tuple[bytes, bytes]]) -> tuple[str | None, list[bytes]]:
    """Return the API key of a request and its lines of X-Forwarded-For.

    Two keys count as none, "": neither is the right one.
    """
    key: str | None = None
    lines: list[bytes] = []
    for name, value in headers:
        if name == b"x-api-key":
            key = value.decode("latin-1") if key is None else ""
        elif name == b"x-forwarded-for":
            lines.append(value)
    return key, lines


def _key_for(path: str, key: str | None) -> str | None:
    """Return the key that a request is authenticated by; it opens nothing that is for people."""
    return None if path.startswith("/v1/merchant/") else key


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


def _label(scope: Scope) -> str:
    """Return a request's route for the log and the metrics."""
    if "route" not in scope:
        return "other"
    path: str = scope["route"].path_format
    return path.removesuffix("/{rest}")  # what takes all that is no other route's


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        authenticate: Authenticate,
        trusted: Sequence[IPv4Network | IPv6Network],
        *,
        error_page: ErrorPage | None = None,
        notes: Notes | None = None,
        https: bool = False,
        test_mode: bool = False,
    ) -> None:
        """``authenticate`` counts a request of the API and finds its caller, or raises a Problem.

        ``error_page`` makes the page of an error outside the API, None where JSON is wanted;
        without it that is so everywhere. ``notes`` takes requests of merchants, those with a valid
        key: those that the API refuses, and those that it accepts though their body has fields that
        nobody reads.

        ``https``: the public address is. ``test_mode``: the sandbox bank is among the gateways, and
        every response of the API says so.
        """
        self._app = app
        self._authenticate = authenticate
        self._trusted = trusted
        self._error_page = error_page
        self._notes = notes
        self._of_pages = (*_ALWAYS, _BY_HTTPS) if https else _ALWAYS
        self._of_api = (*self._of_pages, _TEST_MODE) if test_mode else self._of_pages
        self._noticed_at = -NOTICE_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif tracing.is_on() and scope["path"] not in _UNTRACED:
            with tracing.request_span(scope["headers"]):
                await self._pass(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = new_id("req")
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)  # until the response begins
        begun = False
        api = scope["path"].startswith("/v1/") or scope["path"] == "/v1"
        always = self._of_api if api else self._of_pages

        async def send_with_headers(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                begun = True
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *always]
                message["headers"] = [*message["headers"], *own]
            await send(message)
            if api and (status >= _REFUSED or scope.get(IGNORED)):
                self._note(scope, request_id, status, message)

        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            key, lines = _key_and_hops(scope["headers"])
            address = scope["opentill_address"] = self._address(scope.get("client"), lines)
            scope["opentill_merchant"] = None
            if (
                api
                and (caller := await self._authenticate(_key_for(scope["path"], key), address))
                is not None
            ):
                scope["opentill_merchant"] = caller.merchant_id
                log.merchant.set(caller.merchant_id)
                scope["opentill_key"] = caller.key_id
                scope[SCOPES] = caller.scopes
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if begun:  # too late for an error response: the client sees the connection end
                _log.exception("response broken off")
                raise
            respond = self._respond_for_api if api else self._respond_for_reader
            await respond(scope, receive, send_with_headers, error)
        finally:
            seconds = time.perf_counter() - started
            route = _label(scope)
            metrics.count_request(route, scope["method"], status, seconds)
            log.request(
                request_id, scope["method"], route, status, round(seconds * 1000, 1),
                quiet=status < HTTPStatus.BAD_REQUEST and route in _HEALTH_ROUTES,
            )  # fmt: skip
            if tracing.is_on():
                tracing.describe_request(
                    route, scope["method"], status, request_id, log.merchant.get()
                )
            structlog.contextvars.unbind_contextvars("request_id")
            log.merchant.set(None)

    def _note(self, scope: Scope, request_id: str, status: int, message: Message) -> None:
        """Note a request once its response is sent, if it was a merchant's."""
        notes = self._notes
        whole = message["type"] == "http.response.body" and not message.get("more_body")
        if notes is None or not whole or scope["opentill_merchant"] is None:
            return
        if status < _REFUSED:
            notes.accepted(scope, request_id)
        else:
            notes.refused(scope, request_id, status, message["body"])

    async def _respond_for_api(
        self, scope: Scope, _: Receive, send: Send, error: Exception
    ) -> None:
        await send_problem(send, error, scope.get(IGNORED, ()))

    async def _respond_for_reader(
        self, scope: Scope, receive: Receive, send: Send, error: Exception
    ) -> None:
        """Send a browser a page, and any other client the error body."""
        page = None if self._error_page is None else self._error_page(scope, receive, error)
        if page is None:
            await self._respond_for_api(scope, receive, send, error)
        else:
            await page(scope, receive, send)

    def _address(self, client: tuple[str, int] | None, lines: list[bytes]) -> str:
        """Return the client's address by the socket's and the lines of ``X-Forwarded-For``."""
        peer = client[0] if client else ""
        if not lines:
            return peer
        forwarded = b",".join(lines).decode("latin-1")  # one list, however many lines
        if not inside(peer, self._trusted):
            self._notice(peer)
        return client_address(peer, forwarded, self._trusted)

    def _notice(self, peer: str) -> None:
        """Log, at most once in ``NOTICE_S``, that a peer that is not trusted sent the header.

        It may be a client that pretends. If it is a proxy, all its clients share one rate limit.
        """
        now = time.monotonic()
        if now - self._noticed_at < NOTICE_S:
            return
        self._noticed_at = now
        _log.warning(
            "X-Forwarded-For of a peer that is not trusted is ignored",
            peer=peer,
            hint="if that is your proxy, all its clients share one rate limit: name its address in"
            " OPENTILL_TRUSTED_PROXIES",
        )
