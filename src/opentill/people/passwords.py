"""Passwords: Argon2id (RFC 9106), and which ones are refused.

A password is normalized before it is hashed (NFKC, NIST SP 800-63B §5.1.1.2): keyboards and
systems write the same characters in different ways.

Hashing takes a core and 19 MiB for some 50 ms. It runs in threads, so that the event loop goes on,
and in only a few at once, so that many logins cannot use up the machine (``hash_queue``).
"""

import asyncio
import functools
import itertools
import os
import re
import unicodedata
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from opentill.core.errors import Invalid, TooManyAtOnce
from opentill.people.hash_queue import QUEUE, Place

SHORTEST: Final = 12
LONGEST: Final = 256
_LENGTH: Final = 32
_SALT: Final = 16
_COMMON: Final = frozenset(
    (Path(__file__).parent / "common_passwords.txt").read_text("utf-8").split()
)
_LONGEST_COMMON: Final = max(map(len, _COMMON))
# What people put in the place of letters, and what they put around a word.
_LETTERS: Final = str.maketrans("@4831!05$7", "aabeliosst")
_AROUND: Final = "0123456789!?.,;:-_+*#$%&/=@ \t'\"()"
_MOST_WORDS: Final = 2


class Cost(msgspec.Struct, frozen=True):
    """What one hash costs: memory in KiB, and passes over it. Both stand in each hash."""

    memory_kib: int
    passes: int


COST: Final = Cost(19 * 1024, 2)  # OWASP Password Storage Cheat Sheet, Argon2id


def check(field: str, password: str, *personal: str) -> None:
    """Refuse a password that is too short, too long or easily guessed. Raises Invalid.

    ``personal`` is what is known of its person: address and name.
    """
    password = password if len(password) > LONGEST else _normalized(password)
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(field, f"{field} must have {SHORTEST} to {LONGEST} characters")
    if is_common(password, *personal):
        reason = f"{field} must not be a common password, nor made of your name or address"
        raise Invalid(field, reason)


def is_common(password: str, *personal: str) -> bool:
    """Return whether a password is one of the common ones, or at most two of them in a row.

    Capitals, digits and signs around it do not make it another one, nor digits in the place of
    letters: ``P@ssw0rd2024!`` is ``password``.
    """
    own = {part for text in personal for part in re.split(r"\W+", text.lower()) if len(part) > 3}  # noqa: PLR2004 - shorter ones stand in any word
    known = _COMMON | own
    longest = max(_LONGEST_COMMON, *map(len, own), 0)
    lowered = password.lower()
    bare = lowered.strip(_AROUND)
    for text in (lowered, bare, bare.translate(_LETTERS), lowered.translate(_LETTERS)):
        joined = re.sub(r"[\s\-_.]+", "", text)
        if len(set(joined)) <= 2 or _made_of(joined, known, longest):  # noqa: PLR2004 - "abababab"
            return True
    return _is_run(lowered)


def _made_of(text: str, known: frozenset[str], longest: int, words: int = _MOST_WORDS) -> bool:
    """Return whether a text is one known word, repeated or followed by another."""
    if text in known:
        return True
    for length in range(1, min(len(text), longest) + 1):
        word, rest = text[:length], text[length:]
        if word not in known:
            continue
        if len(word) > 2 and not rest.replace(word, ""):  # noqa: PLR2004 - a word again and again
            return True
        if words > 1 and _made_of(rest.strip(_AROUND), known, longest, words - 1):
            return True
    return False


def _is_run(text: str) -> bool:
    """Return whether each character follows from the one before: ``abcdef``, ``987654``."""
    differences = {ord(b) - ord(a) for a, b in itertools.pairwise(text)}
    return differences in ({1}, {-1}, {0})


def _normalized(password: str) -> str:
    return unicodedata.normalize("NFKC", password)


async def hashed(password: str, cost: Cost = COST, *, who: str = "") -> str:
    """Return the hash of a password in PHC form, with a salt of its own.

    ``who`` is the account that it will be of. Raises TooManyAtOnce.
    """
    kdf = Argon2id(
        salt=os.urandom(_SALT),
        length=_LENGTH,
        iterations=cost.passes,
        lanes=1,
        memory_cost=cost.memory_kib,
    )
    encoded = _normalized(password).encode()
    with QUEUE.reserve("trusted", who) as place:
        async with place.turn():
            return await asyncio.to_thread(kdf.derive_phc_encoded, encoded)


async def matches(password: str, stored: str | None, place: Place | None = None) -> bool:
    """Return whether a password is the stored one; ``None`` (nobody) takes as long to deny.

    It may have been stored as it was typed, by a version that did not normalize.
    ``place`` is one that the caller has reserved. Raises TooManyAtOnce without one.
    """
    if place is None:
        with QUEUE.reserve("trusted", "") as place_of_its_own:
            return await matches(password, stored, place_of_its_own)
    normalized = _normalized(password)
    async with place.turn():
        right = await asyncio.to_thread(_matches, normalized, stored)
        if not right and normalized != password:
            right = await asyncio.to_thread(_matches, password, stored)
    return right


async def renewed(password: str, stored: str, who: str = "") -> str | None:
    """Return a hash to be stored instead, of a password that matches; None if none is needed.

    Where many passwords are being hashed, that is left to the next login.
    """
    normalized = _normalized(password)
    if normalized == password:
        return None
    try:
        is_current = await matches(normalized, stored)
        return None if is_current else await hashed(normalized, who=who)
    except TooManyAtOnce:
        return None


def _matches(password: str, stored: str | None) -> bool:
    nobody = _nobody()  # also for a known account: the first of either kind takes as long
    try:
        Argon2id.verify_phc_encoded(password.encode(), stored or nobody)
    except InvalidKey:
        return False
    return stored is not None


@functools.cache
def _nobody() -> str:
    """Return the hash of a random text, at full cost: made when needed, since it takes long."""
    kdf = Argon2id(
        salt=bytes(_SALT), length=_LENGTH, iterations=COST.passes, lanes=1,
        memory_cost=COST.memory_kib,
    )  # fmt: skip
    return kdf.derive_phc_encoded(os.urandom(_LENGTH))
