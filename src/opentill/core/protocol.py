"""HTTP/1.1 towards a hostile internet: uvicorn's protocol with deadlines, limits and our errors.

uvicorn answers malformed requests in plain text and waits for slow clients for ever. Here every
phase of a connection has a deadline, which one task of the process looks at (``sweep``) instead of
a timer for each; headers have a size; whoever breaks the protocol gets the JSON error body and a
closed connection. The phases:

    HEADERS   connected, or a first byte came: the headers must be complete in time
    BODY      the whole body must be here in time
    RUNNING   the application is at work: it has limits of its own
    IDLE      kept alive, nothing came yet
    LINGER    refused: what still comes is thrown away, so that the answer is read and not reset
"""

import asyncio
import functools
import secrets
from enum import Enum, auto
from typing import Any, Final

import httptools
import msgspec
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

MAX_HEADERS_BYTES: Final = 16 * 1024
MAX_DISCARDED_BYTES: Final = 8 * 1024 * 1024
LINGER_S: Final = 2.0
IDLE_DRAIN_S: Final = 1.0
SWEEP_S: Final = 0.1
_NEVER: Final = float("inf")
_log: Final = structlog.get_logger()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may take: seconds of time, and open connections of the process."""

    header_timeout_s: float = 10.0
    body_timeout_s: float = 10.0
    idle_timeout_s: float = 15.0
    write_timeout_s: float = 30.0  # nothing of the answer was taken for this long
    connections: int = 1000


class LimitedConfig(Config):
    """uvicorn's configuration, which it hands to every connection, with our limits in it."""

    limits: Limits = Limits()


class Phase(Enum):
    """Where a connection stands; see the module."""

    HEADERS = auto()
    BODY = auto()
    RUNNING = auto()
    IDLE = auto()
    LINGER = auto()


class Refusal(Exception):
    """The request is refused before the application sees it."""

    def __init__(self, status: int, body: bytes, headers: bytes = b"") -> None:
        """``headers`` are whole header lines that go along with the JSON ``body``."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers


def _malformed(field: str, reason: str) -> Refusal:
    error = {"field": field, "reason": reason}
    answer = {"code": 40001, "message": "Validation failed", "error": error}
    return Refusal(400, msgspec.json.encode(answer))


def _ambiguous(reason: str) -> Refusal:
    return _malformed("request", reason)


_OVERSIZE: Final = ("headers", "the headers must be 16 KiB or less")
_UNREADABLE: Final = ("request", "the request must be valid HTTP/1.1")
_FULL: Final = Refusal(
    503, b'{"code":50301,"message":"Service unavailable"}', b"retry-after: 1\r\n"
)
_INTERNAL: Final = b'{"code":50001,"message":"Internal error"}'


class Protocol(HttpToolsProtocol):
    """One connection."""

    config: LimitedConfig

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Called by uvicorn for every connection."""
        super().__init__(config, server_state, app_state, _loop)
        # uvicorn drops its reference at the end, so its type is not this.
        self._parser: httptools.HttpRequestParser = self.parser  # pyright: ignore[reportAttributeAccessIssue]
        self.limits = self.config.limits
        self.phase = Phase.HEADERS
        self.deadline = _NEVER  # of the phase, on the loop's clock
        self.stalled_since = _NEVER  # the client has not taken our answer since
        self._header_bytes = 0  # parsed
        self._raw_bytes = 0  # received while headers were incomplete
        self._discarded = 0
        self._draining = False
        self._refusal: Refusal | None = None  # waits for the answers before it

    # What happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Take the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        self._enter(Phase.HEADERS, self.limits.header_timeout_s)
        if len(self.connections) > self.limits.connections:
            self._refuse(_FULL)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; turn whatever it dislikes into our error body."""
        if self.phase is Phase.LINGER or self._refusal is not None:
            self._discard(len(data))
            return
        if self.phase is Phase.IDLE:  # the first byte of the next request
            self._enter(Phase.HEADERS, self.limits.header_timeout_s)
        if self.phase is Phase.BODY and self.cycle.response_complete:
            self._discard(len(data))
        self._raw_bytes += len(data)
        try:
            self._parser.feed_data(data)
            if self.phase is Phase.HEADERS and self._raw_bytes > MAX_HEADERS_BYTES:
                raise _malformed(*_OVERSIZE)
        except httptools.HttpParserUpgrade:
            # We speak nothing else: the request is answered as it is, what follows is not read.
            self.cycle.keep_alive = False
        except Refusal as refusal:
            self._refuse_in_turn(refusal)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse_in_turn(cause if isinstance(cause, Refusal) else _malformed(*_UNREADABLE))

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio asks for it
        """Answer what is asked to a client that has nothing more to say, then close."""
        if self.phase is not Phase.RUNNING:
            return False
        self.cycle.keep_alive = False
        return True

    def pause_writing(self) -> None:
        """Note since when the client does not take its answer."""
        self.stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on answering."""
        self.stalled_since = _NEVER
        super().resume_writing()

    def shutdown(self) -> None:
        """Finish: a running request is answered, an idle client gets a moment for its next one.

        Closing idle connections at once would cut requests that are on their way already.
        """
        self._draining = True
        if self.phase in {Phase.IDLE, Phase.HEADERS}:
            self.deadline = min(self.deadline, self.loop.time() + IDLE_DRAIN_S)
        elif self._running():
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def check(self, now: float) -> None:
        """Cut the client off if its time is over; ``now`` is on the loop's clock."""
        if now > self.stalled_since + self.limits.write_timeout_s:
            self.transport.abort()
        elif now > self.deadline:
            self.deadline = _NEVER
            if self.phase is Phase.BODY and not self.cycle.response_complete:
                self._give_up_request()
            self.transport.close()

    # What the parser finds

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._header_bytes = 0
        self._enter(Phase.HEADERS, self.limits.header_timeout_s)

    def on_url(self, url: bytes) -> None:
        """A part of the target came."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse ambiguous requests, then let the application begin."""
        self._raw_bytes = 0
        _check_framing(self.headers, self._parser.get_http_version())
        super().on_headers_complete()
        self._enter(Phase.BODY, self.limits.body_timeout_s)
        if self._draining:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The request is here as a whole."""
        super().on_message_complete()
        self._raw_bytes = 0
        if self.cycle.response_complete:
            self._enter(Phase.IDLE, self.limits.idle_timeout_s)
        else:
            self._enter(Phase.RUNNING, _NEVER)

    def on_response_complete(self) -> None:
        """Begin the next pipelined request, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            if self._draining and not self.pipeline:
                cycle.keep_alive = False
            self._start_asgi_task(cycle, app)
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self.phase is Phase.RUNNING:
            self._enter(Phase.IDLE, self.limits.idle_timeout_s)

    # Ourselves

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        answer = functools.partial(_answer_internal, cycle)
        cycle.send_500_response = answer  # type: ignore[method-assign] # uvicorn's is plain text
        super()._start_asgi_task(cycle, app)

    def _running(self) -> bool:
        """Whether an answer is owed. uvicorn's ``cycle`` is ``None`` before the first request."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _enter(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.loop.time() + seconds

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS_BYTES:
            raise _malformed(*_OVERSIZE)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > MAX_DISCARDED_BYTES:
            self.transport.abort()

    def _give_up_request(self) -> None:
        """Tell the application that its client is gone."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()

    def _refuse_in_turn(self, refusal: Refusal) -> None:
        """Refuse after the answers to the requests before this one."""
        running = self._running()
        if self.phase is Phase.BODY and running:  # the request's own body is broken
            if self.pipeline and self.pipeline[0][0] is self.cycle:
                self.pipeline.popleft()  # it has not begun
            else:
                self._give_up_request()
                running = False
                if self.cycle.response_started:
                    self.transport.close()
                    return
        if running:
            self._refusal = refusal
            self.phase, self.deadline = Phase.RUNNING, _NEVER
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        _log.debug("request refused", status=refusal.status)
        head = [STATUS_LINE[refusal.status], refusal.headers]
        head += [
            name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers
        ]
        request_id = secrets.token_hex(16).encode()
        head += [b"content-type: application/json\r\nconnection: close\r\n"]
        head += [b"cache-control: no-store\r\nx-request-id: "]
        head += [request_id, b"\r\ncontent-length: %d\r\n\r\n" % len(refusal.body), refusal.body]
        self.transport.write(b"".join(head))
        self._refusal = None
        self._enter(Phase.LINGER, LINGER_S)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


def _check_framing(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Raise for requests that two servers in a row could read differently (RFC 9112 §3.2, §6.3)."""
    lengths = codings = hosts = 0
    for name, value in headers:
        if name == b"content-length":
            lengths += 1
        elif name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings += 1
            if value.lower() != b"chunked":
                reason = "transfer-encoding must be chunked or absent"
                raise _ambiguous(reason)
    if lengths + codings > 1:
        reason = "there must be one content-length or one transfer-encoding, not more"
        raise _ambiguous(reason)
    if codings and version != "1.1":
        reason = "transfer-encoding needs HTTP/1.1"
        raise _ambiguous(reason)
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        reason = "there must be exactly one host header"
        raise _ambiguous(reason)


async def _answer_internal(cycle: RequestResponseCycle) -> None:
    """The error body for an application that failed before it answered."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(_INTERNAL)),
        (b"cache-control", b"no-store"),
        (b"x-request-id", secrets.token_hex(16).encode()),
        (b"connection", b"close"),
    ]
    await cycle.send({"type": "http.response.start", "status": 500, "headers": headers})
    await cycle.send({"type": "http.response.body", "body": _INTERNAL, "more_body": False})


async def sweep(state: ServerState) -> None:
    """Cut off the clients whose time is over, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_S)
        now = loop.time()
        connections: list[object] = list(state.connections)
        for connection in connections:
            if isinstance(connection, Protocol):
                connection.check(now)
