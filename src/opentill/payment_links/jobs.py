"""The worker's job for payment links: it records which of their sessions were paid or ended."""

from opentill.db.database import Db
from opentill.payment_links import queries


async def record_ended(db: Db, batch: int = 1000) -> int:
    """Record which sessions of links have ended, in batches, and return how many.

    Sales and limits are exact without these records, which only make reading them faster.
    """
    total = 0
    while True:
        recorded = await db.run(lambda tx: queries.NOTE_ENDED.run(tx, limit=batch))
        total += recorded
        if recorded < batch:
            return total
