"""The Stripe gateway, with a simulated Stripe (``stripe_server``) that can have faults."""

import asyncio
import time
from typing import Any

import pytest

from gateways.stripe_gateways import (
    create_gateway,
    create_payment,
    payment_request,
    refund_request,
)
from opentill.core.ids import first_id, new_id
from opentill.core.money import EXPONENTS, Money
from opentill.gateways import (
    Expires,
    PaymentOutcome,
    Traces,
)
from opentill.gateways.model import Card
from opentill.gateways.routing import build_gateways, methods_of
from opentill.gateways.stripe.checkout import params
from opentill.gateways.stripe.client import StripeGateway
from support.stripe_server import StripeServer


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


def attempt_id_at(created_s: int) -> str:
    """Return an id that an attempt of this time (Unix s) would have."""
    length = len("att_") + 10  # this many characters of an id encode its time
    return first_id("att", created_s * 1000)[:length] + new_id("att")[length:]


def test_the_gateway_can_expire_sessions_and_trace_payments() -> None:
    stripe_gateway = create_gateway("http://127.0.0.1:1")
    assert isinstance(stripe_gateway, Expires)
    assert isinstance(stripe_gateway, Traces)


async def test_a_new_attempt_opens_a_session(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    now = int(time.time() * 1000)
    request = payment_request(expires_at=now + 3_600_000)
    outcome = await stripe_gateway.pay(request)
    session = stripe_bank.find_session(request.attempt_id)
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
    _, _, headers = stripe_bank.calls[0]
    assert headers["Idempotency-Key"] == request.attempt_id
    assert "telemetry" not in str(headers).lower()
    assert await stripe_gateway.pay(request) == outcome
    assert len(stripe_bank.sessions) == 1


@pytest.mark.parametrize("ends_in_s", [-3600, 0, 60, 3 * 86400])
async def test_the_expiry_of_a_session_is_within_stripes_limits(
    stripe_gateway: StripeGateway, ends_in_s: int
) -> None:
    ends = int(time.time() * 1000) + ends_in_s * 1000
    assert (await stripe_gateway.pay(payment_request(expires_at=ends))).status == "ACTION_REQUIRED"


@pytest.mark.parametrize(("method", "stripe_type", "currency"), [
    ("CREDIT_CARD", "card", "USD"),
    ("ALIPAY", "alipay", "USD"),
    ("WECHAT_PAY", "wechat_pay", "USD"),
    ("PAYNOW", "paynow", "SGD"),
    ("CRYPTO", "crypto", "USD"),
])  # fmt: skip
async def test_each_method_has_its_stripe_type(
    stripe_gateway: StripeGateway,
    stripe_bank: StripeServer,
    method: Any,
    stripe_type: str,
    currency: str,
) -> None:
    assert method in stripe_gateway.methods(currency)
    request = payment_request(method=method, amount=Money(999, currency))
    await stripe_gateway.pay(request)
    assert stripe_bank.find_session(request.attempt_id)["payment_method_types"] == [stripe_type]


@pytest.mark.parametrize(("changes", "reason"), [
    ({"amount": Money(49, "EUR")}, "amount_too_small"),
    ({"amount": Money(100, "IQD")}, "Stripe does not take IQD"),
    ({"amount": Money(150, "MGA")}, "Stripe does not take so small a fraction of MGA"),
    ({"method": "BANK_TRANSFER"}, "Stripe does not take BANK_TRANSFER"),
])  # fmt: skip
async def test_payments_that_stripe_does_not_accept_are_declined_with_the_reason(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, changes: dict[str, Any], reason: str
) -> None:
    request = payment_request(**changes)
    outcome = await stripe_gateway.pay(request)
    assert (outcome.status, outcome.reason) == ("DECLINED", reason)
    assert not stripe_bank.sessions


async def test_an_attempt_is_found_by_session_by_payment_and_by_search(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    outcome = await stripe_gateway.pay(request)
    attempt_id, session = request.attempt_id, outcome.provider_ref
    assert await stripe_gateway.find_payment(attempt_id, session) == outcome
    assert await stripe_gateway.find_payment(attempt_id) == outcome
    intent = stripe_bank.pay(attempt_id)
    stripe_bank.clearing = "hkd"
    succeeded = PaymentOutcome(
        status="SUCCEEDED",
        provider_ref=intent,
        amount=Money(999, "EUR"),
        clearing_currency="HKD",
        card=Card(brand="mastercard", last4="4444"),
    )
    assert await stripe_gateway.find_payment(attempt_id, session) == succeeded
    assert await stripe_gateway.find_payment(attempt_id, intent) == succeeded
    found_by_search = await stripe_gateway.find_payment(attempt_id)
    assert (found_by_search.status, found_by_search.provider_ref) == ("SUCCEEDED", intent)
    other_id = new_id("att")
    assert (await stripe_gateway.find_payment(other_id, session)).status == "UNKNOWN"
    assert (await stripe_gateway.find_payment(other_id, intent)).status == "UNKNOWN"


@pytest.mark.parametrize(("is_paid", "status", "reason"), [
    (None, "PENDING", ""),
    (True, "SUCCEEDED", ""),
    (False, "DECLINED", "payment_intent_payment_attempt_failed"),
])  # fmt: skip
async def test_an_asynchronous_payment_is_pending_until_the_bank_decides(
    stripe_gateway: StripeGateway,
    stripe_bank: StripeServer,
    is_paid: bool | None,
    status: str,
    reason: str,
) -> None:
    request = payment_request(method="ALIPAY")
    session = (await stripe_gateway.pay(request)).provider_ref
    intent = stripe_bank.pay(request.attempt_id, "processing")
    if is_paid is not None:
        stripe_bank.end_processing(intent, paid=is_paid)
    outcome = await stripe_gateway.find_payment(request.attempt_id, session)
    assert (outcome.status, outcome.reason) == (status, reason)


async def test_a_different_captured_amount_is_reported(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    session = (await stripe_gateway.pay(request)).provider_ref
    stripe_bank.pay(request.attempt_id, amount=500)
    outcome = await stripe_gateway.find_payment(request.attempt_id, session)
    assert outcome.amount == Money(500, "EUR")


async def test_an_attempt_without_a_session_is_not_found(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    # More sessions of other attempts in the same seconds than a page has.
    await asyncio.gather(*(stripe_gateway.pay(payment_request()) for _ in range(102)))
    assert (await stripe_gateway.find_payment(new_id("att"))).status == "NOT_FOUND"
    # Two pages have sessions; the pages before and after them are empty.
    assert stripe_bank.count("list") == 4
    assert (await stripe_gateway.find_payment("att_1")).status == "UNKNOWN"
    first_attempt_id = next(iter(stripe_bank.sessions.values()))["client_reference_id"]
    assert (await stripe_gateway.find_payment(first_attempt_id)).status == "ACTION_REQUIRED"


async def test_a_session_is_found_among_those_of_a_busy_hour(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    await stripe_gateway.pay(request)
    created_s = stripe_bank.find_session(request.attempt_id)["created"]
    stripe_bank.open_other_sessions(18_000, created_s - 300, created_s + 600)
    assert (await stripe_gateway.find_payment(request.attempt_id)).status == "ACTION_REQUIRED"
    assert (
        stripe_bank.count("list") <= 5
    )  # each second has 20 other sessions, but few pages are read


async def test_a_search_for_a_session_has_a_time_limit_until_the_session_has_expired(
    stripe_bank: StripeServer,
) -> None:
    stripe_gateway = create_gateway(stripe_bank.url, timeout_s=0.8)
    await stripe_gateway.pay(payment_request())
    now_s, day_s = int(time.time()), 86_400
    # For each time at which an attempt was created (Unix s), the status of the outcome.
    attempts = {
        now_s: "UNKNOWN",
        now_s - day_s + 60: "UNKNOWN",
        now_s - 2 * day_s: "NOT_FOUND",
    }
    for created_s in attempts:
        stripe_bank.open_other_sessions(4_000, created_s - 30, created_s + 30)
    stripe_bank.delay_s = 0.08
    for created_s, status in attempts.items():
        started = time.monotonic()
        outcome = await stripe_gateway.find_payment(attempt_id_at(created_s))
        assert (outcome.status, outcome.reason != "") == (status, True)
        assert time.monotonic() - started < 1.3
    assert (await stripe_gateway.find_payment(attempt_id_at(now_s - 3600))).status == "NOT_FOUND"
    await stripe_gateway.close()


@pytest.mark.parametrize("name", ["cs_elsewhere", "pi_elsewhere"])
async def test_objects_of_another_account_are_unknown(
    stripe_gateway: StripeGateway, name: str
) -> None:
    assert (await stripe_gateway.find_payment(new_id("att"), name)).status == "UNKNOWN"
    refund = await stripe_gateway.refund(refund_request(new_id("att"), name, 1))
    assert refund.status == "UNKNOWN"


async def test_each_refund_has_its_outcome(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    request = refund_request(attempt_id, intent, 900)
    succeeded = await stripe_gateway.refund(request)
    assert succeeded.status == "SUCCEEDED"
    assert await stripe_gateway.refund(request) == succeeded
    too_much = await stripe_gateway.refund(refund_request(attempt_id, intent, 100))
    assert (too_much.status, too_much.reason) == ("REFUSED", "Charge has already been refunded.")
    refund = stripe_bank.refunds[succeeded.provider_ref]
    assert refund["metadata"] == {"attempt_id": attempt_id, "refund_id": request.refund_id}
    assert (await stripe_gateway.find_refund(new_id("re"), intent)).status == "NOT_FOUND"
    assert (await stripe_gateway.find_refund(request.refund_id)).status == "UNKNOWN"


@pytest.mark.parametrize(("stripe_status", "status"), [
    ("succeeded", "SUCCEEDED"),
    ("pending", "PENDING"),
    ("requires_action", "PENDING"),
    ("failed", "REFUSED"),
    ("canceled", "REFUSED"),
    ("something_new", "PENDING"),
])  # fmt: skip
async def test_each_status_of_a_refund_has_its_outcome(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, stripe_status: str, status: str
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    stripe_bank.refund_status = stripe_status
    assert (await stripe_gateway.refund(refund_request(attempt_id, intent, 1))).status == status


async def test_the_refund_of_a_duplicate_payment_has_the_id_of_its_attempt(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    session = (await stripe_gateway.pay(request)).provider_ref
    stripe_bank.pay(request.attempt_id)
    attempt_id = request.attempt_id
    return_request = refund_request(attempt_id, session, 999, refund_id=attempt_id)
    assert (await stripe_gateway.refund(return_request)).status == "SUCCEEDED"
    (refund,) = stripe_bank.refunds.values()
    assert refund["amount"] == 999


async def test_a_payment_is_traced_to_its_attempt(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    assert await stripe_gateway.trace(intent) == attempt_id
    stripe_bank.intents[intent]["metadata"] = {}
    assert await stripe_gateway.trace(intent) == ""
    stripe_bank.inject_faults("intent", "500")
    assert await stripe_gateway.trace(intent) is None


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


async def test_a_gateway_with_restricted_methods_still_expires_and_traces(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    options = {"stripe_methods": "CREDIT_CARD:EUR"}
    gateways = build_gateways({"stripe": stripe_gateway}, options, "")
    assert methods_of(gateways, "stripe", "EUR") == ("CREDIT_CARD",)
    assert methods_of(gateways, "stripe", "USD") == ()
    restricted_gateway = gateways["stripe"]
    assert isinstance(restricted_gateway, Expires)
    assert isinstance(restricted_gateway, Traces)
    request = payment_request()
    session = (await restricted_gateway.pay(request)).provider_ref
    assert (await restricted_gateway.expire(request.attempt_id, session)).status == "DECLINED"
    _, intent = await create_payment(stripe_gateway, stripe_bank)
    assert await restricted_gateway.trace(intent)
