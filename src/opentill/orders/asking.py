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
# Have the worker ask as soon as that may be, $3 after the last time: something may have happened
# since. Not about what nobody is to ask about any more. (Found by its id: the coalesce keeps
# PostgreSQL from the index of all that is due.)
SOON: Final = Command(
    """
    update attempts set check_at = asked_at + $3::bigint
    where merchant_id = $1 and id = $2 and coalesce(check_at, 0) - asked_at > $3::bigint
    """,
)


async def may_ask(db: Db, attempt: Attempt, now: int) -> bool:
    """Take the right to ask about an attempt now; nobody else has it for the next two seconds.

    Where somebody else has it, the worker asks when those are over.
    """
    ids = (attempt.merchant_id, attempt.id)
    async with db.connection() as tx:
        if await ASKING.run(tx, *ids, now, EVERY_MS):
            return True
        await SOON.run(tx, *ids, EVERY_MS)
    return False
