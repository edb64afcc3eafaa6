"""Identifiers: a prefix, an underscore, and lower-case base32 digits.

All except checkout session ids are UUIDs version 7 (RFC 9562 §5.7) in Crockford's base32 alphabet,
so that they sort by time. Session ids are part of public addresses: they are 160 random bits.
"""

import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    "areq",
    "per",
    "ses",
    "inv",
    "pk",
    "plink",
    "mail",
    "run",
    "rec",
    "dif",
    "fac",
    "ga",
    "gat",
    "rr",
    "dpc",
]

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_DIGITS: Final = 26  # base32 digits of a UUID, which has 128 bits
# Numbers of ids count from 2024-01-01 UTC, so that they stay below 2**53 until 2093.
_NUMBERS_FROM_MS: Final = 1_704_067_200_000
_RANDOM_BITS: Final = 12
_SHAPE: Final = re.compile(r"[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


# Maps a byte to the digit of its lowest five bits, for ``bytes.translate``.
_DIGIT_TABLE: Final = bytes(_ALPHABET.encode()[byte & 31] for byte in range(256))
LAST: Final = "zzzzzz"  # sorts after every id in any collation of natural languages
# Random tails are made in batches of this size: a system call for each would be most of an id's
# cost.
_AT_ONCE: Final = 256
_TAIL: Final = 12  # random digits at the end of an id
_tails: Final[list[tuple[int, str]]] = []  # unused tails: two random bits and ``_TAIL`` digits
os.register_at_fork(after_in_child=_tails.clear)
_PAST: Final = ContextVar[Iterator[int] | None]("past", default=None)  # see ``made_at``
_last_millis = (0, "0" * 10)  # the millisecond of the last id in Unix ms, and as base32 digits


def _base32(number: int, pairs: int) -> str:
    # A generator expression would take 50 % longer than this list.
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(10 * (pairs - 1), -1, -10)])


def _random_digits(number: int) -> str:
    """Return ``number`` random digits of five bits each."""
    return os.urandom(number).translate(_DIGIT_TABLE).decode()


def _tail() -> tuple[int, str]:
    """Return two random bits and twelve random digits that were not used before."""
    try:
        return _tails.pop()
    except IndexError:
        digits = _random_digits(_AT_ONCE * _TAIL)
        cut = [digits[at : at + _TAIL] for at in range(0, len(digits), _TAIL)]
        bits = [byte & 3 for byte in os.urandom(_AT_ONCE)]
        _tails.extend(zip(bits[1:], cut[1:], strict=True))
        return bits[0], cut[0]


def new_id(prefix: Prefix) -> str:
    """Return a new id that sorts by its time of creation, even within a millisecond.

    It has 48 bits of milliseconds, 12 of their fraction (RFC 9562 §6.2, method 3), 62 random bits.
    """
    global _last_millis  # noqa: PLW0603 - one assignment, so that threads see the old or the new
    past = _PAST.get()
    millis, nanos = divmod(time.time_ns() if past is None else next(past), 1_000_000)
    last_millis, digits = _last_millis
    if last_millis != millis:
        digits = _base32(millis, 5)
        _last_millis = (millis, digits)
    fraction = (nanos << 12) // 1_000_000
    bits, tail = _tail()
    # In a UUID of version 7, the version and the variant (2) surround the fraction.
    return (
        f"{prefix}_{digits}{_PAIRS[7 << 6 | fraction >> 6]}"
        f"{_PAIRS[(fraction & 63) << 4 | 2 << 2 | bits]}{tail}"
    )


@contextmanager
def made_at(millis: int) -> Iterator[None]:
    """Make ids as of a time (Unix ms), one after the other: for a history that is written later."""
    token = _PAST.set(itertools.count(millis * 1_000_000, 1000))
    try:
        yield
    finally:
        _PAST.reset(token)


def derived_id(prefix: Prefix, text: str) -> str:
    """Return an id that depends only on a text and sorts before every new id."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"{prefix}_{_base32(int.from_bytes(digest[:10]), 13)}"


def first_id(prefix: Prefix, millis: int) -> str:
    """Return a lower bound of the ids that were created at a time (Unix ms) or later."""
    return f"{prefix}_{_base32(max(0, millis) << 80, 13)}"


def new_session_id() -> str:
    """Return a new checkout session id: 160 random bits, which cannot be guessed."""
    return f"cs_{_random_digits(32)}"


def new_slug() -> str:
    """Return the last segment of a public address: 160 random bits, which cannot be guessed."""
    return _random_digits(32)


def number_of(identifier: str) -> int:
    """Return an integer below 2**53 for an id, for clients that accept only numbers.

    It consists of the milliseconds since 2024 and twelve of the random bits, and sorts by time.
    """
    number = _number(identifier)
    return ((number >> 80) - _NUMBERS_FROM_MS) << _RANDOM_BITS | number & (1 << _RANDOM_BITS) - 1


def creation_time(identifier: str) -> int:
    """Return when an id was created, in Unix ms.

    Raises ValueError for text that is no id, and for checkout session ids, which contain no time.
    """
    return _number(identifier) >> 80


def _number(identifier: str) -> int:
    _, _, digits = identifier.partition("_")
    if len(digits) != _DIGITS:
        msg = f"{identifier!r} does not say when it was made"
        raise ValueError(msg)
    number = 0
    for digit in digits:
        number = number << 5 | _ALPHABET.index(digit)
    return number


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; other texts need no query."""
    return _SHAPE.fullmatch(text) is not None
