"""A signature of V2 that was used on one path changes nothing on another.

A signature covers the fields of a request but not its path, so ``pay/query`` of an order would also
be its ``pay/close``. Each signature is remembered for longer than its timestamp can be valid. On
the same path it may be used again: each path is idempotent.
"""

import hashlib
from typing import Final

from opentill.db.database import Tx
from opentill.epay import queries, timestamps
from opentill.epay.model import WRONG_KEY, Refused

# Longer than any timestamp is valid, also for a server whose clock differs a little.
REMEMBERED_MS: Final = (2 * timestamps.MAX_SKEW_S + 60) * 1000


async def use(tx: Tx, merchant_id: str, signature: bytes, path: str, *, changes: bool) -> None:
    """Record the use of a valid signature.

    Raises Refused if the path ``changes`` something and the signature was used on another path. A
    path that only reads is not refused: reading an order in the second in which it was closed would
    have the same signature.

    ``tx`` must commit the use before anything else happens. Times are real, like timestamps.
    """
    first_path = await queries.USE_SIGNATURE.get(
        tx,
        merchant_id=merchant_id,
        signature=hashlib.sha256(signature).digest(),
        path=path,
        now=timestamps.now_s() * 1000,
    )
    if changes and first_path != path:
        raise Refused(WRONG_KEY, "该签名已用于其他接口，请用新的时间戳重新签名")


async def prune(tx: Tx) -> int:
    """Delete a batch of signatures whose timestamps have expired; return their number."""
    until = timestamps.now_s() * 1000 - REMEMBERED_MS
    return await queries.PRUNE_SIGNATURES.run(tx, until=until)
