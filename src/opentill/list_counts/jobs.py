"""What the worker does for list counts: adds the changes to them, so that few are left."""

from typing import Final

from opentill.db.database import Db
from opentill.list_counts import queries, service

WORTH_IT: Final = 200  # changes; fewer cost a reader less than writing counts would
_MERCHANTS: Final = 200  # looked at in one statement


async def roll_up(db: Db, at_least: int = WORTH_IT) -> int:
    """Roll up the merchants whose lists changed ``at_least`` so often; return how many changes."""
    done = 0
    last = ""
    while True:
        async with db.connection() as tx:
            seen = await queries.CHANGED.all(tx, after=last, limit=_MERCHANTS, most=at_least)
        for merchant in seen:
            if merchant.changes >= at_least:
                done += await service.roll_up(db, merchant.merchant_id)
        if len(seen) < _MERCHANTS:
            return done
        last = seen[-1].merchant_id
