"""What merchants are told about orders and sessions (product decisions §8)."""

from typing import Any

import msgspec

from opentill.core import money
from opentill.orders.model import Order
from opentill.webhooks import Event, Type


def metadata(order: Order) -> msgspec.Raw:
    """Return an order's metadata as the merchant sent it: the object itself."""
    return msgspec.Raw(order.metadata.encode())


def livemode_field(order: Order) -> dict[str, bool]:
    """Return whether a paid order's money is real; nothing where no gateway has said it."""
    return {} if order.livemode is None else {"livemode": order.livemode}


def told(order: Order, type_: Type, reason: str, at: int) -> Event:
    """Return the event of a step that an order has taken; ``reason`` is why it was closed."""
    return Event(order.merchant_id, type_, _data(order, type_, reason, at), at)


def _data(order: Order, type_: Type, reason: str, at: int) -> dict[str, Any]:
    base = {"order_id": order.id, "product_id": order.product_id}
    amount = {"amount": money.show(order.amount_minor, order.currency), "currency": order.currency}
    net = money.show(order.amount_minor - order.platform_fee_minor, order.currency)
    session = {"checkout_session_id": order.checkout_id, **base, **amount}
    raw = {**livemode_field(order), "metadata": metadata(order)}
    match type_:
        case "order.paid":
            told = {"net_amount": net, "paid_at": order.paid_at}
            return base | {"customer_email": order.customer_email} | amount | told | raw
        case "order.closed":
            why = {"status": order.status, "reason": reason, "closed_at": at}
            return base | amount | why | raw
        case "order.settled":
            settled = {
                "net_amount": net,
                "settled_amount": money.show(order.net_settled_minor, order.settled_currency),
                "settled_currency": order.settled_currency,
                "settled_at": at,
            }
            return base | amount | settled | raw
        case "checkout.completed":
            return session | {"completed_at": at} | raw
        case "checkout.expired":
            return session | {"expired_at": at} | raw
        case _:
            msg = f"{type_} is told by another feature"
            raise ValueError(msg)
