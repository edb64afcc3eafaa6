"""The load driver: a process of its own that keeps a fixed number of connections busy.

A client library would be slower than what it measures. This one sends bytes that were made
beforehand from one epoll loop and looks no further into a response than its status and length: some
10 µs for each request. What it used of its core stands in every result (``busy``), so that a figure
that was limited by the driver shows itself; ``trivial_server`` is what it is held against.
"""

import asyncio
import multiprocessing
import select
import socket
import time
from collections.abc import Iterator
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Final, cast

import msgspec
import uvloop

TIMEOUT_S: Final = 30.0
_spawn: Final = multiprocessing.get_context("spawn")
_RESPONSE: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 30\r\n\r\n"
    b'{"code":0,"message":"success"}'
)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: over and over again, or each request once until there are none left."""

    port: int
    requests: list[bytes]
    connections: int
    seconds: float
    once: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. Latencies are from sending the request to having the whole response."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    busy: float  # share of one core that the driver used
    failures: dict[str, int]  # by status, whatever is not 2xx, with the first response


def percentiles(latencies: list[float]) -> tuple[float, float]:
    """Return p50 and p99 of what is given, in its unit."""
    ordered = sorted(latencies) or [0.0]
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


class _Run:
    """One load on its way."""

    def __init__(self, load: Load) -> None:
        self.latencies: list[float] = []
        self.failures: dict[str, int] = {}
        self._load = load
        self._next: Iterator[bytes] = iter(load.requests) if load.once else cycle(load.requests)
        self._sent: dict[int, float] = {}
        self._parts: dict[int, bytes] = {}

    def run(self) -> Outcome:
        """Send until the time is over or nothing is left, and wait for the last responses."""
        load = self._load
        address = ("127.0.0.1", load.port)
        sockets = [socket.create_connection(address) for _ in range(load.connections)]
        by_number = {connection.fileno(): connection for connection in sockets}
        poller = select.epoll()
        used, started = time.process_time(), time.perf_counter()
        deadline = started + load.seconds
        for number, connection in by_number.items():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poller.register(number, select.EPOLLIN)
            self._send(number, connection)
        while self._sent:
            ready = poller.poll(TIMEOUT_S)
            if not ready:
                message = f"no response within {TIMEOUT_S:.0f} s"
                raise TimeoutError(message)
            for number, _ in ready:
                connection = by_number[number]
                complete = self._received(number, connection.recv(65536))
                if complete and time.perf_counter() < deadline:
                    self._send(number, connection)
        seconds = time.perf_counter() - started
        busy = (time.process_time() - used) / seconds
        for connection in sockets:
            connection.close()
        p50, p99 = percentiles(self.latencies)
        return Outcome(
            requests=len(self.latencies),
            seconds=seconds,
            p50_ms=p50 * 1000,
            p99_ms=p99 * 1000,
            busy=busy,
            failures=self.failures,
        )

    def _send(self, number: int, connection: socket.socket) -> None:
        request = next(self._next, None)
        if request is not None:
            self._sent[number] = time.perf_counter()
            connection.sendall(request)

    def _received(self, number: int, data: bytes) -> bool:
        """Take data in; say whether the response is complete."""
        if not data:
            message = "the server closed a connection"
            raise ConnectionError(message)
        if number in self._parts:
            data = self._parts.pop(number) + data
        head = data.find(b"\r\n\r\n") + 4
        at = data.find(b"ength: ", 0, head) + 7  # some write Content-Length
        if head < 4 or at < 7 or len(data) < head + int(data[at : data.index(b"\r", at)]):
            self._parts[number] = data
            return False
        self.latencies.append(time.perf_counter() - self._sent.pop(number))
        if data[9:10] != b"2":
            what = f"{data[9:12].decode()} {data[head:].decode()[:200]}"
            self.failures[what] = self.failures.get(what, 0) + 1
        return True


class Driver:
    """The driver's process, for one load after the other."""

    def __init__(self) -> None:
        """Start the process."""
        self._ours, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()

    def run(self, load: Load) -> Outcome:
        """Run a load; blocks. Raises RuntimeError if the server breaks off or hangs."""
        self._ours.send(load)
        response = self._ours.recv()
        if isinstance(response, Outcome):
            return response
        raise RuntimeError(response)

    def close(self) -> None:
        """End the process."""
        self._ours.send(None)
        self._process.join()


def _serve(ours: Connection) -> None:
    while (load := ours.recv()) is not None:
        try:
            ours.send(_Run(load).run())
        except (OSError, ValueError) as error:
            ours.send(f"{type(error).__name__}: {error}")


class _Trivial(asyncio.Protocol):
    """Responds to whatever comes with one and the same response, without reading it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.WriteTransport", transport).write

    def data_received(self, _data: bytes) -> None:
        self._write(_RESPONSE)


def trivial_server(listener: socket.socket) -> None:
    """Serve the least that can respond at all, until killed: the driver's own limit."""

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Trivial, sock=listener)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(forever())
