"""Events, endpoints, deliveries, their attempts, and leases."""

from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from opentill.outgoing.faults import Fault
from opentill.webhooks.event_types import SentType, Type

Status = Literal["ENABLED", "DISABLED", "DELETED"]
DeliveryStatus = Literal["PENDING", "SUCCEEDED", "FAILED"]
# What people see of a delivery: RETRYING is pending after a failed attempt.
DeliveryState = Literal["PENDING", "RETRYING", "SUCCEEDED", "FAILED"]
Outcome = Literal["delivered", "refused", "no_answer", "unreachable", "forbidden"]
Key = tuple[str, str]  # (merchant_id, endpoint_id)
# The newest attempts of a delivery are kept, up to this number. Its schedule has ten.
KEPT_ATTEMPTS: Final = 20
DELIVERY_STATUSES: Final[tuple[DeliveryStatus, ...]] = get_args(DeliveryStatus)
DELIVERY_STATES: Final[tuple[DeliveryState, ...]] = get_args(DeliveryState)


class Event(msgspec.Struct, frozen=True):
    """Something that merchants are notified of; ``data`` is the payload of its type."""

    merchant_id: str
    type: Type
    data: msgspec.Struct | dict[str, Any]
    at: int  # Unix ms


class EventBody(msgspec.Struct, frozen=True):
    """The body of every delivery of an event."""

    id: Annotated[str, Meta(description="The event's id: the same each time it is delivered.")]
    type: Annotated[Type, Meta(description="The type of event.")]
    created_at: Annotated[int, Meta(description="When it happened, Unix ms.")]
    data: Annotated[
        dict[str, Any], Meta(description="What happened: the fields depend on the type.")
    ]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An address that events are delivered to; its secrets are encrypted."""

    merchant_id: str
    id: str
    url: str
    description: str
    types: list[Type]  # the types to which it subscribes; empty: all types
    status: Status
    disabled_reason: str
    secret: bytes
    # Earlier secrets that are still used to sign (``endpoint_secrets.encrypt_old``); None: none.
    old_secret: bytes | None
    old_secret_until: int | None  # until when the last of them signs; business time, Unix ms
    created_at: int
    updated_at: int


class EndpointActivity(msgspec.Struct, frozen=True):
    """Summary of an endpoint's newest deliveries: count, failures, and the last one.

    The last one may be a test event; ``last_at`` is the time of its newest attempt, or of its
    creation. ``is_failing``: whether the last result of an event is a failure, final or until its
    next attempt, after which nothing was delivered; if no event was attempted, whether the endpoint
    has failed since its last success. ``failed_event`` is the event that failed last.
    """

    endpoint_id: str
    deliveries: int
    failed: int
    last_at: int
    last_state: DeliveryState
    last_type: SentType
    failed_event: str | None
    is_failing: bool


def _state(status: DeliveryStatus, attempts: int) -> DeliveryState:
    return "RETRYING" if status == "PENDING" and attempts else status


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of one event to one endpoint."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    type: SentType
    status: DeliveryStatus
    attempts: int
    step: int  # how many attempts were made since a resend last restarted its schedule
    try_at: int | None
    created_at: int
    updated_at: int
    # After how many failures it was last sent before its time, since its endpoint worked again.
    sent_early_failures: int | None = None

    @property
    def state(self) -> DeliveryState:
        """The status, or RETRYING if an attempt has failed and the next one is awaited."""
        return _state(self.status, self.attempts)


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a delivery, without the event's body, and the start of its response."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    number: int
    at: int  # Unix ms, business time
    duration_ms: int
    outcome: Outcome
    http_status: int | None
    request: str
    response: str  # status, headers and beginning of the body; "" if there was no response
    error: str
    # Why the endpoint did not take the event; of a delivered one, what is odd about the response.
    fault: Fault | None = None

    @property
    def key(self) -> Key:
        """The endpoint that the attempt was sent to."""
        return self.merchant_id, self.endpoint_id


class LeaseRow(msgspec.Struct, frozen=True):
    """The lease of an endpoint, which gives one worker the right to send until it expires."""

    merchant_id: str
    endpoint_id: str
    failing_since: int | None

    @property
    def key(self) -> Key:
        """The endpoint of the lease."""
        return self.merchant_id, self.endpoint_id


class TakenLease(LeaseRow, frozen=True):
    """A lease that this worker has just taken, with the host of its endpoint."""

    host: str


class HostRow(msgspec.Struct, frozen=True):
    """The lease of a host, which gives one worker the right to send until it expires."""

    host: str


class DueDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A due delivery with everything needed to send it."""

    merchant_id: str
    endpoint_id: str
    event_id: str
    attempts: int
    step: int
    created_at: int
    body: str | None  # the event's body; None for a test, whose body is made from the delivery
    url: str
    secret: bytes
    old_secret: bytes | None
    old_secret_until: int | None
    failing_since: int | None

    @property
    def key(self) -> Key:
        """The endpoint of the delivery."""
        return self.merchant_id, self.endpoint_id


class NumberedEvent(msgspec.Struct, frozen=True):
    """An event with its number in the merchant's sequence; ``body`` is the JSON delivered."""

    id: str
    number: int
    body: str


class StoredEvent(msgspec.Struct, frozen=True):
    """A stored event; ``body`` is the JSON delivered."""

    id: str
    type: Type
    body: str
    created_at: int


class OrderEvent(msgspec.Struct, frozen=True):
    """An event about an order; ``created_at`` is business time."""

    id: str
    type: Type
    created_at: int


class EventDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its endpoint's URL and its last attempt (None before the first one)."""

    event_id: str
    endpoint_id: str
    url: str
    status: DeliveryStatus
    attempts: int
    try_at: int | None
    at: int | None
    outcome: Outcome | None
    http_status: int | None
    error: str | None
    fault: Fault | None = None

    @property
    def state(self) -> DeliveryState:
        """The status, or RETRYING if an attempt has failed and the next one is awaited."""
        return _state(self.status, self.attempts)


class ResendResult(msgspec.Struct, frozen=True):
    """The number of events that were made due again, and the id of the last one."""

    count: int
    last: str | None
