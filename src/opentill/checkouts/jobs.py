"""What the worker does for checkout sessions: expires those that are due."""

import structlog

from opentill.checkouts import queries, service
from opentill.checkouts.model import LIFETIME_MS, Session
from opentill.core.errors import Invalid
from opentill.db import jobs
from opentill.db.database import Db, Tx

_log = structlog.get_logger()


async def expire_due(db: Db, now: int, batch: int = 200) -> int:
    """Expire the open sessions that are due, in batches, and return how many were handled.

    A session whose payment is on its way waits for the outcome. Each has a transaction of its own,
    so that two workers at once do no harm, and one that fails holds up no other.
    """

    async def one(session: Session) -> None:
        try:
            await db.run(
                lambda tx: service.expire(
                    tx, session.merchant_id, session.id, _cause(session), now
                ),
            )
        except Invalid as refused:  # paid or submitted in between
            _log.info("session not expired", session=session.id, reason=refused.reason)

    ended, after_expires_at, after_id = 0, 0, ""
    while True:
        async with db.connection() as tx:
            due = await queries.DUE.all(
                tx, now=now, limit=batch, after_expires_at=after_expires_at, after_id=after_id
            )
        ended += await jobs.each(due, one, lambda session: session.id)
        if len(due) < batch:
            return ended
        after_expires_at, after_id = due[-1].expires_at, due[-1].id


def _cause(session: Session) -> str:
    lasted = session.expires_at - session.created_at
    return "24 hours are over" if lasted == LIFETIME_MS else "its time is over"


async def due_by(tx: Tx, time: int, most: int) -> tuple[int, list[str]]:
    """Count the sessions that ``expire_due`` would end at a time, and give the first of them."""
    first = await queries.DUE.all(tx, now=time, limit=most, after_expires_at=0, after_id="")
    return await queries.COUNT_DUE.get(tx, now=time) or 0, [session.id for session in first]


async def oldest_expiry(tx: Tx) -> int | None:
    """Return when the first open session expires (Unix ms); None if none is open."""
    return await queries.OLDEST_EXPIRY.get(tx)


async def count_expired(tx: Tx, now: int) -> int:
    """Return how many open sessions are past their end, at most 10,000."""
    return await queries.COUNT_EXPIRED.get(tx, now=now) or 0
