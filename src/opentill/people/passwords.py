"""Password hashing with Argon2id (RFC 9106), and the check for weak passwords.

A password is normalized before hashing (NFKC, NIST SP 800-63B §5.1.1.2), because keyboards and
systems encode the same characters differently.

A hash uses a core and 19 MiB for about 50 ms. Hashes run in threads, so that the event loop is not
blocked, and only a few at once, so that many logins cannot exhaust the machine (``hash_queue``).
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
# Names and email parts with fewer characters may occur in a password, since many words contain
# them.
_SHORTEST_PERSONAL: Final = 4
# Characters that people use instead of letters, and characters that they put around a word.
_SUBSTITUTES: Final = str.maketrans("@4831!05$7", "aabeliosst")
_PADDING_CHARACTERS: Final = "0123456789!?.,;:-_+*#$%&/=@ \t'\"()"
_MOST_WORDS: Final = 2


class Cost(msgspec.Struct, frozen=True):
    """The cost of a hash: memory in KiB and passes. Each stored hash contains both."""

    memory_kib: int
    passes: int


COST: Final = Cost(19 * 1024, 2)  # as the OWASP Password Storage Cheat Sheet says for Argon2id


def check(field: str, password: str, *personal: str) -> None:
    """Raise Invalid for a password that is too short, too long or easily guessed.

    ``personal`` is the person's email address and name.
    """
    password = password if len(password) > LONGEST else _normalize(password)
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(field, f"{field} must have {SHORTEST} to {LONGEST} characters")
    if is_common(password, *personal):
        reason = f"{field} must not be a common password, nor made of your name or address"
        raise Invalid(field, reason)


def is_common(password: str, *personal: str) -> bool:
    """Whether a password is a common one, or at most two of them in a row.

    Capitals, digits and signs around it are ignored, and substitutes for letters are undone:
    ``P@ssw0rd2024!`` is ``password``.
    """
    parts = (part for text in personal for part in re.split(r"\W+", text.lower()))
    personal_words = {part for part in parts if len(part) >= _SHORTEST_PERSONAL}
    dictionary = _COMMON | personal_words
    longest = max(_LONGEST_COMMON, *map(len, personal_words), 0)
    lowered = password.lower()
    bare = lowered.strip(_PADDING_CHARACTERS)
    for text in (lowered, bare, bare.translate(_SUBSTITUTES), lowered.translate(_SUBSTITUTES)):
        joined = re.sub(r"[\s\-_.]+", "", text)
        if len(set(joined)) <= 2 or _is_made_of(joined, dictionary, longest):  # noqa: PLR2004 - "abababab"
            return True
    return _is_run(lowered)


def _is_made_of(
    text: str, dictionary: frozenset[str], longest: int, words: int = _MOST_WORDS
) -> bool:
    """Whether a text is a word of the dictionary, repeated or followed by another."""
    if text in dictionary:
        return True
    for length in range(1, min(len(text), longest) + 1):
        word, rest = text[:length], text[length:]
        if word not in dictionary:
            continue
        if len(word) > 2 and not rest.replace(word, ""):  # noqa: PLR2004 - a repeated word
            return True
        if words > 1 and _is_made_of(
            rest.strip(_PADDING_CHARACTERS), dictionary, longest, words - 1
        ):
            return True
    return False


def _is_run(text: str) -> bool:
    """Whether the characters are consecutive, such as ``abcdef`` or ``987654``."""
    differences = {ord(b) - ord(a) for a, b in itertools.pairwise(text)}
    return differences in ({1}, {-1}, {0})


def _normalize(password: str) -> str:
    return unicodedata.normalize("NFKC", password)


async def hash_password(password: str, cost: Cost = COST, *, who: str = "") -> str:
    """Hash a password with a new salt, in PHC format.

    ``who`` is the account of the password. Raises TooManyAtOnce.
    """
    kdf = Argon2id(
        salt=os.urandom(_SALT),
        length=_LENGTH,
        iterations=cost.passes,
        lanes=1,
        memory_cost=cost.memory_kib,
    )
    encoded = _normalize(password).encode()
    with QUEUE.reserve("trusted", who) as place:
        async with place.turn():
            return await asyncio.to_thread(kdf.derive_phc_encoded, encoded)


async def matches(password: str, stored: str | None, place: Place | None = None) -> bool:
    """Whether a password matches a stored hash. None (no account) takes the same time.

    A hash may be of the password as typed, stored by a version that did not normalize. ``place`` is
    the caller's reservation in the queue; None reserves a place here, which may raise
    TooManyAtOnce.
    """
    if place is None:
        with QUEUE.reserve("trusted", "") as own_place:
            return await matches(password, stored, own_place)
    normalized = _normalize(password)
    async with place.turn():
        is_match = await asyncio.to_thread(_matches, normalized, stored)
        if not is_match and normalized != password:
            is_match = await asyncio.to_thread(_matches, password, stored)
    return is_match


async def rehash_if_needed(password: str, stored: str, who: str = "") -> str | None:
    """Return a new hash of a matching password that was stored unnormalized, else None.

    If the queue is full, returns None; the next login tries again.
    """
    normalized = _normalize(password)
    if normalized == password:
        return None
    try:
        is_current = await matches(normalized, stored)
        return None if is_current else await hash_password(normalized, who=who)
    except TooManyAtOnce:
        return None


def _matches(password: str, stored: str | None) -> bool:
    # The decoy is computed once, even if the account is known. So the first check of an unknown
    # account takes no longer than other checks.
    decoy = _decoy()
    try:
        Argon2id.verify_phc_encoded(password.encode(), stored or decoy)
    except InvalidKey:
        return False
    return stored is not None


@functools.cache
def _decoy() -> str:
    """Return the hash of a random text, at full cost. Created on first use, since it is slow."""
    kdf = Argon2id(
        salt=bytes(_SALT), length=_LENGTH, iterations=COST.passes, lanes=1,
        memory_cost=COST.memory_kib,
    )  # fmt: skip
    return kdf.derive_phc_encoded(os.urandom(_LENGTH))
