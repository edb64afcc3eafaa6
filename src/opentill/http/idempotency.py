"""Idempotency keys: the first response to a POST is stored and replayed byte for byte.

The key's row is inserted at the start of the transaction that has the effect, and the response is
stored before its commit. A crash therefore leaves neither key nor effect. Of concurrent requests
with the same key one has the effect; the others wait for its commit and get its response, or 409
if they wait too long (draft-ietf-httpapi-idempotency-key-header §2.6).
"""

import hashlib
import re
from typing import Final

import asyncpg

from opentill.core.errors import Conflict, Invalid, KeyReused
from opentill.db.database import Tx, limit_lock_waits
from opentill.http import queries
from opentill.http.queries import Stored

KEEP_MS: Final = 7 * 24 * 3600 * 1000
LONGEST_WAIT: Final = "5s"  # how long a request waits for another one with the same key
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}", re.ASCII)


def check_key(key: str) -> None:
    """Raise Invalid unless a key is 1 to 255 printable ASCII characters."""
    if _PRINTABLE.fullmatch(key) is None:
        raise Invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 printable characters")


def fingerprint(method: str, path: str, body: bytes) -> bytes:
    """Return the SHA-256 of method, path and body, by which a repeated request is recognized."""
    return hashlib.sha256(b"\0".join((method.encode(), path.encode(), body))).digest()


async def claim(tx: Tx, merchant_id: str, key: str, digest: bytes, now: int) -> Stored | None:
    """Claim the key for this transaction, or return the response that is stored under it.

    ``digest`` is the request's ``fingerprint``. Raises KeyReused if the response belongs to a
    different request, and Conflict if the first request is still running after five seconds.
    """
    await limit_lock_waits(tx, LONGEST_WAIT)
    try:
        is_claimed = await queries.CLAIM.get(
            tx, merchant_id=merchant_id, key=key, fingerprint=digest, now=now
        )
    except asyncpg.LockNotAvailableError:
        raise Conflict from None
    if is_claimed:
        return None
    stored = await queries.STORED.first(tx, merchant_id=merchant_id, key=key)
    if stored is None:
        # The request that held the key was rolled back, and a third one has claimed the key since.
        raise Conflict
    if stored.fingerprint != digest:
        raise KeyReused
    return stored


async def store(tx: Tx, merchant_id: str, key: str, status: int, body: bytes) -> None:
    """Store the response under the claimed key, in the transaction that has the effect."""
    await queries.STORE.run(tx, merchant_id=merchant_id, key=key, status=status, body=body)


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of keys older than seven days and return the number."""
    return await queries.PRUNE.run(tx, before=now - KEEP_MS)
