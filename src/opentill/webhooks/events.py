"""The test event: sent on request, to one endpoint alone (decision 0074).

It is a delivery without an event: what is made of it, whenever it is sent, is the same bytes. So
it is in no list of events, and nothing that sends events again can send it to another endpoint.
"""

from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from opentill.webhooks.model import TEST, SentType

_MESSAGE: Final = "This is a test of your webhook endpoint: nothing has happened."


class WebhookTestData(msgspec.Struct, frozen=True, kw_only=True):
    """A test that somebody of the merchant asked for: nothing has happened."""

    test: Annotated[bool, Meta(description="Always true.")]
    endpoint_id: Annotated[str, Meta(description="The endpoint that is tested.")]
    message: Annotated[str, Meta(description="Says that it is a test.")]
    livemode: Annotated[bool, Meta(description="Always false: no money has moved.")]


class _Body(msgspec.Struct, frozen=True):
    """As ``model.EventBody``, of a type that no event has."""

    id: str
    type: str
    created_at: int
    data: WebhookTestData


class Tested(Protocol):
    """What the body of a test is made of: its delivery."""

    @property
    def endpoint_id(self) -> str:
        """The endpoint that is tested."""
        ...

    @property
    def event_id(self) -> str:
        """Names the test as other deliveries name their event."""
        ...

    @property
    def created_at(self) -> int:
        """When it was asked for, Unix ms."""
        ...


PAYLOADS: Final[dict[SentType, type[msgspec.Struct]]] = {TEST: WebhookTestData}


def body_of_test(delivery: Tested) -> str:
    """Return the body of a test, the same each time."""
    data = WebhookTestData(
        test=True, endpoint_id=delivery.endpoint_id, message=_MESSAGE, livemode=False
    )
    body = _Body(delivery.event_id, TEST, delivery.created_at, data)
    return msgspec.json.encode(body).decode()
