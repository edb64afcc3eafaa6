"""The test event: sent on request, to a single endpoint (decision 0074).

A test is a delivery without a stored event; its body is derived from the delivery and is the same
bytes in each attempt. It is therefore in no list of events and cannot be resent elsewhere.
"""

from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from opentill.webhooks.event_types import TEST, SentType

_MESSAGE: Final = "This is a test of your webhook endpoint: nothing has happened."


class WebhookTestData(msgspec.Struct, frozen=True, kw_only=True):
    """A test that somebody of the merchant asked for: nothing has happened."""

    test: Annotated[bool, Meta(description="Always true.")]
    endpoint_id: Annotated[str, Meta(description="The endpoint that is tested.")]
    message: Annotated[str, Meta(description="Says that it is a test.")]
    livemode: Annotated[bool, Meta(description="Always false: no money has moved.")]


class _Body(msgspec.Struct, frozen=True):
    """Like ``model.EventBody``, with a type that no stored event has."""

    id: str
    type: str
    created_at: int
    data: WebhookTestData


class DeliveryIdentity(Protocol):
    """The fields of a delivery from which the body of a test is derived."""

    @property
    def endpoint_id(self) -> str:
        """The endpoint under test."""
        ...

    @property
    def event_id(self) -> str:
        """The id of the test, in place of an event's id."""
        ...

    @property
    def created_at(self) -> int:
        """When the test was requested, Unix ms."""
        ...


PAYLOADS: Final[dict[SentType, type[msgspec.Struct]]] = {TEST: WebhookTestData}


def body_of_test(delivery: DeliveryIdentity) -> str:
    """Return the body of a test, the same each time."""
    data = WebhookTestData(
        test=True, endpoint_id=delivery.endpoint_id, message=_MESSAGE, livemode=False
    )
    body = _Body(delivery.event_id, TEST, delivery.created_at, data)
    return msgspec.json.encode(body).decode()
