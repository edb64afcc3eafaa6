"""Event payloads about disputes (contract.md#event-types)."""

from opentill import orders
from opentill.core import money
from opentill.disputes.model import Dispute, Transition
from opentill.orders import Order
from opentill.webhooks import Event, payloads


def event_of(order: Order, dispute: Dispute, transition: Transition, at: int) -> Event:
    """Return the event of a transition that a dispute has taken.

    A dispute is closed by WON and by LOST, and once more where the loss is RECOVERED.
    """
    data = payloads.Dispute(
        dispute_id=dispute.id,
        order_id=order.id,
        status=dispute.status,
        amount=money.show(dispute.amount_minor, dispute.currency),
        currency=dispute.currency,
        debit=money.show(dispute.debit_minor, dispute.debit_currency),
        fee=money.show(dispute.fee_minor, dispute.debit_currency),
        debit_currency=dispute.debit_currency,
        reason=dispute.reason,
        opened_at=dispute.created_at,
        closed_at=dispute.closed_at,
        livemode=orders.livemode_of(order),
        metadata=orders.metadata(order),
    )
    return Event(dispute.merchant_id, transition.emits, data, at)
