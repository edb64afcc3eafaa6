"""The base of all events. Their types and payloads are in ``events.py``.

``event.data`` is decoded when it is used, and raises WebhookInvalid if it does not match its type.
An event of an unknown type is an ``Event``.
"""

from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from .errors import WebhookInvalid

T = TypeVar("T")
# Decoding raises these for invalid JSON, too deep nesting or another type.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _data_of(event: "Event", form: type[T]) -> T:
    try:
        return msgspec.json.decode(event.raw, type=form)
    except MALFORMED as error:
        message = f"data of {event.type} {event.id} is not in its form: {error}"
        raise WebhookInvalid(message) from None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Any event; each delivery has the same ``id``."""

    id: str
    type: str
    created_at: int
    raw: msgspec.Raw = msgspec.field(name="data")

    @property
    def data(self) -> Any:
        """The payload as a dict."""
        return _data_of(self, dict[str, Any])


class TypedEvent(Event, Generic[T], frozen=True, kw_only=True):
    """An event of a known type."""

    form: ClassVar[type[Any]]  # the type of ``data``

    @property
    def data(self) -> T:
        """What the event is about, such as the order that was paid."""
        form: type[T] = self.form
        return _data_of(self, form)
