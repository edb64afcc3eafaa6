"""A mail server on loopback (aiosmtpd) with injectable faults."""

import asyncio
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Fault = Literal["", "later", "never", "cut", "accepted_then_cut", "refused"]
_REPLIES: Final[dict[str, str]] = {
    "later": "451 4.3.0 try again later",
    "never": "554 5.6.0 message refused",
}


class MailServer:
    """Accepts mail while the block runs; ``fault`` returns the fault of the next message.

    ``later`` and ``never`` refuse a message, ``refused`` its recipient. ``cut`` closes the
    connection without accepting the message, ``accepted_then_cut`` after accepting it.
    """

    def __init__(self, fault: Callable[[], Fault] = lambda: "", **options: Any) -> None:
        """``options`` are those of aiosmtpd's SMTP, such as ``auth_required``."""
        self.fault = fault
        self.accepted: list[tuple[str, EmailMessage]] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._options = options

    def __enter__(self) -> Self:
        """Listen on a free port, with an event loop in a thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = self._loop.create_server(
            self._protocol, "127.0.0.1", 0, ssl=self._options.pop("ssl", None)
        )
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        return self

    def _protocol(self) -> SMTP:
        self.connections += 1
        options: dict[str, Any] = {"enable_SMTPUTF8": True} | self._options
        return SMTP(self, hostname="mail.test", loop=self._loop, **options)

    def __exit__(self, *_: object) -> None:
        """Stop."""

        async def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The server's address, for OPENTILL_SMTP_URL."""
        return f"smtp://127.0.0.1:{self.port}"

    @property
    def counts(self) -> Counter[str]:
        """The number of accepted messages by recipient."""
        return Counter(to for to, _ in self.accepted)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's names
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        """Accept or refuse a recipient."""
        fault = self.fault()
        envelope.fault = fault  # type: ignore[attr-defined] # for handle_DATA
        if fault == "refused":
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's names
        self, server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        """Accept or refuse a message."""
        fault = envelope.fault  # type: ignore[attr-defined] # of handle_RCPT
        if fault in _REPLIES:
            return _REPLIES[fault]
        if fault != "cut":
            parsed = message_from_bytes(cast("bytes", envelope.content), policy=policy.default)
            with self._lock:
                self.accepted.append((envelope.rcpt_tos[0], cast("EmailMessage", parsed)))
        if fault in {"cut", "accepted_then_cut"}:
            assert server.transport is not None
            server.transport.close()
        return "250 OK"


class TlsContexts(NamedTuple):
    """The TLS contexts of a server and of clients that trust its certificate."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def create_tls_contexts(folder: Path) -> TlsContexts:
    """Create TLS contexts with a self-signed certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "mail.pem"
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    file.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    return TlsContexts(server, ssl.create_default_context(cafile=str(file)))


def login_options(username: str, password: str, tls: ssl.SSLContext) -> dict[str, Any]:
    """Return the options of a server that requires STARTTLS and a login."""

    def check(
        _server: object, _session: object, _envelope: object, _how: str, data: Any
    ) -> AuthResult:
        credentials = data.login.decode(), data.password.decode()
        is_valid = credentials == (username, password)
        return AuthResult(success=is_valid, handled=is_valid)

    return {
        "auth_required": True,
        "authenticator": check,
        "tls_context": tls,
        "require_starttls": True,
    }
