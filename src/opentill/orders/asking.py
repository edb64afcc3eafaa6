"""How often a gateway is asked about one payment attempt, over all processes (decision 0032)."""

from typing import Final

from opentill.db.database import Db
from opentill.orders import queries
from opentill.orders.model import PaymentAttempt

EVERY_MS: Final = 2_000


async def may_ask(db: Db, attempt: PaymentAttempt, now: int) -> bool:
    """Return whether to ask an attempt's gateway now; nobody else may for the next two seconds.

    Where somebody has asked within the last two seconds, the worker asks when they are over.
    """
    async with db.connection() as tx:
        if await queries.TAKE_TURN.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, now=now, every_ms=EVERY_MS
        ):
            return True
        await queries.ASK_SOON.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, every_ms=EVERY_MS
        )
    return False
