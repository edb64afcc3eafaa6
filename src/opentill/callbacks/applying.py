"""Applies a gateway event in a transaction of its own."""

from opentill import disputes, orders, refunds
from opentill.context import App
from opentill.db.database import Tx, limit_lock_waits
from opentill.gateways.model import (
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    GatewayRefundsEvent,
)


async def apply_event(
    app: App, gateway: str, gateway_event: GatewayEvent, now: int, *, patience: str | None = None
) -> None:
    """Apply a gateway event to its order, refund or dispute.

    ``gateway`` signed the event. ``patience`` is the longest wait for a locked row in PostgreSQL's
    form (``2s``), None for no limit. Raises Contended after that time, NotFound if the event's
    subject does not exist, and OfAnotherGateway.
    """

    async def work(tx: Tx) -> None:
        if patience is not None:
            await limit_lock_waits(tx, patience)
        attempt_id = gateway_event.attempt_id
        merchant_id = await orders.merchant_of(tx, attempt_id)
        match gateway_event:
            case GatewayPaymentEvent():
                await orders.apply_outcome(
                    tx, merchant_id, attempt_id, gateway_event.outcome, now, gateway=gateway
                )
            case GatewayRefundEvent(refund_id=refund_id) if refund_id == attempt_id:
                attempt = await orders.find_reported_attempt(tx, gateway, merchant_id, attempt_id)
                await orders.apply_duplicate_return(tx, attempt, gateway_event.outcome, now)
            case GatewayRefundEvent():
                await refunds.apply_report(tx, merchant_id, gateway_event, now, gateway=gateway)
            case GatewayRefundsEvent():
                # ``resolve_events`` has replaced this event by the refunds that it stands for.
                raise AssertionError
            case GatewayDisputeEvent():
                await disputes.apply_outcome(tx, merchant_id, gateway_event, now, gateway=gateway)

    await app.db.run(work)
