"""Greedy clients neither delay others nor exhaust the server's memory.

The tests overload a real server process with valid requests, while a client with another address
checks its health and reads an order.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from opentill import merchants, orders
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.server.export_limits import EXPORTS_EACH
from support import filled_database, pooler
from support.api_server import SECRETS
from support.ports import free_port

# Seconds for a response. contract.md#promise-robustness promises 1 s, and usually it takes 0.1 s,
# but the machine may be busy.
WAIT_S = 20.0
GROWTH = 60 * 1024 * 1024
TEXT = 16_000  # the number of characters of an order's metadata
GET = b"GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n"


class Bystander:
    """A well-behaved client with its own address that sends requests repeatedly."""

    def __init__(self, port: int, key: str, order_id: str) -> None:
        self._port, self._key = port, key
        self._paths = ("/readyz", f"/v1/orders/{order_id}")
        self.waits: list[float] = []
        self.statuses: set[int | str] = set()

    def send_request(self) -> None:
        """Send the next request on a new connection, which is the harder case."""
        path = self._paths[len(self.waits) % len(self._paths)]
        connection = HTTPConnection(
            "127.0.0.1", self._port, timeout=60, source_address=("127.0.0.2", 0)
        )
        started = time.perf_counter()
        try:
            connection.request("GET", path, headers={"x-api-key": self._key})
            response = connection.getresponse()
            response.read()
            self.statuses.add(response.status)
        except OSError as error:
            self.statuses.add(repr(error))
        finally:
            connection.close()
        self.waits.append(time.perf_counter() - started)


class Cluster:
    """A server process and the keys of its merchants."""

    def __init__(self, port: int, process: psutil.Process) -> None:
        self.port = port
        self.process = process
        self.keys: list[str] = []
        self.order_id = ""

    def resident(self) -> int:
        """The resident memory of the server process, in bytes."""
        return self.process.memory_info().rss

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Send a bystander's requests during the block; then check their times and the memory."""
        bystander = Bystander(self.port, self.keys[-1], self.order_id)
        bystander.send_request()  # the first request opens the server's database connections
        bystander.send_request()
        before, peak, stop = self.resident(), 0, threading.Event()

        def work() -> None:
            nonlocal peak
            while not stop.wait(0.02):
                peak = max(peak, self.resident())
                bystander.send_request()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert bystander.statuses == {200}
        assert max(bystander.waits) < WAIT_S
        assert peak - before < GROWTH
        until(lambda: not self.connections())
        assert self.resident() - before < GROWTH / 2

    def connections(self) -> int:
        """The number of other clients' connections that are open to the server."""
        return sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == self.port
            for each in self.process.net_connections("tcp")
        )

    def connect(self, size: int = 0) -> socket.socket:
        """Connect from the greedy address, with a receive buffer of ``size`` bytes."""
        wire = socket.socket()
        if size:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        wire.settimeout(60)
        wire.connect(("127.0.0.1", self.port))
        return wire


def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition()`` is true."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


async def _fill(url: str, shops: int, copies: int) -> tuple[list[str], str]:
    """Create merchants with many orders each, and one with a single order.

    Return all keys and the id of that order.
    """
    db = await Db.connect(url, 2, acquire_timeout_s=20)
    keys: list[str] = []
    order = None
    try:
        for number in range(shops + 1):
            async with db.transaction() as tx:
                order = await filled_database.create_filled_merchant(
                    tx, copies if number < shops else 0
                )
                await tx.execute(
                    """
                    update orders set metadata = '{"text": "' || repeat('x', $2) || '"}'
                    where merchant_id = $1
                    """,
                    order.merchant_id,
                    TEXT,
                )
                now = now_ms()
                key = await merchants.create_key(tx, order.merchant_id, "production", now)
                keys.append(key.key)
                last = await orders.find(tx, order.merchant_id, order.id)
    finally:
        await db.close()
    return keys, last.id


@contextlib.contextmanager
def served(database_url: str, directory: Path, shops: int, copies: int) -> Iterator[Cluster]:
    """Run ``opentill serve`` on a database of ``shops`` merchants with large orders."""
    port = free_port()
    settings = {
        "DATABASE_URL": database_url,
        "DATA_DIR": str(directory),
        "PORT": str(port),
        "SECRET_KEY": SECRETS["secret_key"],
        "GATEWAYS": "manual",
        "GATEWAY_MANUAL_INSTRUCTIONS": "Account 1",
        "LIMIT_IP_PER_MINUTE": "0",
        "LOG_LEVEL": "warning",
        "DB_PREPARED": pooler.prepared_setting(database_url),
    }
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")
    }
    keys, order_id = asyncio.run(_fill(database_url, shops, copies))
    process = subprocess.Popen(
        [sys.executable, "-m", "opentill", "serve", "--no-worker"],
        env=environment | {f"OPENTILL_{name}": text for name, text in settings.items()},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "is ready" in process.stdout.readline()
        cluster = Cluster(port, psutil.Process(process.pid))
        cluster.keys, cluster.order_id = keys, order_id
        yield cluster
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def flood(cluster: Cluster, size: int) -> int:
    """Send ``size`` bytes of requests at once; return the number of responses."""
    request = GET % (b"/v1/orders", cluster.keys[0].encode())
    responses = 0
    with cluster.connect() as wire:

        def read() -> None:
            nonlocal responses
            # The server closes the connection while the client sends.
            with contextlib.suppress(OSError):
                while part := wire.recv(1 << 16):
                    responses += part.count(b"HTTP/1.1 ")

        reader = threading.Thread(target=read)
        reader.start()
        with contextlib.suppress(OSError):
            wire.sendall(request * (size // len(request)))
        reader.join()
    return responses


def open_idle_connections(cluster: Cluster, count: int) -> None:
    """Open ``count`` connections and leave each open after its first response."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        for number in range(count):
            wire = stack.enter_context(cluster.connect())
            if number % 10 == 0:
                wire.sendall(GET % (b"/healthz", b""))
                assert wire.recv(1 << 16).startswith(b"HTTP/1.1 200")
        until(lambda: cluster.connections() <= 200 + 2)


def stall_exports(cluster: Cluster, count: int) -> None:
    """Start ``count`` exports, read nothing, and return when all have stalled."""
    with contextlib.ExitStack() as stack:
        for number in range(count):
            wire = stack.enter_context(cluster.connect(4096))
            key = cluster.keys[number % (len(cluster.keys) - 1)]
            wire.sendall(GET % (b"/v1/orders/export", key.encode()))
            assert wire.recv(12) == b"HTTP/1.1 200"
        until(lambda: is_quiet(cluster))  # after this, the server produces no more output
        assert export(cluster, cluster.keys[-1])[0] == 200
        if count >= EXPORTS_EACH * (len(cluster.keys) - 1):
            assert export(cluster, cluster.keys[0]) == (429, "5")


def is_quiet(cluster: Cluster) -> bool:
    """Whether the server only serves the bystander during half a second."""
    before = sum(cluster.process.cpu_times()[:2])
    time.sleep(0.5)
    return sum(cluster.process.cpu_times()[:2]) - before < 0.25


def export(cluster: Cluster, key: str) -> tuple[int, str | None]:
    """Fetch a whole export; return its status and its ``retry-after``."""
    connection = HTTPConnection("127.0.0.1", cluster.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/orders/export", headers={"x-api-key": key})
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("retry-after")


def test_greedy_clients_do_not_delay_others(database_url: str, tmp_path: Path) -> None:
    with served(database_url, tmp_path, shops=2, copies=400) as cluster:
        with cluster.measured():
            assert flood(cluster, 2_400_000) <= 34
        with cluster.measured():
            open_idle_connections(cluster, 300)
        with cluster.measured():
            stall_exports(cluster, 8)
        # Disconnected exports no longer count towards the limit.
        assert export(cluster, cluster.keys[0])[0] == 200


@pytest.mark.stress
def test_very_greedy_clients_do_not_delay_others(database_url: str, tmp_path: Path) -> None:
    with served(database_url, tmp_path, shops=13, copies=600) as cluster:
        with cluster.measured():
            floods = [threading.Thread(target=flood, args=(cluster, 15_000_000)) for _ in range(20)]
            for each in floods:
                each.start()
            for each in floods:
                each.join()
        with cluster.measured():
            open_idle_connections(cluster, 1000)
        with cluster.measured():
            stall_exports(cluster, 50)
