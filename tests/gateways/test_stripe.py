"""The Stripe gateway, with a simulated Stripe (``stripe_server``) that can have faults."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from opentill.core.ids import first_id, new_id
from opentill.core.money import EXPONENTS, Money
from opentill.gateways import (
    BadCallback,
    Expires,
    GatewayDisputeEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    PaymentOutcome,
    PaymentRequest,
    RefundRequest,
    Traces,
)
from opentill.gateways.model import Card
from opentill.gateways.routing import build_gateways, methods_of
from opentill.gateways.stripe.checkout import params
from opentill.gateways.stripe.client import StripeGateway
from opentill.outgoing.client import Outgoing, Policy
from support.ports import free_socket, url_of
from support.stripe_server import KEY, SECRET, StripeServer

NOW = int(time.time() * 1000)


def create_gateway(url: str, key: str = KEY, timeout_s: float = 5.0) -> StripeGateway:
    """Create a gateway that calls the server at a URL."""
    outgoing = Outgoing(Policy.only(url))
    return StripeGateway(key, (SECRET, "whsec_before"), url, outgoing, timeout_s)


@pytest.fixture
async def bank() -> AsyncIterator[StripeServer]:
    """A running server that simulates Stripe."""
    bank = StripeServer()
    await bank.start()
    yield bank
    await bank.stop()


@pytest.fixture
async def gateway(bank: StripeServer) -> AsyncIterator[StripeGateway]:
    """The gateway of the running server."""
    gateway = create_gateway(bank.url)
    yield gateway
    await gateway.close()


def payment_request(**changes: Any) -> PaymentRequest:
    """Return a request to pay 9.99 euros by card, with a new id."""
    request = PaymentRequest(
        attempt_id=new_id("att"),
        method="CREDIT_CARD",
        amount=Money(999, "EUR"),
        description="A mug",
        merchant_name="Mugs & <b>More</b>",
        customer_email="ann@example.com",
        customer_name=None,
        payer_ip="203.0.113.9",
        return_url="https://till.example/checkout/cs_x/return/att_y?lang=en",
        callback_url="https://till.example/gateways/stripe/callback",
        locale="zh-Hant",
    )
    return msgspec.structs.replace(request, **changes)


@pytest.mark.parametrize(
    ("locale", "stripe_locale"),
    [
        ("en", "en"),
        ("de", "de"),
        ("pt", "pt-BR"),
        ("zh-Hans", "zh"),
        ("zh-Hant", "zh-TW"),
        ("eo", "auto"),
        ("", "auto"),
    ],
)
def test_stripes_page_is_in_the_customers_language(locale: str, stripe_locale: str) -> None:
    body = params(payment_request(locale=locale), int(time.time() * 1000))
    assert body.get("locale") == stripe_locale


async def create_payment(gateway: StripeGateway, bank: StripeServer) -> tuple[str, str]:
    """Pay a new attempt; return its id and Stripe's id of the payment."""
    request = payment_request()
    await gateway.pay(request)
    return request.attempt_id, bank.pay(request.attempt_id)


def attempt_id_at(created_s: int) -> str:
    """Return an id that an attempt of this time (Unix s) would have."""
    length = len("att_") + 10  # this many characters of an id encode its time
    return first_id("att", created_s * 1000)[:length] + new_id("att")[length:]


def refund_request(attempt_id: str, provider_ref: str, minor: int, **changes: Any) -> RefundRequest:
    """Return a request to refund an amount of a payment."""
    request = RefundRequest(
        refund_id=new_id("re"),
        attempt_id=attempt_id,
        provider_ref=provider_ref,
        amount=Money(minor, "EUR"),
        reason="",
        callback_url="https://till.example/gateways/stripe/callback",
    )
    return msgspec.structs.replace(request, **changes)


def test_the_gateway_can_expire_sessions_and_trace_payments() -> None:
    gateway = create_gateway("http://127.0.0.1:1")
    assert isinstance(gateway, Expires)
    assert isinstance(gateway, Traces)


async def test_a_new_attempt_opens_a_session(gateway: StripeGateway, bank: StripeServer) -> None:
    now = int(time.time() * 1000)
    request = payment_request(expires_at=now + 3_600_000)
    outcome = await gateway.pay(request)
    session = bank.find_session(request.attempt_id)
    assert outcome == PaymentOutcome(
        status="ACTION_REQUIRED", provider_ref=session["id"], action_url=session["url"]
    )
    form = session["_form"]
    assert form["allowed_payment_method_types"] == {"0": "card"}
    assert form["line_items"]["0"]["price_data"] == {
        "currency": "eur",
        "unit_amount": "999",
        "product_data": {"name": "A mug", "description": "Mugs & <b>More</b>"},
    }
    assert form["metadata"] == {"attempt_id": request.attempt_id}
    assert form["payment_intent_data"]["metadata"] == {"attempt_id": request.attempt_id}
    assert form["success_url"] == form["cancel_url"] == request.return_url
    assert (form["customer_email"], form["locale"]) == ("ann@example.com", "zh-TW")
    assert form["adaptive_pricing"] == {"enabled": "false"}
    assert abs(int(form["expires_at"]) - now // 1000 - 3600) <= 1
    _, _, headers = bank.calls[0]
    assert headers["Idempotency-Key"] == request.attempt_id
    assert "telemetry" not in str(headers).lower()
    assert await gateway.pay(request) == outcome
    assert len(bank.sessions) == 1


@pytest.mark.parametrize("ends_in_s", [-3600, 0, 60, 3 * 86400])
async def test_the_expiry_of_a_session_is_within_stripes_limits(
    gateway: StripeGateway, ends_in_s: int
) -> None:
    ends = int(time.time() * 1000) + ends_in_s * 1000
    assert (await gateway.pay(payment_request(expires_at=ends))).status == "ACTION_REQUIRED"


@pytest.mark.parametrize(("method", "stripe_type", "currency"), [
    ("CREDIT_CARD", "card", "USD"),
    ("ALIPAY", "alipay", "USD"),
    ("WECHAT_PAY", "wechat_pay", "USD"),
    ("PAYNOW", "paynow", "SGD"),
    ("CRYPTO", "crypto", "USD"),
])  # fmt: skip
async def test_each_method_has_its_stripe_type(
    gateway: StripeGateway, bank: StripeServer, method: Any, stripe_type: str, currency: str
) -> None:
    assert method in gateway.methods(currency)
    request = payment_request(method=method, amount=Money(999, currency))
    await gateway.pay(request)
    assert bank.find_session(request.attempt_id)["payment_method_types"] == [stripe_type]


@pytest.mark.parametrize(("changes", "reason"), [
    ({"amount": Money(49, "EUR")}, "amount_too_small"),
    ({"amount": Money(100, "IQD")}, "Stripe does not take IQD"),
    ({"amount": Money(150, "MGA")}, "Stripe does not take so small a fraction of MGA"),
    ({"method": "BANK_TRANSFER"}, "Stripe does not take BANK_TRANSFER"),
])  # fmt: skip
async def test_payments_that_stripe_does_not_accept_are_declined_with_the_reason(
    gateway: StripeGateway, bank: StripeServer, changes: dict[str, Any], reason: str
) -> None:
    request = payment_request(**changes)
    outcome = await gateway.pay(request)
    assert (outcome.status, outcome.reason) == ("DECLINED", reason)
    assert not bank.sessions


async def test_an_attempt_is_found_by_session_by_payment_and_by_search(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    outcome = await gateway.pay(request)
    attempt_id, session = request.attempt_id, outcome.provider_ref
    assert await gateway.find_payment(attempt_id, session) == outcome
    assert await gateway.find_payment(attempt_id) == outcome
    intent = bank.pay(attempt_id)
    bank.clearing = "hkd"
    succeeded = PaymentOutcome(
        status="SUCCEEDED",
        provider_ref=intent,
        amount=Money(999, "EUR"),
        clearing_currency="HKD",
        card=Card(brand="mastercard", last4="4444"),
    )
    assert await gateway.find_payment(attempt_id, session) == succeeded
    assert await gateway.find_payment(attempt_id, intent) == succeeded
    found_by_search = await gateway.find_payment(attempt_id)
    assert (found_by_search.status, found_by_search.provider_ref) == ("SUCCEEDED", intent)
    other_id = new_id("att")
    assert (await gateway.find_payment(other_id, session)).status == "UNKNOWN"
    assert (await gateway.find_payment(other_id, intent)).status == "UNKNOWN"


@pytest.mark.parametrize(("is_paid", "status", "reason"), [
    (None, "PENDING", ""),
    (True, "SUCCEEDED", ""),
    (False, "DECLINED", "payment_intent_payment_attempt_failed"),
])  # fmt: skip
async def test_an_asynchronous_payment_is_pending_until_the_bank_decides(
    gateway: StripeGateway, bank: StripeServer, is_paid: bool | None, status: str, reason: str
) -> None:
    request = payment_request(method="ALIPAY")
    session = (await gateway.pay(request)).provider_ref
    intent = bank.pay(request.attempt_id, "processing")
    if is_paid is not None:
        bank.end_processing(intent, paid=is_paid)
    outcome = await gateway.find_payment(request.attempt_id, session)
    assert (outcome.status, outcome.reason) == (status, reason)


async def test_a_different_captured_amount_is_reported(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    session = (await gateway.pay(request)).provider_ref
    bank.pay(request.attempt_id, amount=500)
    outcome = await gateway.find_payment(request.attempt_id, session)
    assert outcome.amount == Money(500, "EUR")


async def test_an_attempt_without_a_session_is_not_found(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    for _ in range(102):  # more sessions of other attempts in the same minutes than a page has
        await gateway.pay(payment_request())
    assert (await gateway.find_payment(new_id("att"))).status == "NOT_FOUND"
    # Two pages have sessions; the pages before and after them are empty.
    assert bank.count("list") == 4
    assert (await gateway.find_payment("att_1")).status == "UNKNOWN"
    first_attempt_id = next(iter(bank.sessions.values()))["client_reference_id"]
    assert (await gateway.find_payment(first_attempt_id)).status == "ACTION_REQUIRED"


async def test_a_session_is_found_among_those_of_a_busy_hour(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    await gateway.pay(request)
    created_s = bank.find_session(request.attempt_id)["created"]
    bank.open_other_sessions(18_000, created_s - 300, created_s + 600)
    assert (await gateway.find_payment(request.attempt_id)).status == "ACTION_REQUIRED"
    assert bank.count("list") <= 5  # each second has 20 other sessions, but few pages are read


async def test_a_search_for_a_session_has_a_time_limit_until_the_session_has_expired(
    bank: StripeServer,
) -> None:
    gateway = create_gateway(bank.url, timeout_s=0.8)
    await gateway.pay(payment_request())
    now_s, day_s = int(time.time()), 86_400
    # For each time at which an attempt was created (Unix s), the status of the outcome.
    attempts = {
        now_s: "UNKNOWN",
        now_s - day_s + 60: "UNKNOWN",
        now_s - 2 * day_s: "NOT_FOUND",
    }
    for created_s in attempts:
        bank.open_other_sessions(4_000, created_s - 30, created_s + 30)
    bank.delay_s = 0.08
    for created_s, status in attempts.items():
        started = time.monotonic()
        outcome = await gateway.find_payment(attempt_id_at(created_s))
        assert (outcome.status, outcome.reason != "") == (status, True)
        assert time.monotonic() - started < 1.3
    assert (await gateway.find_payment(attempt_id_at(now_s - 3600))).status == "NOT_FOUND"
    await gateway.close()


@pytest.mark.parametrize("name", ["cs_elsewhere", "pi_elsewhere"])
async def test_objects_of_another_account_are_unknown(gateway: StripeGateway, name: str) -> None:
    assert (await gateway.find_payment(new_id("att"), name)).status == "UNKNOWN"
    refund = await gateway.refund(refund_request(new_id("att"), name, 1))
    assert refund.status == "UNKNOWN"


FAULTS = ["500", "429", "409", "reset", "html", "list", "odd"]


@pytest.mark.parametrize("fault", [*FAULTS, *(f"{fault}_after" for fault in FAULTS)])
async def test_a_lost_response_is_unknown_until_the_next_query(
    gateway: StripeGateway, bank: StripeServer, fault: str
) -> None:
    request = payment_request()
    bank.inject_faults("open", fault)
    assert (await gateway.pay(request)).status == "UNKNOWN"
    bank.inject_faults("list", *[fault.removesuffix("_after")] * (2 if "reset" in fault else 1))
    assert (await gateway.find_payment(request.attempt_id)).status == "UNKNOWN"
    expected = "ACTION_REQUIRED" if fault.endswith("_after") else "NOT_FOUND"
    assert (await gateway.find_payment(request.attempt_id)).status == expected
    assert bank.count("open") == 1  # Stripe's library has not retried


@pytest.mark.parametrize("fault", [*FAULTS, *(f"{fault}_after" for fault in FAULTS)])
async def test_a_lost_response_to_a_refund_causes_no_second_refund(
    gateway: StripeGateway, bank: StripeServer, fault: str
) -> None:
    attempt_id, intent = await create_payment(gateway, bank)
    request = refund_request(attempt_id, intent, 400)
    bank.inject_faults("refund", fault)
    assert (await gateway.refund(request)).status == "UNKNOWN"
    bank.forget_keys()  # Stripe forgets keys after a day
    repeated = await gateway.refund(request)
    assert repeated.status == "SUCCEEDED"
    assert [refund["amount"] for refund in bank.refunds.values()] == [400]
    assert await gateway.find_refund(request.refund_id, intent) == repeated
    bank.inject_faults("refunds", "500")
    assert (await gateway.refund(refund_request(attempt_id, intent, 100))).status == "UNKNOWN"
    # No refund is created while the earlier ones cannot be listed.
    assert len(bank.refunds) == 1


async def test_a_timeout_after_sending_is_unknown(bank: StripeServer) -> None:
    gateway = create_gateway(bank.url, timeout_s=2.0)
    # This opens the connection, so that only the response can time out.
    await gateway.trace("pi_none")
    request = payment_request()
    bank.inject_faults("open", "hang_after")
    assert (await gateway.pay(request)).status == "UNKNOWN"
    assert bank.find_session(request.attempt_id)["status"] == "open"
    await gateway.close()


async def test_a_stripe_that_refuses_connections_is_unreachable() -> None:
    sock = free_socket()
    gateway = create_gateway(url_of(sock))
    assert (await gateway.pay(payment_request())).status == "UNREACHABLE"
    assert (await gateway.refund(refund_request("att_x", "pi_x", 1))).status == "UNREACHABLE"
    assert await gateway.trace("pi_x") is None
    await gateway.close()
    sock.close()


async def test_a_forbidden_address_is_unreachable(bank: StripeServer) -> None:
    outgoing = Outgoing(Policy())
    gateway = StripeGateway(KEY, (SECRET,), bank.url, outgoing)
    assert (await gateway.pay(payment_request())).status == "UNREACHABLE"
    assert bank.calls == []
    await gateway.close()


async def test_with_a_wrong_key_every_outcome_is_unknown_and_the_refusal_is_logged(
    bank: StripeServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = create_gateway(bank.url, "sk_test_wrong")
    assert (await gateway.pay(payment_request())).status == "UNKNOWN"
    assert (await gateway.find_payment(new_id("att"))).status == "UNKNOWN"
    assert (await gateway.refund(refund_request("att_x", "pi_x", 1))).status == "UNKNOWN"
    output = caplog.text + capsys.readouterr().out
    assert "stripe refuses our key" in output
    assert "sk_test_wrong" not in output
    await gateway.close()


async def test_an_expired_session_cannot_be_paid(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    session = (await gateway.pay(request)).provider_ref
    expired = await gateway.expire(request.attempt_id, session)
    assert (expired.status, expired.reason) == ("DECLINED", "expired")
    assert bank.sessions[session]["status"] == "expired"
    assert await gateway.expire(request.attempt_id, session) == expired
    assert bank.count("expire") == 1


async def test_a_session_whose_id_was_lost_is_expired(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    await gateway.pay(request)
    assert (await gateway.expire(request.attempt_id, "")).status == "DECLINED"
    assert (await gateway.expire(new_id("att"), "")).status == "NOT_FOUND"


async def test_a_payment_during_the_expiry_of_its_session_counts(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    session = (await gateway.pay(request)).provider_ref
    payers = iter([request.attempt_id])
    bank.after_read = lambda: [bank.pay(attempt_id) for attempt_id in payers]
    assert (await gateway.expire(request.attempt_id, session)).status == "SUCCEEDED"
    assert bank.count("expire") == 1


async def test_each_refund_has_its_outcome(gateway: StripeGateway, bank: StripeServer) -> None:
    attempt_id, intent = await create_payment(gateway, bank)
    request = refund_request(attempt_id, intent, 900)
    succeeded = await gateway.refund(request)
    assert succeeded.status == "SUCCEEDED"
    assert await gateway.refund(request) == succeeded
    too_much = await gateway.refund(refund_request(attempt_id, intent, 100))
    assert (too_much.status, too_much.reason) == ("REFUSED", "Charge has already been refunded.")
    refund = bank.refunds[succeeded.provider_ref]
    assert refund["metadata"] == {"attempt_id": attempt_id, "refund_id": request.refund_id}
    assert (await gateway.find_refund(new_id("re"), intent)).status == "NOT_FOUND"
    assert (await gateway.find_refund(request.refund_id)).status == "UNKNOWN"


@pytest.mark.parametrize(("stripe_status", "status"), [
    ("succeeded", "SUCCEEDED"),
    ("pending", "PENDING"),
    ("requires_action", "PENDING"),
    ("failed", "REFUSED"),
    ("canceled", "REFUSED"),
    ("something_new", "PENDING"),
])  # fmt: skip
async def test_each_status_of_a_refund_has_its_outcome(
    gateway: StripeGateway, bank: StripeServer, stripe_status: str, status: str
) -> None:
    attempt_id, intent = await create_payment(gateway, bank)
    bank.refund_status = stripe_status
    assert (await gateway.refund(refund_request(attempt_id, intent, 1))).status == status


async def test_the_refund_of_a_duplicate_payment_has_the_id_of_its_attempt(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    request = payment_request()
    session = (await gateway.pay(request)).provider_ref
    bank.pay(request.attempt_id)
    attempt_id = request.attempt_id
    return_request = refund_request(attempt_id, session, 999, refund_id=attempt_id)
    assert (await gateway.refund(return_request)).status == "SUCCEEDED"
    (refund,) = bank.refunds.values()
    assert refund["amount"] == 999


async def test_a_payment_is_traced_to_its_attempt(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(gateway, bank)
    assert await gateway.trace(intent) == attempt_id
    bank.intents[intent]["metadata"] = {}
    assert await gateway.trace(intent) == ""
    bank.inject_faults("intent", "500")
    assert await gateway.trace(intent) is None


async def test_each_genuine_callback_is_read_as_an_event(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    def read_events(event_type: str, stripe_object: dict[str, Any]) -> Any:
        return gateway.read_callback(
            *bank.sign_event(event_type, stripe_object), int(time.time() * 1000)
        )

    request = payment_request()
    session = (await gateway.pay(request)).provider_ref
    attempt_id = request.attempt_id
    intent = bank.pay(attempt_id, "processing")
    session_object = bank.sessions[session]
    (gateway_event,) = read_events("checkout.session.completed", session_object)
    assert (gateway_event.attempt_id, gateway_event.outcome.status) == (attempt_id, "PENDING")
    (gateway_event,) = read_events("checkout.session.async_payment_failed", session_object)
    assert (gateway_event.outcome.status, gateway_event.outcome.reason) == (
        "DECLINED",
        "async_payment_failed",
    )
    bank.end_processing(intent, paid=True)
    succeeded = PaymentOutcome(status="SUCCEEDED", provider_ref=intent, amount=Money(999, "EUR"))
    expected = (GatewayPaymentEvent(attempt_id=attempt_id, outcome=succeeded),)
    assert read_events("checkout.session.completed", session_object) == expected
    assert read_events("checkout.session.async_payment_succeeded", session_object) == expected
    assert read_events("payment_intent.succeeded", bank.intents[intent]) == expected
    assert read_events("payment_intent.payment_failed", bank.intents[intent]) == ()
    (gateway_event,) = read_events(
        "checkout.session.expired",
        session_object | {"status": "expired", "payment_status": "unpaid"},
    )
    assert (gateway_event.outcome.status, gateway_event.outcome.reason) == ("DECLINED", "expired")

    requested_refund = refund_request(attempt_id, intent, 400)
    outcome = await gateway.refund(requested_refund)
    refund = bank.refunds[outcome.provider_ref]
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
    gateway: StripeGateway,
    bank: StripeServer,
    stripe_status: str,
    movements: tuple[int, ...],
    status: Any,
) -> None:
    _, intent = await create_payment(gateway, bank)
    dispute = bank.dispute(intent, stripe_status, *movements)
    gateway_event = gateway.read_callback(
        *bank.sign_event("charge.dispute.updated", dispute), int(time.time() * 1000)
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
    gateway: StripeGateway, bank: StripeServer, currency: str, amount: Money
) -> None:
    """The payment is traced, because the account may have payments of other systems too."""
    _, intent = await create_payment(gateway, bank)
    dispute = bank.dispute(intent, "needs_response", currency=currency, amount=5000)
    (event,) = gateway.read_callback(
        *bank.sign_event("charge.dispute.created", dispute), int(time.time() * 1000)
    )
    assert isinstance(event, GatewayDisputeEvent)
    assert (event.attempt_id, event.payment_ref, event.amount) == ("", intent, amount)
    bank.intents[intent] |= {"currency": currency, "metadata": {}}
    assert await gateway.trace(intent) == ""


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
    gateway: StripeGateway, bank: StripeServer, details: Any, respond_by: int | None
) -> None:
    _, intent = await create_payment(gateway, bank)
    dispute = bank.dispute(intent, "needs_response", evidence_details=details)
    (event,) = gateway.read_callback(
        *bank.sign_event("charge.dispute.created", dispute), int(time.time() * 1000)
    )
    assert isinstance(event, GatewayDisputeEvent)
    assert event.respond_by == respond_by


async def test_events_about_other_payments_are_ignored(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(gateway, bank)
    session = bank.find_session(attempt_id)
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
        ("payment_intent.succeeded", bank.intents[intent] | {"metadata": {}}),
        ("refund.updated", refund),
        ("charge.dispute.created", bank.dispute(intent, "lost", payment_intent=None)),
        ("charge.refunded", {"id": "ch_1"}),
        ("charge.succeeded", bank.charge(intent) | {"metadata": {}}),
        ("charge.succeeded", bank.charge(intent) | {"captured": False}),
        ("customer.created", {"id": "cus_1"}),
    ]:
        signed = bank.sign_event(event_type, stripe_object)
        assert gateway.read_callback(*signed, int(time.time() * 1000)) == (), event_type


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
    gateway = create_gateway("http://127.0.0.1:1")
    headers, body = GENUINE
    assert gateway.read_callback(headers, body, NOW) == ()
    with pytest.raises(BadCallback):
        gateway.read_callback(tamper(headers["stripe-signature"]), body, NOW)


@pytest.mark.parametrize(
    ("age_s", "is_valid"), [(-302, False), (-299, True), (0, True), (299, True), (302, False)]
)
def test_a_signature_is_valid_for_five_minutes_before_and_after_its_time(
    age_s: int, is_valid: bool
) -> None:
    gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("customer.created", {}, signed_at=NOW / 1000 - age_s)
    if is_valid:
        assert gateway.read_callback(*signed, NOW) == ()
    else:
        with pytest.raises(BadCallback, match="five minutes"):
            gateway.read_callback(*signed, NOW)


def test_the_old_secret_is_accepted_during_a_rotation() -> None:
    gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("customer.created", {}, "whsec_before", NOW / 1000)
    assert gateway.read_callback(*signed, NOW) == ()


@pytest.mark.parametrize("session", [
    {},
    {"id": 7, "status": "complete", "payment_status": "paid"},
    {"id": "cs_1", "status": "complete", "payment_status": "paid", "currency": "xxx",
     "amount_total": 1, "payment_intent": "pi_1", "metadata": {"attempt_id": "att_1"}},
])  # fmt: skip
def test_a_signed_but_malformed_body_is_refused(session: dict[str, Any]) -> None:
    gateway = create_gateway("http://127.0.0.1:1")
    signed = StripeServer.sign_event("checkout.session.completed", session, signed_at=NOW / 1000)
    with pytest.raises(BadCallback):
        gateway.read_callback(*signed, NOW)


@pytest.mark.parametrize(("currency", "methods"), [
    ("EUR", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY")),
    ("SGD", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW")),
    ("USD", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "CRYPTO")),
    ("KWD", ("CREDIT_CARD",)),
    ("IQD", ()),
    ("XXX", ()),
])  # fmt: skip
def test_each_currency_has_its_methods(currency: str, methods: tuple[str, ...]) -> None:
    assert create_gateway("http://127.0.0.1:1").methods(currency) == methods


def test_every_currency_with_methods_is_supported() -> None:
    from opentill.gateways.stripe.amounts import METHODS_BY_CURRENCY

    assert set(METHODS_BY_CURRENCY) <= set(EXPONENTS)


def test_an_event_of_a_connected_account_is_ignored() -> None:
    gateway = create_gateway("http://127.0.0.1:1")
    dispute = {"id": "du_1", "status": "lost", "amount": 1, "currency": "eur"}
    for account, number_of_events in ((None, 1), ("acct_1", 0)):
        signed = StripeServer.sign_event(
            "charge.dispute.closed", dispute | {"payment_intent": "pi_1"}, signed_at=NOW / 1000,
            account=account,
        )  # fmt: skip
        assert len(gateway.read_callback(*signed, NOW)) == number_of_events


async def test_a_gateway_with_restricted_methods_still_expires_and_traces(
    gateway: StripeGateway, bank: StripeServer
) -> None:
    options = {"stripe_methods": "CREDIT_CARD:EUR"}
    gateways = build_gateways({"stripe": gateway}, options, "")
    assert methods_of(gateways, "stripe", "EUR") == ("CREDIT_CARD",)
    assert methods_of(gateways, "stripe", "USD") == ()
    restricted_gateway = gateways["stripe"]
    assert isinstance(restricted_gateway, Expires)
    assert isinstance(restricted_gateway, Traces)
    request = payment_request()
    session = (await restricted_gateway.pay(request)).provider_ref
    assert (await restricted_gateway.expire(request.attempt_id, session)).status == "DECLINED"
    _, intent = await create_payment(gateway, bank)
    assert await restricted_gateway.trace(intent)
