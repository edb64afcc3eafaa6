"""Worker job of checkout sessions: expiry."""

from typing import Final

import structlog

from opentill.checkouts import queries, service
from opentill.checkouts.model import LIFETIME_MS, Session
from opentill.core.errors import Invalid
from opentill.db import jobs
from opentill.db.database import Db, Tx

# The causes of the end of a session that ended in time, as history has them.
TIME_IS_OVER: Final = ("24 hours are over", "its time is over")
_log = structlog.get_logger()


async def expire_due(db: Db, now: int, batch: int = 200) -> int:
    """Expire the due open sessions in batches; return the number processed.

    A session whose payment is in progress waits for the outcome. Each session has a transaction of
    its own, so that concurrent workers do no harm and a failure affects no other session.
    """

    async def expire_session(session: Session) -> None:
        try:
            await db.run(
                lambda tx: service.expire(
                    tx, session.merchant_id, session.id, _cause(session), now
                ),
            )
        # the session was paid meanwhile, or a payment of it was submitted
        except Invalid as refusal:
            _log.info("session not expired", session=session.id, reason=refusal.reason)

    expired, after_expires_at, after_id = 0, 0, ""
    while True:
        async with db.connection() as tx:
            due = await queries.DUE.all(
                tx, now=now, limit=batch, after_expires_at=after_expires_at, after_id=after_id
            )
        expired += await jobs.each(due, expire_session, lambda session: session.id)
        if len(due) < batch:
            return expired
        after_expires_at, after_id = due[-1].expires_at, due[-1].id


def _cause(session: Session) -> str:
    lifetime_ms = session.expires_at - session.created_at
    all_day, shorter = TIME_IS_OVER
    return all_day if lifetime_ms == LIFETIME_MS else shorter


async def list_due(tx: Tx, time: int, most: int) -> tuple[int, list[str]]:
    """Return how many sessions ``expire_due`` would end at a time, and the first ``most`` ids."""
    first = await queries.DUE.all(tx, now=time, limit=most, after_expires_at=0, after_id="")
    return await queries.COUNT_DUE.get(tx, now=time) or 0, [session.id for session in first]


async def oldest_expiry(tx: Tx) -> int | None:
    """Return the earliest expiry of an open session (Unix ms); None if none is open."""
    return await queries.OLDEST_EXPIRY.get(tx)


async def count_expired(tx: Tx, now: int) -> int:
    """Return the number of open sessions past their expiry, at most 10,000."""
    return await queries.COUNT_EXPIRED.get(tx, now=now) or 0
