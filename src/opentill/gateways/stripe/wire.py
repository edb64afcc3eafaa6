"""The fields of Stripe's objects that we read, and their translation into outcomes and events.

Amounts are in Stripe's minor units (see ``amounts``), times in Unix seconds. Fields are those of
Stripe's public OpenAPI description; a body that does not match is no response. Our ids are in the
``metadata`` of the session, of its payment and of the refund; objects without them are not ours.
"""

from typing import Final, Generic, Literal, TypeVar

import msgspec

from opentill.core.money import Money
from opentill.gateways.model import (
    Card,
    DisputeStatus,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    GatewayRefundsEvent,
    PaymentOutcome,
    RefundOutcome,
    RefundStatus,
)
from opentill.gateways.stripe.amounts import STRIPE_EXPONENTS, from_stripe

ATTEMPT: Final = "attempt_id"
REFUND: Final = "refund_id"
Metadata = dict[str, str]
T_co = TypeVar("T_co", covariant=True)

# Stripe's statuses that are missing from these two tables decide nothing: such a refund is PENDING,
# and a callback about such a dispute yields no event.
REFUND_STATUSES: Final[dict[str, RefundStatus]] = {
    "succeeded": "SUCCEEDED",
    "pending": "PENDING",
    "requires_action": "PENDING",
    "failed": "REFUSED",
    "canceled": "REFUSED",
}
# "warning_…" and "prevented" are missing because they take no money: a warning is an inquiry, and a
# prevented dispute never became one.
DISPUTE_STATUSES: Final[dict[str, DisputeStatus]] = {
    "needs_response": "OPENED",
    "under_review": "OPENED",
    "appeal_needs_response": "LOST",
    "appeal_under_review": "LOST",
    "won": "WON",
    "lost": "LOST",
}


class BalanceTransaction(msgspec.Struct, frozen=True):
    """A movement on the account's balance at Stripe."""

    amount: int
    currency: str


class CardDetails(msgspec.Struct, frozen=True):
    """The card of a charge."""

    brand: str | None = None
    last4: str | None = None


class MethodDetails(msgspec.Struct, frozen=True):
    """The payment method of a charge, or of a payment that failed."""

    card: CardDetails | None = None

    @property
    def as_card(self) -> Card | None:
        """The card, None for other methods."""
        return Card.read(self.card.brand, self.card.last4) if self.card else None


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """A charge of a payment, with the metadata of the payment."""

    id: str
    status: str = ""
    captured: bool = False
    currency: str = ""
    amount_captured: int = 0
    metadata: Metadata | None = None
    payment_intent: str | None = None
    balance_transaction: str | BalanceTransaction | None = None
    payment_method_details: MethodDetails | None = None

    @property
    def card(self) -> Card | None:
        """The card of the charge, None for other methods."""
        details = self.payment_method_details
        return details.as_card if details else None

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The events of a callback about the charge, the only callback that names the card.

        Empty if the payment is not ours, or was only authorized.
        """
        attempt_id = (self.metadata or {}).get(ATTEMPT, "")
        is_captured = self.status == "succeeded" and self.captured
        if not attempt_id or not is_captured or self.payment_intent is None:
            return ()
        outcome = PaymentOutcome(
            status="SUCCEEDED",
            provider_ref=self.payment_intent,
            amount=from_stripe(self.amount_captured, self.currency),
            card=self.card,
        )
        return (GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome),)


class RefundedCharge(msgspec.Struct, frozen=True, kw_only=True):
    """A refunded charge; newer versions of Stripe's API do not name the refunds."""

    metadata: Metadata | None = None
    payment_intent: str | None = None

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The event that requests a list of the refunds."""
        attempt_id = (self.metadata or {}).get(ATTEMPT, "")
        if not attempt_id or self.payment_intent is None:
            return ()
        return (GatewayRefundsEvent(attempt_id=attempt_id, payment_ref=self.payment_intent),)


class PaymentError(msgspec.Struct, frozen=True):
    """Why a payment failed."""

    code: str | None = None
    decline_code: str | None = None
    payment_method: MethodDetails | None = None


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A PaymentIntent: the payment of a session."""

    id: str
    status: str
    currency: str
    amount: int
    amount_received: int | None = None
    metadata: Metadata | None = None
    last_payment_error: PaymentError | None = None
    latest_charge: str | Charge | None = None

    @property
    def attempt_id(self) -> str:
        """The id of our attempt, "" if it is not ours."""
        return (self.metadata or {}).get(ATTEMPT, "")

    @property
    def outcome(self) -> PaymentOutcome:
        """The payment's outcome. Raises ValueError for an impossible amount."""
        match self.status:
            case "succeeded":
                charge = self.latest_charge
                received = self.amount if self.amount_received is None else self.amount_received
                return PaymentOutcome(
                    status="SUCCEEDED",
                    provider_ref=self.id,
                    amount=from_stripe(received, self.currency),
                    clearing_currency=self._clearing_currency,
                    card=charge.card if isinstance(charge, Charge) else None,
                )
            case "processing" | "requires_capture":
                return PaymentOutcome(status="PENDING")
            case "canceled" | "requires_payment_method":
                error = self.last_payment_error
                method = error.payment_method if error else None
                return PaymentOutcome(
                    status="DECLINED",
                    reason=self.reason,
                    card=method.as_card if method else None,
                )
            case _:
                return PaymentOutcome(status="UNKNOWN", reason=f"the payment {self.status}")

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The events of a callback about the payment; empty if it is not ours."""
        if not self.attempt_id:
            return ()
        return (GatewayPaymentEvent(attempt_id=self.attempt_id, outcome=self.outcome),)

    @property
    def reason(self) -> str:
        """Stripe's code of the failure."""
        error = self.last_payment_error
        return (error and (error.decline_code or error.code)) or self.status

    @property
    def _clearing_currency(self) -> str | None:
        charge = self.latest_charge
        moved = charge.balance_transaction if isinstance(charge, Charge) else None
        return moved.currency.upper() if isinstance(moved, BalanceTransaction) else None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A Checkout Session: the page that the customer pays on."""

    id: str
    status: str | None
    payment_status: str
    currency: str | None = None
    amount_total: int | None = None
    client_reference_id: str | None = None
    metadata: Metadata | None = None
    url: str | None = None
    payment_intent: str | Intent | None = None

    @property
    def attempt_id(self) -> str:
        """The id of our attempt, "" if it is not ours."""
        return (self.metadata or {}).get(ATTEMPT, "")

    @property
    def outcome(self) -> PaymentOutcome:
        """The session's outcome. Raises ValueError for an impossible amount."""
        intent = self.payment_intent if isinstance(self.payment_intent, Intent) else None
        if intent is not None and intent.status == "succeeded":
            return intent.outcome
        if self.payment_status == "paid":
            return self._paid
        match self.status:
            case "open" if self.url:
                return PaymentOutcome(
                    status="ACTION_REQUIRED", provider_ref=self.id, action_url=self.url
                )
            case "complete":  # not paid: the bank has declined the payment or has not decided yet
                outcome = intent.outcome if intent else PaymentOutcome(status="PENDING")
                return msgspec.structs.replace(outcome, provider_ref=self.id)
            case "expired":
                return PaymentOutcome(status="DECLINED", provider_ref=self.id, reason="expired")
            case _:
                reason = f"a session that is {self.status} and {self.payment_status}"
                return PaymentOutcome(status="UNKNOWN", reason=reason)

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The events of a callback about the session; empty if its payment is not ours."""
        if not self.attempt_id:
            return ()
        return (GatewayPaymentEvent(attempt_id=self.attempt_id, outcome=self.outcome),)

    @property
    def _paid(self) -> PaymentOutcome:
        payment = self.payment_intent
        if not isinstance(payment, str) or self.amount_total is None or self.currency is None:
            return PaymentOutcome(status="UNKNOWN", reason="a paid session without its payment")
        amount = from_stripe(self.amount_total, self.currency)
        return PaymentOutcome(status="SUCCEEDED", provider_ref=payment, amount=amount)


class FailedSession(Session, frozen=True, kw_only=True):
    """A session whose payment failed after it was complete.

    Its fields are those of a complete, unpaid session, whose payment may still succeed: only the
    type of the event reveals the failure.
    """

    @property
    def outcome(self) -> PaymentOutcome:
        """The session's outcome. Raises ValueError for an impossible amount."""
        outcome = super().outcome
        if outcome.status != "PENDING":
            return outcome
        return PaymentOutcome(
            status="DECLINED", provider_ref=self.id, reason="async_payment_failed"
        )


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund of a payment."""

    id: str
    status: str | None
    amount: int
    currency: str
    metadata: Metadata | None = None
    payment_intent: str | Intent | None = None
    reason: str | None = None
    failure_reason: str | None = None

    @property
    def refund_id(self) -> str:
        """The id of our refund, "" if it is not ours."""
        return (self.metadata or {}).get(REFUND, "")

    @property
    def outcome(self) -> RefundOutcome:
        """The refund's outcome."""
        status = REFUND_STATUSES.get(self.status or "", "PENDING")
        reason = self.failure_reason or f"Stripe says {self.status}" if status == "REFUSED" else ""
        return RefundOutcome(status=status, provider_ref=self.id, reason=reason)

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The events of a callback about the refund.

        A refund without our ids was made at Stripe and names the payment only, like a dispute.
        """
        attempt_id, refund_id = (self.metadata or {}).get(ATTEMPT, ""), self.refund_id
        if attempt_id and refund_id:
            return (self.to_event(attempt_id),)
        payment = self.payment_intent
        ref = payment.id if isinstance(payment, Intent) else payment
        if not ref:
            return ()
        return (msgspec.structs.replace(self.to_event(""), payment_ref=ref),)

    def to_event(self, attempt_id: str) -> GatewayRefundEvent:
        """Return the event of an attempt's refund. Raises ValueError for an impossible amount."""
        outcome = self.outcome
        if not self.refund_id and not outcome.reason:
            outcome = msgspec.structs.replace(outcome, reason=self.reason or "")
        return GatewayRefundEvent(
            attempt_id=attempt_id,
            refund_id=self.refund_id,
            outcome=outcome,
            amount=_to_money(self.amount, self.currency),
        )


class EvidenceDetails(msgspec.Struct, frozen=True):
    """The deadline for the evidence of a dispute."""

    due_by: int | None = None  # Unix seconds; None once it has passed


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute of a payment."""

    id: str
    status: str
    amount: int
    currency: str
    reason: str = ""
    payment_intent: str | Intent | None = None
    balance_transactions: tuple[BalanceTransaction, ...] = ()
    evidence_details: EvidenceDetails | None = None

    @property
    def gateway_events(self) -> tuple[GatewayEvent, ...]:
        """The event of a callback about the dispute, with Stripe's id of the payment."""
        status = DISPUTE_STATUSES.get(self.status)
        payment = self.payment_intent
        ref = payment.id if isinstance(payment, Intent) else payment
        if status is None or not ref:
            return ()
        # The dispute was lost, and later Stripe returned the money in full. After a partial return
        # the dispute remains LOST.
        moved = [entry.amount for entry in self.balance_transactions]
        if status == "LOST" and min(moved, default=0) < 0 <= sum(moved):
            status = "RECOVERED"
        until = self.evidence_details.due_by if self.evidence_details else None
        return (
            GatewayDisputeEvent(
                attempt_id="",
                payment_ref=ref,
                dispute_ref=self.id,
                status=status,
                amount=_to_money(self.amount, self.currency),
                reason=self.reason,
                respond_by=until * 1000 if until else None,
            ),
        )


def _to_money(amount: int, currency: str) -> Money:
    """Convert an amount; in an unsupported currency it keeps Stripe's number of minor units.

    Such an amount may belong to another deployment with the same account; this is known only when
    the payment is traced. Raises ValueError for an impossible amount of a supported currency.
    """
    code = currency.upper()
    is_supported = code in STRIPE_EXPONENTS
    return from_stripe(amount, currency) if is_supported else Money(amount, code)


class Listed(msgspec.Struct, frozen=True):
    """A list of objects, of which only the fact matters that Stripe returned it."""

    object: Literal["list"]


class Kind(msgspec.Struct, frozen=True):
    """The type of an event; the rest of the event is decoded only for known types."""

    type: str
    # The connected account, None if the event is about no connected account.
    account: str | None = None


class EventData(msgspec.Struct, Generic[T_co], frozen=True):
    """The data of an event."""

    object: T_co


class Event(msgspec.Struct, Generic[T_co], frozen=True):
    """An event about an object of type ``T_co``, which has the ``gateway_events``."""

    data: EventData[T_co]


# ``payment_intent.payment_failed`` is ignored: the customer may try again on the same page, and
# the session's events report the end. ``charge.refunded`` is for endpoints that do not get
# ``refund.…``; it does not name the refund, so all refunds of the payment are listed.
EVENTS: Final[
    dict[str, type[Event[Session | Intent | Charge | RefundedCharge | Refund | Dispute]]]
] = {
    "checkout.session.completed": Event[Session],
    "checkout.session.async_payment_succeeded": Event[Session],
    "checkout.session.async_payment_failed": Event[FailedSession],
    "checkout.session.expired": Event[Session],
    "payment_intent.succeeded": Event[Intent],
    "charge.succeeded": Event[Charge],
    "charge.refunded": Event[RefundedCharge],
    "refund.created": Event[Refund],
    "refund.updated": Event[Refund],
    "refund.failed": Event[Refund],
    "charge.refund.updated": Event[Refund],
    "charge.dispute.created": Event[Dispute],
    "charge.dispute.updated": Event[Dispute],
    "charge.dispute.closed": Event[Dispute],
    "charge.dispute.funds_withdrawn": Event[Dispute],
    "charge.dispute.funds_reinstated": Event[Dispute],
}
