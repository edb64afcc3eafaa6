"""A merchant's server with the faults that addresses have in practice, one for each path."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from opentill.outgoing.client import Outgoing, Policy
from opentill.outgoing.faults import Fault

_LOOPBACK: Final = Policy(allow_http=True, allowed_networks=(ip_network("127.0.0.1/32"),))
# These pages have "success" in the names of styles and in scripts, as those of many shops.
_LOGIN: Final = """<!DOCTYPE html><html><head><style>.alert-success{color:green}</style></head>
<body><form method="post"><input name="user"><input type="password" name="pw"></form></body></html>
"""
_HOME: Final = """<!DOCTYPE html><html><head><title>Shop</title></head><body><h1>Welcome</h1>
<script>$.post("/cart", {success: reload})</script></body></html>"""
_CHALLENGE: Final = """<!DOCTYPE html><html><head><title>Just a moment...</title></head>
<body><script src="/cdn-cgi/challenge-platform/h/b/orchestrate"></script></body></html>"""
_RESPONSES: Final[dict[str, tuple[str, str, str]]] = {  # path → status line, headers, body
    "/redirect": ("301 Moved", "location: https://shop.example/notify\r\n", ""),
    "/challenge": ("403 Forbidden", "server: cloudflare\r\n", _CHALLENGE),
    "/denied": ("403 Forbidden", "", "<html><body><h1>403 Forbidden</h1></body></html>"),
    "/error": ("500 Internal Server Error", "", "oops"),
    "/login": ("200 OK", "content-type: text/html\r\n", _LOGIN),
    "/html": ("200 OK", "content-type: text/html\r\n", _HOME),
    "/bom": ("200 OK", "", "\ufeffsuccess"),
    "/works": ("200 OK", "", "success"),
}


class Planted(msgspec.Struct, frozen=True):
    """A fault of an address: its URL and what it is to be called, for webhooks and for Epay."""

    url: str
    webhook: Fault | None
    epay: Fault | None


class FaultyServer(msgspec.Struct, frozen=True):
    """The running servers, and a client that knows their names and trusts their certificates."""

    plain: str
    valid_tls: int  # the port with a valid certificate for shop.example
    expired_tls: int
    outgoing: Outgoing

    def planted(self) -> dict[str, Planted]:
        """Return the twelve faults of addresses."""
        plain = self.plain
        return {
            "redirect to https": Planted(f"{plain}/redirect", "redirect", "redirect"),
            "challenge of a CDN": Planted(f"{plain}/challenge", "block_page", "block_page"),
            "403": Planted(f"{plain}/denied", "forbidden", "forbidden"),
            "500": Planted(f"{plain}/error", "server_error", "server_error"),
            "login page": Planted(f"{plain}/login", "login_page", "login_page"),
            "HTML": Planted(f"{plain}/html", "html_page", "html_page"),
            # A webhook may be answered with any text: a byte order mark is no fault of it.
            "BOM before success": Planted(f"{plain}/bom", None, "bom"),
            "expired certificate": Planted(
                f"https://shop.example:{self.expired_tls}/",
                "certificate_expired",
                "certificate_expired",
            ),
            "wrong name in the certificate": Planted(
                f"https://other.example:{self.valid_tls}/",
                "certificate_wrong_name",
                "certificate_wrong_name",
            ),
            "DNS missing": Planted("http://missing.example/", "dns_missing", "dns_missing"),
            "no answer": Planted(f"{plain}/hang", "timeout", "timeout"),
            "connection reset": Planted(f"{plain}/reset", "connection_reset", "connection_reset"),
        }


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1].partition("?")[0]
        if path == "/hang":
            await asyncio.sleep(3600)
        if path != "/reset":
            status, headers, text = _RESPONSES.get(path, _RESPONSES["/works"])
            body = text.encode()
            lines = f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n"
            writer.write(f"{lines}connection: close\r\n\r\n".encode() + body)
            await writer.drain()
    writer.transport.abort()


def _tls(folder: Path, name: str, *, ended: bool) -> ssl.SSLContext:
    """Return the TLS context of a self-signed certificate for ``name``; write it to ``folder``."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {ended}")])
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=-1 if ended else 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key_file, certificate_file = folder / f"key-{ended}.pem", folder / f"cert-{ended}.pem"
    key_file.write_bytes(pem)
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return context


@asynccontextmanager
async def faulty_server(folder: Path) -> AsyncIterator[FaultyServer]:
    """Run the servers. SSL_CERT_FILE must name the file ``trusted.pem`` in ``folder``."""

    async def resolve(host: str) -> Sequence[str]:
        if host not in {"shop.example", "other.example"}:
            raise OSError(host)
        return ["127.0.0.1"]

    valid, expired = (_tls(folder, "shop.example", ended=ended) for ended in (False, True))
    trusted = (folder / "cert-False.pem").read_bytes() + (folder / "cert-True.pem").read_bytes()
    (folder / "trusted.pem").write_bytes(trusted)
    servers = [
        await asyncio.start_server(_serve, "127.0.0.1", 0, ssl=tls)
        for tls in (None, valid, expired)
    ]
    plain, valid_port, expired_port = (one.sockets[0].getsockname()[1] for one in servers)
    outgoing = Outgoing(_LOOPBACK, resolve)
    try:
        yield FaultyServer(f"http://127.0.0.1:{plain}", valid_port, expired_port, outgoing)
    finally:
        await outgoing.close()
        for server in servers:
            server.close()
