"""The operations of webhooks: endpoints, deliveries and events; as ``operations.py``."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from .events import Event
from .model import (
    Delivery,
    EventList,
    Page,
    Resent,
    WebhookEndpoint,
    WebhookEndpointWithSecret,
)
from .request import (
    Moment,
    Request,
    checked_id,
    delete,
    get,
    millis,
    patch,
    post,
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
) -> Request[WebhookEndpointWithSecret]:
    """Create an endpoint for types of events, all without ``events``; only here is its secret."""
    return post(
        _PATH,
        WebhookEndpointWithSecret,
        idempotency_key,
        url=url,
        description=description,
        events=events,
    )


def list_endpoints(*, page: int = 1, size: int = 100) -> Request[Page[WebhookEndpoint]]:
    """List endpoints, newest first."""
    return get(_PATH, Page[WebhookEndpoint], page=page, size=size)


def get_endpoint(endpoint_id: str) -> Request[WebhookEndpoint]:
    """Get an endpoint."""
    return get(f"{_PATH}/{checked_id(endpoint_id)}", WebhookEndpoint)


def update_endpoint(
    endpoint_id: str,
    *,
    url: str | UnsetType = UNSET,
    description: str | UnsetType = UNSET,
    events: Sequence[str] | UnsetType = UNSET,
    status: EndpointStatus | UnsetType = UNSET,
) -> Request[WebhookEndpoint]:
    """Update the given fields of an endpoint."""
    return patch(
        f"{_PATH}/{checked_id(endpoint_id)}",
        WebhookEndpoint,
        url=url,
        description=description,
        events=events,
        status=status,
    )


def delete_endpoint(endpoint_id: str) -> Request[None]:
    """Delete an endpoint."""
    return delete(f"{_PATH}/{checked_id(endpoint_id)}")


def rotate_secret(
    endpoint_id: str, *, idempotency_key: str | None = None
) -> Request[WebhookEndpointWithSecret]:
    """Give an endpoint a new secret; for 24 hours deliveries are signed with the old one too."""
    path = f"{_PATH}/{checked_id(endpoint_id)}/rotate-secret"
    return post(path, WebhookEndpointWithSecret, idempotency_key)


def list_deliveries(
    endpoint_id: str,
    *,
    status: DeliveryStatus | None = None,
    type: str | None = None,  # noqa: A002 - the API's word
    event_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Delivery]]:
    """List an endpoint's deliveries, sent or due, newest first."""
    return get(
        f"{_PATH}/{checked_id(endpoint_id)}/deliveries",
        Page[Delivery],
        status=status,
        type=type,
        event_id=event_id,
        page=page,
        size=size,
    )


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
) -> Request[Resent]:
    """Resend one event, or all since a time: continue ``after`` the response's ``next``."""
    return post(
        f"{_PATH}/{checked_id(endpoint_id)}/resend",
        Resent,
        idempotency_key,
        event_id=event_id,
        since=millis(since),
        until=millis(until),
        type=type,
        failed_only=failed_only,
        after=after,
    )


def send_test_event(endpoint_id: str, *, idempotency_key: str | None = None) -> Request[Delivery]:
    """Send a ``webhook.test`` to this endpoint alone: its delivery says what comes of it."""
    return post(f"{_PATH}/{checked_id(endpoint_id)}/test", Delivery, idempotency_key)


def list_events(
    *,
    cursor: str | None = None,
    type: str | None = None,  # noqa: A002 - the API's word
    size: int = 100,
) -> Request[EventList]:
    """List events, oldest first, from a cursor on."""
    return get("/v1/events", EventList, cursor=cursor, type=type, size=size)


def get_event(event_id: str) -> Request[Event]:
    """Get an event, typed as a webhook is."""
    return get(f"/v1/events/{checked_id(event_id)}", Event)
