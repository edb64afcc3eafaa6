"""The client of outgoing requests, against misbehaving servers on real sockets."""

import asyncio
import contextlib
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from io import BytesIO
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from opentill.outgoing.client import (
    CLOSED,
    CONNECT_TIMEOUT,
    NO_TLS,
    OTHER_NAME,
    REFUSED,
    RESPONSE_TIMEOUT,
    UNKNOWN_HOST,
    WRONG_CERTIFICATE,
    Forbidden,
    NoResponse,
    Outgoing,
    Policy,
    Unreachable,
)

HOME = Policy(allow_http=True, allowed_networks=(ip_network("127.0.0.1/32"),))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Listener:
    """A server that counts connections and requests, and runs a script for each request."""

    def __init__(self, script: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.script = script
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0
        self.tasks: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.ensure_future(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                if b"content-length: 4\r\n" in head.lower():
                    await reader.readexactly(4)
                await self.script(writer)
        writer.transport.abort()


@contextlib.asynccontextmanager
async def listening(
    script: Callable[[asyncio.StreamWriter], Awaitable[None]],
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    port: int = 0,
) -> AsyncIterator[Listener]:
    """Run a `Listener` with ``script``."""
    listener = Listener(script)
    tcp_server = await asyncio.start_server(listener.accept, host, port, ssl=tls)
    listener.port = tcp_server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        tcp_server.close()
        for task in listener.tasks:
            task.cancel()
        await asyncio.gather(*listener.tasks)
        await asyncio.sleep(0)


def respond(*parts: bytes, pause_s: float = 0, end: str = "") -> Callable[..., Awaitable[None]]:
    """Return a script that writes ``parts`` with pauses, then closes or resets as ``end`` says."""

    async def script(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if end == "reset":
            writer.transport.abort()
        elif end == "close":
            writer.close()

    return script


@contextlib.asynccontextmanager
async def client(policy: Policy = HOME, **names: Sequence[str]) -> AsyncIterator[Outgoing]:
    """Yield a client that resolves only ``names`` (with ``_`` for a dot)."""

    async def resolve(host: str) -> Sequence[str]:
        if host.replace(".", "_") not in names:
            raise OSError(host)
        return names[host.replace(".", "_")]

    outgoing = Outgoing(policy, resolve)
    try:
        yield outgoing
    finally:
        await outgoing.close()


async def test_request_and_response_are_transferred_unchanged() -> None:
    reply = b"HTTP/1.1 418 x\r\nX-One: 1\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nno!"
    async with listening(respond(reply)) as server, client(shop_example=["127.0.0.1"]) as outgoing:
        url = f"http://Shop.Example:{server.port}/a%2Fb/../c?d=%20+&e"
        for _ in range(3):
            response = await outgoing.send(
                "POST", url, headers={"X-Own": "yes"}, body=b"body", timeout_s=10
            )
    assert (response.status, response.body, response.cut) == (418, b"no!", False)
    assert ("x-one", "1") in response.headers
    assert server.connections == 1
    head = server.heads[2].decode()
    assert head.startswith("POST /a%2Fb/../c?d=%20+&e HTTP/1.1\r\n")
    assert f"Host: shop.example:{server.port}\r\n" in head
    assert "X-Own: yes\r\n" in head
    assert "Content-Length: 4\r\n" in head
    assert "cookie" not in head.lower()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_returned_and_not_followed(status: int) -> None:
    async with listening(respond(OK)) as private_server:
        for target in (f"http://127.0.0.1:{private_server.port}/", "//127.0.0.1/", "/again"):
            redirect = f"HTTP/1.1 {status} x\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
            async with listening(respond(redirect.encode())) as server, client() as outgoing:
                url = f"http://127.0.0.1:{server.port}/"
                assert (await outgoing.send("GET", url, timeout_s=10)).status == status
                assert len(server.heads) == 1
        assert private_server.connections == 0


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.2"], ["::1"], ["127.0.0.2", "::1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]],
)
async def test_no_connection_is_opened_to_a_forbidden_address(addresses: list[str]) -> None:
    async with (
        listening(respond(OK), "127.0.0.2") as private_server,
        client(evil_example=addresses) as outgoing,
    ):
        url = f"http://evil.example:{private_server.port}/"
        outgoing.check(url)
        with pytest.raises(Forbidden):
            await outgoing.send("POST", url, timeout_s=10)
    assert private_server.connections == 0


async def test_dns_rebinding_does_not_change_the_connected_address() -> None:
    """Each lookup returns another address; the client connects to the address that it checked."""
    addresses = iter([["127.0.0.1"], ["127.0.0.2"]] * 5)

    async def resolve(_host: str) -> Sequence[str]:
        return next(addresses)

    async with (
        listening(respond(OK, end="close")) as public_server,
        listening(respond(OK), "127.0.0.2", port=public_server.port) as private_server,
    ):
        outgoing = Outgoing(HOME, resolve)
        url = f"http://rebind.example:{public_server.port}/"
        results: list[object] = []
        for _ in range(10):
            outgoing.check(url)
            try:
                results.append((await outgoing.send("GET", url, timeout_s=10)).status)
            except Forbidden:
                results.append("forbidden")
        await outgoing.close()
    assert results == [200, "forbidden"] * 5
    assert (public_server.connections, private_server.connections) == (5, 0)


async def test_a_connection_is_opened_to_the_allowed_address_of_a_mixed_host() -> None:
    async with (
        listening(respond(OK)) as public_server,
        listening(respond(OK), "127.0.0.2", port=public_server.port) as private_server,
        client(mixed_example=["127.0.0.2", "127.0.0.1", "127.0.0.2"]) as outgoing,
    ):
        url = f"http://mixed.example:{public_server.port}/"
        assert (await outgoing.send("GET", url, timeout_s=10)).body == b"ok"
    assert (public_server.connections, private_server.connections) == (1, 0)


async def test_the_address_is_checked_again_at_the_socket() -> None:
    """No socket is created for a forbidden address, whatever the resolver returns."""
    async with (
        listening(respond(OK), "127.0.0.2") as private_server,
        client(a_example=["127.0.0.2"]) as outgoing,
    ):
        outgoing._resolver._policy = Policy(allowed_networks=(ip_network("127.0.0.0/8"),))
        with pytest.raises(Forbidden):
            await outgoing.send("GET", f"http://a.example:{private_server.port}/", timeout_s=10)
    assert private_server.connections == 0


async def test_the_system_resolves_localhost() -> None:
    async with listening(respond(OK)) as server:
        outgoing = Outgoing(HOME)
        url = f"http://localhost:{server.port}/"
        responses = await asyncio.gather(
            *(outgoing.send("GET", url, timeout_s=10) for _ in range(9))
        )
        await outgoing.close()
    assert {response.status for response in responses} == {200}


BAD = [
    respond(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", end="close"),
    respond(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", end="reset"),
    respond(b"", end="close"),
    respond(b"", end="reset"),
    respond(b"HTTP/1.1 200 OK\r\n", end="reset"),
    respond(b"SSH-2.0-OpenSSH_9.6\r\n", end="close"),
    respond(b"HTTP/9.9 abc\r\n\r\n", end="close"),
    respond(b"\x16\x03\x01\x02\x00\x01\x00", end="close"),
    respond(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", end="close"),
    respond(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
    respond(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", end="close"),
    respond(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", end="close"),
]  # fmt: skip


@pytest.mark.parametrize("script", BAD, ids=map(str, range(len(BAD))))
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_malformed_response_raises_no_response(
    method: str, script: Callable[..., Awaitable[None]]
) -> None:
    async with listening(script) as server, client() as outgoing:
        with pytest.raises(NoResponse):
            await outgoing.send(method, f"http://127.0.0.1:{server.port}/", timeout_s=30)


HANG = 60.0
LATE = [
    respond(b"", pause_s=HANG),
    respond(b"HTTP/1.1 200 OK\r\n", pause_s=HANG),
    respond(b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 1200, pause_s=0.05),
    respond(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", *[b"x"] * 900, pause_s=0.1),
    respond(b"HTTP/1.1 100 Continue\r\n\r\n" * 5, pause_s=HANG),
]


@pytest.mark.parametrize("script", LATE, ids=map(str, range(len(LATE))))
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_incomplete_response_counts_as_none_at_the_timeout(
    method: str, script: Callable[..., Awaitable[None]]
) -> None:
    """The connection is open already, so that the timeout covers only the response."""

    async def fast_then_late(writer: asyncio.StreamWriter) -> None:
        await (respond(OK) if len(server.heads) == 1 else script)(writer)

    async with listening(fast_then_late) as server, client() as outgoing:
        url = f"http://127.0.0.1:{server.port}/"
        assert (await outgoing.send(method, url, timeout_s=30)).status == 200
        with pytest.raises(NoResponse, match=RESPONSE_TIMEOUT):
            await outgoing.send(method, url, timeout_s=0.3)
        assert server.connections == 1


async def test_a_reused_connection_that_breaks_raises_no_response() -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        if len(server.heads) == 1:
            writer.write(OK)
        else:
            writer.transport.abort()

    async with listening(script) as server, client() as outgoing:
        url = f"http://127.0.0.1:{server.port}/"
        assert (await outgoing.send("POST", url, timeout_s=10)).status == 200
        with pytest.raises(NoResponse, match=CLOSED):
            await outgoing.send("POST", url, timeout_s=10)
    assert len(server.heads) == 2


@pytest.mark.parametrize(("size", "cut"), [(99, False), (100, False), (101, True), (10**7, True)])
async def test_a_long_body_is_truncated(size: int, cut: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    async with listening(respond(head, b"x" * size)) as server, client() as outgoing:
        url = f"http://127.0.0.1:{server.port}/"
        response = await outgoing.send("GET", url, timeout_s=10, max_bytes=100)
    assert (response.body, response.cut) == (b"x" * min(size, 100), cut)


async def test_an_endless_body_is_truncated() -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    async with listening(script) as server, client() as outgoing:
        response = await outgoing.send("GET", f"http://127.0.0.1:{server.port}/", timeout_s=10)
    assert (len(response.body), response.cut) == (65536, True)


async def test_a_compressed_body_is_not_decompressed() -> None:
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbomb"
    async with listening(respond(packed)) as server, client() as outgoing:
        response = await outgoing.send("GET", f"http://127.0.0.1:{server.port}/", timeout_s=10)
    assert response.body == b"bomb"
    assert b"Accept-Encoding: identity\r\n" in server.heads[0]


async def test_a_download_is_limited_in_size() -> None:
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1,2,3"
    async with listening(respond(text)) as server, client() as outgoing:
        url, target = f"http://127.0.0.1:{server.port}/", BytesIO()
        response = await outgoing.download(url, target, timeout_s=10, max_bytes=5)
        assert (response.status, target.getvalue()) == (200, b"1,2,3")
        with pytest.raises(NoResponse, match="longer than 4"):
            await outgoing.download(url, BytesIO(), timeout_s=10, max_bytes=4)


async def test_a_failed_connection_raises_unreachable() -> None:
    async with listening(respond(OK)) as closed:
        pass

    async def resolve(host: str) -> Sequence[str]:
        if host == "slow.example":
            await asyncio.Event().wait()
        return [] if host == "empty.example" else ["127.0.0.1"]

    outgoing = Outgoing(HOME, resolve)
    for host, reason in (
        ("127.0.0.1", REFUSED),
        ("closed.example", REFUSED),
        ("slow.example", CONNECT_TIMEOUT),
        ("empty.example", UNKNOWN_HOST),
    ):
        with pytest.raises(Unreachable) as refusal:
            await outgoing.send("POST", f"http://{host}:{closed.port}/", timeout_s=0.5)
        assert str(refusal.value) == reason
    await outgoing.close()


async def test_concurrent_requests_share_one_slow_lookup() -> None:
    lookups: list[str] = []

    async def resolve(host: str) -> Sequence[str]:
        lookups.append(host)
        await asyncio.sleep(0.3)
        return ["127.0.0.1"]

    async with listening(respond(OK)) as server:
        outgoing = Outgoing(HOME, resolve)
        url = f"http://shop.example:{server.port}/"
        responses = await asyncio.gather(
            *(outgoing.send("GET", url, timeout_s=10) for _ in range(20))
        )
        await outgoing.close()
    assert {response.status for response in responses} == {200}
    assert lookups == ["shop.example"]


async def test_the_environments_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        listening(respond(OK)) as server,
        listening(respond(OK)) as proxy,
        client() as outgoing,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await outgoing.send("GET", f"http://127.0.0.1:{server.port}/", timeout_s=10)
    assert (server.connections, proxy.connections) == (1, 0)


def create_certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """Return the TLS context and the file of a self-signed certificate for ``name``."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, folder / "cert.pem"


async def test_the_certificate_is_checked_against_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, certificate_file = create_certificate(tmp_path, "shop.example")
    server_names: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: server_names.append(name)
    names = {"shop_example": ["127.0.0.1"], "other_example": ["127.0.0.1"]}
    async with listening(respond(OK), tls=tls) as server:
        async with client(**names) as outgoing:
            with pytest.raises(Unreachable, match=WRONG_CERTIFICATE):
                await outgoing.send("POST", f"https://shop.example:{server.port}/", timeout_s=10)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file))
        monkeypatch.setattr("opentill.outgoing.client._tls_context", ssl.create_default_context)
        async with client(**names) as outgoing:
            url = f"https://shop.example:{server.port}/"
            assert (await outgoing.send("POST", url, timeout_s=10)).status == 200
            for host in ("other.example", "127.0.0.1"):
                with pytest.raises(Unreachable, match=OTHER_NAME):
                    await outgoing.send("POST", f"https://{host}:{server.port}/", timeout_s=10)
    assert server_names == ["shop.example", "shop.example", "other.example", None]
    assert len(server.heads) == 1


async def test_a_server_without_tls_is_unreachable_by_https() -> None:
    async with listening(respond(OK)) as server, client() as outgoing:
        with pytest.raises(Unreachable, match=CONNECT_TIMEOUT):
            await outgoing.send("GET", f"https://127.0.0.1:{server.port}/", timeout_s=2)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    greeting = await asyncio.start_server(greet, "127.0.0.1")
    port = greeting.sockets[0].getsockname()[1]
    async with greeting, client() as outgoing:
        with pytest.raises(Unreachable, match=NO_TLS):
            await outgoing.send("GET", f"https://127.0.0.1:{port}/", timeout_s=10)
