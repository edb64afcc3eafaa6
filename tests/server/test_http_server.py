"""The HTTP server over raw sockets: slow, oversized, malformed and ambiguous requests."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from opentill.core.settings import Settings
from opentill.server import http_server
from opentill.server.http_server import ServeError, Server, bind, create_server
from opentill.server.protocol import ALLOW_BODY_S, Phase
from support.commands import ForkServer

# Long deadlines, so that no input of a test misses them, and a short idle timeout, so that reading
# to the end of a connection takes little time.
PATIENT = Settings(
    header_timeout_s=60.0,
    body_timeout_s=60.0,
    idle_timeout_s=0.4,
    request_timeout_s=60.0,
    drain_timeout_s=60.0,
    connection_limit=20,
)
# Short deadlines, for the tests of deadlines.
HASTY = Settings(
    header_timeout_s=0.8,
    body_timeout_s=0.8,
    idle_timeout_s=0.8,
    request_timeout_s=0.8,
    drain_timeout_s=60.0,
    connection_limit=20,
)
HOST = b"Host: x\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CLOSE = b"Connection: close\r\n"
GET = b"GET /echo HTTP/1.1\r\n" + HOST + b"\r\n"


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with the length of the body; some paths are slow, long or broken."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": message["type"] + ".complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    path = scope["path"]
    if path == "/broken":
        raise RuntimeError
    if path in {"/early", "/page"}:
        await asyncio.sleep(0.3 if scope["query_string"] == b"slow" else 0)
        await _respond(send, b"early" if path == "/early" else b"x" * 20_000)
        return
    if path == "/upload":
        scope[ALLOW_BODY_S](60.0)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    if path == "/held":
        await receive()  # this call returns when the client disconnects
        return
    if path == "/slow" or scope["query_string"] == b"slow":
        await asyncio.sleep(0.5)
    await _respond(send, b"x" * 50_000_000 if path == "/long" else b"%d" % size)


async def _respond(send: Any, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(settings: Settings = PATIENT) -> AsyncIterator[tuple[Server, int]]:
    """Run the server in this loop; yield it and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    ready = asyncio.Event()
    running = create_server(app, settings)
    running.on_ready = ready.set
    task = asyncio.create_task(running.serve([listener]))
    await asyncio.wait_for(ready.wait(), 60)
    try:
        yield running, listener.getsockname()[1]
    finally:
        running.drain(0.0)
        await asyncio.wait_for(task, 90)


_STARTING = """if True:
    import sys
    from opentill.app import create_app
    from opentill.core.settings import Settings
    from opentill.server import http_server

    settings = Settings(
        database_url=sys.argv[1], secret_key="k" * 32, sandbox_secret="k" * 32, sandbox=True
    )
    application = create_app(settings)

    async def app(scope, receive, send):
        print("starts", flush=True)
        await application(scope, receive, send)

    sockets = http_server.bind("127.0.0.1", 0, "none")
    sys.exit(http_server.serve(lambda: app, settings, sockets))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "refusing"])
def test_a_server_that_waits_for_its_database_can_be_stopped(
    fork_server: ForkServer, tmp_path: Path, number: int, is_silent: bool
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as database,
        (tmp_path / "stderr").open("w+") as stderr,
    ):
        url = f"postgresql://u@127.0.0.1:{database.getsockname()[1]}/x"
        if not is_silent:
            database.close()
        words = ["-c", _STARTING, url]
        process = fork_server.start(words, os.environ, tmp_path, stderr.fileno())
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "starts\n"
            time.sleep(0.5)
            process.send_signal(number)
            signalled_at = time.monotonic()
            code = process.wait(60)
            duration_s = time.monotonic() - signalled_at
        stderr.seek(0)
        output = stderr.read()
    assert code == 0, output
    assert duration_s < 10, output  # a process that ignored the signal would retry for 30 s
    assert "Traceback" not in output
    assert "failed" not in output


async def talk(port: int, *parts: bytes, pause_s: float = 0.0, timeout_s: float = 60.0) -> bytes:
    """Send the parts with pauses between them; return all input until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for number, part in enumerate(parts):
            if number:
                await asyncio.sleep(pause_s)
            if writer.is_closing():  # the server has closed the connection
                break
            writer.write(part)
            try:
                await writer.drain()
            except ConnectionError:
                break
        return await asyncio.wait_for(reader.read(), timeout_s)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def parse(response: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Split a complete response into status, headers and body."""
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


_DATA_SEGMENTS_IN = 152  # the offset in bytes of `tcpi_data_segs_in` in Linux's `struct tcp_info`


async def test_a_small_response_is_one_packet() -> None:
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(1, 4):
            writer.write(GET)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            assert head.startswith(b"HTTP/1.1 200 ")
            assert await asyncio.wait_for(reader.readexactly(1), 60) == b"0"
            info = writer.get_extra_info("socket").getsockopt(socket.SOL_TCP, socket.TCP_INFO, 192)
            assert int.from_bytes(info[_DATA_SEGMENTS_IN:][:4], sys.byteorder) == number
        writer.close()


async def test_a_response_without_a_body_is_sent_immediately() -> None:
    head = GET.replace(b"GET", b"HEAD", 1)
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # The connection stays open, because its end would also flush the response.
        for _ in range(2):
            writer.write(head)
            head_received = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            assert head_received.startswith(b"HTTP/1.1 200 ")
        writer.close()
        closing = head.replace(b"\r\n\r\n", b"\r\n" + CLOSE + b"\r\n")
        assert parse(await talk(port, closing))[0] == 200


MALFORMED = [
    # Each row: name, request, field that the error names.
    ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "request"),
    ("words", b"hello there\r\n\r\n", "request"),
    ("unknown version", b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", "request"),
    ("space before the colon", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", "request"),
    ("folded header", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "request"),
    ("NUL in a header", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", "request"),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", "request"),
    ("two hosts", b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", "request"),
    ("connect", b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n", "request"),
    ("path beyond ASCII", b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", "request"),
    ("long header", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", "headers"),
    ("endless header", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000, "headers"),
    ("endless target", b"GET /" + b"a" * 100_000, "headers"),
    (
        "many headers",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 4000 + b"\r\n",
        "headers",
    ),
    (
        "length and chunks",
        POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
        "request",
    ),
    (
        "chunks and length",
        POST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
        "request",
    ),
    (
        "two lengths",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "request",
    ),
    (
        "two codings",
        POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
        "request",
    ),
    (
        "another coding",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "request",
    ),
    (
        "chunks in HTTP/1.0",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "request",
    ),
    ("odd length", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nabcde", "request"),
    (
        "odd chunk",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "request",
    ),
]


@pytest.mark.parametrize(
    ("request_", "field"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
async def test_a_malformed_request_gets_an_error_body_and_closes_the_connection(
    request_: bytes, field: str
) -> None:
    async with serving() as (_, port):
        status, headers, body = parse(await talk(port, request_))
    assert status == 400
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"connection"] == b"close"
    assert headers[b"cache-control"] == b"no-store"
    assert len(headers[b"x-request-id"]) == 32
    assert b"date" in headers
    error = json.loads(body)
    assert (error["code"], error["message"]) == (40001, "Validation failed")
    assert error["error"]["field"] == field
    assert len(error["error"]["reason"]) > 10


WELL_FORMED = [
    ("a GET", GET, b"0"),
    ("HTTP/1.0 without host", b"GET /echo HTTP/1.0\r\n\r\n", b"0"),
    (
        "chunks",
        POST + CHUNKED + CLOSE + b"\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n",
        b"5",
    ),
    (
        "a length",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nabcd",
        b"4",
    ),
    (
        "another protocol offered",
        b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"0",
    ),
    ("headers just below the limit", GET[:-2] + b"A: " + b"a" * 16_000 + b"\r\n\r\n", b"0"),
    ("a long body", b"", b"65536"),
]
LONG = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + b"a" * 65536


@pytest.mark.parametrize(
    ("request_", "body"), [row[1:] for row in WELL_FORMED], ids=[row[0] for row in WELL_FORMED]
)
async def test_a_well_formed_request_gets_a_response(request_: bytes, body: bytes) -> None:
    async with serving() as (_, port):
        status, headers, received = parse(await talk(port, request_ or LONG))
    assert (status, received) == (200, body)
    assert b"server" not in headers


async def test_expect_100_gets_a_response_before_the_body() -> None:
    async with serving() as (_, port):
        head = (
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n"
            b"Connection: close\r\n\r\n"
        )
        response = await talk(port, head, b"abc", pause_s=0.1)
    assert response.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
    assert response.endswith(b"3")


SLOW = [
    # Each row: name, parts of the request, seconds between them, whether there is a response.
    ("sends nothing", [], 0.0, False),
    ("headers byte by byte", [bytes([byte]) for byte in GET * 3][:40], 0.05, False),
    (
        "body byte by byte",
        [b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", *[b"a"] * 40],
        0.05,
        False,
    ),
    (
        "body byte by byte that the application gives more time",
        [b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n", *[b"a"] * 30],
        0.05,
        True,
    ),
    ("no body", [b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"], 0.0, False),
    (
        "no body after an early response",
        [b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"],
        0.0,
        True,
    ),
    ("leaves the connection open", [GET], 0.0, True),
    ("slow application, fast client", [GET.replace(b"echo", b"slow")], 0.0, True),
]


async def test_slow_clients_are_disconnected() -> None:
    """Runs all cases concurrently, because they mostly wait."""
    async with serving(HASTY) as (running, port):
        responses = await asyncio.gather(
            *(talk(port, *parts, pause_s=pause_s) for _, parts, pause_s, _ in SLOW)
        )
        has_response = {
            name: response.startswith(b"HTTP/1.1 200")
            for (name, *_), response in zip(SLOW, responses, strict=True)
        }
        assert has_response == {name: expected for name, _, _, expected in SLOW}
        # The application got only the requests that have a response.
        assert running.server_state.total_requests == sum(has_response.values())


async def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    async with serving(HASTY) as (running, port):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, GET.replace(b"echo", b"long"))
            await until(lambda: len(running.server_state.connections) == 1)
            await until(lambda: not running.server_state.connections)


async def test_pipelined_requests_get_responses_in_order_up_to_a_malformed_one() -> None:
    first = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    async with serving() as (_, port):
        responses = await talk(port, first + GET + b"nonsense\r\n\r\n")
    assert [part[:3] for part in responses.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]
    assert responses.index(b"\r\n\r\n3") < responses.index(b"\r\n\r\n0")


async def test_a_malformed_pipelined_body_is_refused_in_order() -> None:
    malformed = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense"
    async with serving() as (_, port):
        responses = await talk(port, GET.replace(b"echo", b"slow") + malformed)
    assert [part[:3] for part in responses.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]


async def test_a_response_before_the_end_of_a_large_body_is_readable() -> None:
    body = b"a" * 3_000_000
    head = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with serving() as (_, port):
        assert parse(await talk(port, head + body))[0] == 200


async def test_an_unread_body_does_not_block_later_requests() -> None:
    # The body is larger than the buffer, so the server stops reading it before the response.
    body = b"a" * 3_000_000
    head = b"POST /early?slow HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with serving() as (_, port):
        responses = await talk(port, head + body + GET)
    assert [part[:3] for part in responses.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200"]


async def test_a_client_that_half_closes_gets_its_response() -> None:
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET.replace(b"echo", b"slow"))
        writer.write_eof()
        assert parse(await asyncio.wait_for(reader.read(), 60))[0] == 200
        writer.close()


async def test_an_exception_in_the_application_is_a_500_with_an_error_body() -> None:
    async with serving() as (_, port):
        status, headers, body = parse(await talk(port, GET.replace(b"echo", b"broken")))
    assert status == 500
    assert json.loads(body) == {"code": 50001, "message": "Internal error"}
    assert headers[b"cache-control"] == b"no-store"
    assert b"x-request-id" in headers


async def test_connections_over_the_limit_are_refused_and_others_continue() -> None:
    settings = Settings(connection_limit=3, header_timeout_s=60, drain_timeout_s=1)
    async with serving(settings) as (running, port):
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in connections:
            # A connection without a part of a request would be idle, and be evicted.
            writer.write(GET[:9])
        await until(
            lambda: (
                all(c.phase is Phase.HEADERS for c in running.server_state.connections)
                and len(running.server_state.connections) == 3
            )
        )
        status, headers, body = parse(await talk(port, GET))
        assert (status, json.loads(body)["code"]) == (503, 50301)
        assert headers[b"retry-after"] == b"1"
        reader, writer = connections[0]
        writer.write(GET[9:])
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, writer in connections:
            writer.close()


async def test_a_stopping_server_serves_running_requests_and_one_more_per_idle_client() -> None:
    async with serving(Settings(drain_timeout_s=60.0, idle_timeout_s=60.0)) as (running, port):
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        idle_writer.write(GET)
        await idle_reader.readuntil(b"\r\n\r\n0")
        task = asyncio.create_task(talk(port, GET.replace(b"echo", b"slow")))
        await until(lambda: Phase.RUNNING in [c.phase for c in _connections(running)])
        drained: list[bool] = []
        running.on_drain = lambda: drained.append(True)
        running.drain(0.0)
        await until(lambda: all(c._draining for c in _connections(running)))
        idle_writer.write(GET)
        last = parse(await asyncio.wait_for(idle_reader.read(), 60))
        slow = parse(await task)
        idle_writer.close()
    assert drained == [True]
    for status, headers, _ in (last, slow):
        assert (status, headers[b"connection"]) == (200, b"close")


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServeError, match=f"127.0.0.1 port {port} .*set OPENTILL_PORT"):
            bind("127.0.0.1", port, "OPENTILL_PORT")


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_an_invalid_host_is_reported_in_one_line(host: str) -> None:
    with pytest.raises(ServeError, match=f"cannot listen on {host} port 80 .*set OPENTILL_HOST"):
        bind(host, 80, "OPENTILL_HOST")


def test_bind_listens_on_all_addresses_of_a_name() -> None:
    listeners = bind("localhost", 0, "OPENTILL_PORT")
    assert listeners
    for listener in listeners:
        listener.close()


FILES = [
    # Each row: soft limit, hard limit, number of files needed, soft limit afterwards.
    (256, 1024, 500, 500),
    (256, 1024, 5000, 1024),
    (256, 1024, 100, 256),
]


def test_the_limit_of_open_files_is_raised_up_to_the_hard_limit() -> None:
    script = f"""if True:
        import os, resource as r
        from opentill.server.http_server import allow_files
        for soft, hard, needed, _ in {FILES}:
            if (child := os.fork()) == 0:  # a process cannot raise its hard limit again
                r.setrlimit(r.RLIMIT_NOFILE, (soft, hard))
                allow_files(needed)
                print(*r.getrlimit(r.RLIMIT_NOFILE), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
    """
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    limits = [tuple(map(int, line.split())) for line in process.stdout.splitlines()]
    assert limits == [(result, hard) for _, hard, _, result in FILES]


def test_draining_sets_the_state_of_the_application() -> None:
    class App:
        class state:  # noqa: N801 - the framework's name
            draining = False

    http_server.set_draining(App)
    http_server.set_draining(object())
    assert App.state.draining


def _connections(running: Server) -> list[Any]:
    return list(running.server_state.connections)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)
