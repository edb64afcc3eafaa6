"""What all events have. Their types and payloads stand in ``events.py``.

``event.data`` is decoded when it is used, and raises WebhookInvalid if it does not have the form of
its type. An event of a type that this client does not know is an ``Event``.
"""

from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from .errors import WebhookInvalid

T = TypeVar("T")
# What decoding raises for bytes that are no JSON, nested too deep, or of another form.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _data_of(event: "Event", form: type[T]) -> T:
    try:
        return msgspec.json.decode(event.raw, type=form)
    except MALFORMED as error:
        message = f"data of {event.type} {event.id} is not in its form: {error}"
        raise WebhookInvalid(message) from None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Any event; ``id`` is the same each time it is delivered."""

    id: str
    type: str
    created_at: int
    raw: msgspec.Raw = msgspec.field(name="data")

    @property
    def data(self) -> Any:
        """What happened, as a dict."""
        return _data_of(self, dict[str, Any])


class TypedEvent(Event, Generic[T], frozen=True, kw_only=True):
    """An event of a type that this client knows."""

    form: ClassVar[type[Any]]  # of ``data``

    @property
    def data(self) -> T:
        """What happened."""
        form: type[T] = self.form
        return _data_of(self, form)
