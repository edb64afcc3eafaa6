"""Identifiers: ``prefix_`` and lower-case base32 letters and digits.

All but checkout session ids are UUID version 7 (RFC 9562 §5.7) written in Crockford's base32
alphabet, so that they sort by time. Session ids stand in public addresses and are 160 random bits.
"""

import hashlib
import re
import secrets
import time
from typing import Final, Literal

Prefix = Literal[
    "mer",
    "prod",
    "order",
    "att",
    "re",
    "txn",
    "evt",
    "dp",
    "ev",
    "po",
    "preq",
    "whe",
    "key",
    "req",
    "aud",
    "mov",
    "per",
    "ses",
    "inv",
    "pk",
    "plink",
    "mail",
    "run",
    "rec",
    "dif",
]

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_DIGITS: Final = 26  # of 128 bits
_NUMBERS_FROM_MS: Final = 1_704_067_200_000  # 2024-01-01 UTC, so that they fit until 2093
_RANDOM_BITS: Final = 12
_SHAPE: Final = re.compile(r"[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


def _base32(number: int, pairs: int) -> str:
    # A list, since a generator costs half as much again.
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(10 * (pairs - 1), -1, -10)])


def new_id(prefix: Prefix) -> str:
    """Make an id that sorts by the time it was made, also within a millisecond.

    48 bits of milliseconds, 12 of their fraction (RFC 9562 §6.2, method 3), 62 random bits.
    """
    millis, nanos = divmod(time.time_ns(), 1_000_000)
    fraction = (nanos << 12) // 1_000_000
    uuid7 = millis << 80 | 7 << 76 | fraction << 64 | 2 << 62 | secrets.randbits(62)
    return f"{prefix}_{_base32(uuid7, 13)}"


def derived_id(prefix: Prefix, text: str) -> str:
    """Return an id that is always the same for a text, and sorts before every new one."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"{prefix}_{_base32(int.from_bytes(digest[:10]), 13)}"


def first_id(prefix: Prefix, millis: int) -> str:
    """Return what sorts before every id made at a time (Unix ms) or later."""
    return f"{prefix}_{_base32(max(0, millis) << 80, 13)}"


def new_session_id() -> str:
    """Make a checkout session id: 160 random bits, so that it cannot be guessed."""
    return f"cs_{_base32(secrets.randbits(160), 16)}"


def new_slug() -> str:
    """Make the last part of a public address: 160 random bits, so that it cannot be guessed."""
    return _base32(secrets.randbits(160), 16)


def number_of(made: str) -> int:
    """Return a whole number below 2**53 that stands for an id, for clients that take only numbers.

    Milliseconds since 2024 and twelve of the random bits: it sorts by the millisecond.
    """
    number = _number(made)
    return ((number >> 80) - _NUMBERS_FROM_MS) << _RANDOM_BITS | number & (1 << _RANDOM_BITS) - 1


def made_at(made: str) -> int:
    """Return when an id was made, in Unix ms.

    Raises ValueError for what is not an id, and for a checkout session's, which holds no time.
    """
    return _number(made) >> 80


def _number(made: str) -> int:
    _, _, digits = made.partition("_")
    if len(digits) != _DIGITS:
        msg = f"{made!r} does not say when it was made"
        raise ValueError(msg)
    number = 0
    for digit in digits:
        number = number << 5 | _ALPHABET.index(digit)
    return number


def is_id(text: str) -> bool:
    """Return whether a text has the shape of an id; anything else needs no query."""
    return _SHAPE.fullmatch(text) is not None
