"""What the worker does for disputes: tries again what their orders could not take."""

from opentill.core.money import Money
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.disputes import queries, service
from opentill.disputes.model import Unmatched
from opentill.gateways.model import DisputeNews


async def match(db: Db, now: int, batch: int = 50) -> int:
    """Hear a batch of unmatched news again and return how many there were.

    Such as a second dispute, once the first one is won.
    """
    async with db.connection() as tx:
        due = await queries.CLAIM_UNMATCHED.all(tx, now=now, limit=batch)

    async def one(kept: Unmatched) -> None:
        news = DisputeNews(
            attempt_id=kept.attempt_id,
            dispute_ref=kept.gateway_ref,
            status=kept.status,
            amount=Money(kept.amount_minor, kept.currency),
            reason=kept.reason,
        )
        await db.run(lambda tx: service.hear(tx, kept.merchant_id, news, now, gateway=kept.gateway))

    await jobs.each(due, one, lambda kept: kept.gateway_ref)
    return len(due)


async def wake(tx: Tx, now: int) -> None:
    """Try at once what waits for later: the clock has gone back."""
    await queries.WAKE.run(tx, now=now)
