"""What the worker does for payment links: notes which of their sessions were paid or ended."""

from opentill.db.database import Db
from opentill.payment_links import queries


async def note_ended(db: Db, batch: int = 1000) -> int:
    """Note what has become of sessions of links, in batches, and return of how many.

    Figures and limits are exact without it: it keeps what they are read from short.
    """
    done = 0
    while True:
        noted = await db.run(lambda tx: queries.NOTE_ENDED.run(tx, limit=batch))
        done += noted
        if noted < batch:
            return done
