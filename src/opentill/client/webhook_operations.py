"""The operations of webhooks: endpoints, deliveries and events; as ``operations.py``."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from opentill.client.calls import Call, Moment, asked, given, millis, sent
from opentill.client.calls import identified as of
from opentill.client.events import Event
from opentill.client.model import (
    Delivery,
    EventList,
    Page,
    Resent,
    WebhookEndpoint,
    WebhookEndpointWithSecret,
)

_PATH = "/v1/webhook-endpoints"
EndpointStatus = Literal["ENABLED", "DISABLED"]
DeliveryStatus = Literal["PENDING", "SUCCEEDED", "FAILED"]


def create_endpoint(
    url: str,
    *,
    description: str | None = None,
    events: Sequence[str] | None = None,
    idempotency_key: str | None = None,
) -> Call[WebhookEndpointWithSecret]:
    """Add an endpoint for types of events, all without ``events``; its secret is shown here."""
    body = given(url=url, description=description, events=events)
    return Call(
        verb="POST", path=_PATH, answer=WebhookEndpointWithSecret, body=body, key=idempotency_key
    )


def list_endpoints(*, page: int = 1, size: int = 100) -> Call[Page[WebhookEndpoint]]:
    """List endpoints, newest first."""
    query = asked(page=page, size=size)
    return Call(verb="GET", path=_PATH, answer=Page[WebhookEndpoint], query=query)


def read_endpoint(endpoint_id: str) -> Call[WebhookEndpoint]:
    """Read an endpoint."""
    return Call(verb="GET", path=f"{_PATH}/{of(endpoint_id)}", answer=WebhookEndpoint)


def change_endpoint(
    endpoint_id: str,
    *,
    url: str | UnsetType = UNSET,
    description: str | UnsetType = UNSET,
    events: Sequence[str] | UnsetType = UNSET,
    status: EndpointStatus | UnsetType = UNSET,
) -> Call[WebhookEndpoint]:
    """Change what is given of an endpoint."""
    body = sent(url=url, description=description, events=events, status=status)
    return Call(verb="PATCH", path=f"{_PATH}/{of(endpoint_id)}", answer=WebhookEndpoint, body=body)


def delete_endpoint(endpoint_id: str) -> Call[None]:
    """Delete an endpoint."""
    return Call(verb="DELETE", path=f"{_PATH}/{of(endpoint_id)}", answer=None)


def rotate_secret(
    endpoint_id: str, *, idempotency_key: str | None = None
) -> Call[WebhookEndpointWithSecret]:
    """Give an endpoint a new secret; for 24 hours the old one signs along."""
    path = f"{_PATH}/{of(endpoint_id)}/rotate-secret"
    return Call(verb="POST", path=path, answer=WebhookEndpointWithSecret, key=idempotency_key)


def list_deliveries(
    endpoint_id: str,
    *,
    status: DeliveryStatus | None = None,
    type: str | None = None,  # noqa: A002 - the API's word
    event_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Call[Page[Delivery]]:
    """List what was and will be sent to an endpoint, newest first."""
    path = f"{_PATH}/{of(endpoint_id)}/deliveries"
    query = asked(status=status, type=type, event_id=event_id, page=page, size=size)
    return Call(verb="GET", path=path, answer=Page[Delivery], query=query)


def resend_events(  # noqa: PLR0913 - one event, or what names a range
    endpoint_id: str,
    *,
    event_id: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    type: str | None = None,  # noqa: A002 - the API's word
    failed_only: bool | None = None,
    after: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Resent]:
    """Send one event again, or all since a time: go on ``after`` the answer's ``next``."""
    path = f"{_PATH}/{of(endpoint_id)}/resend"
    body = given(
        event_id=event_id,
        since=millis(since),
        until=millis(until),
        type=type,
        failed_only=failed_only,
        after=after,
    )
    return Call(verb="POST", path=path, answer=Resent, body=body, key=idempotency_key)


def list_events(
    *,
    cursor: str | None = None,
    type: str | None = None,  # noqa: A002 - the API's word
    size: int = 100,
) -> Call[EventList]:
    """Read events, oldest first, from a cursor on."""
    query = asked(cursor=cursor, type=type, size=size)
    return Call(verb="GET", path="/v1/events", answer=EventList, query=query)


def read_event(event_id: str) -> Call[Event]:
    """Read an event, typed as a webhook is."""
    return Call(verb="GET", path=f"/v1/events/{of(event_id)}", answer=Event)
