"""The worker's job for disputes: retry unmatched events."""

from opentill.core.money import Money
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.disputes import queries, service
from opentill.disputes.model import Unmatched
from opentill.gateways.model import GatewayDisputeEvent


async def match(db: Db, now: int, batch: int = 50) -> int:
    """Retry a batch of unmatched events and return their number.

    A second dispute of an order, for example, can be applied once the first one is won.
    """
    async with db.connection() as tx:
        due = await queries.CLAIM_UNMATCHED.all(tx, now=now, limit=batch)

    async def apply(unmatched: Unmatched) -> None:
        gateway_event = GatewayDisputeEvent(
            attempt_id=unmatched.attempt_id,
            dispute_ref=unmatched.gateway_ref,
            status=unmatched.status,
            amount=Money(unmatched.amount_minor, unmatched.currency),
            reason=unmatched.reason,
            respond_by=unmatched.respond_by,
        )
        await db.run(
            lambda tx: service.apply_outcome(
                tx, unmatched.merchant_id, gateway_event, now, gateway=unmatched.gateway
            )
        )

    await jobs.each(due, apply, lambda unmatched: unmatched.gateway_ref)
    return len(due)


async def make_due(tx: Tx, now: int) -> None:
    """Make all future tries of unmatched events due now, after the clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)
