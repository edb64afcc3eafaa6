"""A signature of V2 that was used on one path changes nothing on another.

A signature covers the fields of a request but not its path, so ``pay/query`` of an order would also
be its ``pay/close``. Each signature is remembered for longer than its timestamp can be valid. On
the same path it may be used again: each path is idempotent.
"""

import hashlib
from typing import Final

from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.epay import queries
from opentill.epay.model import WRONG_KEY, Refused

# A timestamp may differ from our clock by this, in both directions.
MAX_SKEW_S: Final = 300
# Longer than any timestamp is valid, also for a server whose clock differs a little.
REMEMBERED_MS: Final = (2 * MAX_SKEW_S + 60) * 1000


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
        now=now_ms(),
    )
    if changes and first_path != path:
        raise Refused(WRONG_KEY, "该签名已用于其他接口，请用新的时间戳重新签名")
