"""What an event, an endpoint and a delivery are, and when a delivery is tried again."""

from typing import Any, Final, Literal, get_args

import msgspec

# contract.md#event-types
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
DELIVERY_STATUSES: Final[tuple[DeliveryStatus, ...]] = get_args(DeliveryStatus)


class Event(msgspec.Struct, frozen=True):
    """Something that a merchant is told; ``data`` is what ``payloads`` has for the type."""

    merchant_id: str
    type: Type
    data: msgspec.Struct | dict[str, Any]
    at: int  # Unix ms


class EventBody(msgspec.Struct, frozen=True):
    """The body of every delivery of an event."""

    id: str
    type: Type
    created_at: int
    data: dict[str, Any]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a merchant wants events; the secrets are sealed."""

    merchant_id: str
    id: str
    url: str
    description: str
    types: list[Type]  # empty: all
    status: Status
    disabled_reason: str
    secret: bytes
    old_secret: bytes | None  # those before it that sign along, see sending.OldSecret
    old_secret_until: int | None  # the last of them; Unix ms, business time
    created_at: int
    updated_at: int


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one endpoint; ``step`` attempts of its schedule are over."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    type: Type
    status: DeliveryStatus
    attempts: int
    step: int
    try_at: int | None
    created_at: int
    updated_at: int


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a delivery: the request but for the event's body, and the head of the answer."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    number: int
    at: int  # Unix ms, business time
    duration_ms: int
    outcome: Outcome
    http_status: int | None
    request: str
    answer: str
    error: str


class LeaseRow(msgspec.Struct, frozen=True):
    """An endpoint that one worker sends to for as long as its lease lasts."""

    merchant_id: str
    endpoint_id: str
    failing_since: int | None


class Taken(LeaseRow, frozen=True):
    """A lease that was taken, with the host that its endpoint is at."""

    host: str


class Host(msgspec.Struct, frozen=True):
    """A host that one worker sends to for as long as its lease lasts."""

    host: str


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is due, with what is needed to send it."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    attempts: int
    step: int
    body: str
    url: str
    secret: bytes
    old_secret: bytes | None
    old_secret_until: int | None
    failing_since: int | None


class NumberedEvent(msgspec.Struct, frozen=True):
    """An event in the merchant's own order; ``body`` as it is delivered."""

    id: str
    number: int
    body: str


class Resent(msgspec.Struct, frozen=True):
    """What sending a range again did: how many, and the last one's event."""

    count: int
    last: str | None
