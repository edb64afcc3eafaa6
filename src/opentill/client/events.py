"""The events of webhooks, typed. Amounts are ``Decimal``, times Unix milliseconds.

``event.data`` is decoded when it is used, and raises WebhookInvalid if it is not in its form. An
event of a type that this client does not know is an ``Event``.
"""

from decimal import Decimal
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from .errors import WebhookInvalid

T = TypeVar("T")
# What decoding raises for bytes that are no JSON, nested too deep, or of another form.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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
    quantity: int = 1
    client_reference: str | None = None  # your own number
    payment_link_id: str | None = None


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
    quantity: int = 1
    client_reference: str | None = None  # your own number
    payment_link_id: str | None = None


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
    quantity: int = 1
    client_reference: str | None = None  # your own number
    payment_link_id: str | None = None


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
    respond_by: int | None = None  # until when evidence counts
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
    quantity: int = 1
    client_reference: str | None = None  # your own number
    payment_link_id: str | None = None


class PayoutData(msgspec.Struct, frozen=True, kw_only=True):
    """A payout was paid, could not be sent, or was returned by the bank."""

    payout_id: str
    status: str  # PAID FAILED
    amount: Decimal
    fee: Decimal
    currency: str
    bank_reference: str | None = None
    paid_at: int | None = None
    failure_reason: str | None = None
    failed_at: int | None = None
    returned: bool | None = None  # of one that failed: the bank returned it after it was paid


class WebhookTestData(msgspec.Struct, frozen=True, kw_only=True):
    """A test of your endpoint: nothing has happened."""

    test: bool
    endpoint_id: str
    message: str
    livemode: bool


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


class OrderPaid(TypedEvent[OrderPaidData], frozen=True, kw_only=True):
    """``order.paid``."""

    form = OrderPaidData


class OrderRefunded(TypedEvent[OrderRefundedData], frozen=True, kw_only=True):
    """``order.refunded``."""

    form = OrderRefundedData


class OrderClosed(TypedEvent[OrderClosedData], frozen=True, kw_only=True):
    """``order.closed``."""

    form = OrderClosedData


class OrderSettled(TypedEvent[OrderSettledData], frozen=True, kw_only=True):
    """``order.settled``."""

    form = OrderSettledData


class RefundFailed(TypedEvent[RefundFailedData], frozen=True, kw_only=True):
    """``refund.failed``."""

    form = RefundFailedData


class DisputeCreated(TypedEvent[DisputeData], frozen=True, kw_only=True):
    """``dispute.created``."""

    form = DisputeData


class DisputeClosed(TypedEvent[DisputeData], frozen=True, kw_only=True):
    """``dispute.closed``."""

    form = DisputeData


class CheckoutCompleted(TypedEvent[CheckoutData], frozen=True, kw_only=True):
    """``checkout.completed``."""

    form = CheckoutData


class CheckoutExpired(TypedEvent[CheckoutData], frozen=True, kw_only=True):
    """``checkout.expired``."""

    form = CheckoutData


class PayoutPaid(TypedEvent[PayoutData], frozen=True, kw_only=True):
    """``payout.paid``."""

    form = PayoutData


class PayoutFailed(TypedEvent[PayoutData], frozen=True, kw_only=True):
    """``payout.failed``."""

    form = PayoutData


class WebhookTest(TypedEvent[WebhookTestData], frozen=True, kw_only=True):
    """``webhook.test``."""

    form = WebhookTestData


EVENTS: Final[dict[str, type[TypedEvent[Any]]]] = {
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
    "webhook.test": WebhookTest,
}


def read(body: bytes) -> Event:
    """Return a verified body as its event. Raises WebhookInvalid if it is none."""
    try:
        event = msgspec.json.decode(body, type=Event)
        kind = EVENTS.get(event.type)
        return event if kind is None else msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        message = f"the body is not an event: {error}"
        raise WebhookInvalid(message) from None
