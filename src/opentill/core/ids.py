"""Identifiers: ``prefix_`` and lower-case base32 letters and digits.

All but checkout session ids are UUID version 7 (RFC 9562 §5.7) written in Crockford's base32
alphabet, so that they sort by time. Session ids stand in public addresses and are 160 random bits.
"""

import hashlib
import os
import re
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
]

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_DIGITS: Final = 26  # of 128 bits
_NUMBERS_FROM_MS: Final = 1_704_067_200_000  # 2024-01-01 UTC, so that they fit until 2093
_RANDOM_BITS: Final = 12
_SHAPE: Final = re.compile(r"[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


# The digit of a byte's lowest five bits: random bytes become random digits at once.
_DIGIT_OF: Final = bytes(_ALPHABET.encode()[byte & 31] for byte in range(256))
LAST: Final = "zzzzzz"  # sorts after every id, by any collation that sorts letters as people do
_AT_ONCE: Final = 256  # a call of the operating system for each id cost more than all the rest
_TAIL: Final = 12  # digits
_tails: Final[list[tuple[int, str]]] = []  # random: two bits and digits; each is used once
os.register_at_fork(after_in_child=_tails.clear)
_of_millis = (0, "0" * 10)  # the digits of the millisecond of the last id


def _base32(number: int, pairs: int) -> str:
    # A list, since a generator costs half as much again.
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(10 * (pairs - 1), -1, -10)])


def _random_digits(number: int) -> str:
    """Return so many random digits, of five bits each."""
    return os.urandom(number).translate(_DIGIT_OF).decode()


def _tail() -> tuple[int, str]:
    """Return two random bits and twelve random digits, which nobody was given before."""
    try:
        return _tails.pop()
    except IndexError:
        digits = _random_digits(_AT_ONCE * _TAIL)
        cut = [digits[at : at + _TAIL] for at in range(0, len(digits), _TAIL)]
        bits = [byte & 3 for byte in os.urandom(_AT_ONCE)]
        _tails.extend(zip(bits[1:], cut[1:], strict=True))
        return bits[0], cut[0]


def new_id(prefix: Prefix) -> str:
    """Make an id that sorts by the time it was made, also within a millisecond.

    48 bits of milliseconds, 12 of their fraction (RFC 9562 §6.2, method 3), 62 random bits.
    """
    global _of_millis  # noqa: PLW0603 - one assignment, so that threads see the old or the new
    millis, nanos = divmod(time.time_ns(), 1_000_000)
    known, digits = _of_millis
    if known != millis:
        digits = _base32(millis, 5)
        _of_millis = (millis, digits)
    fraction = (nanos << 12) // 1_000_000
    bits, tail = _tail()
    # The version, 7, and the variant, 2, stand before and after the fraction.
    return (
        f"{prefix}_{digits}{_PAIRS[7 << 6 | fraction >> 6]}"
        f"{_PAIRS[(fraction & 63) << 4 | 2 << 2 | bits]}{tail}"
    )


def derived_id(prefix: Prefix, text: str) -> str:
    """Return an id that is always the same for a text, and sorts before every new one."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"{prefix}_{_base32(int.from_bytes(digest[:10]), 13)}"


def first_id(prefix: Prefix, millis: int) -> str:
    """Return what sorts before every id made at a time (Unix ms) or later."""
    return f"{prefix}_{_base32(max(0, millis) << 80, 13)}"


def new_session_id() -> str:
    """Make a checkout session id: 160 random bits, so that it cannot be guessed."""
    return f"cs_{_random_digits(32)}"


def new_slug() -> str:
    """Make the last part of a public address: 160 random bits, so that it cannot be guessed."""
    return _random_digits(32)


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
