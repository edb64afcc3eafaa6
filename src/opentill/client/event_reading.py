"""Decoding events, from a webhook's body or from a list."""

import msgspec

from .errors import WebhookInvalid
from .event import MALFORMED, Event
from .events import EVENTS


def read(body: bytes) -> Event:
    """Return the event of a verified body. Raises WebhookInvalid."""
    try:
        event = msgspec.json.decode(body, type=Event)
        kind = EVENTS.get(event.type)
        return event if kind is None else msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        message = f"the body is not an event: {error}"
        raise WebhookInvalid(message) from None


class EventList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events, oldest first. Continue with ``cursor`` so that no event is missed."""

    raw: list[msgspec.Raw] = msgspec.field(name="items")
    cursor: str
    has_more: bool

    @property
    def items(self) -> list[Event]:
        """The events, typed like webhooks."""
        return [read(bytes(item)) for item in self.raw]
