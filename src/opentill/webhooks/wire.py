"""Request and response bodies of the API for endpoints, deliveries and events."""

from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.http import inputs
from opentill.http.fields import CreatedAt, UpdatedAt, meaning
from opentill.http.paging import Millis
from opentill.outgoing.faults import Fault
from opentill.webhooks.event_types import TYPES, SentType, Type
from opentill.webhooks.model import (
    KEPT_ATTEMPTS,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    Endpoint,
    NumberedEvent,
    Outcome,
)
from opentill.webhooks.service import EndpointFields

Url = Annotated[
    str,
    Meta(
        max_length=2048,
        description="a public https address of at most 2048 characters, without credentials",
        extra_json_schema={"pattern": inputs.URL_PATTERN},
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

    url: Annotated[
        Url,
        meaning(
            "Where to send events: a public https address of at most 2048 "
            "characters, without user name and password."
        ),
    ]
    description: Annotated[
        Description, meaning("Your own words about it: at most 255 characters.")
    ] = ""
    events: Annotated[
        Types, meaning("The types of events to send. All of them where none is named.")
    ] = msgspec.field(default_factory=list[Type])

    def endpoint_fields(self) -> EndpointFields:
        """Return the fields to set."""
        return EndpointFields(url=self.url, description=self.description, types=self.events)


class EndpointUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes an endpoint: what is absent stays."""

    url: Url | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    events: Types | UnsetType = UNSET
    status: _Settable | UnsetType = UNSET

    def endpoint_fields(self) -> EndpointFields:
        """Return the fields to change."""
        return EndpointFields(
            url=self.url, description=self.description, types=self.events, status=self.status
        )


class EndpointOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook endpoint, to which events are sent."""

    id: Annotated[str, Meta(description="The endpoint's id.")]
    url: Annotated[str, Meta(description="The address that events are sent to.")]
    description: Annotated[
        str, Meta(description="Your own words about it. Empty if there are none.")
    ]
    events: Annotated[
        list[Type],
        Meta(description="The types of events that it is sent. All of them where none is named."),
    ]
    status: Annotated[
        Literal["ENABLED", "DISABLED"],
        Meta(description="`ENABLED`: events are sent to it. `DISABLED`: none are."),
    ]
    disabled_reason: Annotated[
        str | None, Meta(description="Why it was disabled. Null while it is enabled.")
    ]
    old_secret_until: Annotated[
        int | None,
        Meta(
            description="Until when deliveries are signed with the secret before the last "
            "rotation too, Unix ms. Null if there was no rotation."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint) -> Self:
        """Build the response from an endpoint."""
        return cls(**_endpoint_fields(endpoint))


class EndpointWithSecret(EndpointOut, frozen=True, kw_only=True, rename="camel"):
    """An endpoint with its new secret, which is shown once."""

    secret: Annotated[
        str,
        Meta(
            description="What deliveries are signed with. No other operation shows it: keep "
            "it where your server finds it."
        ),
    ]

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint, secret: str = "") -> Self:
        """Build the response from an endpoint and its new secret."""
        return cls(**_endpoint_fields(endpoint), secret=secret)


def _endpoint_fields(endpoint: Endpoint) -> dict[str, Any]:
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

    number: Annotated[int, Meta(description="Which attempt it is. The first is 1.")]
    at: Annotated[int, Meta(description="When it was made, Unix ms.")]
    duration_ms: Annotated[int, Meta(description="How long it took, in milliseconds.")]
    outcome: Annotated[
        Outcome,
        Meta(
            description="The result. Only `delivered` ends the delivery; `refused` is a "
            "response other than 2xx."
        ),
    ]
    http_status: Annotated[
        Annotated[int, Meta(ge=0, le=999)] | None,
        Meta(description="The HTTP status of your server's response. Null if there was none."),
    ]
    request: Annotated[str, Meta(description="The request, without the event's body.")]
    response: Annotated[str, Meta(description="The beginning of your server's response.")] = (
        msgspec.field(name="answer")
    )
    error: Annotated[str, Meta(description="The error. Empty if there was none.")]
    fault: Annotated[
        Fault | None,
        Meta(
            description="Why your server did not take the event, as one word. Null if it did. A "
            "delivered attempt may have one too, if the response was a web page."
        ),
    ]

    @classmethod
    def from_attempt(cls, attempt: DeliveryAttempt) -> Self:
        """Build the response from an attempt."""
        return msgspec.convert(attempt, cls, from_attributes=True)


class DeliveryOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event for one endpoint, with its newest attempts, oldest first."""

    event_id: Annotated[str, Meta(description="The event that is delivered.")]
    type: Annotated[SentType, Meta(description="The type of the event.")]
    status: Annotated[
        DeliveryStatus,
        Meta(
            description="`PENDING`: another attempt will be made. `SUCCEEDED`: your server has "
            "it. `FAILED`: it was given up."
        ),
    ]
    next_attempt_at: Annotated[
        int | None,
        Meta(description="When it is sent next, Unix ms. Null if it is not sent any more."),
    ]
    attempts: Annotated[
        list[AttemptOut],
        Meta(description=f"The last {KEPT_ATTEMPTS} requests that were made, oldest first."),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt

    @classmethod
    def from_delivery(cls, delivery: Delivery, attempts: list[DeliveryAttempt]) -> Self:
        """Build the response from a delivery and its newest attempts, oldest first."""
        return cls(
            event_id=delivery.event_id,
            type=delivery.type,
            status=delivery.status,
            next_attempt_at=delivery.try_at,
            attempts=[AttemptOut.from_attempt(one) for one in attempts],
            created_at=delivery.created_at,
            updated_at=delivery.updated_at,
        )


class ResendBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to send again: one event, or all of a range."""

    event_id: (
        Annotated[str, Meta(max_length=64, description="the id of one of your events")] | None
    ) = None
    since: Annotated[
        Millis | None, meaning("Resend what happened at this time or later, Unix ms.")
    ] = None
    until: Annotated[
        Millis | None, meaning("Resend what happened at this time or earlier, Unix ms.")
    ] = None
    type: Annotated[Type | None, meaning("Resend only events of this type.")] = None
    failed_only: Annotated[bool, Meta(description="only what has failed")] = False
    after: Annotated[
        str,
        Meta(max_length=64, description="`next` of the previous response, to continue from there"),
    ] = ""


class ResendOut(msgspec.Struct, frozen=True, rename="camel"):
    """The number of events that are sent again, and where the next call continues."""

    resent: Annotated[int, Meta(description="How many events are sent again.")]
    next: Annotated[
        str | None,
        Meta(
            description="Send it as `after` to continue from there. Null if there are no "
            "more events."
        ),
    ]


EventShown = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={
            "type": "object",
            "required": ["id", "type", "created_at", "data"],
            "properties": {
                "id": {
                    "type": "string",
                    "description": "The event's id: the same each time it is delivered.",
                },
                "type": {"type": "string", "description": "The type of event."},
                "created_at": {"type": "integer", "description": "When it happened, Unix ms."},
                "data": {
                    "type": "object",
                    "description": "What happened: the fields depend on the type.",
                },
            },
        }
    ),
]


class EventsOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events as they are delivered, oldest first; ``cursor`` goes on from there."""

    items: Annotated[
        list[EventShown],
        Meta(description="The events, oldest first, exactly as they are delivered."),
    ]
    cursor: Annotated[
        str,
        Meta(description="Send it with the next request to continue after these events. Store it."),
    ]
    has_more: Annotated[bool, Meta(description="Whether more events can be read now.")]


def raw(event: NumberedEvent) -> msgspec.Raw:
    """Return an event as it is delivered."""
    return msgspec.Raw(event.body.encode())
