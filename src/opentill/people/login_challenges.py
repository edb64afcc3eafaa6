"""Challenges for logging in with a passkey alone: signed by us, and stored only once they are used.

Anybody may ask for one. Since asking writes nothing, it needs no limit that somebody at the same
address could use up. A challenge is 16 random bytes, the time until which it counts, and a
signature of both.
"""

import hashlib
import hmac
import secrets
from typing import Final

from opentill.people.model import MINUTE_MS

LASTS_MS: Final = 5 * MINUTE_MS
_RANDOM: Final = 16
_TIME: Final = 8
_SIGNATURE: Final = 32


def create(secret_key: str, now: int) -> bytes:
    """Return a new challenge, which counts for five minutes."""
    stem = secrets.token_bytes(_RANDOM) + (now + LASTS_MS).to_bytes(_TIME)
    return stem + _sign(secret_key, stem)


def expires_at(secret_key: str, challenge: bytes, now: int) -> int | None:
    """Return until when a challenge counts; None if it is not ours or is over."""
    stem, signature = challenge[:-_SIGNATURE], challenge[-_SIGNATURE:]
    if len(stem) != _RANDOM + _TIME or not hmac.compare_digest(signature, _sign(secret_key, stem)):
        return None
    end = int.from_bytes(stem[_RANDOM:])
    return end if now < end else None


def use_of(challenge: bytes) -> bytes:
    """Return what is stored of a challenge that was used."""
    return hashlib.sha256(b"used " + challenge).digest()


def _sign(secret_key: str, stem: bytes) -> bytes:
    return hmac.digest(secret_key.encode(), b"opentill passkey challenge 1\0" + stem, "sha256")
