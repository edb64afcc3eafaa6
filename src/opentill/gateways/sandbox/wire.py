"""The sandbox bank's objects, and their translation into outcomes and events.

Amounts are whole minor units, times Unix milliseconds. A body that does not match is no response.
"""

from typing import Final, Literal

import msgspec

from opentill.core.money import Money
from opentill.gateways.model import (
    Card,
    DisputeStatus,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    Method,
    PaymentOutcome,
    PaymentStatus,
    RefundOutcome,
    RefundStatus,
)

BankPaymentStatus = Literal[
    "action_required", "processing", "succeeded", "declined", "refused", "voided"
]
BankRefundStatus = Literal["pending", "succeeded", "failed"]
BankDisputeStatus = Literal["opened", "won", "lost", "recovered"]

PAYMENT_STATUSES: Final[dict[BankPaymentStatus, PaymentStatus]] = {
    "action_required": "ACTION_REQUIRED",
    "processing": "PENDING",
    "succeeded": "SUCCEEDED",
    "declined": "DECLINED",
    "refused": "REFUSED",
    "voided": "VOIDED",
}
REFUND_STATUSES: Final[dict[BankRefundStatus, RefundStatus]] = {
    "pending": "PENDING",
    "succeeded": "SUCCEEDED",
    "failed": "REFUSED",
}
DISPUTE_STATUSES: Final[dict[BankDisputeStatus, DisputeStatus]] = {
    "opened": "OPENED",
    "won": "WON",
    "lost": "LOST",
    "recovered": "RECOVERED",
}


class PaymentOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body of ``POST /payments``."""

    id: str
    amount_minor: int
    currency: str
    method: Method
    description: str
    merchant_name: str
    customer_email: str
    return_url: str
    callback_url: str
    locale: str


class RefundOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body of ``POST /refunds``."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    callback_url: str


class PaidCard(msgspec.Struct, frozen=True):
    """The card of a payment."""

    brand: str
    last4: str


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """A payment in the bank's response."""

    id: str
    status: BankPaymentStatus
    decline_code: str | None
    amount_minor: int
    currency: str
    method: Method
    action_url: str
    qr_text: str | None
    card: PaidCard | None = None

    @property
    def outcome(self) -> PaymentOutcome:
        """The payment's outcome."""
        status = PAYMENT_STATUSES[self.status]
        acting, paid = status == "ACTION_REQUIRED", status == "SUCCEEDED"
        return PaymentOutcome(
            status=status,
            provider_ref=self.id,
            action_url=self.action_url if acting else "",
            qr_text=self.qr_text or "" if acting else "",
            reason=self.decline_code or "",
            amount=Money(self.amount_minor, self.currency) if paid else None,
            method=self.method,
            clearing_currency=self.currency if paid else None,
            card=Card.read(self.card.brand, self.card.last4) if self.card else None,
        )


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund in the bank's response."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    status: BankRefundStatus
    error: str | None
    by_bank: bool = False  # whether the refund was made at the bank instead of requested by us

    @property
    def outcome(self) -> RefundOutcome:
        """The refund's outcome."""
        return RefundOutcome(
            status=REFUND_STATUSES[self.status], provider_ref=self.id, reason=self.error or ""
        )


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute in a callback."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    reason: str
    status: BankDisputeStatus
    respond_by: int | None = None


class Problem(msgspec.Struct, frozen=True):
    """Why the bank refused a request."""

    code: str
    message: str


class Refused(msgspec.Struct, frozen=True):
    """The body of a 4xx response."""

    error: Problem


class Kind(msgspec.Struct, frozen=True):
    """The type of a callback; the rest of the callback is decoded only for known types."""

    type: str


class PaymentData(msgspec.Struct, frozen=True):
    """The data of ``payment.…``."""

    payment: Payment

    @property
    def gateway_event(self) -> GatewayEvent:
        """The callback as OpenTill's event."""
        return GatewayPaymentEvent(attempt_id=self.payment.id, outcome=self.payment.outcome)


class RefundData(msgspec.Struct, frozen=True):
    """The data of ``refund.…``."""

    refund: Refund

    @property
    def gateway_event(self) -> GatewayEvent:
        """The callback as OpenTill's event."""
        refund = self.refund
        return GatewayRefundEvent(
            attempt_id=refund.payment_id,
            refund_id="" if refund.by_bank else refund.id,
            outcome=refund.outcome,
            amount=Money(refund.amount_minor, refund.currency),
        )


class DisputeData(msgspec.Struct, frozen=True):
    """The data of ``dispute.…``."""

    dispute: Dispute

    @property
    def gateway_event(self) -> GatewayEvent:
        """The callback as OpenTill's event."""
        dispute = self.dispute
        return GatewayDisputeEvent(
            attempt_id=dispute.payment_id,
            dispute_ref=dispute.id,
            status=DISPUTE_STATUSES[dispute.status],
            amount=Money(dispute.amount_minor, dispute.currency),
            reason=dispute.reason,
            respond_by=dispute.respond_by if dispute.status == "opened" else None,
        )


class PaymentCallback(msgspec.Struct, frozen=True):
    """A callback of type ``payment.…``."""

    data: PaymentData


class RefundCallback(msgspec.Struct, frozen=True):
    """A callback of type ``refund.…``."""

    data: RefundData


class DisputeCallback(msgspec.Struct, frozen=True):
    """A callback of type ``dispute.…``."""

    data: DisputeData


CALLBACKS: Final[dict[str, type[PaymentCallback | RefundCallback | DisputeCallback]]] = {
    "payment.processing": PaymentCallback,
    "payment.succeeded": PaymentCallback,
    "payment.declined": PaymentCallback,
    "payment.refused": PaymentCallback,
    "payment.voided": PaymentCallback,
    "refund.succeeded": RefundCallback,
    "refund.failed": RefundCallback,
    "dispute.opened": DisputeCallback,
    "dispute.won": DisputeCallback,
    "dispute.lost": DisputeCallback,
    "dispute.recovered": DisputeCallback,
}
