"""Webhooks: events in an outbox, signed, and delivered until the merchant has them."""

from opentill.webhooks.catchup import EventBatch, end, read
from opentill.webhooks.model import TYPES, Delivery, Endpoint, Event, NumberedEvent, Type
from opentill.webhooks.outbox import emit
from opentill.webhooks.resending import EventRange, resend, resend_all, resend_range
from opentill.webhooks.schedule import WAITS_MS
from opentill.webhooks.service import (
    EndpointFields,
    UrlCheck,
    create,
    delete,
    deliveries,
    find,
    find_anywhere,
    rotate,
    search,
    update,
)

__all__ = [
    "TYPES",
    "WAITS_MS",
    "Delivery",
    "Endpoint",
    "EndpointFields",
    "Event",
    "EventBatch",
    "EventRange",
    "NumberedEvent",
    "Type",
    "UrlCheck",
    "create",
    "delete",
    "deliveries",
    "emit",
    "end",
    "find",
    "find_anywhere",
    "read",
    "resend",
    "resend_all",
    "resend_range",
    "rotate",
    "search",
    "update",
]
