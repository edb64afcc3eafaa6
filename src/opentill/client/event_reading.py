"""Reading events: one from a webhook's body, or a list of them."""

import msgspec

from .errors import WebhookInvalid
from .event import MALFORMED, Event
from .events import EVENTS


def read(body: bytes) -> Event:
    """Return a verified body as its event. Raises WebhookInvalid if it is none."""
    try:
        event = msgspec.json.decode(body, type=Event)
        kind = EVENTS.get(event.type)
        return event if kind is None else msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        message = f"the body is not an event: {error}"
        raise WebhookInvalid(message) from None


class EventList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events, oldest first. Keep ``cursor`` and come back with it: none is ever skipped."""

    raw: list[msgspec.Raw] = msgspec.field(name="items")
    cursor: str
    has_more: bool

    @property
    def items(self) -> list[Event]:
        """The events, typed as webhooks are."""
        return [read(bytes(item)) for item in self.raw]
