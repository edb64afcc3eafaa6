"""Connections to the mail server, conversations about one message (RFC 5321), and addresses.

The DATA command separates "surely not sent" from "unknown": if the connection ends or times out
after it and before the server's reply to the message, the server may have accepted the message.

A name that somebody typed cannot begin another header or add a recipient: control characters and
marks of text direction are removed, and the library quotes the rest (RFC 5322 §3.4, RFC 2047).
International domains are written in ASCII (``core/hostnames.py``). A local part that is not ASCII
needs a server with SMTPUTF8 (RFC 6531). A local part with dots at the beginning, at the end or next
to each other, which some Japanese providers assigned, is quoted (RFC 5321 §4.1.2).
"""

import re
import ssl
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from typing import Final, Literal, Self
from urllib.parse import unquote, urlsplit

import aiosmtplib
import msgspec

from opentill.core import hostnames, log
from opentill.mail.model import MAX_RESULT_LENGTH

# ── addresses ──────────────────────────────────────────────────────────────────────────────────

_MAX_NAME_LENGTH: Final = 78
# Control characters such as line breaks, surrogates, invisible characters, and marks that change
# the direction of text.
_FORBIDDEN_CHARACTERS: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
_ADDRESS_PATTERN: Final = re.compile(r"[^\s@<>,;:\"\\\[\]()]+@[^\s@<>,;:\"\\\[\]()]+")
_DOT_ATOM: Final = re.compile(r"[^.]+(?:\.[^.]+)*")


class BadAddress(Exception):
    """An address to which no mail can be sent; the text says why."""


def single_line(text: str, max_length: int = 200) -> str:
    """Return text for a header: one line, without marks that change the direction of text."""
    return _FORBIDDEN_CHARACTERS.sub(" ", text).strip()[:max_length].strip()


def envelope_address(text: str) -> str:
    """Return an address for the envelope, its domain in ASCII. Raises BadAddress."""
    if _FORBIDDEN_CHARACTERS.search(text) or _ADDRESS_PATTERN.fullmatch(text) is None:
        msg = "it is no email address"
        raise BadAddress(msg)
    try:
        local, _, domain = hostnames.mailbox_in_ascii(text).rpartition("@")
    except hostnames.BadHost:
        msg = "its domain cannot exist"
        raise BadAddress(msg) from None
    return f"{local}@{domain}" if _DOT_ATOM.fullmatch(local) else f'"{local}"@{domain}'


def needs_smtputf8(address: str) -> bool:
    """Whether only a server with SMTPUTF8 accepts an address."""
    return not address.isascii()


class _HeaderAddress(Address):
    """An address whose local part is written as in the envelope.

    The library does not quote dots, and refuses local parts that are not ASCII.
    """

    @property
    def addr_spec(self) -> str:
        """Return ``local@domain``."""
        return f"{self.username}@{self.domain}"


def header_address(name: str, address: str) -> Address:
    """Return an address with a name for a header. Raises BadAddress."""
    local, _, domain = envelope_address(address).rpartition("@")
    try:
        return _HeaderAddress(single_line(name, _MAX_NAME_LENGTH), username=local, domain=domain)
    except (ValueError, MessageError, IndexError):
        msg = "it is no email address"
        raise BadAddress(msg) from None


def sender_address(mail_from: str, name: str | None = None) -> Address:
    """Return the address of the setting, with ``name`` instead of its own if given."""
    own_name, address = parseaddr(mail_from)
    return header_address(name or own_name, address)


# ── the mail server ────────────────────────────────────────────────────────────────────────────

# "again" is a temporary failure, after which the mail is sent again. "unreached": no conversation
# began, so that this does not count as an attempt.
OutcomeKind = Literal["sent", "again", "failed", "unknown", "unreached"]
TIMEOUT_S: Final = 30.0  # longest wait for one reply
_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_TEMPORARY_CODES: Final = range(400, 500)
_CLOSING_CODE: Final = 421  # with this reply the server closes the connection
_LOGIN_CODES: Final = (530, 534, 535, 538)  # these refuse our login, not the message (RFC 4954 §6)
_NO_SMTPUTF8: Final = (
    "not sent: the mail server takes no address with other than ASCII characters before the @"
    " (it does not offer SMTPUTF8)"
)


class Outcome(msgspec.Struct, frozen=True):
    """How a conversation ended, with the server's reply or the error."""

    kind: OutcomeKind
    detail: str


class Server(msgspec.Struct, frozen=True):
    """A mail server as ``OPENTILL_SMTP_URL`` names it."""

    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a URL that the settings have validated."""
        parts = urlsplit(url)
        return cls(
            parts.scheme,
            parts.hostname or "",
            parts.port or _PORTS[parts.scheme],
            None if parts.username is None else unquote(parts.username),
            None if parts.password is None else unquote(parts.password),
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme != "smtp"

    def __str__(self) -> str:
        """The server's host and port, without secrets."""
        return f"{self.host} port {self.port}"


class Unreached(Exception):
    """The mail server cannot be reached; the text says why."""


def _describe(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__


def _shorten(text: str) -> str:
    return log.redact(single_line(text, MAX_RESULT_LENGTH))[:MAX_RESULT_LENGTH]


class Connection:
    """An open connection, for one message after another."""

    def __init__(self, client: aiosmtplib.SMTP) -> None:
        """Use ``open`` instead."""
        self._client = client
        self.messages = 0  # how many messages were sent on this connection

    @classmethod
    async def open(
        cls,
        server: Server,
        own_domain: str,
        *,
        timeout_s: float = TIMEOUT_S,
        tls_context: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect, encrypt and log in as the server's URL says. Raises Unreached.

        ``own_domain`` is the name with which we greet the server. By default the certificates of
        the machine are trusted.
        """
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=own_domain,
            username=server.username,
            password=server.password,
            timeout=timeout_s,
            use_tls=server.scheme == "smtps",
            start_tls=server.scheme == "smtp+starttls",
            tls_context=tls_context,
        )
        try:
            await client.connect()
            if client.is_ehlo_or_helo_needed:
                try:
                    await client.ehlo()
                except aiosmtplib.SMTPHeloError:  # the server does not support EHLO
                    await client.helo()
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            client.close()
            msg = _shorten(f"{server}: {_describe(error)}")
            raise Unreached(msg) from error
        return cls(client)

    @property
    def is_open(self) -> bool:
        """Whether another message can be sent."""
        return self._client.is_connected

    async def send(self, sender: str, recipient: str, message: bytes) -> Outcome:
        """Send one message. Errors are outcomes; nothing is raised."""
        try:
            address = envelope_address(recipient)
        except BadAddress as error:
            return Outcome("failed", f"not sent: {error}")
        is_utf8 = needs_smtputf8(address)
        if is_utf8 and not self._client.supports_extension("smtputf8"):
            return Outcome("failed", _NO_SMTPUTF8)
        options = ["SMTPUTF8", "BODY=8BITMIME"] if is_utf8 else []
        outcome = await self._send_envelope(sender, address, options)
        if outcome is None:
            outcome = await self._send_data(message)
        if outcome.kind == "sent":
            self.messages += 1
        elif outcome.kind in {"again", "failed"} and self.is_open:
            await self._reset()
        return outcome

    async def _send_envelope(self, sender: str, address: str, options: list[str]) -> Outcome | None:
        """Send the commands with sender and recipient; return None if the server accepts both."""
        encoding = "utf-8" if options else "ascii"
        has_begun = False
        try:
            await self._client.mail(sender, options=options, encoding=encoding)
            has_begun = True
            await self._client.rcpt(address, encoding=encoding)
        except aiosmtplib.SMTPResponseException as error:
            if error.code in _LOGIN_CODES:
                self.close()
                return Outcome("unreached", _shorten(_describe(error)))
            return self._outcome_of_refusal(error)
        except ValueError as error:  # an address contains characters that SMTP does not allow
            return Outcome("failed", _shorten(f"not sent: {error}"))
        except (aiosmtplib.SMTPException, OSError) as error:
            self.close()
            text = _shorten(f"the connection ended before the message: {_describe(error)}")
            # A failure counts as an attempt, unless the server had closed an idle connection.
            is_failure = has_begun or not self.messages
            return Outcome("again" if is_failure else "unreached", text)
        return None

    async def _send_data(self, message: bytes) -> Outcome:
        try:
            reply = await self._client.data(message)
        except aiosmtplib.SMTPResponseException as error:
            return self._outcome_of_refusal(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            self.close()
            text = f"the connection ended before the server had replied: {_describe(error)}"
            return Outcome("unknown", _shorten(text))
        return Outcome("sent", _shorten(f"{reply.code} {reply.message}"))

    def _outcome_of_refusal(self, error: aiosmtplib.SMTPResponseException) -> Outcome:
        if error.code == _CLOSING_CODE:
            self.close()
        kind: OutcomeKind = "again" if error.code in _TEMPORARY_CODES else "failed"
        return Outcome(kind, _shorten(_describe(error)))

    async def _reset(self) -> None:
        try:
            await self._client.rset()
        except (aiosmtplib.SMTPException, OSError):
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._client.close()

    async def quit(self) -> None:
        """Send QUIT, and close the connection."""
        try:
            if self.is_open:
                await self._client.quit()
        except (aiosmtplib.SMTPException, OSError):
            pass
        finally:
            self.close()
