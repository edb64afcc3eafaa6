"""One connection to the mail server, and one conversation about one message (RFC 5321).

What became of a message is one of the outcomes below. The line between "surely not sent" and
"nobody knows" is the DATA command: if the connection ends, or time is over, after it and before the
server's reply to the message, the server may have taken it.
"""

import re
import ssl
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import aiosmtplib
import msgspec

from opentill.core import hostnames, log
from opentill.mail.model import LONGEST_RESULT

_LONGEST_NAME: Final = 78
# Line breaks and other control characters, surrogates, and marks of direction and of no width.
_UNFIT: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
_SHAPE: Final = re.compile(r"[^\s@<>,;:\"\\\[\]()]+@[^\s@<>,;:\"\\\[\]()]+")
_DOT_ATOM: Final = re.compile(r"[^.]+(?:\.[^.]+)*")


class BadAddress(Exception):
    """An address that no mail can be sent to; the text says why."""


def one_line(text: str, longest: int = 200) -> str:
    """Return text that fits into a header: one line, nothing in it that turns text around."""
    return _UNFIT.sub(" ", text).strip()[:longest].strip()


def envelope_address(text: str) -> str:
    """Return an address for the envelope, its domain in ASCII. Raises BadAddress."""
    if _UNFIT.search(text) or _SHAPE.fullmatch(text) is None:
        msg = "it is no e-mail address"
        raise BadAddress(msg)
    try:
        local, _, domain = hostnames.mailbox_in_ascii(text).rpartition("@")
    except hostnames.BadHost:
        msg = "its domain cannot exist"
        raise BadAddress(msg) from None
    return f"{local}@{domain}" if _DOT_ATOM.fullmatch(local) else f'"{local}"@{domain}'


def needs_utf8(address: str) -> bool:
    """Return whether a server must know SMTPUTF8 to take an address."""
    return not address.isascii()


class _Mailbox(Address):
    """A mailbox whose local part is written as in the envelope.

    The library's own quotes no dots, and takes no local part that is not ASCII where it reads one.
    """

    @property
    def addr_spec(self) -> str:
        """Return ``local@domain``."""
        return f"{self.username}@{self.domain}"


def header_address(name: str, address: str) -> Address:
    """Return an address with a name for a header. Raises BadAddress."""
    local, _, domain = envelope_address(address).rpartition("@")
    try:
        return _Mailbox(one_line(name, _LONGEST_NAME), username=local, domain=domain)
    except (ValueError, MessageError, IndexError):
        msg = "it is no e-mail address"
        raise BadAddress(msg) from None


def sender_address(mail_from: str, name: str | None = None) -> Address:
    """Return the setting's mailbox, under another name if one is given."""
    own, address = parseaddr(mail_from)
    return header_address(name or own, address)


# "again": not for now; "unreached": the conversation has not begun, which is no attempt.
Ended = Literal["sent", "again", "failed", "unknown", "unreached"]
TIMEOUT_S: Final = 30.0  # for each reply
_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_TEMPORARY: Final = range(400, 500)
_CLOSING: Final = 421  # the server is about to end the connection
_NO_SMTPUTF8: Final = (
    "not sent: the mail server takes no address with other than ASCII characters before the @"
    " (it does not offer SMTPUTF8)"
)
_LOGIN_NEEDED: Final = (530, 534, 535, 538)  # RFC 4954 §6: about us, not about the message


class Outcome(msgspec.Struct, frozen=True):
    """How a conversation ended, and in which words."""

    ended: Ended
    detail: str


class Server(msgspec.Struct, frozen=True):
    """A mail server as ``OPENTILL_SMTP_URL`` names it."""

    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None

    @classmethod
    def of(cls, url: str) -> "Server":
        """Read an address that the settings have checked."""
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
        """Whether nobody between can read what is sent."""
        return self.scheme != "smtp"

    def __str__(self) -> str:
        """Name it without its secrets."""
        return f"{self.host} port {self.port}"


class Unreached(Exception):
    """There is no connection to the mail server; the text says why."""


def _said(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__


def _short(text: str) -> str:
    return log.redact(one_line(text, LONGEST_RESULT))[:LONGEST_RESULT]


async def _greet(client: aiosmtplib.SMTP) -> None:
    """Ask what the server can do; one that knows nothing of that is greeted as of old."""
    try:
        await client.ehlo()
    except aiosmtplib.SMTPHeloError:
        await client.helo()


class Connection:
    """A connection that is open, for one message after another."""

    def __init__(self, client: aiosmtplib.SMTP) -> None:
        """Use ``open``."""
        self._client = client
        self.sent = 0  # messages

    @classmethod
    async def open(
        cls,
        server: Server,
        name: str,
        *,
        timeout_s: float = TIMEOUT_S,
        trust: ssl.SSLContext | None = None,
    ) -> "Connection":
        """Connect, encrypt and log in as the address says. Raises Unreached.

        ``name`` is what we call ourselves there, a domain. ``trust`` says whose certificates are
        believed: those of the machine.
        """
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=name,
            username=server.username,
            password=server.password,
            timeout=timeout_s,
            use_tls=server.scheme == "smtps",
            start_tls=server.scheme == "smtp+starttls",
            tls_context=trust,
        )
        try:
            await client.connect()
            if client.is_ehlo_or_helo_needed:
                await _greet(client)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            client.close()
            msg = _short(f"{server}: {_said(error)}")
            raise Unreached(msg) from error
        return cls(client)

    @property
    def is_open(self) -> bool:
        """Whether another message may be sent on it."""
        return self._client.is_connected

    async def send(self, sender: str, recipient: str, message: bytes) -> Outcome:
        """Hand one message over, and say how that ended; nothing is raised."""
        try:
            to = envelope_address(recipient)
        except BadAddress as error:
            return Outcome("failed", f"not sent: {error}")
        utf8 = needs_utf8(to)
        if utf8 and not self._client.supports_extension("smtputf8"):
            return Outcome("failed", _NO_SMTPUTF8)
        options = ["SMTPUTF8", "BODY=8BITMIME"] if utf8 else []
        outcome = await self._before_data(sender, to, options)
        if outcome is None:
            outcome = await self._data(message)
        if outcome.ended == "sent":
            self.sent += 1
        elif outcome.ended in {"again", "failed"} and self.is_open:
            await self._reset()
        return outcome

    async def _before_data(self, sender: str, to: str, options: list[str]) -> Outcome | None:
        """Name sender and recipient; None if both are taken. So far nothing can have been sent."""
        encoding = "utf-8" if options else "ascii"
        begun = False
        try:
            await self._client.mail(sender, options=options, encoding=encoding)
            begun = True
            await self._client.rcpt(to, encoding=encoding)
        except aiosmtplib.SMTPResponseException as error:
            if error.code in _LOGIN_NEEDED:
                self.close()
                return Outcome("unreached", _short(_said(error)))
            return self._refused(error)
        except ValueError as error:  # of an address that cannot stand in a command
            return Outcome("failed", _short(f"not sent: {error}"))
        except (aiosmtplib.SMTPException, OSError) as error:
            self.close()
            text = _short(f"the connection ended before the message: {_said(error)}")
            # A server ends connections that rested: that says nothing about this message.
            return Outcome("again" if begun or not self.sent else "unreached", text)
        return None

    async def _data(self, message: bytes) -> Outcome:
        try:
            reply = await self._client.data(message)
        except aiosmtplib.SMTPResponseException as error:
            return self._refused(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            self.close()
            text = f"the connection ended before the server had replied: {_said(error)}"
            return Outcome("unknown", _short(text))
        return Outcome("sent", _short(f"{reply.code} {reply.message}"))

    def _refused(self, error: aiosmtplib.SMTPResponseException) -> Outcome:
        if error.code == _CLOSING:
            self.close()
        ended: Ended = "again" if error.code in _TEMPORARY else "failed"
        return Outcome(ended, _short(_said(error)))

    async def _reset(self) -> None:
        try:
            await self._client.rset()
        except (aiosmtplib.SMTPException, OSError):
            self.close()

    def close(self) -> None:
        """End it at once."""
        self._client.close()

    async def quit(self) -> None:
        """Say goodbye, and end it."""
        try:
            if self.is_open:
                await self._client.quit()
        except (aiosmtplib.SMTPException, OSError):
            pass
        finally:
            self.close()
