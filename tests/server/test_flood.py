"""Limits of requests and connections, which keep the server available to other clients."""

import asyncio
import json
import resource
import time
from contextlib import AsyncExitStack
from ipaddress import ip_network

import msgspec
import pytest

from opentill.core.settings import Settings
from opentill.server import connection_limits
from opentill.server.connection_limits import LATE_S, RESERVE, ConnectionLimits
from opentill.server.http_server import Server
from opentill.server.protocol import Protocol
from opentill.server.refusals import MAX_QUEUED, full, too_many
from server.test_http_server import GET, PATIENT, POST, parse, serving, talk, until

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SLOW = GET.replace(b"echo", b"slow")


def statuses(responses: bytes) -> list[int]:
    return [int(part[:3]) for part in responses.split(b"HTTP/1.1 ")[1:]]


def body(size: int) -> bytes:
    return POST + b"Content-Length: %d\r\n\r\n" % size + b"a" * size


PIPELINED = [
    # Each row: input that is sent at once, statuses of the responses.
    (GET * (1 + MAX_QUEUED), [200] * (1 + MAX_QUEUED)),
    (GET * (2 + MAX_QUEUED), [200] * (1 + MAX_QUEUED) + [429]),
    (GET * 20_000, [200] * (1 + MAX_QUEUED) + [429]),
    (body(1) * 20_000, [200] * (1 + MAX_QUEUED) + [429]),
    (body(60_000) * 5 + b"nonsense\r\n\r\n", [200] * 5 + [400]),
    (GET + b"\r\n" * 20_000, [200, 400]),
    (body(60_000) * 3 + GET[:20], [200] * 3),
]


FAST_HEADERS = msgspec.structs.replace(PATIENT, header_timeout_s=2.0)


@pytest.mark.parametrize(
    ("requests", "expected"), PIPELINED, ids=[f"{len(row[0])} bytes" for row in PIPELINED]
)
async def test_the_number_of_queued_requests_per_connection_is_limited(
    requests: bytes, expected: list[int]
) -> None:
    async with serving(FAST_HEADERS) as (running, port):
        responses = await talk(port, requests)
        await until(lambda: not running.server_state.connections)
    assert statuses(responses) == expected
    if 429 in expected:
        status, headers, error = parse(responses[responses.index(b"HTTP/1.1 429") :])
        assert json.loads(error)["code"] == 42901
        assert (status, headers[b"connection"], headers[b"retry-after"]) == (429, b"close", b"1")


async def test_reading_is_paused_while_requests_are_queued() -> None:
    """The kernel's flow control stops the client, so that neither side buffers more input."""
    async with serving(Settings(drain_timeout_s=0.1)) as (running, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            SLOW + GET + b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 65000\r\n\r\n"
        )
        await until(lambda: any(c.pipeline for c in running.server_state.connections))
        (connection,) = running.server_state.connections
        assert connection.flow.read_paused
        writer.write(b"a" * 65_000)
        await asyncio.sleep(0.1)
        assert not connection.cycle.body
        for expected in (b"0", b"0", b"65000"):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(len(expected)) == expected
        writer.close()


async def test_the_deadline_of_a_queued_request_starts_after_the_previous_response() -> None:
    """The deadline of 0.4 s would pass before the previous response, after 0.5 s."""
    incomplete = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na"
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SLOW + incomplete)
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")
        writer.write(b"bc")
        assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"3")
        writer.close()


async def test_a_request_is_notified_of_a_disconnect_with_others_queued() -> None:
    async with serving(Settings(drain_timeout_s=0.1)) as (running, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET.replace(b"echo", b"long") + GET * 3)
        await until(lambda: any(c.pipeline for c in running.server_state.connections))
        (connection,) = running.server_state.connections
        assert isinstance(connection, Protocol)
        cycle = connection._working
        writer.transport.abort()
        await until(lambda: not running.server_state.connections)
        assert cycle is not None
        assert cycle.response_complete or cycle.disconnected
        assert not connection.pipeline
        await until(lambda: not running.server_state.tasks)


async def test_long_input_is_parsed_in_slices() -> None:
    """Chunks of one byte are the slowest to parse; other clients are served between slices."""
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 40_000 + b"0\r\n\r\n"
    loop_turns = 0

    async def count() -> None:
        nonlocal loop_turns
        while True:
            loop_turns += 1
            await asyncio.sleep(0)

    async with serving(Settings(drain_timeout_s=0.1)) as (running, port):
        connection = None
        counting = asyncio.create_task(count())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(running.server_state.connections))
        (connection,) = running.server_state.connections
        before = loop_turns
        # Simulates that a single read of the socket returned the whole body.
        connection.data_received(chunked)
        assert connection.flow.read_paused
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(5) == b"40000"
        assert loop_turns - before >= len(chunked) // (16 * 1024)
        assert not connection.flow.read_paused
        counting.cancel()
        writer.close()


# ── connections ──


async def connect(stack: AsyncExitStack, port: int, data: bytes = b"", source: str = "") -> Wire:
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    stack.callback(writer.close)
    writer.write(data)
    return reader, writer


def count_connections(running: Server) -> int:
    return len(running.server_state.connections)


LIMITED = Settings(
    connection_limit=10, connection_limit_per_address=4, idle_timeout_s=60, drain_timeout_s=0.1
)


async def test_the_longest_idle_connection_of_an_address_over_its_share_is_evicted() -> None:
    async with serving(LIMITED) as (running, port), AsyncExitStack() as stack:
        connections: list[Wire] = []
        for _ in range(4):
            connections.append(await connect(stack, port, GET))
            await connections[-1][0].readuntil(b"\r\n\r\n0")
        # After this request, the second connection is the one that has been idle for longest.
        connections[0][1].write(GET)
        await connections[0][0].readuntil(b"\r\n\r\n0")
        fifth = await connect(stack, port, GET)
        await asyncio.wait_for(fifth[0].readuntil(b"\r\n\r\n0"), 10)
        assert await asyncio.wait_for(connections[1][0].read(), 10) == b""
        assert count_connections(running) == 4
        for reader, writer in (connections[0], connections[2], connections[3], fifth):
            writer.write(GET)
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n0"), 10)


async def test_a_full_server_evicts_the_longest_idle_connection_of_any_address() -> None:
    async with serving(LIMITED) as (running, port), AsyncExitStack() as stack:
        connections: list[Wire] = []
        for number in range(10):
            connections.append(await connect(stack, port, source=f"127.0.0.{number // 4 + 1}"))
            await until(lambda: count_connections(running) == len(connections))
        reader, _ = await connect(stack, port, GET, "127.0.0.9")
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(connections[0][0].read(), 10) == b""
        assert count_connections(running) == 10


BUSY = GET.replace(b"echo", b"held")
LATE_BODY = POST + b"Content-Length: 9\r\n\r\na"
BUSY_CASES = [
    # Each row: path, sources of the busy connections, source of the new one, its status and
    # business code (None: success).
    (b"/echo", ["127.0.0.1"] * 4, "127.0.0.1", 429, 42901),
    (b"/echo", ["127.0.0.1"] * 4, "127.0.0.2", 200, None),
    (b"/readyz", ["127.0.0.1"] * 4, "127.0.0.1", 200, None),
    (b"/healthz?a=b", [f"127.0.0.{1 + n // 4}" for n in range(10)], "127.0.0.9", 200, None),
    (b"/echo", [f"127.0.0.{1 + n // 4}" for n in range(10)], "127.0.0.9", 503, 50301),
]


@pytest.mark.parametrize(("path", "sources", "source", "status", "code"), BUSY_CASES)
async def test_a_busy_server_serves_only_health_checks(
    path: bytes, sources: list[str], source: str, status: int, code: int | None
) -> None:
    async with serving(LIMITED) as (running, port), AsyncExitStack() as stack:
        for each in sources:
            await connect(stack, port, BUSY, each)
        await until(lambda: len(running.server_state.tasks) == len(sources))
        reader, _ = await connect(stack, port, GET.replace(b"/echo", path), source)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        error = await reader.read() if code else b""
        assert statuses(head) == [status]
        assert (b"connection: close" in head) == (status != 200 or path != b"/echo")
        if code:
            assert json.loads(error)["code"] == code


FULL = msgspec.structs.replace(LIMITED, header_timeout_s=60.0, body_timeout_s=60.0)


@pytest.mark.parametrize("incomplete", [GET[:9], LATE_BODY], ids=["headers", "body"])
@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9"])
async def test_a_full_server_evicts_an_incomplete_request(
    incomplete: bytes, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server evicts a connection of the address that has the most."""
    monkeypatch.setattr(connection_limits, "LATE_S", 60.0)  # no request counts as late at first
    async with serving(FULL) as (running, port), AsyncExitStack() as stack:
        few = [await connect(stack, port, incomplete, "127.0.0.2") for _ in range(3)]
        many = [await connect(stack, port, incomplete, "127.0.0.1") for _ in range(4)]
        busy = [await connect(stack, port, BUSY, "127.0.0.3") for _ in range(3)]
        await until(lambda: count_connections(running) == 10)
        refused, _ = await connect(stack, port, GET, source)
        assert (await asyncio.wait_for(refused.readline(), 10))[9:12] in (b"429", b"503")
        monkeypatch.undo()
        await asyncio.sleep(LATE_S + 0.2)
        reader, _ = await connect(stack, port, GET, source)
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")
        # Any of the four may be evicted, because they are equally late within one tick of the
        # clock.
        reads = [asyncio.create_task(each.read()) for each, _ in (*many, *few, *busy)]
        done, pending = await asyncio.wait(reads, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        for read in pending:
            read.cancel()
        assert [read.result() for read in done] == [b""]
        assert done <= set(reads[:4])


async def test_a_body_in_progress_and_a_queued_request_are_not_late() -> None:
    for _ in range(5):
        if await _is_body_in_progress_kept():
            return
    pytest.fail("this machine is too slow for the test")


async def _is_body_in_progress_kept() -> bool:
    """Return False if this machine sent data too late for the test to prove anything."""
    queued = BUSY + GET[:9]  # until the first response, the second request has no deadline
    async with serving(FULL) as (running, port), AsyncExitStack() as stack:
        busy = [await connect(stack, port, queued, f"127.0.0.{2 + n // 4}") for n in range(9)]
        slow = POST + b"Content-Length: 20\r\n\r\n"
        reader, writer = await connect(stack, port, slow, "127.0.0.5")
        await until(lambda: count_connections(running) == 10)
        for _ in range(9):
            writer.write(b"aa")
            written_at = time.monotonic()
            await asyncio.sleep((LATE_S + 0.5) / 9)
            other, _ = await connect(stack, port, GET, "127.0.0.9")
            status_line = await asyncio.wait_for(other.readline(), 10)
            if time.monotonic() - written_at > 0.9 * LATE_S:
                return False
            assert b" 503 " in status_line
        writer.write(b"aa")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n20"), 10))[9:12] == b"200"
        assert not any(each.at_eof() for each, _ in busy)
        return True


async def test_a_late_connection_of_a_trusted_proxy_is_not_evicted() -> None:
    settings = msgspec.structs.replace(FULL, trusted_proxies=(ip_network("127.0.0.1"),))
    async with serving(settings) as (running, port), AsyncExitStack() as stack:
        for _ in range(10):
            await connect(stack, port, LATE_BODY)
        await until(lambda: count_connections(running) == 10)
        await asyncio.sleep(LATE_S + 0.2)
        reader, _ = await connect(stack, port, GET, "127.0.0.9")
        assert b" 503 " in await asyncio.wait_for(reader.readline(), 10)


async def test_an_incomplete_request_in_the_reserve_is_evicted() -> None:
    settings = Settings(connection_limit=1, drain_timeout_s=0.1)
    async with serving(settings) as (running, port), AsyncExitStack() as stack:
        await connect(stack, port, BUSY)
        await until(lambda: len(running.server_state.tasks) == 1)
        for _ in range(3 * RESERVE):
            await connect(stack, port, GET[:9])
        await until(lambda: count_connections(running) == 1 + RESERVE)
        reader, _ = await connect(stack, port, GET.replace(b"echo", b"readyz"))
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")


async def test_a_running_health_check_is_not_evicted_from_the_reserve() -> None:
    settings = Settings(connection_limit=1, drain_timeout_s=0.1)
    async with serving(settings) as (running, port), AsyncExitStack() as stack:
        await connect(stack, port, BUSY)
        await until(lambda: len(running.server_state.tasks) == 1)
        reader, _ = await connect(stack, port, GET.replace(b"echo", b"readyz?slow"))
        await until(lambda: len(running.server_state.tasks) == 2)
        for _ in range(2 * RESERVE):
            await connect(stack, port)
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")


class Stub:
    """A connection for ``ConnectionLimits`` that may be evicted if it is ``idle``."""

    def __init__(self, limits: ConnectionLimits, *, idle: bool) -> None:
        self.evicted = False
        self.limits, self.idle = limits, idle

    def admit(self, peer: str) -> str:
        refusal = self.limits.admit(self, peer)
        self.limits.mark_idle(self)
        return "" if refusal is None else refusal.body.decode()

    def may_be_evicted(self) -> bool:
        return self.idle

    def late_s(self) -> float:
        return 0.0

    def is_running(self) -> bool:
        return False

    def evict(self) -> None:
        self.evicted = True


SHARES = [
    # Each row: peers that are connected, the new peer, its refusal (None: accepted).
    (["192.0.2.1", "192.0.2.1"], "192.0.2.1", too_many()),
    (["192.0.2.1", "::ffff:192.0.2.1"], "192.0.2.1", too_many()),
    (["192.0.2.1", "192.0.2.1"], "192.0.2.2", None),
    (["2001:db8::1", "2001:db8::2"], "2001:db8::3", too_many()),
    (["2001:db8::1", "2001:db8::2"], "2001:db8:0:1::3", None),
    (["10.0.0.1"] * 5, "10.0.0.1", None),  # this peer is a trusted proxy, which serves many clients
    (["10.0.0.1"] * 6, "10.0.0.1", full()),
    (["10.0.0.1"] * 6, "192.0.2.1", full()),
]


@pytest.mark.parametrize(("peers", "peer", "refusal"), SHARES)
def test_the_share_of_an_address_or_network_does_not_limit_a_trusted_proxy(
    peers: list[str], peer: str, refusal: object
) -> None:
    limits = ConnectionLimits(6, 2, [ip_network("10.0.0.0/8")])
    stubs = [Stub(limits, idle=False) for _ in peers]
    assert [stub.admit(each) for stub, each in zip(stubs, peers, strict=True)] == [""] * len(peers)
    newcomer = Stub(limits, idle=False)
    assert newcomer.admit(peer) == ("" if refusal is None else refusal.body.decode())
    for stub in [*stubs, newcomer, newcomer]:
        limits.forget(stub)
    later = [Stub(limits, idle=False) for _ in range(2)]
    assert [stub.admit("192.0.2.1") for stub in later] == ["", ""]


async def test_a_thousand_idle_connections_of_one_address_do_not_exclude_others() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    settings = Settings(drain_timeout_s=0.1)
    async with serving(settings) as (running, port), AsyncExitStack() as stack:
        for _ in range(1000):
            await connect(stack, port)
        await until(lambda: count_connections(running) <= settings.connection_limit_per_address)
        for source in ("127.0.0.1", "127.0.0.2"):
            for path in (b"/readyz", b"/echo"):
                reader, _ = await connect(stack, port, GET.replace(b"/echo", path), source)
                status_line = await asyncio.wait_for(reader.readline(), 10)
                assert status_line.startswith(b"HTTP/1.1 200")
        assert count_connections(running) <= settings.connection_limit_per_address + 4
