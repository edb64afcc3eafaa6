"""The events of webhooks, typed. Amounts are ``Decimal``, times Unix milliseconds.

``event.data`` is decoded when it is used, and raises WebhookInvalid if it is not in its form. An
event of a type that this client does not know is an ``Event``.
"""

from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from opentill.client.errors import WebhookInvalid

T = TypeVar("T")


class OrderPaidData(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid: fulfil it."""

    order_id: str
    product_id: str
    customer_email: str
    amount: Decimal
    currency: str
    net_amount: Decimal
    paid_at: int
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class OrderRefundedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund has succeeded; ``refunded_amount`` is what was given back of the order so far."""

    order_id: str
    product_id: str = ""
    refund_id: str
    refund_status: str  # PARTIAL FULL
    amount: Decimal
    refunded_amount: Decimal
    original_amount: Decimal
    currency: str
    reason: str
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class OrderClosedData(msgspec.Struct, frozen=True, kw_only=True):
    """An order will not be paid."""

    order_id: str
    product_id: str
    amount: Decimal
    currency: str
    status: str  # FAILED CLOSED REVOKED
    reason: str
    closed_at: int
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class OrderSettledData(msgspec.Struct, frozen=True, kw_only=True):
    """An order's money is available."""

    order_id: str
    product_id: str
    amount: Decimal
    currency: str
    net_amount: Decimal
    settled_amount: Decimal
    settled_currency: str
    settled_at: int
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class RefundFailedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund was refused for good; its money is yours again."""

    order_id: str
    product_id: str = ""
    refund_id: str
    amount: Decimal
    currency: str
    reason: str
    error_message: str
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class DisputeData(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute was opened or decided."""

    dispute_id: str
    order_id: str
    status: str  # OPEN WON LOST RECOVERED
    amount: Decimal
    currency: str
    debit: Decimal
    fee: Decimal
    debit_currency: str
    reason: str
    opened_at: int
    closed_at: int | None
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class CheckoutData(msgspec.Struct, frozen=True, kw_only=True):
    """A session was completed or has expired."""

    checkout_session_id: str
    order_id: str
    product_id: str
    amount: Decimal
    currency: str
    completed_at: int | None = None
    expired_at: int | None = None
    livemode: bool | None = None  # False: test mode; None: it was not paid
    metadata: dict[str, Any]


class PayoutData(msgspec.Struct, frozen=True, kw_only=True):
    """A payout was paid or could not be."""

    payout_id: str
    status: str  # PAID FAILED
    amount: Decimal
    fee: Decimal
    currency: str
    bank_reference: str | None = None
    paid_at: int | None = None
    failure_reason: str | None = None
    failed_at: int | None = None


def _data_of(event: "Event", form: type[T]) -> T:
    try:
        return msgspec.json.decode(event.raw, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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


class OrderPaid(Event, frozen=True, kw_only=True):
    """``order.paid``."""

    @property
    def data(self) -> OrderPaidData:
        """The order."""
        return _data_of(self, OrderPaidData)


class OrderRefunded(Event, frozen=True, kw_only=True):
    """``order.refunded``."""

    @property
    def data(self) -> OrderRefundedData:
        """The refund."""
        return _data_of(self, OrderRefundedData)


class OrderClosed(Event, frozen=True, kw_only=True):
    """``order.closed``."""

    @property
    def data(self) -> OrderClosedData:
        """The order."""
        return _data_of(self, OrderClosedData)


class OrderSettled(Event, frozen=True, kw_only=True):
    """``order.settled``."""

    @property
    def data(self) -> OrderSettledData:
        """The order."""
        return _data_of(self, OrderSettledData)


class RefundFailed(Event, frozen=True, kw_only=True):
    """``refund.failed``."""

    @property
    def data(self) -> RefundFailedData:
        """The refund."""
        return _data_of(self, RefundFailedData)


class DisputeCreated(Event, frozen=True, kw_only=True):
    """``dispute.created``."""

    @property
    def data(self) -> DisputeData:
        """The dispute."""
        return _data_of(self, DisputeData)


class DisputeClosed(Event, frozen=True, kw_only=True):
    """``dispute.closed``."""

    @property
    def data(self) -> DisputeData:
        """The dispute."""
        return _data_of(self, DisputeData)


class CheckoutCompleted(Event, frozen=True, kw_only=True):
    """``checkout.completed``."""

    @property
    def data(self) -> CheckoutData:
        """The session."""
        return _data_of(self, CheckoutData)


class CheckoutExpired(Event, frozen=True, kw_only=True):
    """``checkout.expired``."""

    @property
    def data(self) -> CheckoutData:
        """The session."""
        return _data_of(self, CheckoutData)


class PayoutPaid(Event, frozen=True, kw_only=True):
    """``payout.paid``."""

    @property
    def data(self) -> PayoutData:
        """The payout."""
        return _data_of(self, PayoutData)


class PayoutFailed(Event, frozen=True, kw_only=True):
    """``payout.failed``."""

    @property
    def data(self) -> PayoutData:
        """The payout."""
        return _data_of(self, PayoutData)


EVENTS: Final[dict[str, type[Event]]] = {
    "order.paid": OrderPaid,
    "order.refunded": OrderRefunded,
    "order.closed": OrderClosed,
    "order.settled": OrderSettled,
    "refund.failed": RefundFailed,
    "dispute.created": DisputeCreated,
    "dispute.closed": DisputeClosed,
    "checkout.completed": CheckoutCompleted,
    "checkout.expired": CheckoutExpired,
    "payout.paid": PayoutPaid,
    "payout.failed": PayoutFailed,
}


def read(body: bytes) -> Event:
    """Return a verified body as its event. Raises WebhookInvalid if it is none."""
    try:
        event = msgspec.json.decode(body, type=Event)
        kind = EVENTS.get(event.type)
        return event if kind is None else msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"the body is not an event: {error}"
        raise WebhookInvalid(message) from None
