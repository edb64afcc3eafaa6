"""The load driver: a process that keeps a fixed number of connections busy.

A client library would be slower than the servers that it measures. This driver sends prepared bytes
from one epoll loop and parses only the status and length of a response, which takes some 10 µs per
request. Every outcome says which share of its core the driver used (``busy``), so that a figure
which the driver limited can be recognized; ``serve_constant`` shows the driver's own limit.
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
    """Requests to send: in a cycle for some seconds, or each of them once."""

    port: int
    requests: list[bytes]
    connections: int
    seconds: float
    once: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a load. A latency ends when the response has arrived completely."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    busy: float  # the share of one core that the driver used, from 0 to 1
    failures: dict[str, int]  # status and body of a response that is not 2xx → how often it came


def percentiles(latencies: list[float]) -> tuple[float, float]:
    """Return p50 and p99 of the latencies, in their unit."""
    ordered = sorted(latencies) or [0.0]
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


class _LoadRun:
    """The state while a ``Load`` is sent: latencies, failures and pending requests."""

    def __init__(self, load: Load) -> None:
        self.latencies: list[float] = []
        self.failures: dict[str, int] = {}
        self._load = load
        self._requests: Iterator[bytes] = iter(load.requests) if load.once else cycle(load.requests)
        # By a connection's file descriptor: when its pending request was sent, and the part of the
        # response that has arrived.
        self._sent_at: dict[int, float] = {}
        self._partial_responses: dict[int, bytes] = {}

    def run(self) -> Outcome:
        """Send until the time is over or no request is left, and wait for the last responses."""
        load = self._load
        address = ("127.0.0.1", load.port)
        sockets = [socket.create_connection(address) for _ in range(load.connections)]
        by_descriptor = {connection.fileno(): connection for connection in sockets}
        poller = select.epoll()
        cpu_started, started = time.process_time(), time.perf_counter()
        deadline = started + load.seconds
        for descriptor, connection in by_descriptor.items():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poller.register(descriptor, select.EPOLLIN)
            self._send(descriptor, connection)
        while self._sent_at:
            ready = poller.poll(TIMEOUT_S)
            if not ready:
                message = f"no response within {TIMEOUT_S:.0f} s"
                raise TimeoutError(message)
            for descriptor, _ in ready:
                connection = by_descriptor[descriptor]
                is_complete = self._receive(descriptor, connection.recv(65536))
                if is_complete and time.perf_counter() < deadline:
                    self._send(descriptor, connection)
        seconds = time.perf_counter() - started
        busy = (time.process_time() - cpu_started) / seconds
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

    def _send(self, descriptor: int, connection: socket.socket) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._sent_at[descriptor] = time.perf_counter()
            connection.sendall(request)

    def _receive(self, descriptor: int, data: bytes) -> bool:
        """Add data of a response; return whether it is complete."""
        if not data:
            message = "the server closed a connection"
            raise ConnectionError(message)
        if descriptor in self._partial_responses:
            data = self._partial_responses.pop(descriptor) + data
        head = data.find(b"\r\n\r\n") + 4
        length = data.find(b"ength: ", 0, head) + 7  # matches Content-Length and content-length
        if (
            head < 4
            or length < 7
            or len(data) < head + int(data[length : data.index(b"\r", length)])
        ):
            self._partial_responses[descriptor] = data
            return False
        self.latencies.append(time.perf_counter() - self._sent_at.pop(descriptor))
        if data[9:10] != b"2":
            failure = f"{data[9:12].decode()} {data[head:].decode()[:200]}"
            self.failures[failure] = self.failures.get(failure, 0) + 1
        return True


class Driver:
    """The driver's process, which runs one load after the other."""

    def __init__(self) -> None:
        """Start the process."""
        self._connection, process_end = _spawn.Pipe()
        self._process = _spawn.Process(target=_run_loads, args=(process_end,), daemon=True)
        self._process.start()

    def run(self, load: Load) -> Outcome:
        """Run a load and wait for its end.

        Raises RuntimeError if the server closes a connection or does not respond.
        """
        self._connection.send(load)
        outcome = self._connection.recv()
        if isinstance(outcome, Outcome):
            return outcome
        raise RuntimeError(outcome)

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def _run_loads(connection: Connection) -> None:
    while (load := connection.recv()) is not None:
        try:
            connection.send(_LoadRun(load).run())
        except (OSError, ValueError) as error:
            connection.send(f"{type(error).__name__}: {error}")


class _ConstantProtocol(asyncio.Protocol):
    """Sends the same response whenever data arrives, without reading it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.WriteTransport", transport).write

    def data_received(self, _data: bytes) -> None:
        self._write(_RESPONSE)


def serve_constant(listener: socket.socket) -> None:
    """Serve a constant response until the process is terminated."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_ConstantProtocol, sock=listener)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
