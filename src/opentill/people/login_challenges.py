"""Challenges for logging in with only a passkey: signed, and stored only once they are used.

Anybody may request one. Issuing a challenge writes nothing, so it needs no rate limit, which others
at the same address could exhaust. A challenge is 16 random bytes, its expiry and a signature.
"""

import hashlib
import hmac
import secrets
from typing import Final

from opentill.people.lifetimes import CHALLENGE_MS

_RANDOM_BYTES: Final = 16
_TIME_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 32


def create(secret_key: str, now: int) -> bytes:
    """Return a new challenge, valid for five minutes."""
    stem = secrets.token_bytes(_RANDOM_BYTES) + (now + CHALLENGE_MS).to_bytes(_TIME_BYTES)
    return stem + _sign(secret_key, stem)


def expires_at(secret_key: str, challenge: bytes, now: int) -> int | None:
    """Return when a challenge expires (Unix ms), None if it is forged or has expired."""
    stem, signature = challenge[:-_SIGNATURE_BYTES], challenge[-_SIGNATURE_BYTES:]
    if len(stem) != _RANDOM_BYTES + _TIME_BYTES or not hmac.compare_digest(
        signature, _sign(secret_key, stem)
    ):
        return None
    end = int.from_bytes(stem[_RANDOM_BYTES:])
    return end if now < end else None


def used_digest(challenge: bytes) -> bytes:
    """Return the digest by which a used challenge is stored."""
    return hashlib.sha256(b"used " + challenge).digest()


def _sign(secret_key: str, stem: bytes) -> bytes:
    return hmac.digest(secret_key.encode(), b"opentill passkey challenge 1\0" + stem, "sha256")
