"""Event payloads about refunds (contract.md#event-types)."""

from typing import Any

import msgspec

from opentill import orders
from opentill.core import money
from opentill.orders import Order
from opentill.refunds.model import EMITS, Refund
from opentill.webhooks import Event, payloads


def event_of(order: Order, refund: Refund, at: int) -> Event:
    """Return the event of a refund that has ended; ``order`` is as it was before."""
    return Event(refund.merchant_id, EMITS[refund.status], _data(order, refund), at)


def _data(order: Order, refund: Refund) -> msgspec.Struct:
    base: dict[str, Any] = {
        "order_id": order.id,
        "product_id": order.product_id,
        "refund_id": refund.id,
        "amount": money.show(refund.amount_minor, refund.currency),
        "currency": refund.currency,
        "reason": refund.reason,
        "livemode": orders.livemode_of(order),
        "metadata": orders.metadata(order),
    }
    if refund.status != "SUCCEEDED":
        return payloads.RefundFailed(**base, error_message=refund.error_message or "")
    refunded = order.refunded_minor + refund.amount_minor
    return payloads.OrderRefunded(
        **base,
        refund_status="FULL" if refunded == order.amount_minor else "PARTIAL",
        refunded_amount=money.show(refunded, refund.currency),
        original_amount=money.show(order.amount_minor, refund.currency),
    )
