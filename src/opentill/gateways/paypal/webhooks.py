"""PayPal's webhooks: the objects that only they have, and the events that they report.

Sources: PayPal's OpenAPI document ``customer_disputes_v1`` (github.com/paypal/
paypal-rest-api-specifications), and developer.paypal.com, "Webhook event names".
"""

from datetime import datetime
from typing import Final, Literal, TypeVar

import msgspec

from opentill.gateways.model import (
    DisputeStatus,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    PaymentOutcome,
)
from opentill.gateways.paypal.wire import (
    Amount,
    Capture,
    Order,
    PurchaseUnit,
    Refund,
    check_payee,
    is_attempt,
    read,
    reason_of,
    reference,
)

T = TypeVar("T")
# PayPal's own words: DENIED means that the dispute was denied, RESOLVED_WITH_PAYOUT that PayPal
# paid from its own money, NONE that another dispute of the same transaction replaces this one.
_DISPUTE_OUTCOMES: Final[dict[str, DisputeStatus]] = {
    "RESOLVED_BUYER_FAVOUR": "LOST",
    "ACCEPTED": "LOST",
    "RESOLVED_SELLER_FAVOUR": "WON",
    "RESOLVED_WITH_PAYOUT": "WON",
    "CANCELED_BY_BUYER": "WON",
    "DENIED": "WON",
    "NONE": "WON",
}
_OPEN_DISPUTES: Final = frozenset(
    {"OPEN", "WAITING_FOR_BUYER_RESPONSE", "WAITING_FOR_SELLER_RESPONSE", "UNDER_REVIEW"}
)


class DisputedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that is disputed, with the ids that we gave it."""

    seller_transaction_id: str = ""
    custom: str = ""
    invoice_number: str = ""


class DisputeOutcome(msgspec.Struct, frozen=True):
    """How a dispute ended."""

    outcome_code: str = ""


class Adjudication(msgspec.Struct, frozen=True):
    """A decision about a dispute. There are several after an appeal."""

    type: str = ""
    adjudication_time: str = ""


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute: an inquiry, a claim or a chargeback."""

    dispute_id: str
    status: str = ""
    reason: str = ""
    dispute_amount: Amount = Amount()
    disputed_transactions: list[DisputedTransaction] = []
    dispute_outcome: DisputeOutcome | None = None
    adjudications: list[Adjudication] = []
    seller_response_due_date: str = ""

    @property
    def result(self) -> DisputeStatus | None:
        """The status of our dispute; None if PayPal's is unknown.

        PayPal holds the money from the first day, so an inquiry is a dispute as well. A dispute
        that was lost and then won by an appeal is RECOVERED.
        """
        if self.status in _OPEN_DISPUTES:
            return "OPENED"
        if self.status != "RESOLVED" or self.dispute_outcome is None:
            return None
        result = _DISPUTE_OUTCOMES.get(self.dispute_outcome.outcome_code)
        lost = {"RECOVER_FROM_SELLER", "PAYOUT_TO_BUYER"}
        decisions = sorted(self.adjudications, key=lambda one: one.adjudication_time)
        was_lost = any(decision.type == "RECOVER_FROM_SELLER" for decision in decisions)
        if result == "WON" and was_lost and decisions[-1].type not in lost:
            return "RECOVERED"
        return result

    @property
    def event(self) -> GatewayDisputeEvent | None:
        """The report of the dispute; None if it is of no use. Raises ValueError.

        If PayPal does not return our id of the payment, it is traced by its capture.
        """
        if self.result is None or not self.disputed_transactions:
            return None
        transaction = self.disputed_transactions[0]
        ids = (transaction.custom, transaction.invoice_number)
        amount = self.dispute_amount.money
        if amount is None or not reference(self.dispute_id):
            msg = "the dispute has no id or no amount"
            raise ValueError(msg)
        return GatewayDisputeEvent(
            attempt_id=next((id_ for id_ in ids if is_attempt(id_)), ""),
            payment_ref=reference(transaction.seller_transaction_id),
            dispute_ref=self.dispute_id,
            status=self.result,
            amount=amount,
            reason=reason_of(self.reason),
            respond_by=_millis_of(self.seller_response_due_date),
        )


class ReversedApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An order whose approval PayPal has cancelled because it was not captured in time."""

    order_id: str = ""
    purchase_units: list[PurchaseUnit] = []

    @property
    def event(self) -> GatewayPaymentEvent | None:
        """The report; None if the order is not ours."""
        order = Order(id=self.order_id, purchase_units=self.purchase_units)
        if not order.attempt_id:
            return None
        outcome = PaymentOutcome(
            status="DECLINED", provider_ref=reference(order.id), reason="approval_reversed"
        )
        return GatewayPaymentEvent(attempt_id=order.attempt_id, outcome=outcome)


class Event(msgspec.Struct, frozen=True):
    """The body of a webhook. ``resource`` is decoded only for the types of ``EVENTS``."""

    event_type: str
    resource: msgspec.Raw = msgspec.Raw(b"{}")


class EventType(msgspec.Struct, frozen=True):
    """A type of events that a webhook gets."""

    name: str = ""


class Webhook(msgspec.Struct, frozen=True):
    """A webhook of the account."""

    url: str = ""
    event_types: list[EventType] = []


Resource = Literal["order", "reversed", "capture", "refund", "dispute"]
# Other events have no effect. PAYMENT.CAPTURE.REVERSED is among them: the money of a dispute is
# reported by the dispute's own events.
EVENTS: Final[dict[str, Resource]] = {
    "CHECKOUT.ORDER.APPROVED": "order",
    "CHECKOUT.ORDER.COMPLETED": "order",
    "CHECKOUT.PAYMENT-APPROVAL.REVERSED": "reversed",
    "PAYMENT.CAPTURE.COMPLETED": "capture",
    "PAYMENT.CAPTURE.PENDING": "capture",
    "PAYMENT.CAPTURE.DENIED": "capture",
    "PAYMENT.CAPTURE.DECLINED": "capture",
    "PAYMENT.CAPTURE.REFUNDED": "refund",
    "PAYMENT.REFUND.PENDING": "refund",
    "PAYMENT.REFUND.FAILED": "refund",
    "CUSTOMER.DISPUTE.CREATED": "dispute",
    "CUSTOMER.DISPUTE.UPDATED": "dispute",
    "CUSTOMER.DISPUTE.RESOLVED": "dispute",
}
# The events that a webhook must have; without the others, a report comes later or by a query.
NEEDED_EVENTS: Final = (
    "CHECKOUT.ORDER.APPROVED",
    "PAYMENT.CAPTURE.COMPLETED",
    "PAYMENT.CAPTURE.DENIED",
    "PAYMENT.CAPTURE.REFUNDED",
    "CUSTOMER.DISPUTE.CREATED",
    "CUSTOMER.DISPUTE.UPDATED",
    "CUSTOMER.DISPUTE.RESOLVED",
)


def read_events(body: bytes, merchant_id: str) -> tuple[GatewayEvent, ...]:
    """Return the events of a webhook's body, none for other types and other deployments.

    ``merchant_id`` is our account, "" if it is not checked. Raises ValueError if the body is not in
    PayPal's format, or about another account.
    """
    event = read(body, Event)
    if event is None:
        msg = "the body is not in PayPal's format"
        raise ValueError(msg)
    match EVENTS.get(event.event_type):
        case "order":
            order = _resource(event, Order)
            check_payee(order.payee, merchant_id)
            return _payment(order.attempt_id, order.outcome)
        case "capture":
            capture = _resource(event, Capture)
            check_payee(capture.payee.merchant_id if capture.payee else "", merchant_id)
            return _payment(capture.custom_id, capture.outcome)
        case "refund":
            refund = _resource(event, Refund).event
            return () if refund is None else (refund,)
        case "reversed":
            approval = _resource(event, ReversedApproval).event
            return () if approval is None else (approval,)
        case "dispute":
            dispute = _resource(event, Dispute).event
            return () if dispute is None else (dispute,)
        case None:
            return ()


def _resource(event: Event, kind: type[T]) -> T:
    resource = read(event.resource, kind)
    if resource is None:
        msg = "the resource is not in PayPal's format"
        raise ValueError(msg)
    return resource


def _payment(attempt_id: str, outcome: PaymentOutcome) -> tuple[GatewayEvent, ...]:
    if not is_attempt(attempt_id):
        return ()
    return (GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome),)


def _millis_of(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1000) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
