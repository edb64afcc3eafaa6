"""Mailboxes as they may stand in a header or an envelope.

Nothing that somebody typed as a name can begin another header, or another recipient: control
characters and marks that turn text around are left out, and the library quotes the rest
(RFC 5322 §3.4, RFC 2047). International domains are written in ASCII (``core/hostnames.py``); a
local part that is not ASCII needs a server that knows SMTPUTF8 (RFC 6531). One with dots in other
places than between words, as some Japanese providers have given out, is quoted (RFC 5321 §4.1.2).
"""

import re
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from typing import Final

from opentill.core import hostnames

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


def envelope(text: str) -> str:
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


def mailbox(name: str, address: str) -> Address:
    """Return an address with a name for a header. Raises BadAddress."""
    local, _, domain = envelope(address).rpartition("@")
    try:
        return _Mailbox(one_line(name, _LONGEST_NAME), username=local, domain=domain)
    except (ValueError, MessageError, IndexError):
        msg = "it is no e-mail address"
        raise BadAddress(msg) from None


def sender(mail_from: str, name: str | None = None) -> Address:
    """Return the setting's mailbox, under another name if one is given."""
    own, address = parseaddr(mail_from)
    return mailbox(name or own, address)
