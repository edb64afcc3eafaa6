"""HTTP/1.1 for untrusted networks: uvicorn's protocol with deadlines, limits and JSON errors.

uvicorn waits indefinitely for slow clients, limits neither headers nor connections, and refuses
malformed requests in plain text. Decision 0053 lists what is added here and what is left to a
proxy. Every phase of a connection has a deadline, which one task of the process checks
(``check_deadlines``):

    IDLE      connected or kept alive; no byte of a request has been received
    HEADERS   a first byte was received; the headers must be complete in time
    BODY      the headers are complete; the body must be complete in time
    RUNNING   the request is complete; the application has its own time limits
    LINGER    refused; further input is discarded, so that the client can read the response

At most ``MAX_QUEUED`` pipelined requests of a connection are queued; the next is refused in its
turn. While any is queued, nothing is read from the socket and the client's deadlines are paused.
Long input is parsed in slices, so that other connections are served in between.

This relies on private parts of uvicorn and httptools, which a test checks for the pinned version
(``tests/server/test_private_parts.py``).
"""

import asyncio
import functools
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

import httptools
import msgspec
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from opentill.server.connection_limits import HEALTH_PATHS, ConnectionLimits
from opentill.server.joined_writes import JoinedWrites
from opentill.server.refusals import (
    MAX_QUEUED,
    OVERSIZE,
    UNREADABLE,
    Refusal,
    check_framing,
    malformed,
    send_internal_error,
    too_many,
)

MAX_HEADERS_BYTES: Final = 16 * 1024
SLICE_BYTES: Final = 16 * 1024  # this much is parsed before other connections get a turn
LINGER_S: Final = 2.0
HEALTH_ONLY_S: Final = 2.0  # a connection over the limits must send a health check in this time
IDLE_DRAIN_S: Final = 1.0
CHECK_S: Final = 0.1
# Key in the ASGI scope of a function that extends the deadline of the request's body, in seconds.
ALLOW_BODY_S: Final = "opentill_allow_body_s"
_NEVER: Final = float("inf")
_log: Final = structlog.get_logger()


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client may take, in seconds."""

    header_s: float
    body_s: float
    idle_s: float
    write_s: float  # a connection is aborted if its client has not read a response for this time


class LimitedConfig(Config):
    """uvicorn's configuration, which every connection gets, with additional limits."""

    timeouts: Timeouts
    connection_limits: ConnectionLimits


class Phase(Enum):
    """The phase of a connection; see the module's docstring."""

    IDLE = auto()
    HEADERS = auto()
    BODY = auto()
    RUNNING = auto()
    LINGER = auto()


_RECEIVING: Final = frozenset((Phase.HEADERS, Phase.BODY))


class _HoldingFlow(FlowControl):
    """Flow control that the application cannot resume while reading is held."""

    def __init__(self, transport: asyncio.Transport, is_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_held = is_held

    def resume_reading(self) -> None:
        if not self._is_held():
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """One connection."""

    config: LimitedConfig
    parser: httptools.HttpRequestParser

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Uvicorn calls this for every connection."""
        super().__init__(config, server_state, app_state, _loop)
        self.timeouts = self.config.timeouts
        self._limits = self.config.connection_limits
        self.phase = Phase.IDLE
        # Times are in the event loop's time.
        self.deadline = _NEVER  # when the phase must end
        self.stalled_since = _NEVER  # when the client stopped reading its response
        self._held_since = _NEVER  # when reading from the socket was paused
        self._received_at = 0.0  # when data was last received
        self._header_bytes = 0  # how many bytes of the current request's headers are parsed
        self._unfinished_bytes = 0  # how many bytes were received while headers were incomplete
        self._unparsed = b""  # received data that is not parsed yet
        self._draining = False
        self._refusal: Refusal | None = None  # is sent after the responses to earlier requests
        # The response to all requests but health checks; None unless over the limits.
        self._health_only: Refusal | None = None
        # The request that is being served; uvicorn's ``cycle`` is the last one received.
        self._working: RequestResponseCycle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Count the connection; over the limits it may only send a health check."""
        super().connection_made(transport)
        self.flow = _HoldingFlow(transport, self._is_held)
        self._health_only = self._limits.admit(self, self.client[0] if self.client else "")
        if self._health_only is None:
            self._wait(self.timeouts.header_s)
        else:
            self._begin(Phase.HEADERS, min(HEALTH_ONLY_S, self.timeouts.header_s))

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application of the disconnect, and release buffers."""
        self._limits.forget(self)
        super().connection_lost(exc)
        if self._working is not None and not self._working.response_complete:
            self._disconnect(self._working)
        self.pipeline.clear()
        self._unparsed = b""
        self._refusal = self._health_only = None

    def data_received(self, data: bytes) -> None:
        """Parse received data in slices."""
        self._received_at = self.loop.time()
        if self.phase is Phase.LINGER or self._refusal is not None:
            return
        is_parsing = bool(self._unparsed)
        self._unparsed += data
        if not is_parsing:
            self._parse_slice()

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio requires it
        """Complete the response to a client that closed its half of the connection, then close."""
        if self.phase is not Phase.RUNNING:
            return False
        self.cycle.keep_alive = False
        return True

    def pause_writing(self) -> None:
        """Record when the client stopped reading its response."""
        self.stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Resume writing."""
        if not self.transport.is_closing():
            self.stalled_since = _NEVER
        super().resume_writing()

    def shutdown(self) -> None:
        """Drain: complete the running response; give an idle client a moment for its next request.

        Closing idle connections immediately would cut off requests that are already in transit.
        """
        self._draining = True
        if self.phase in {Phase.IDLE, Phase.HEADERS}:
            self.deadline = min(self.deadline, self.loop.time() + IDLE_DRAIN_S)
        elif self.is_running():
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    # Deadlines and limits

    def check(self, now: float) -> None:
        """Close the connection if a deadline has passed; ``now`` is in the loop's time."""
        if self.transport.is_closing():
            # If the rest of a response is short, ``pause_writing`` is not called, so that only this
            # detects that the client does not read it.
            self.stalled_since = min(self.stalled_since, now)
        if now > self.stalled_since + self.timeouts.write_s:
            self.transport.abort()
        elif now > self.deadline and self._held_since == _NEVER:
            self.deadline = _NEVER
            if self.phase is Phase.BODY and not self.cycle.response_complete:
                self._disconnect(self.cycle)
            self.transport.close()

    def is_running(self) -> bool:
        """Whether a response is incomplete; ``cycle`` is None before the first request."""
        return bool(self.cycle) and not self.cycle.response_complete

    def may_be_evicted(self) -> bool:
        """Whether the connection is idle and its client has read all responses."""
        return self.phase is Phase.IDLE and not (
            self.transport.get_write_buffer_size() or self._unparsed
        )

    def late_s(self) -> float:
        """Return for how long a client has not sent the rest of its request, 0 if it is not late.

        Headers are late from the start of their time, a body from the last data that was received.
        """
        if self.phase not in _RECEIVING or self.flow.read_paused:
            return 0.0
        if self.transport.get_write_buffer_size():  # an earlier response is still being sent
            return 0.0
        in_headers = self.phase is Phase.HEADERS
        if self.is_running() and (in_headers or self.cycle.response_started):
            return 0.0
        since = self.deadline - self.timeouts.header_s if in_headers else self._received_at
        return self.loop.time() - since

    def evict(self) -> None:
        """Close the connection to make room for another one."""
        self.transport.abort()

    def _begin(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.loop.time() + seconds

    def _wait(self, seconds: float) -> None:
        """Become idle. Over the limits, the longest idle connection is evicted."""
        self._begin(Phase.IDLE, seconds)
        self._limits.mark_idle(self)

    # Reading

    def _parse_slice(self) -> None:
        """Parse a slice of the received data, and schedule the next after other connections."""
        if self.transport.is_closing():
            self._unparsed = b""
            return
        data, self._unparsed = self._unparsed[:SLICE_BYTES], self._unparsed[SLICE_BYTES:]
        self._parse(data)
        if self._unparsed:
            self.loop.call_soon(self._parse_slice)
        if self._is_held():
            self._hold()
        else:
            self._resume()

    def _parse(self, data: bytes) -> None:
        """Feed the parser; refuse malformed input with a JSON error."""
        if self.phase is Phase.IDLE:  # the next request begins with this data
            self._limits.mark_busy(self)
            self._begin(Phase.HEADERS, self.timeouts.header_s)
        self._unfinished_bytes += len(data)
        try:
            self.parser.feed_data(data)
            if self.phase is Phase.HEADERS and self._unfinished_bytes > MAX_HEADERS_BYTES:
                raise malformed(*OVERSIZE)
        except httptools.HttpParserUpgrade:
            # Upgrades are not supported: serve the request, and discard further input.
            self.cycle.keep_alive = False
            self._unparsed = b""
        except Refusal as refusal:
            self._refuse_in_turn(refusal)
        except httptools.HttpParserError as error:
            cause = error.__context__  # the Refusal, if a callback of this class has raised one
            self._refuse_in_turn(cause if isinstance(cause, Refusal) else malformed(*UNREADABLE))

    def _is_held(self) -> bool:
        """Whether reading is paused because earlier input is still being processed."""
        return bool(self.pipeline or self._unparsed) or self._refusal is not None

    def _hold(self) -> None:
        """Pause reading, and the client's deadlines."""
        self.flow.pause_reading()
        self._held_since = min(self._held_since, self.loop.time())

    def _resume(self) -> None:
        """Resume reading, if nothing holds it and the application's buffer has room."""
        is_reading = not self.flow.read_paused and self._held_since == _NEVER
        if is_reading or self._is_held():
            return
        if self._held_since != _NEVER:
            self._received_at = self.loop.time()
            if self.phase in _RECEIVING:
                self.deadline += self._received_at - self._held_since
            self._held_since = _NEVER
        if not (self.is_running() and len(self.cycle.body) > HIGH_WATER_LIMIT):
            self.flow.resume_reading()  # else reading resumes when the application reads the body

    # The parser's callbacks

    def on_message_begin(self) -> None:
        """Begin a request. Raises Refusal if too many are queued."""
        if len(self.pipeline) >= MAX_QUEUED:
            raise too_many()
        super().on_message_begin()
        self.scope[ALLOW_BODY_S] = self._allow_body_s  # type: ignore[typeddict-unknown-key] # ours
        self._header_bytes = 0
        self._begin(Phase.HEADERS, self.timeouts.header_s)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header or trailer without blanks around its value (RFC 9110 §5.5)."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Refuse oversized or ambiguous headers, then start the application."""
        self._unfinished_bytes = 0
        self._count(len(self.url))
        check_framing(self.headers, self.parser.get_http_version())
        if self._health_only is not None and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            raise self._health_only
        super().on_headers_complete()
        self._begin(Phase.BODY, self.timeouts.body_s)
        if self._draining or self._health_only is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Handle the end of the request."""
        super().on_message_complete()
        self._unfinished_bytes = 0
        if self.cycle.response_complete:
            self._wait(self.timeouts.idle_s)
        else:
            self._begin(Phase.RUNNING, _NEVER)

    def _allow_body_s(self, seconds: float) -> None:
        """Extend the deadline of the body that is being received."""
        if self.phase is Phase.BODY:
            self.deadline += seconds

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS_BYTES:
            raise malformed(*OVERSIZE)

    # Responding

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        error = functools.partial(send_internal_error, cycle)
        cycle.send_500_response = error  # type: ignore[method-assign] # uvicorn's is plain text
        self._working = cycle
        self._writes = JoinedWrites(self.transport, cycle)
        cycle.transport = self._writes  # type: ignore[assignment] # it has the used methods of a transport
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Start the next pipelined request, or become idle."""
        self._writes.flush()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            if self._draining and not self.pipeline:
                cycle.keep_alive = False
            self._start_asgi_task(cycle, app)
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self.phase is Phase.RUNNING:
            self._wait(self.timeouts.idle_s)
        self._resume()

    def _disconnect(self, cycle: RequestResponseCycle) -> None:
        """Notify the application of the disconnect."""
        cycle.disconnected = True
        cycle.message_event.set()

    def _refuse_in_turn(self, refusal: Refusal) -> None:
        """Refuse a request after the responses to earlier ones."""
        self._unparsed = b""
        is_running = self.is_running()
        if self.phase is Phase.BODY and is_running:  # the request in ``cycle`` has a bad body
            if self.pipeline and self.pipeline[0][0] is self.cycle:
                self.pipeline.popleft()  # the application has not begun to serve it
            else:
                self._disconnect(self.cycle)
                is_running = False
                if self.cycle.response_started:
                    self.transport.close()
                    return
        if is_running:
            self._refusal = refusal
            self._begin(Phase.RUNNING, _NEVER)
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        """Send a refusal and close the server's half of the connection."""
        _log.debug("request refused", status=refusal.status)
        self.transport.write(refusal.response(self.server_state.default_headers))
        self._refusal, self._held_since = None, _NEVER
        self._begin(Phase.LINGER, LINGER_S)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


async def check_deadlines(state: ServerState) -> None:
    """Periodically close connections that are past their deadlines, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(CHECK_S)
        now = loop.time()
        connections: list[object] = list(state.connections)
        for connection in connections:
            if isinstance(connection, Protocol):
                connection.check(now)
