"""Worker job of list counts: roll changes up into the counts, so that readers sum few of them."""

from typing import Final

from opentill.db.database import Db
from opentill.list_counts import queries, service

# A merchant's changes are moved into the counts once there are this many. With fewer changes, it
# costs less if each reader adds them up.
MIN_CHANGES: Final = 200
_MERCHANTS: Final = 200  # one statement returns at most this many merchants


async def roll_up(db: Db, at_least: int = MIN_CHANGES) -> int:
    """Move the changes of merchants with ``at_least`` changes into the counts; return how many."""
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
