"""How often a gateway is asked about one attempt, whoever wants to know (decision 0032)."""

from typing import Final

from opentill.db.database import Db
from opentill.db.query import Command
from opentill.orders.model import PaymentAttempt

EVERY_MS: Final = 2_000

# Take the right to ask an attempt's gateway about it, which nobody else gets for so long. A time
# further ahead than that is from before the clock was set back.
ASKING: Final = Command(
    """
    update payment_attempts set asked_at = :now::bigint
    where merchant_id = :merchant_id and id = :id
        and (asked_at is null or abs(:now::bigint - asked_at) >= :every_ms::bigint)
    """,
)
# Have the worker ask as soon as that may be after the last time: something may have happened
# since. Not about what nobody is to ask about any more. (Found by its id: the coalesce keeps
# PostgreSQL from the index of all that is due.)
SOON: Final = Command(
    """
    update payment_attempts set check_at = asked_at + :every_ms::bigint
    where merchant_id = :merchant_id and id = :id
        and coalesce(check_at, 0) - asked_at > :every_ms::bigint
    """,
)


async def may_ask(db: Db, attempt: PaymentAttempt, now: int) -> bool:
    """Take the right to ask about an attempt now; nobody else has it for the next two seconds.

    Where somebody else has it, the worker asks when those are over.
    """
    async with db.connection() as tx:
        if await ASKING.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, now=now, every_ms=EVERY_MS
        ):
            return True
        await SOON.run(tx, merchant_id=attempt.merchant_id, id=attempt.id, every_ms=EVERY_MS)
    return False
