"""What an event, an endpoint and a delivery are, and when a delivery is tried again."""

from typing import Any, Final, Literal, get_args

import msgspec

# Product decisions §8.
Type = Literal[
    "order.paid",
    "order.refunded",
    "order.closed",
    "order.settled",
    "refund.failed",
    "dispute.created",
    "dispute.closed",
    "checkout.completed",
    "checkout.expired",
    "payout.paid",
    "payout.failed",
]
Status = Literal["ENABLED", "DISABLED", "DELETED"]
DeliveryStatus = Literal["PENDING", "SUCCEEDED", "FAILED"]
Outcome = Literal["delivered", "refused", "no_answer", "unreachable", "forbidden"]
TYPES: Final[tuple[Type, ...]] = get_args(Type)


class Event(msgspec.Struct, frozen=True):
    """Something that a merchant is told; ``data`` is in snake_case, amounts as decimal text."""

    merchant_id: str
    type: Type
    data: dict[str, Any]
    at: int  # Unix ms


class EventBody(msgspec.Struct, frozen=True):
    """The body of every delivery of an event."""

    id: str
    type: Type
    created_at: int
    data: dict[str, Any]
