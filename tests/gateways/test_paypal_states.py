"""Every state of a payment, refund and dispute at PayPal has an outcome."""

from typing import Any, Final

import msgspec
import pytest

from gateways.paypal_events import create_dispute, create_event
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways.model import (
    DisputeStatus,
    PaymentStatus,
    RefundStatus,
)
from opentill.gateways.paypal import webhooks
from support.paypal_shop import EUR

CAPTURE_STATES: Final[tuple[tuple[str, str, PaymentStatus, str], ...]] = (
    ("COMPLETED", "", "SUCCEEDED", ""),
    ("PARTIALLY_REFUNDED", "", "SUCCEEDED", ""),
    ("REFUNDED", "", "SUCCEEDED", ""),
    ("PENDING", "ECHECK", "PENDING", "echeck"),
    ("PENDING", "PENDING_REVIEW", "PENDING", "pending_review"),
    ("PENDING", "", "PENDING", "pending"),
    ("DECLINED", "DECLINED_BY_RISK_FRAUD_FILTERS", "DECLINED", "declined_by_risk_fraud_filters"),
    ("FAILED", "", "DECLINED", "failed"),
    ("NEW\x00", "", "UNKNOWN", "an unreadable code"),
)
REFUND_STATES: Final[tuple[tuple[str, RefundStatus], ...]] = (
    ("COMPLETED", "SUCCEEDED"),
    ("PENDING", "PENDING"),
    ("CANCELLED", "REFUSED"),
    ("FAILED", "REFUSED"),
    ("", "UNKNOWN"),
)
ORDER_STATES: Final[tuple[tuple[str, PaymentStatus], ...]] = (
    ("CREATED", "ACTION_REQUIRED"),
    ("SAVED", "ACTION_REQUIRED"),
    ("PAYER_ACTION_REQUIRED", "ACTION_REQUIRED"),
    ("APPROVED", "PENDING"),
    ("VOIDED", "VOIDED"),
    ("COMPLETED", "UNKNOWN"),
    ("NEW", "UNKNOWN"),
)
DISPUTE_STATES: Final[tuple[tuple[str, str, DisputeStatus | None], ...]] = (
    ("OPEN", "", "OPENED"),
    ("WAITING_FOR_BUYER_RESPONSE", "", "OPENED"),
    ("WAITING_FOR_SELLER_RESPONSE", "", "OPENED"),
    ("UNDER_REVIEW", "", "OPENED"),
    ("RESOLVED", "RESOLVED_BUYER_FAVOUR", "LOST"),
    ("RESOLVED", "ACCEPTED", "LOST"),
    ("RESOLVED", "RESOLVED_SELLER_FAVOUR", "WON"),
    ("RESOLVED", "RESOLVED_WITH_PAYOUT", "WON"),
    ("RESOLVED", "CANCELED_BY_BUYER", "WON"),
    ("RESOLVED", "DENIED", "WON"),
    ("RESOLVED", "NONE", "WON"),
    ("RESOLVED", "NEW", None),
    ("OTHER", "", None),
)


def read_one(event_type: str, resource: object) -> Any:
    """Return the only event of a webhook, None if it has none."""
    events = webhooks.read_events(msgspec.json.encode(create_event(event_type, resource)), "")
    return events[0] if events else None


@pytest.mark.parametrize(("state", "details", "expected", "reason"), CAPTURE_STATES)
def test_every_state_of_a_capture_has_an_outcome(
    state: str, details: str, expected: PaymentStatus, reason: str
) -> None:
    capture = {
        "id": "2GG279541U471931P", "status": state, "custom_id": new_id("att"),
        "amount": {"currency_code": EUR, "value": "9.99"}, "status_details": {"reason": details},
    }  # fmt: skip
    outcome = read_one("PAYMENT.CAPTURE.COMPLETED", capture).outcome
    assert (outcome.status, outcome.reason) == (expected, reason)
    assert outcome.amount == (Money(999, EUR) if expected == "SUCCEEDED" else None)
    broken = capture | {"amount": {"currency_code": EUR, "value": "9,99"}}
    status = read_one("PAYMENT.CAPTURE.PENDING", broken).outcome.status
    assert status == ("UNKNOWN" if expected == "SUCCEEDED" else expected)


@pytest.mark.parametrize(("state", "expected"), ORDER_STATES)
def test_every_state_of_an_order_has_an_outcome(state: str, expected: PaymentStatus) -> None:
    attempt_id = new_id("att")
    order = {"id": "5O1", "status": state, "purchase_units": [{"custom_id": attempt_id}]}
    event = read_one("CHECKOUT.ORDER.APPROVED", order)
    assert (event.attempt_id, event.outcome.status) == (attempt_id, expected)
    reversed_approval = {"order_id": "5O1", "purchase_units": [{"custom_id": attempt_id}]}
    event = read_one("CHECKOUT.PAYMENT-APPROVAL.REVERSED", reversed_approval)
    assert (event.outcome.status, event.outcome.reason) == ("DECLINED", "approval_reversed")


def test_a_capture_that_moved_money_counts_before_declined_ones() -> None:
    captures = [{"id": "1", "status": "DECLINED"}, {"id": "2", "status": "PENDING"}]
    unit = {"custom_id": new_id("att"), "payments": {"captures": captures}}
    order = {"id": "5O1", "status": "COMPLETED", "purchase_units": [unit]}
    outcome = read_one("CHECKOUT.ORDER.COMPLETED", order).outcome
    assert (outcome.status, outcome.provider_ref) == ("PENDING", "2")


@pytest.mark.parametrize(("state", "expected"), REFUND_STATES)
def test_every_state_of_a_refund_has_an_outcome(state: str, expected: RefundStatus) -> None:
    link = "https://api-m.paypal.com/v2/payments/captures/2GG279541U471931P"
    refund = {
        "id": "1JU08902781691411", "status": state, "custom_id": "shop-1",
        "amount": {"currency_code": EUR, "value": "0.09"},
        "links": [{"rel": "up", "href": link}],
    }  # fmt: skip
    event = read_one("PAYMENT.CAPTURE.REFUNDED", refund)
    assert (event.outcome.status, event.refund_id, event.attempt_id) == (expected, "", "")
    assert (event.payment_ref, event.amount) == ("2GG279541U471931P", Money(9, EUR))


@pytest.mark.parametrize(("state", "code", "expected"), DISPUTE_STATES)
def test_every_state_of_a_dispute_is_known(
    state: str, code: str, expected: DisputeStatus | None
) -> None:
    outcome = {"outcome_code": code} if code else None
    event = read_one(
        "CUSTOMER.DISPUTE.RESOLVED", create_dispute(status=state, dispute_outcome=outcome)
    )
    assert (event and event.status) == expected
    if event is not None:
        assert (event.attempt_id, event.payment_ref) == ("", "2GG279541U471931P")


@pytest.mark.parametrize(
    ("decisions", "code", "expected"),
    [
        (("RECOVER_FROM_SELLER", "PAYOUT_TO_SELLER"), "RESOLVED_SELLER_FAVOUR", "RECOVERED"),
        (("RECOVER_FROM_SELLER", "DENY_BUYER"), "RESOLVED_SELLER_FAVOUR", "RECOVERED"),
        (("PAYOUT_TO_SELLER",), "RESOLVED_SELLER_FAVOUR", "WON"),
        (("PAYOUT_TO_SELLER", "RECOVER_FROM_SELLER"), "RESOLVED_BUYER_FAVOUR", "LOST"),
    ],
)
def test_an_appeal_recovers_a_lost_dispute(
    decisions: tuple[str, ...], code: str, expected: DisputeStatus
) -> None:
    dated = [
        {"type": kind, "adjudication_time": f"2026-0{month}-01T00:00:00Z"}
        for month, kind in enumerate(decisions, 1)
    ]
    resolved = create_dispute(
        status="RESOLVED", dispute_outcome={"outcome_code": code}, adjudications=dated[::-1]
    )
    assert read_one("CUSTOMER.DISPUTE.RESOLVED", resolved).status == expected
