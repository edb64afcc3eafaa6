"""Webhooks: events in an outbox, signed, and delivered until the merchant has them."""

from opentill.webhooks.model import TYPES, Event, Type
from opentill.webhooks.outbox import emit

__all__ = ["TYPES", "Event", "Type", "emit"]
