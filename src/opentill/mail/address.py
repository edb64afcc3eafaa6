"""Mailboxes as they may stand in a header or an envelope.

Nothing that somebody typed as a name can begin another header, or another recipient: control
characters and marks that turn text around are left out, and the library quotes the rest
(RFC 5322 §3.4, RFC 2047). International domains are written in ASCII (``core/hostnames.py``); a
local part that is not ASCII needs a server that knows SMTPUTF8 (RFC 6531).
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
        return hostnames.mailbox_in_ascii(text)
    except hostnames.BadHost:
        msg = "its domain cannot exist"
        raise BadAddress(msg) from None


def needs_utf8(address: str) -> bool:
    """Return whether a server must know SMTPUTF8 to take an address."""
    return not address.isascii()


def mailbox(name: str, address: str) -> Address:
    """Return an address with a name for a header. Raises BadAddress."""
    try:
        return Address(one_line(name, _LONGEST_NAME), addr_spec=envelope(address))
    except (ValueError, MessageError, IndexError):
        msg = "it is no e-mail address"
        raise BadAddress(msg) from None


def sender(mail_from: str, name: str | None = None) -> Address:
    """Return the setting's mailbox, under another name if one is given."""
    own, address = parseaddr(mail_from)
    return mailbox(name or own, address)
