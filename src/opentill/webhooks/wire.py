"""Endpoints, deliveries and events on the wire."""

from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.http.paging import Millis
from opentill.webhooks.model import (
    TYPES,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    Endpoint,
    NumberedEvent,
    Outcome,
    Type,
)
from opentill.webhooks.service import EndpointFields

Url = Annotated[
    str,
    Meta(
        max_length=2048,
        description="a public https address of at most 2048 characters, without credentials",
        extra_json_schema={"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://\S+$"},
    ),
]
Description = Annotated[str, Meta(max_length=255, description="text of at most 255 characters")]
Types = Annotated[
    list[Type],
    Meta(max_length=64, description=f"a list of some of {', '.join(TYPES)}; none of them: all"),
]
_Settable = Annotated[
    Literal["ENABLED", "DISABLED"], Meta(description="ENABLED or DISABLED, which sends nothing")
]


class EndpointBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body that makes an endpoint."""

    url: Url
    description: Description = ""
    events: Types = msgspec.field(default_factory=list[Type])

    def wanted(self) -> EndpointFields:
        """Return what is asked for."""
        return EndpointFields(url=self.url, description=self.description, types=self.events)


class EndpointUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes an endpoint: what is absent stays."""

    url: Url | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    events: Types | UnsetType = UNSET
    status: _Settable | UnsetType = UNSET

    def wanted(self) -> EndpointFields:
        """Return what is asked for."""
        return EndpointFields(
            url=self.url, description=self.description, types=self.events, status=self.status
        )


class EndpointOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint."""

    id: str
    url: str
    description: str
    events: list[Type]
    status: Literal["ENABLED", "DISABLED"]
    disabled_reason: str | None
    old_secret_until: int | None
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, endpoint: Endpoint) -> Self:
        """Show an endpoint."""
        return cls(**_shown(endpoint))


class EndpointWithSecret(EndpointOut, frozen=True, kw_only=True, rename="camel"):
    """An endpoint with its new secret, which is shown once."""

    secret: str

    @classmethod
    def of(cls, endpoint: Endpoint, secret: str = "") -> Self:
        """Show an endpoint and its secret."""
        return cls(**_shown(endpoint), secret=secret)


def _shown(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "description": endpoint.description,
        "events": endpoint.types,
        "status": endpoint.status,
        "disabled_reason": endpoint.disabled_reason or None,
        "old_secret_until": endpoint.old_secret_until,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
    }


class AttemptOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt: the request without the event's body, and the head of the response."""

    number: int
    at: int
    duration_ms: int
    outcome: Outcome
    http_status: Annotated[int, Meta(ge=0, le=999)] | None
    request: str
    response: str = msgspec.field(name="answer")  # its head
    error: str

    @classmethod
    def of(cls, attempt: DeliveryAttempt) -> Self:
        """Show an attempt."""
        return msgspec.convert(attempt, cls, from_attributes=True)


class DeliveryOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event for one endpoint, with its attempts, oldest first."""

    event_id: str
    type: Type
    status: DeliveryStatus
    next_attempt_at: int | None
    attempts: list[AttemptOut]
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, delivery: Delivery, attempts: list[DeliveryAttempt]) -> Self:
        """Show a delivery with those of the attempts that are its own."""
        own = [one for one in attempts if one.event_id == delivery.event_id]
        return cls(
            event_id=delivery.event_id,
            type=delivery.type,
            status=delivery.status,
            next_attempt_at=delivery.try_at,
            attempts=[AttemptOut.of(one) for one in own],
            created_at=delivery.created_at,
            updated_at=delivery.updated_at,
        )


class ResendBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to send again: one event, or all of a range."""

    event_id: (
        Annotated[str, Meta(max_length=64, description="the id of one of your events")] | None
    ) = None
    since: Millis | None = None
    until: Millis | None = None
    type: Type | None = None
    failed_only: Annotated[bool, Meta(description="only what has failed")] = False
    after: Annotated[
        str, Meta(max_length=64, description="`next` of the previous response, to go on from there")
    ] = ""


class ResendOut(msgspec.Struct, frozen=True, rename="camel"):
    """How many are sent again, and where the next call goes on; null: there are no more."""

    resent: int
    next: str | None


EventShown = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={
            "type": "object",
            "required": ["id", "type", "created_at", "data"],
            "properties": {
                "id": {"type": "string"},
                "type": {"type": "string"},
                "created_at": {"type": "integer"},
                "data": {"type": "object"},
            },
        }
    ),
]


class EventsOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events as they are delivered, oldest first; ``cursor`` goes on from there."""

    items: list[EventShown]
    cursor: str
    has_more: bool


def raw(event: NumberedEvent) -> msgspec.Raw:
    """Return an event as it is delivered."""
    return msgspec.Raw(event.body.encode())


EVENT_EXAMPLE: Final[dict[str, Any]] = {
    "id": "evt_01m7y0m0jzefzv5n8efcf1hqw9",
    "type": "order.paid",
    "created_at": 1736932500000,
    "data": {
        "order_id": "order_01m7y0m0jzefzv5n8efcf1hqw2",
        "product_id": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
        "customer_email": "ada@example.com",
        "amount": "9.99",
        "currency": "USD",
        "net_amount": "9.59",
        "paid_at": 1736932500000,
        "livemode": True,
        "metadata": {"cart": "17"},
    },
}
