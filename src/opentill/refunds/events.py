"""What merchants are told about refunds (product decisions §8)."""

from typing import Any

from opentill import orders
from opentill.core import money
from opentill.orders import Order
from opentill.refunds.model import EMITS, Refund
from opentill.webhooks import Event


def told(order: Order, refund: Refund, at: int) -> Event:
    """Return the event of a refund that has ended; ``order`` is as it was before."""
    currency = refund.currency
    data: dict[str, Any] = {"order_id": order.id, "refund_id": refund.id}
    if refund.status == "SUCCEEDED":
        refunded = order.refunded_minor + refund.amount_minor
        data |= {
            "refund_status": "FULL" if refunded == order.amount_minor else "PARTIAL",
            "amount": money.show(refund.amount_minor, currency),
            "refunded_amount": money.show(refunded, currency),
            "original_amount": money.show(order.amount_minor, currency),
            "currency": currency,
            "reason": refund.reason,
        }
    else:
        data |= {
            "amount": money.show(refund.amount_minor, currency),
            "currency": currency,
            "reason": refund.reason,
            "error_message": refund.error_message or "",
        }
    rest = {**orders.livemode_field(order), "metadata": orders.metadata(order)}
    return Event(refund.merchant_id, EMITS[refund.status], data | rest, at)
