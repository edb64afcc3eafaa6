"""What the worker does for disputes: applies unmatched events again."""

from opentill.core.money import Money
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.disputes import queries, service
from opentill.disputes.model import Unmatched
from opentill.gateways.model import GatewayDisputeEvent


async def match(db: Db, now: int, batch: int = 50) -> int:
    """Apply a batch of unmatched events again and return how many there were.

    A second dispute of an order, for example, can be applied once the first one is won.
    """
    async with db.connection() as tx:
        due = await queries.CLAIM_UNMATCHED.all(tx, now=now, limit=batch)

    async def one(kept: Unmatched) -> None:
        gateway_event = GatewayDisputeEvent(
            attempt_id=kept.attempt_id,
            dispute_ref=kept.gateway_ref,
            status=kept.status,
            amount=Money(kept.amount_minor, kept.currency),
            reason=kept.reason,
            respond_by=kept.respond_by,
        )
        await db.run(
            lambda tx: service.apply_outcome(
                tx, kept.merchant_id, gateway_event, now, gateway=kept.gateway
            )
        )

    await jobs.each(due, one, lambda kept: kept.gateway_ref)
    return len(due)


async def make_due(tx: Tx, now: int) -> None:
    """Make every unmatched event due now that is due later: the clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)
