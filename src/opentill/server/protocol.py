"""HTTP/1.1 towards a hostile internet: uvicorn's protocol with deadlines, limits and our errors.

uvicorn answers malformed requests in plain text and waits for slow clients for ever. Here every
phase of a connection has a deadline, which one task of the process looks at (``sweep``) instead of
a timer for each; headers have a size; whoever breaks the protocol gets the JSON error body and a
closed connection. The phases:

    IDLE      connected or kept alive, nothing came yet
    HEADERS   a first byte came: the headers must be complete in time
    BODY      the whole body must be here in time
    RUNNING   the application is at work: it has limits of its own
    LINGER    refused: what still comes is thrown away, so that the answer is read and not reset

Requests that come before the answer to the one before them wait, ``MAX_QUEUED`` of a connection;
the next one is refused in its turn. While any waits nothing is read from the socket, and no
deadline runs. What was read at once is parsed a slice at a time, so that others get their turn.
"""

import asyncio
import functools
import secrets
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

import httptools
import msgspec
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from opentill.server.connection_limits import HEALTH_PATHS, Admission
from opentill.server.refusals import (
    MAX_QUEUED,
    OVERSIZE,
    UNREADABLE,
    Refusal,
    answer_internal,
    check_framing,
    malformed,
    too_many,
)

MAX_HEADERS_BYTES: Final = 16 * 1024
MAX_DISCARDED_BYTES: Final = 8 * 1024 * 1024
SLICE_BYTES: Final = 16 * 1024  # parsed without a pause
LINGER_S: Final = 2.0
BEYOND_S: Final = 2.0  # for a connection beyond the limits to say that it asks for the health
IDLE_DRAIN_S: Final = 1.0
SWEEP_S: Final = 0.1
_NEVER: Final = float("inf")
_log: Final = structlog.get_logger()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client may take, in seconds."""

    header_timeout_s: float = 10.0
    body_timeout_s: float = 10.0
    idle_timeout_s: float = 15.0
    write_timeout_s: float = 30.0  # for more than a little of the answer, and for its end


class LimitedConfig(Config):
    """uvicorn's configuration, which it hands to every connection, with our limits in it."""

    limits: Limits = Limits()
    admission: Admission


class Phase(Enum):
    """Where a connection stands; see the module."""

    IDLE = auto()
    HEADERS = auto()
    BODY = auto()
    RUNNING = auto()
    LINGER = auto()


_COMING: Final = frozenset((Phase.HEADERS, Phase.BODY))  # the client is to send more


class _Reading(FlowControl):
    """uvicorn's switch of reading and writing; nobody turns reading on while it is held."""

    def __init__(self, transport: asyncio.Transport, is_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_held = is_held

    def resume_reading(self) -> None:
        if self.read_paused and not self._is_held():
            super().resume_reading()


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
        self._admission = self.config.admission
        self.phase = Phase.IDLE
        self.deadline = _NEVER  # of the phase, on the loop's clock
        self.stalled_since = _NEVER  # the client has not taken our answer since
        self._header_bytes = 0  # parsed
        self._raw_bytes = 0  # received while headers were incomplete
        self._discarded = 0
        self._draining = False
        self._refusal: Refusal | None = None  # waits for the answers before it
        self._beyond: Refusal | None = None  # the answer to all but questions of health
        self._heard_at = 0.0  # when something came last, on the loop's clock
        self._left_s = 0.0  # until the deadline, kept while nothing is read
        self._unparsed = b""  # was read, and waits for others to have their turn
        self._working: RequestResponseCycle | None = None  # uvicorn's is the one that came last

    # What happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Take the connection; beyond the limits only until it said what it wants."""
        super().connection_made(transport)
        self.flow = _Reading(transport, self._is_held)
        self._beyond = self._admission.enter(self, self.client[0] if self.client else "")
        if self._beyond is None:
            self._wait(self.limits.header_timeout_s)
        else:
            self._enter(Phase.HEADERS, min(BEYOND_S, self.limits.header_timeout_s))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that its client is gone, and give back what was kept for it."""
        self._admission.leave(self)
        super().connection_lost(exc)
        if self._working is not None and not self._working.response_complete:
            self._give_up(self._working)
        self.pipeline.clear()
        self._unparsed = b""
        self._refusal = self._beyond = None
        del self._parser  # it knows us, and we should not live until the collector comes

    def data_received(self, data: bytes) -> None:
        """Parse what came, a slice at a time."""
        self._heard_at = self.loop.time()
        if self.phase is Phase.LINGER or self._refusal is not None:
            self._discard(len(data))
            return
        if len(data) <= SLICE_BYTES and not self._unparsed:
            self._parse(data)
            if self.pipeline or self._refusal is not None:
                self._hold()
        else:
            self._unparsed += data
            self._parse_slice()

    def _parse_slice(self) -> None:
        """Parse a part of what was read; the next one when others had their turn."""
        if self.transport.is_closing():
            self._unparsed = b""
            return
        part, self._unparsed = self._unparsed[:SLICE_BYTES], self._unparsed[SLICE_BYTES:]
        self._parse(part)
        if self.phase is Phase.LINGER or self._refusal is not None:
            self._unparsed = b""
        if self._unparsed:
            self.loop.call_soon(self._parse_slice)
        if self._is_held():
            self._hold()
        else:
            self._go_on()

    def _parse(self, data: bytes) -> None:
        """Feed the parser; turn whatever it dislikes into our error body."""
        if self.phase is Phase.IDLE:  # the first byte of the next request
            self._admission.idle.pop(self, None)
            self._enter(Phase.HEADERS, self.limits.header_timeout_s)
        if self.phase is Phase.BODY and self.cycle.response_complete:
            self._discard(len(data))
        self._raw_bytes += len(data)
        try:
            self._parser.feed_data(data)
            if self.phase is Phase.HEADERS and self._raw_bytes > MAX_HEADERS_BYTES:
                raise malformed(*OVERSIZE)
        except httptools.HttpParserUpgrade:
            # We speak nothing else: the request is answered as it is, what follows is not read.
            self.cycle.keep_alive = False
            self._unparsed = b""
        except Refusal as refusal:
            self._refuse_in_turn(refusal)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse_in_turn(cause if isinstance(cause, Refusal) else malformed(*UNREADABLE))

    def _is_held(self) -> bool:
        """Tell whether nothing is to be read now: there is enough to do with what was."""
        return bool(self.pipeline or self._unparsed) or self._refusal is not None

    def _hold(self) -> None:
        """Read no more for now. What the client has yet to send is not late meanwhile."""
        self.flow.pause_reading()
        if self.phase in _COMING and self.deadline != _NEVER:
            self._left_s = self.deadline - self.loop.time()
            self.deadline = _NEVER

    def _go_on(self) -> None:
        """Read on if nothing holds it any more."""
        if not self.flow.read_paused or self._is_held():
            return
        if self.phase in _COMING and self.deadline == _NEVER:
            self._heard_at = self.loop.time()
            self.deadline = self._heard_at + self._left_s
        if not (self._running() and len(self.cycle.body) > HIGH_WATER_LIMIT):
            self.flow.resume_reading()  # else the application does when it takes the body

    def may_be_evicted(self) -> bool:
        """Tell whether the connection is idle, and its client has all answers."""
        waits = self.transport.get_write_buffer_size() or self._unparsed
        return self.phase is Phase.IDLE and not waits

    def late_s(self) -> float:
        """Return how long headers have been unfinished, or no more of a body has come."""
        if self.phase not in _COMING or self.flow.read_paused:
            return 0.0
        if self.transport.get_write_buffer_size():  # an answer is on its way
            return 0.0
        headers = self.phase is Phase.HEADERS
        if self._running() and (headers or self.cycle.response_started):
            return 0.0
        since = self.deadline - self.limits.header_timeout_s if headers else self._heard_at
        return self.loop.time() - since

    def is_answered(self) -> bool:
        """Tell whether the application is at work on an answer."""
        return self._running()

    def evict(self) -> None:
        """Make room for another."""
        self.transport.abort()

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
        if not self.transport.is_closing():
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
        if self.transport.is_closing():
            # What waits to be written may be too little for ``pause_writing``: nobody else would
            # ever notice that the client does not take it.
            self.stalled_since = min(self.stalled_since, now)
        if now > self.stalled_since + self.limits.write_timeout_s:
            self.transport.abort()
        elif now > self.deadline:
            self.deadline = _NEVER
            if self.phase is Phase.BODY and not self.cycle.response_complete:
                self._give_up(self.cycle)
            self.transport.close()

    # What the parser finds

    def on_message_begin(self) -> None:
        """A request begins. Raises the refusal of one that too many are ahead of."""
        if len(self.pipeline) >= MAX_QUEUED:
            raise too_many()
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
        check_framing(self.headers, self._parser.get_http_version())
        if self._beyond is not None and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            raise self._beyond
        super().on_headers_complete()
        self._enter(Phase.BODY, self.limits.body_timeout_s)
        if self._draining or self._beyond is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The request is here as a whole."""
        super().on_message_complete()
        self._raw_bytes = 0
        if self.cycle.response_complete:
            self._wait(self.limits.idle_timeout_s)
        else:
            self._enter(Phase.RUNNING, _NEVER)

    def on_response_complete(self) -> None:
        """Begin the next pipelined request, or wait for one."""
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
            self._wait(self.limits.idle_timeout_s)
        self._go_on()

    # Ourselves

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        answer = functools.partial(answer_internal, cycle)
        cycle.send_500_response = answer  # type: ignore[method-assign] # uvicorn's is plain text
        self._working = cycle
        super()._start_asgi_task(cycle, app)

    def _running(self) -> bool:
        """Whether an answer is owed. uvicorn's ``cycle`` is ``None`` before the first request."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _enter(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.loop.time() + seconds

    def _wait(self, seconds: float) -> None:
        """Be idle: whoever is longest is the first to go when there are too many."""
        self._enter(Phase.IDLE, seconds)
        self._admission.idle[self] = next(self._admission.turns)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS_BYTES:
            raise malformed(*OVERSIZE)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > MAX_DISCARDED_BYTES:
            self.transport.abort()

    def _give_up(self, cycle: RequestResponseCycle) -> None:
        """Tell the application that its client is gone."""
        cycle.disconnected = True
        cycle.message_event.set()

    def _refuse_in_turn(self, refusal: Refusal) -> None:
        """Refuse after the answers to the requests before this one."""
        running = self._running()
        if self.phase is Phase.BODY and running:  # the request's own body is broken
            if self.pipeline and self.pipeline[0][0] is self.cycle:
                self.pipeline.popleft()  # it has not begun
            else:
                self._give_up(self.cycle)
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
