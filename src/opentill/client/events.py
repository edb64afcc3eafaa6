"""Events of webhooks, typed. Amounts are ``Decimal``, times Unix milliseconds.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

from .event import TypedEvent

Metadata = dict[str, Any]


class OrderPaidData(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid: fulfill it."""

    order_id: str
    product_id: str
    customer_email: str
    amount: Decimal
    currency: str
    net_amount: Decimal
    paid_at: int
    livemode: bool | None = None
    metadata: Metadata
    quantity: int = 1
    client_reference: str | None = None
    payment_link_id: str | None = None


class OrderRefundedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund has succeeded, in full or in part."""

    order_id: str
    product_id: str = ""
    refund_id: str
    refund_status: str  # one of FULL, PARTIAL
    amount: Decimal
    refunded_amount: Decimal
    original_amount: Decimal
    currency: str
    reason: str
    source: str | None = None  # one of GATEWAY, REQUEST
    livemode: bool | None = None
    metadata: Metadata


class OrderClosedData(msgspec.Struct, frozen=True, kw_only=True):
    """An order will not be paid."""

    order_id: str
    product_id: str
    amount: Decimal
    currency: str
    status: str  # one of CLOSED, FAILED, REVOKED
    reason: str
    closed_at: int
    livemode: bool | None = None
    metadata: Metadata
    quantity: int = 1
    client_reference: str | None = None
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
    livemode: bool | None = None
    metadata: Metadata
    quantity: int = 1
    client_reference: str | None = None
    payment_link_id: str | None = None


class RefundFailedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund failed for good or was reversed. Its money is back in the balance."""

    order_id: str
    product_id: str = ""
    refund_id: str
    amount: Decimal
    currency: str
    reason: str
    error_message: str
    reversed: bool | None = None
    livemode: bool | None = None
    metadata: Metadata


class DisputeData(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute was opened or decided. It is closed again if a loss is recovered."""

    dispute_id: str
    order_id: str
    status: str  # one of LOST, OPEN, RECOVERED, WON
    amount: Decimal
    currency: str
    debit: Decimal
    fee: Decimal
    debit_currency: str
    reason: str
    respond_by: int | None = None
    opened_at: int
    closed_at: int | None = None
    livemode: bool | None = None
    metadata: Metadata


class CheckoutData(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout session was paid. A checkout session can no longer be paid."""

    checkout_session_id: str
    order_id: str
    product_id: str
    amount: Decimal
    currency: str
    completed_at: int | None = None
    livemode: bool | None = None
    metadata: Metadata
    quantity: int = 1
    client_reference: str | None = None
    payment_link_id: str | None = None
    expired_at: int | None = None


class PayoutData(msgspec.Struct, frozen=True, kw_only=True):
    """A payout has left for the merchant's bank.

    A payout could not be sent, or the bank returned it: its money is available again.
    """

    payout_id: str
    status: str  # one of PAID, FAILED
    amount: Decimal
    fee: Decimal
    currency: str
    bank_reference: str | None = None
    paid_at: int | None = None
    failure_reason: str | None = None
    failed_at: int | None = None
    returned: bool | None = None


class WebhookTestData(msgspec.Struct, frozen=True, kw_only=True):
    """A test that somebody of the merchant asked for: nothing has happened."""

    test: bool
    endpoint_id: str
    message: str
    livemode: bool


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
