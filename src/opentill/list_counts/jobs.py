"""Worker job of list counts: roll changes up into the counts, so that readers sum few of them."""

from typing import Final

from opentill.db.database import Db
from opentill.list_counts import queries, service

MIN_CHANGES: Final = 200  # fewer changes cost readers less than writing counts
_MERCHANTS: Final = 200  # merchants read by one statement


async def roll_up(db: Db, at_least: int = MIN_CHANGES) -> int:
    """Roll up merchants that have ``at_least`` that many changes; return how many were moved."""
    rolled_up = 0
    last = ""
    while True:
        async with db.connection() as tx:
            merchants = await queries.CHANGED.all(tx, after=last, limit=_MERCHANTS, most=at_least)
        for merchant in merchants:
            if merchant.changes >= at_least:
                rolled_up += await service.roll_up(db, merchant.merchant_id)
        if len(merchants) < _MERCHANTS:
            return rolled_up
        last = merchants[-1].merchant_id
