"""The request middleware: request id, client address, error responses, log line.

It wraps every request and turns every exception into an error response. API requests are also
rate-limited and authenticated here, before routing (contract.md#order-of-checks).
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
from opentill.server.client_address import is_inside

Authenticate = Callable[[str | None, str], Awaitable[Caller | None]]  # takes API key and address
ErrorPage = Callable[[Scope, Receive, Exception], ASGIApp | None]
RecordRefused = Callable[[Scope, str, int, bytes], None]  # takes request id, status, response body
RecordAccepted = Callable[[Scope, str], None]  # takes the request id


class RequestRecorders(NamedTuple):
    """Callbacks for merchants' requests that were refused, and those that had ignored fields."""

    refused: RecordRefused
    accepted: RecordAccepted


_log: Final = structlog.get_logger()
_HOP: Final = re.compile(
    r"\[(?P<six>[0-9a-fA-F:.]+)\](:[0-9]{1,5})?|(?P<four>[0-9.]+):[0-9]{1,5}|[0-9a-fA-F:.]+",
    re.ASCII,
)
# Container engines request these routes every few seconds, so successes are logged at debug.
_HEALTH_ROUTES: Final = ("/healthz", "/readyz")
_UNTRACED: Final = (*_HEALTH_ROUTES, "/metrics")
_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"),)
# RFC 6797 §6.1: browsers use only https for a year. Subdomains are not included.
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
# This header says that payments of this deployment may go through the sandbox bank, whose money is
# not real.
_TEST_MODE: Final = (b"opentill-test-mode", b"sandbox")
# Statuses of errors begin here; a plain int is compared faster than an HTTPStatus.
_REFUSED: Final = int(HTTPStatus.BAD_REQUEST)
WARNING_INTERVAL_S: Final = 60.0  # shortest time between two warnings about an untrusted proxy


def client_address(
    peer: str, forwarded: str | None, trusted: Sequence[IPv4Network | IPv6Network]
) -> str:
    """Return the client's address: the peer's, unless the peer is a trusted proxy.

    Behind a trusted proxy it is the last address in ``X-Forwarded-For`` that is not a trusted
    proxy; the client may have forged the addresses before it.
    """
    if not forwarded or not is_inside(peer, trusted):
        return peer
    for hop in reversed([part.strip() for part in forwarded.split(",")]):
        address = _parse_hop(hop)
        if address is None:
            return peer
        if not is_inside(address, trusted):
            return address
        peer = address
    return peer


def _key_and_hops(headers: Sequence[tuple[bytes, bytes]]) -> tuple[str | None, list[bytes]]:
    """Return the API key of a request and its X-Forwarded-For lines.

    A request with two keys gets "", which authenticates nobody.
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
    """Return the key to authenticate with; operations for people accept none."""
    return None if path.startswith("/v1/merchant/") else key


def _parse_hop(hop: str) -> str | None:
    """Return the address of ``1.2.3.4``, ``1.2.3.4:5``, ``::1``, ``[::1]`` or ``[::1]:5``."""
    match = _HOP.fullmatch(hop)
    if match is None:
        return None
    address: str = match["six"] or match["four"] or hop
    try:
        ip_address(address)
    except ValueError:
        return None
    return address


def _label(scope: Scope) -> str:
    """Return a request's route template for the log and the metrics."""
    if "route" not in scope:
        return "other"
    path: str = scope["route"].path_format
    return path.removesuffix("/{rest}")  # the path of the catch-all route ends with this parameter


class RequestMiddleware:
    """ASGI middleware that wraps the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        authenticate: Authenticate,
        trusted: Sequence[IPv4Network | IPv6Network],
        *,
        error_page: ErrorPage | None = None,
        recorders: RequestRecorders | None = None,
        https: bool = False,
        test_mode: bool = False,
    ) -> None:
        """Wrap ``app``.

        ``authenticate`` rate-limits an API request and returns its caller, or raises a Problem.
        ``error_page`` renders an error outside the API as a page, or returns None for JSON.
        ``recorders`` get the requests with a valid key that were refused or had ignored fields.
        ``https`` says that the public URL is https, ``test_mode`` that the sandbox bank is among
        the gateways; every API response then says so in a header.
        """
        self._app = app
        self._authenticate = authenticate
        self._trusted = trusted
        self._error_page = error_page
        self._recorders = recorders
        self._page_headers = (*_ALWAYS, _HSTS) if https else _ALWAYS
        self._api_headers = (*self._page_headers, _TEST_MODE) if test_mode else self._page_headers
        self._warned_at = -WARNING_INTERVAL_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif tracing.is_on() and scope["path"] not in _UNTRACED:
            with tracing.request_span(scope["headers"]):
                await self._serve(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = new_id("req")
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)  # logged if no response is ever started
        has_started = False
        is_api = scope["path"].startswith("/v1/") or scope["path"] == "/v1"
        always = self._api_headers if is_api else self._page_headers

        async def send_with_headers(message: Message) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                has_started = True
                status = message["status"]
                request_header = (b"x-request-id", request_id.encode())
                message["headers"] = [*message["headers"], request_header, *always]
            await send(message)
            if is_api and (status >= _REFUSED or scope.get(IGNORED)):
                self._record(scope, request_id, status, message)

        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            key, lines = _key_and_hops(scope["headers"])
            address = scope["opentill_address"] = self._address(scope.get("client"), lines)
            scope["opentill_merchant"] = None
            if (
                is_api
                and (caller := await self._authenticate(_key_for(scope["path"], key), address))
                is not None
            ):
                scope["opentill_merchant"] = caller.merchant_id
                log.merchant.set(caller.merchant_id)
                scope["opentill_key"] = caller.key_id
                scope[SCOPES] = caller.scopes
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if has_started:  # too late for an error response; the connection is closed
                _log.exception("response broken off")
                raise
            respond = self._respond_for_api if is_api else self._respond_for_reader
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

    def _record(self, scope: Scope, request_id: str, status: int, message: Message) -> None:
        """Record a merchant's request once its response is complete."""
        recorders = self._recorders
        is_complete = message["type"] == "http.response.body" and not message.get("more_body")
        if recorders is None or not is_complete or scope["opentill_merchant"] is None:
            return
        if status < _REFUSED:
            recorders.accepted(scope, request_id)
        else:
            recorders.refused(scope, request_id, status, message["body"])

    async def _respond_for_api(
        self, scope: Scope, _: Receive, send: Send, error: Exception
    ) -> None:
        await send_problem(send, error, scope.get(IGNORED, ()))

    async def _respond_for_reader(
        self, scope: Scope, receive: Receive, send: Send, error: Exception
    ) -> None:
        """Send an error page to a browser and the error body to any other client."""
        page = None if self._error_page is None else self._error_page(scope, receive, error)
        if page is None:
            await self._respond_for_api(scope, receive, send, error)
        else:
            await page(scope, receive, send)

    def _address(self, client: tuple[str, int] | None, lines: list[bytes]) -> str:
        """Return the client's address, given the peer's and the ``X-Forwarded-For`` lines."""
        peer = client[0] if client else ""
        if not lines:
            return peer
        # By RFC 9110 §5.3, several lines form one list.
        forwarded = b",".join(lines).decode("latin-1")
        if not is_inside(peer, self._trusted):
            self._warn_untrusted(peer)
        return client_address(peer, forwarded, self._trusted)

    def _warn_untrusted(self, peer: str) -> None:
        """Warn that an untrusted peer sent ``X-Forwarded-For``, at most once a minute.

        It may be a client forging the header; if it is a proxy, its clients share one rate limit.
        """
        now = time.monotonic()
        if now - self._warned_at < WARNING_INTERVAL_S:
            return
        self._warned_at = now
        _log.warning(
            "X-Forwarded-For of a peer that is not trusted is ignored",
            peer=peer,
            hint="if that is your proxy, all its clients share one rate limit: name its address in"
            " OPENTILL_TRUSTED_PROXIES",
        )
