"""The HTTP client for all outgoing requests: webhooks, Epay notifications, gateways.

It resolves a name itself, checks the addresses by the policy and connects to an allowed one, with
the name in Host, SNI and certificate check. It follows no redirects, uses no proxy and no cookies,
does not decompress, and limits time and size. Its errors show whether the request may have had an
effect: after ``Forbidden`` and ``Unreachable`` it had none, after ``NoResponse`` it may have.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, BinaryIO, Final

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from opentill import __version__
from opentill.core import tracing
from opentill.core.settings import Settings
from opentill.outgoing.addresses import Forbidden as Forbidden  # noqa: PLC0414 - one of the three
from opentill.outgoing.addresses import Policy as Policy  # noqa: PLC0414 - what a caller needs
from opentill.outgoing.addresses import parse, read_ip

# Resolves a host name to IP addresses, as text. Raises OSError.
Resolve = Callable[[str], Awaitable[Sequence[str]]]

# The reasons of Unreachable and NoResponse, for merchants and staff; pages translate them.
UNKNOWN_HOST: Final = "The host name could not be resolved (DNS)."
REFUSED: Final = "The server refused the connection."
CONNECT_TIMEOUT: Final = "The server did not accept the connection in time."
NO_ROUTE: Final = "The server could not be reached."
WRONG_CERTIFICATE: Final = "The server’s TLS certificate is not valid for this address."
EXPIRED_CERTIFICATE: Final = "The server’s TLS certificate has expired."
OTHER_NAME: Final = "The server’s TLS certificate was issued for another name."
NO_TLS: Final = "The TLS connection to the server failed."
RESPONSE_TIMEOUT: Final = "The server did not respond in time."
CLOSED: Final = "The server closed the connection before its response was complete."
MALFORMED: Final = "The server’s response was not valid HTTP."

_CONNECT_S: Final = 5.0
# Idle connections are closed after this time. Servers usually keep them for 5 s or more, so that a
# request rarely uses a connection that the server is closing. For this time, a host may still be
# called at an address that its name no longer has.
_IDLE_S: Final = 4.0
_CONNECTIONS: Final = 512
# As many lookups may run as connections, so that slow name servers do not delay other names.
_LOOKUPS: Final = _CONNECTIONS
_CHUNK: Final = 64 * 1024
_HEADERS: Final = {"User-Agent": f"OpenTill/{__version__}", "Accept-Encoding": "identity"}


# Returns the policy of an adapter for the URL of its server. Raises Forbidden.
ServerPolicy = Callable[[str], Policy]


def merchant_client(settings: Settings) -> "Outgoing":
    """Create the client for merchants' URLs, with the deployment's policy."""
    return Outgoing(_merchant_policy(settings))


def _merchant_policy(settings: Settings) -> Policy:
    return Policy(allow_http=settings.outgoing_http, allowed_networks=settings.outgoing_allow)


def merchant_server_policy(settings: Settings, url: str) -> Policy:
    """Return the policy for one server that a merchant configured. Raises Forbidden."""
    policy = msgspec.structs.replace(
        _merchant_policy(settings), origin=parse(url).origin, trusts_origin=False
    )
    policy.target(url)
    return policy


class Unreachable(Exception):
    """Nothing was sent: no address, connection refused, connect timeout, TLS failure."""


class NoResponse(Exception):
    """Data may have been sent, but there is no usable response: timeout, reset, malformed."""


class Response(msgspec.Struct, frozen=True):
    """A response of any status. Header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes  # at most ``max_bytes``
    cut: bool = False  # whether the body was truncated


class Outgoing:
    """Sends requests to addresses that the policy allows. Connections are reused for 4 s.

    ``resolve`` replaces the system's resolver.
    """

    def __init__(self, policy: Policy, resolve: Resolve | None = None) -> None:
        """Create the client without opening connections; needs no running loop."""
        self.policy = policy
        self._resolver = _CheckedResolver(policy, resolve)
        self._session: aiohttp.ClientSession | None = None

    def check(self, url: str) -> None:
        """Raise Forbidden for an invalid URL, without resolving its name."""
        self.policy.target(url)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes = b"",
        timeout_s: float,
        max_bytes: int = 65536,
    ) -> Response:
        """Send a request and return its response of any status.

        ``timeout_s`` begins with the lookup of the name and includes receiving the body. Raises
        Forbidden, Unreachable or NoResponse.
        """
        async with self._request(method, url, headers, body, timeout_s) as response:
            read = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                read += chunk
                if len(read) > max_bytes:
                    response.close()
                    break
            return _response_of(response, bytes(read[:max_bytes]), cut=len(read) > max_bytes)

    async def download(
        self,
        url: str,
        target: BinaryIO,
        *,
        headers: Mapping[str, str] = {},
        timeout_s: float,
        max_bytes: int,
    ) -> Response:
        """Get a file and write it to ``target`` if the status is 200; the response has no body.

        Raises Forbidden, Unreachable or NoResponse, also for a file of more than ``max_bytes``.
        """
        async with self._request("GET", url, headers, b"", timeout_s) as response:
            size = 0
            if response.status == 200:  # noqa: PLR2004 - OK
                async for chunk in response.content.iter_chunked(_CHUNK):
                    size += len(chunk)
                    if size > max_bytes:
                        msg = f"the file is longer than {max_bytes} bytes"
                        raise NoResponse(msg)
                    target.write(chunk)
            return _response_of(response, b"", cut=False)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._resolver.stop()

    @contextlib.asynccontextmanager
    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; convert any failure, also in the block, to one of the three errors."""
        target = self.policy.target(url)
        # The first session loads all CA certificates, which must not count towards the timeout.
        session = self._open_session()
        connection = SimpleNamespace(open=False)
        try:
            with tracing.span(method, {"http.request.method": method}, kind="CLIENT") as span:
                async with (
                    asyncio.timeout(timeout_s),
                    session.request(
                        method,
                        URL(target.origin + target.rest, encoded=True),
                        headers=_HEADERS | dict(headers) | tracing.headers(),
                        data=body or None,
                        allow_redirects=False,
                        trace_request_ctx=connection,
                    ) as response,
                ):
                    span.set_attribute("http.response.status_code", response.status)
                    yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = _reason_of(error, sent=connection.open)
            raise (NoResponse(reason) if connection.open else Unreachable(reason)) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            # aiohttp calls `_opened` before it sends anything over a connection. A failure before
            # that call proves that nothing was sent.
            trace.on_connection_create_end.append(_opened)
            trace.on_connection_reuseconn.append(_opened)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=self._resolver,
                    use_dns_cache=False,
                    socket_factory=self._socket,
                    ssl=_tls_context(),
                    limit=_CONNECTIONS,
                    keepalive_timeout=_IDLE_S,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[trace],
            )
        return self._session

    def _socket(self, info: Any) -> socket.socket:
        """Create the socket of a connection, after a last check of its address."""
        family, kind, proto, _, address = info
        self.policy.select_allowed(address[0], (read_ip(address[0]),))
        return socket.socket(family, kind, proto)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Return the context of all clients: to load the CA certificates takes 20 ms."""
    return ssl.create_default_context()


class _CheckedResolver(AbstractResolver):
    """Resolves names to allowed addresses; concurrent lookups of a name are combined."""

    def __init__(self, policy: Policy, resolve: Resolve | None) -> None:
        self._policy = policy
        self._resolve = resolve or self._resolve_by_system
        self._lookups: dict[str, asyncio.Task[Sequence[str]]] = {}
        self._threads = ThreadPoolExecutor(_LOOKUPS, "resolver") if resolve is None else None

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - always both
    ) -> list[ResolveResult]:
        """Return the allowed addresses. Raises Forbidden if there is none, OSError."""
        addresses = [read_ip(text) for text in await self._look_up(host)]
        if not addresses:
            msg = f"{host} has no address"
            raise OSError(msg)
        return [
            ResolveResult(
                hostname=host, host=str(address), port=port, proto=0,
                family=socket.AF_INET6 if address.version == 6 else socket.AF_INET,  # noqa: PLR2004 - IPv6
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self._policy.select_allowed(host, addresses)
        ]  # fmt: skip

    async def _look_up(self, host: str) -> Sequence[str]:
        task = self._lookups.get(host)
        if task is None:
            task = self._lookups[host] = asyncio.ensure_future(self._resolve(host))
            task.add_done_callback(lambda done: self._forget(host, done))
        return await asyncio.shield(task)

    def _forget(self, host: str, task: asyncio.Task[Sequence[str]]) -> None:
        self._lookups.pop(host, None)
        if not task.cancelled():
            # asyncio logs an exception that nobody has read, as when the caller has given up.
            task.exception()

    async def _resolve_by_system(self, host: str) -> Sequence[str]:
        """Use the system's resolver in dedicated threads, since the loop's executor has few."""
        loop = asyncio.get_running_loop()
        infos = await loop.run_in_executor(
            self._threads,
            lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM),
        )
        return [str(info[4][0]) for info in infos]

    async def close(self) -> None:
        """Do nothing: the resolver outlives the session."""

    def stop(self) -> None:
        """Stop the threads; running lookups end by themselves."""
        for task in list(self._lookups.values()):
            task.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


async def _opened(_session: Any, context: Any, _params: Any) -> None:
    context.trace_request_ctx.open = True


def _response_of(response: aiohttp.ClientResponse, body: bytes, *, cut: bool) -> Response:
    headers = tuple((name.lower(), value) for name, value in response.headers.items())
    return Response(response.status, headers, body, cut)


# The reasons by the kind of error; the first that matches counts.
_REASONS: Final[tuple[tuple[tuple[type[Exception], ...], str], ...]] = (
    ((ssl.SSLError, aiohttp.ClientSSLError), NO_TLS),
    ((aiohttp.ClientConnectorDNSError,), UNKNOWN_HOST),
    ((aiohttp.ClientConnectorError,), NO_ROUTE),
    ((aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionError), CLOSED),
    ((aiohttp.ClientResponseError,), MALFORMED),
)


def _reason_of(error: Exception, *, sent: bool) -> str:
    """Return the sentence for a failure; ``sent``: data may have been sent before it."""
    if isinstance(error, TimeoutError):
        return RESPONSE_TIMEOUT if sent else CONNECT_TIMEOUT
    cause = getattr(error, "os_error", None)
    if isinstance(cause, ConnectionRefusedError):
        return REFUSED
    if isinstance(cause, ConnectionResetError):
        return CLOSED
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _reason_of_certificate(error.certificate_error)
    reasons = (reason for kinds, reason in _REASONS if isinstance(error, kinds))
    return next(reasons, CLOSED if sent else NO_ROUTE)


# OpenSSL's codes of verification errors (``X509_V_ERR_…``).
_CERTIFICATE_REASONS: Final = {10: EXPIRED_CERTIFICATE, 62: OTHER_NAME, 64: OTHER_NAME}


def _reason_of_certificate(error: Exception) -> str:
    return _CERTIFICATE_REASONS.get(getattr(error, "verify_code", 0), WRONG_CERTIFICATE)
