"""Idempotency keys: the first response to a POST is stored and sent again, byte for byte.

The key's row is inserted at the start of the very transaction that has the effect and gets the
response before its commit. So a crash leaves neither key nor effect, and of requests with one key
that run at once, one has the effect while the others wait for its commit and get its response;
one that waits too long gets 409 (draft-ietf-httpapi-idempotency-key-header §2.6).
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
LONGEST_WAIT: Final = "5s"  # for another request with the same key
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}", re.ASCII)


def check_key(key: str) -> None:
    """Refuse a key that is not 1 to 255 printable ASCII characters. Raises Invalid."""
    if _PRINTABLE.fullmatch(key) is None:
        raise Invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 printable characters")


def fingerprint(method: str, path: str, body: bytes) -> bytes:
    """Return what makes two requests the same: SHA-256 of method, path and body."""
    return hashlib.sha256(b"\0".join((method.encode(), path.encode(), body))).digest()


async def claim(tx: Tx, merchant_id: str, key: str, digest: bytes, now: int) -> Stored | None:
    """Take the key for this transaction, or return the response that is stored under it.

    ``digest`` is the request's ``fingerprint``. Raises KeyReused if the response belongs to another
    request, and Conflict if the first request still runs after five seconds.
    """
    await limit_lock_waits(tx, LONGEST_WAIT)
    try:
        mine = await queries.CLAIM.get(
            tx, merchant_id=merchant_id, key=key, fingerprint=digest, now=now
        )
    except asyncpg.LockNotAvailableError:
        raise Conflict from None
    if mine:
        return None
    stored = await queries.STORED.first(tx, merchant_id=merchant_id, key=key)
    if stored is None:  # its owner rolled back, and another took it in between
        raise Conflict
    if stored.fingerprint != digest:
        raise KeyReused
    return stored


async def store(tx: Tx, merchant_id: str, key: str, status: int, body: bytes) -> None:
    """Store the response under the claimed key, in the transaction of its effect."""
    await queries.STORE.run(tx, merchant_id=merchant_id, key=key, status=status, body=body)


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of keys that are older than seven days and return how many."""
    return await queries.PRUNE.run(tx, before=now - KEEP_MS)
