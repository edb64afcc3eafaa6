"""Webhooks: events in an outbox, signed, and delivered until the merchant has them."""

from opentill.webhooks.catchup import EventBatch, end, read
from opentill.webhooks.model import (
    TYPES,
    Delivery,
    Endpoint,
    Event,
    EventDelivery,
    NumberedEvent,
    OrderEvent,
    Type,
)
from opentill.webhooks.of_orders import deliveries_of, of_order
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
    "EventDelivery",
    "EventRange",
    "NumberedEvent",
    "OrderEvent",
    "Type",
    "UrlCheck",
    "create",
    "delete",
    "deliveries",
    "deliveries_of",
    "emit",
    "end",
    "find",
    "find_anywhere",
    "of_order",
    "read",
    "resend",
    "resend_all",
    "resend_range",
    "rotate",
    "search",
    "update",
]
