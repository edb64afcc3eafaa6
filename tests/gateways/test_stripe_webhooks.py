"""Stripe's webhooks: which are read as events, ignored or refused."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from gateways.stripe_gateways import (
    create_gateway,
    create_payment,
    payment_request,
    refund_request,
)
from opentill.core.money import Money
from opentill.gateways import (
    BadCallback,
    GatewayDisputeEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    PaymentOutcome,
)
from opentill.gateways.stripe.client import StripeGateway
from support.stripe_server import SECRET, StripeServer

NOW = int(time.time() * 1000)


async def test_each_genuine_callback_is_read_as_an_event(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    def read_events(event_type: str, stripe_object: dict[str, Any]) -> Any:
        return stripe_gateway.read_callback(
            *stripe_bank.sign_event(event_type, stripe_object), int(time.time() * 1000)
        )

    request = payment_request()
    session = (await stripe_gateway.pay(request)).provider_ref
    attempt_id = request.attempt_id
    intent = stripe_bank.pay(attempt_id, "processing")
    session_object = stripe_bank.sessions[session]
    (gateway_event,) = read_events("checkout.session.completed", session_object)
    assert (gateway_event.attempt_id, gateway_event.outcome.status) == (attempt_id, "PENDING")
    (gateway_event,) = read_events("checkout.session.async_payment_failed", session_object)
    assert (gateway_event.outcome.status, gateway_event.outcome.reason) == (
        "DECLINED",
        "async_payment_failed",
    )
    stripe_bank.end_processing(intent, paid=True)
    succeeded = PaymentOutcome(status="SUCCEEDED", provider_ref=intent, amount=Money(999, "EUR"))
    expected = (GatewayPaymentEvent(attempt_id=attempt_id, outcome=succeeded),)
    assert read_events("checkout.session.completed", session_object) == expected
    assert read_events("checkout.session.async_payment_succeeded", session_object) == expected
    assert read_events("payment_intent.succeeded", stripe_bank.intents[intent]) == expected
    assert read_events("payment_intent.payment_failed", stripe_bank.intents[intent]) == ()
    (gateway_event,) = read_events(
        "checkout.session.expired",
        session_object | {"status": "expired", "payment_status": "unpaid"},
    )
    assert (gateway_event.outcome.status, gateway_event.outcome.reason) == ("DECLINED", "expired")

    requested_refund = refund_request(attempt_id, intent, 400)
    outcome = await stripe_gateway.refund(requested_refund)
    refund = stripe_bank.refunds[outcome.provider_ref]
    for event_type in ("refund.created", "refund.updated", "charge.refund.updated"):
        (gateway_event,) = read_events(event_type, refund)
        assert gateway_event == GatewayRefundEvent(
            attempt_id=attempt_id,
            refund_id=requested_refund.refund_id,
            outcome=outcome,
            amount=Money(400, "EUR"),
        )
    (gateway_event,) = read_events(
        "refund.failed", refund | {"status": "failed", "failure_reason": "declined"}
    )
    assert (gateway_event.outcome.status, gateway_event.outcome.reason) == ("REFUSED", "declined")


@pytest.mark.parametrize(("stripe_status", "movements", "status"), [
    ("warning_needs_response", (), None),
    ("warning_under_review", (), None),
    ("warning_closed", (), None),
    ("prevented", (), None),
    ("something_new", (), None),
    ("needs_response", (), "OPENED"),
    ("under_review", (-999,), "OPENED"),
    ("won", (-999, 999), "WON"),
    ("lost", (-999,), "LOST"),
    ("lost", (-999, 400), "LOST"),
    ("lost", (-999, 999), "RECOVERED"),
    ("appeal_under_review", (-999,), "LOST"),
])  # fmt: skip
async def test_each_status_of_a_dispute_is_read_as_an_event_or_ignored(
    stripe_gateway: StripeGateway,
    stripe_bank: StripeServer,
    stripe_status: str,
    movements: tuple[int, ...],
    status: Any,
) -> None:
    _, intent = await create_payment(stripe_gateway, stripe_bank)
    dispute = stripe_bank.dispute(intent, stripe_status, *movements)
    gateway_event = stripe_gateway.read_callback(
        *stripe_bank.sign_event("charge.dispute.updated", dispute), int(time.time() * 1000)
    )
    expected = status and GatewayDisputeEvent(
        attempt_id="",
        payment_ref=intent,
        dispute_ref=dispute["id"],
        status=status,
        amount=Money(999, "EUR"),
        reason="fraudulent",
    )
    assert gateway_event == ((expected,) if expected else ())


@pytest.mark.parametrize(("currency", "amount"), [
    ("eur", Money(5000, "EUR")), ("ang", Money(5000, "ANG")), ("zzz", Money(5000, "ZZZ")),
])  # fmt: skip
async def test_a_dispute_in_any_currency_is_traced(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, currency: str, amount: Money
) -> None:
    """The payment is traced, because the account may have payments of other systems too."""
    _, intent = await create_payment(stripe_gateway, stripe_bank)
    dispute = stripe_bank.dispute(intent, "needs_response", currency=currency, amount=5000)
    (event,) = stripe_gateway.read_callback(
        *stripe_bank.sign_event("charge.dispute.created", dispute), int(time.time() * 1000)
    )
    assert isinstance(event, GatewayDisputeEvent)
    assert (event.attempt_id, event.payment_ref, event.amount) == ("", intent, amount)
    stripe_bank.intents[intent] |= {"currency": currency, "metadata": {}}
    assert await stripe_gateway.trace(intent) == ""


@pytest.mark.parametrize(
    ("details", "respond_by"),
    [
        ({"due_by": 1_795_000_000, "has_evidence": False}, 1_795_000_000_000),
        ({"due_by": None}, None),
        ({"due_by": 0}, None),
        (None, None),
    ],
)
async def test_the_deadline_of_a_dispute_is_that_of_stripe(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, details: Any, respond_by: int | None
) -> None:
    _, intent = await create_payment(stripe_gateway, stripe_bank)
    dispute = stripe_bank.dispute(intent, "needs_response", evidence_details=details)
    (event,) = stripe_gateway.read_callback(
        *stripe_bank.sign_event("charge.dispute.created", dispute), int(time.time() * 1000)
    )
    assert isinstance(event, GatewayDisputeEvent)
    assert event.respond_by == respond_by


async def test_events_about_other_payments_are_ignored(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    session = stripe_bank.find_session(attempt_id)
    refund = {"id": "re_1", "object": "refund", "status": "succeeded", "metadata": {}}
    # This refund is of a charge without a payment intent.
    refund |= {
        "amount": 1,
        "currency": "usd",
        "payment_intent": None,
    }
    for event_type, stripe_object in [
        ("checkout.session.completed", session | {"metadata": {"other": "thing"}}),
        ("checkout.session.completed", session | {"metadata": None}),
        ("payment_intent.succeeded", stripe_bank.intents[intent] | {"metadata": {}}),
        ("refund.updated", refund),
        ("charge.dispute.created", stripe_bank.dispute(intent, "lost", payment_intent=None)),
        ("charge.refunded", {"id": "ch_1"}),
        ("charge.succeeded", stripe_bank.charge(intent) | {"metadata": {}}),
        ("charge.succeeded", stripe_bank.charge(intent) | {"captured": False}),
        ("customer.created", {"id": "cus_1"}),
    ]:
        signed = stripe_bank.sign_event(event_type, stripe_object)
        assert stripe_gateway.read_callback(*signed, int(time.time() * 1000)) == (), event_type


GENUINE = StripeServer.sign_event("customer.created", {}, signed_at=NOW / 1000)


def sign_another_event(secret: str = SECRET, at_s: float = NOW / 1000) -> str:
    """Return the signature header of another event of the same type."""
    return StripeServer.sign_event("customer.created", {}, secret, at_s)[0]["stripe-signature"]


@pytest.mark.parametrize("tamper", [
    lambda header: {},
    lambda header: {"stripe-signature": ""},
    lambda header: {"stripe-signature": header.replace("v1=", "v0=")},
    lambda header: {"stripe-signature": header.replace(",v1=", ",v1=0")},
    lambda header: {"stripe-signature": header.split(",")[0]},
    lambda header: {"stripe-signature": header.split(",")[1]},
    lambda header: {"stripe-signature": header.replace("t=", "t=1")},
    lambda header: {"stripe-signature": f"t= 5,{header}"},
    lambda header: {"stripe-signature": f"{header},t=5"},
    lambda header: {"stripe-signature": header.replace("v1=", "v1=é")},
    lambda header: {"stripe-signature": sign_another_event("whsec_other")},
    lambda header: {"stripe-signature": sign_another_event()},
])  # fmt: skip
def test_a_forged_callback_is_refused(tamper: Callable[[str], dict[str, str]]) -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    headers, body = GENUINE
    assert stripe_gateway.read_callback(headers, body, NOW) == ()
    with pytest.raises(BadCallback):
        stripe_gateway.read_callback(tamper(headers["stripe-signature"]), body, NOW)


@pytest.mark.parametrize(
    ("age_s", "is_valid"), [(-302, False), (-299, True), (0, True), (299, True), (302, False)]
)
def test_a_signature_is_valid_for_five_minutes_before_and_after_its_time(
    age_s: int, is_valid: bool
) -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("customer.created", {}, signed_at=NOW / 1000 - age_s)
    if is_valid:
        assert stripe_gateway.read_callback(*signed, NOW) == ()
    else:
        with pytest.raises(BadCallback, match="five minutes"):
            stripe_gateway.read_callback(*signed, NOW)


def test_the_old_secret_is_accepted_during_a_rotation() -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("customer.created", {}, "whsec_before", NOW / 1000)
    assert stripe_gateway.read_callback(*signed, NOW) == ()


@pytest.mark.parametrize("session", [
    {},
    {"id": 7, "status": "complete", "payment_status": "paid"},
    {"id": "cs_1", "status": "complete", "payment_status": "paid", "currency": "xxx",
     "amount_total": 1, "payment_intent": "pi_1", "metadata": {"attempt_id": "att_1"}},
])  # fmt: skip
def test_a_signed_but_malformed_body_is_refused(session: dict[str, Any]) -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("checkout.session.completed", session, signed_at=NOW / 1000)
    with pytest.raises(BadCallback):
        stripe_gateway.read_callback(*signed, NOW)


def test_an_event_of_a_connected_account_is_ignored() -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    dispute = {"id": "du_1", "status": "lost", "amount": 1, "currency": "eur"}
    for account, number_of_events in ((None, 1), ("acct_1", 0)):
        signed = StripeServer.sign_event(
            "charge.dispute.closed", dispute | {"payment_intent": "pi_1"}, signed_at=NOW / 1000,
            account=account,
        )  # fmt: skip
        assert len(stripe_gateway.read_callback(*signed, NOW)) == number_of_events
