"""What the worker does for checkout sessions: ends those whose time is over."""

import structlog

from opentill.checkouts import queries, service
from opentill.core.db import Db
from opentill.core.errors import Invalid

_log = structlog.get_logger()


async def expire_due(db: Db, now: int, batch: int = 200) -> int:
    """End a batch of open sessions that are over their time and return how many were looked at.

    A session whose payment is on its way waits until that is known. Each is a step of its own, so
    that two workers at once do no harm.
    """
    async with db.connection() as tx:
        due = await queries.DUE.all(tx, now, batch)
    for session in due:
        try:
            await db.run(
                lambda tx, s=session: service.expire(  # type: ignore[misc]
                    tx, s.merchant_id, s.id, "24 hours are over", now
                ),
            )
        except Invalid as refused:  # paid or submitted in between
            _log.info("session not expired", session=session.id, reason=refused.reason)
    return len(due)
