"""How often a gateway is asked about one attempt, whoever wants to know (decision 0032)."""

from typing import Final

from opentill.core.db import Command, Db
from opentill.orders.model import Attempt

EVERY_MS: Final = 2_000

# Take the right to ask an attempt's gateway about it: $3 now, $4 for how long nobody else gets it.
# A time further ahead than that is from before the clock was set back.
ASKING: Final = Command(
    """
    update attempts set asked_at = $3::bigint
    where merchant_id = $1 and id = $2
        and (asked_at is null or abs($3::bigint - asked_at) >= $4::bigint)
    """,
)


async def may_ask(db: Db, attempt: Attempt, now: int) -> bool:
    """Take the right to ask about an attempt now; nobody else has it for the next two seconds."""
    async with db.connection() as tx:
        return bool(await ASKING.run(tx, attempt.merchant_id, attempt.id, now, EVERY_MS))
