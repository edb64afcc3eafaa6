"""Event payloads about orders and sessions (contract.md#event-types)."""

from typing import Any, cast

import msgspec

from opentill.core import money
from opentill.orders.model import Order
from opentill.webhooks import Event, Type, payloads
from opentill.webhooks.payloads import ClosedStatus


def metadata(order: Order) -> msgspec.Raw:
    """Return an order's metadata as the merchant sent it: the object itself."""
    return msgspec.Raw(order.metadata.encode())


def livemode_of(order: Order) -> bool | msgspec.UnsetType:
    """Return whether a paid order's money is real; nothing where it was not noted."""
    return msgspec.UNSET if order.livemode is None else order.livemode


def event_of(order: Order, type_: Type, reason: str, at: int) -> Event:
    """Return the event of a transition that an order has taken; ``reason`` is why it was closed."""
    return Event(order.merchant_id, type_, _data(order, type_, reason, at), at)


def _data(order: Order, type_: Type, reason: str, at: int) -> msgspec.Struct:
    base: dict[str, Any] = {
        "order_id": order.id,
        "product_id": order.product_id,
        "amount": money.show(order.amount_minor, order.currency),
        "currency": order.currency,
        "livemode": livemode_of(order),
        "metadata": metadata(order),
    }
    net = money.show(order.amount_minor - order.platform_fee_minor, order.currency)
    session = order.checkout_id
    match type_:
        case "order.paid":
            paid_at = at if order.paid_at is None else order.paid_at
            email = order.customer_email
            return payloads.OrderPaid(**base, customer_email=email, net_amount=net, paid_at=paid_at)
        case "order.closed":
            status = cast("ClosedStatus", order.status)  # by the transitions that emit it
            return payloads.OrderClosed(**base, status=status, reason=reason, closed_at=at)
        case "order.settled":
            settled = money.show(order.net_settled_minor, order.settled_currency)
            return payloads.OrderSettled(
                **base,
                net_amount=net,
                settled_amount=settled,
                settled_currency=order.settled_currency,
                settled_at=at,
            )
        case "checkout.completed":
            return payloads.CheckoutCompleted(**base, checkout_session_id=session, completed_at=at)
        case "checkout.expired":
            return payloads.CheckoutExpired(**base, checkout_session_id=session, expired_at=at)
        case _:
            msg = f"{type_} is another feature's event"
            raise ValueError(msg)
