"""The PayPal gateway against the sandbox bank's dialect: payments and refunds."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.money import Money
from opentill.gateways.model import (
    Checks,
    Expires,
    FetchesKeys,
    Traces,
)
from opentill.gateways.paypal import PayPalGateway
from opentill.gateways.paypal.amounts import DECIMALS, from_paypal, to_paypal
from support.paypal_shop import EUR, PayPalShop, id_of_age, path_of

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
PENDING_CARD: Final = "4000000000000119"


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway."""
    gateway = paypal_shop.gateway()
    yield gateway
    await gateway.close()


async def test_the_adapter_implements_the_optional_protocols(gateway: PayPalGateway) -> None:
    assert isinstance(gateway, Checks)
    assert isinstance(gateway, Expires)
    assert isinstance(gateway, FetchesKeys)
    assert isinstance(gateway, Traces)
    assert (gateway.methods("EUR"), gateway.methods("RUB")) == (("CREDIT_CARD",), ())


# ── payments ──


async def test_an_approved_order_is_captured_by_a_query(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request = paypal_shop.request()
    outcome = await gateway.pay(request)
    assert (outcome.status, path_of(outcome.action_url)) == (
        "ACTION_REQUIRED",
        "/paypal/checkoutnow",
    )
    assert await gateway.pay(request) == outcome  # the same order
    waiting = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    assert (waiting.status, waiting.action_url) == ("ACTION_REQUIRED", outcome.action_url)
    page = await asyncio.to_thread(paypal_shop.approve, outcome.action_url)
    assert request.return_url.partition("?")[0] in page
    paid = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    assert (paid.status, paid.amount, paid.method) == ("SUCCEEDED", Money(999, EUR), "CREDIT_CARD")
    for ref in (outcome.provider_ref, paid.provider_ref):
        assert await gateway.find_payment(request.attempt_id, ref) == paid
        assert await gateway.expire(request.attempt_id, ref) == paid


async def test_captures_at_the_same_time_take_the_money_once(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request, order_id = await paypal_shop.start(gateway)
    outcomes = await asyncio.gather(
        *(gateway.find_payment(request.attempt_id, order_id) for _ in range(5))
    )
    assert {outcome.status for outcome in outcomes} == {"SUCCEEDED"}
    assert len({outcome.provider_ref for outcome in outcomes}) == 1


async def test_an_order_that_is_closed_takes_no_money(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request, order_id = await paypal_shop.start(gateway)
    closed = await gateway.expire(request.attempt_id, order_id)
    assert (closed.status, closed.reason) == ("DECLINED", "closed")
    order = await asyncio.to_thread(paypal_shop.call, "GET", f"/v2/checkout/orders/{order_id}")
    assert order.json()["status"] == "APPROVED"
    unapproved = paypal_shop.request()
    outcome = await gateway.pay(unapproved)
    closed = await gateway.expire(unapproved.attempt_id, outcome.provider_ref)
    assert closed.status == "DECLINED"


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("4000000000000002", "instrument_declined"),
        ("4000000000009995", "instrument_declined"),
        ("4000000000009987", "transaction_refused"),
    ],
)
async def test_a_declined_card_may_be_replaced(
    paypal_shop: PayPalShop, gateway: PayPalGateway, card: str, reason: str
) -> None:
    request = paypal_shop.request()
    outcome = await gateway.pay(request)
    await asyncio.to_thread(paypal_shop.approve, outcome.action_url, card)
    after = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    assert (after.status, after.reason) == ("DECLINED", reason)


async def test_a_capture_that_paypal_reviews_is_pending(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request = paypal_shop.request()
    outcome = await gateway.pay(request)
    await asyncio.to_thread(paypal_shop.approve, outcome.action_url, PENDING_CARD)
    pending = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    assert (pending.status, pending.reason) == ("PENDING", "pending_review")
    for _ in range(200):
        after = await gateway.find_payment(request.attempt_id, pending.provider_ref)
        if after.status != "PENDING":
            break
        await asyncio.sleep(0.02)
    assert (after.status, after.reason) == ("DECLINED", "declined")


async def test_orders_that_paypal_forgot_have_expired(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    for age_ms, expected in ((HOUR_MS, "NOT_FOUND"), (7 * HOUR_MS, "DECLINED")):
        outcome = await gateway.find_payment(id_of_age(age_ms), "5O190127TN364715T")
        assert outcome.status == expected
    request = paypal_shop.request()
    outcome = await gateway.pay(request)
    await asyncio.to_thread(paypal_shop.api.post, f"/payments/{request.attempt_id}/void")
    gone = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    assert gone.status == "NOT_FOUND"


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "\x00\ud800\n", "merchant_name": ""},
        {"description": "茶" * 300, "merchant_name": "茶" * 300},
        {"locale": "xx", "expires_at": 1},
    ],
    ids=["unprintable", "long", "unknown language"],
)
async def test_any_order_is_accepted(
    paypal_shop: PayPalShop, gateway: PayPalGateway, changes: dict[str, Any]
) -> None:
    outcome = await gateway.pay(paypal_shop.request(**changes))
    assert outcome.status == "ACTION_REQUIRED"


async def test_an_answer_about_another_payment_is_not_trusted(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    other = id_of_age(0)
    for ref in (capture_id, paypal_shop.call_order(capture_id)):
        outcome = await gateway.find_payment(other, ref)
        assert (outcome.status, "another payment" in outcome.reason) == ("UNKNOWN", True)
    elsewhere = paypal_shop.gateway(merchant_id="SBXMERCHANT02")
    assert (await elsewhere.find_payment(attempt_id, capture_id)).status == "UNKNOWN"
    assert (await elsewhere.pay(paypal_shop.request())).status == "UNKNOWN"
    await elsewhere.close()


# ── amounts ──


@pytest.mark.parametrize(
    ("money", "value"),
    [
        (Money(999, "EUR"), "9.99"),
        (Money(5, "USD"), "0.05"),
        (Money(100, "HKD"), "1.00"),
        (Money(12300, "HUF"), "123"),
        (Money(123, "JPY"), "123"),
        (Money(99900, "TWD"), "999"),
        (Money(10**15, "CNY"), "10000000000000.00"),
    ],
)
def test_amounts_have_paypals_decimals(money: Money, value: str) -> None:
    assert to_paypal(money) == {"currency_code": money.currency, "value": value}
    assert from_paypal(value, money.currency) == money


def test_currencies_without_decimals_may_be_written_with_zeros() -> None:
    assert from_paypal("123.00", "JPY") == Money(123, "JPY")
    assert from_paypal("1.5", "USD") == Money(150, "USD")
    assert len(DECIMALS) == 24


@pytest.mark.parametrize("money", [Money(1250, "HUF"), Money(1, "TWD"), Money(1, "KWD")])
async def test_an_amount_that_paypal_does_not_take_is_declined(
    paypal_shop: PayPalShop, gateway: PayPalGateway, money: Money
) -> None:
    outcome = await gateway.pay(paypal_shop.request(amount=money))
    assert outcome.status == "DECLINED"
    assert f"{money.currency}" in outcome.reason
    refund = paypal_shop.refund_request(id_of_age(0), "ABC", 1, amount=money)
    assert (await gateway.refund(refund)).status == "REFUSED"


@pytest.mark.parametrize(
    ("value", "currency"),
    [
        ("", "EUR"), ("-1.00", "EUR"), ("1e3", "EUR"), ("1,00", "EUR"), ("1.005", "EUR"),
        ("0.5", "JPY"), ("1.00", "XXX"), ("1" * 16, "EUR"), ("9" * 15, "EUR"), ("١", "EUR"),
    ],
)  # fmt: skip
def test_amounts_that_make_no_sense_are_refused(value: str, currency: str) -> None:
    with pytest.raises(ValueError, match=r"^it (is|has)"):
        from_paypal(value, currency)


@pytest.mark.parametrize("money", [Money(12300, "HUF"), Money(123, "JPY"), Money(99900, "TWD")])
async def test_currencies_without_decimals_are_paid_and_refunded(
    paypal_shop: PayPalShop, gateway: PayPalGateway, money: Money
) -> None:
    request, order_id = await paypal_shop.start(gateway, amount=money)
    paid = await gateway.find_payment(request.attempt_id, order_id)
    assert (paid.status, paid.amount) == ("SUCCEEDED", money)
    refund = paypal_shop.refund_request(request.attempt_id, paid.provider_ref, 0, amount=money)
    assert (await gateway.refund(refund)).status == "SUCCEEDED"


# ── refunds ──


async def test_a_payment_is_refunded_in_parts(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    first = paypal_shop.refund_request(attempt_id, capture_id, 400)
    assert (await gateway.find_refund(first.refund_id, capture_id)).status == "NOT_FOUND"
    outcome = await gateway.refund(first)
    assert outcome.status == "SUCCEEDED"
    assert await gateway.find_refund(first.refund_id, capture_id) == outcome
    assert await gateway.refund(first) == outcome  # the same refund
    refused = await gateway.refund(paypal_shop.refund_request(attempt_id, capture_id, 600))
    assert (refused.status, refused.reason) == ("REFUSED", "refund_amount_exceeded")
    rest = await gateway.refund(paypal_shop.refund_request(attempt_id, capture_id, 599))
    assert rest.status == "SUCCEEDED"
    refused = await gateway.refund(paypal_shop.refund_request(attempt_id, capture_id, 1))
    assert (refused.status, refused.reason) == ("REFUSED", "capture_fully_refunded")
    paid = await gateway.find_payment(attempt_id, capture_id)
    assert (paid.status, paid.amount) == ("SUCCEEDED", Money(999, EUR))
    stored = await asyncio.to_thread(paypal_shop.bank_payment, attempt_id)
    assert stored["refunded_minor"] == 999


async def test_a_payment_that_is_known_by_its_order_is_refunded(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    order_id = await asyncio.to_thread(paypal_shop.call_order, capture_id)
    refund = paypal_shop.refund_request(attempt_id, order_id, 400)
    assert (await gateway.refund(refund)).status == "SUCCEEDED"
    assert (await gateway.find_refund(refund.refund_id, order_id)).status == "SUCCEEDED"


async def test_a_refund_of_another_amount_is_not_taken_for_the_same(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    first = paypal_shop.refund_request(attempt_id, capture_id, 400)
    await gateway.refund(first)
    other = msgspec.structs.replace(first, amount=Money(1, EUR))
    assert (await gateway.refund(other)).status == "UNKNOWN"


async def test_only_payments_are_refunded(paypal_shop: PayPalShop, gateway: PayPalGateway) -> None:
    request, order_id = await paypal_shop.start(gateway)
    for ref in (order_id, "5O190127TN364715T", ""):
        outcome = await gateway.refund(paypal_shop.refund_request(request.attempt_id, ref, 1))
        assert outcome.status == "REFUSED"


async def test_an_old_refund_is_only_queried(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    old = paypal_shop.refund_request(
        attempt_id, capture_id, 400, refund_id=id_of_age(41 * DAY_MS, "re"), repeated=True
    )
    assert (await gateway.refund(old)).status == "NOT_FOUND"
    recent = msgspec.structs.replace(old, refund_id=id_of_age(39 * DAY_MS, "re"))
    assert (await gateway.refund(recent)).status == "SUCCEEDED"


async def test_a_refund_that_was_not_done_is_sent_again(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    refund = paypal_shop.refund_request(attempt_id, capture_id, 400)
    paypal_shop.inject_fault("refund", "unconfirmed")
    assert (await gateway.refund(refund)).status == "PENDING"
    assert (await gateway.find_refund(refund.refund_id, capture_id)).status == "NOT_FOUND"
    assert (await gateway.refund(refund)).status == "SUCCEEDED"


async def test_a_refund_that_the_customers_bank_returns_has_failed(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    refund = paypal_shop.refund_request(attempt_id, capture_id, 400)
    await gateway.refund(refund)
    path = f"/refunds/{refund.refund_id}/reverse"
    assert (await asyncio.to_thread(paypal_shop.api.post, path)).status_code == 200
    outcome = await gateway.find_refund(refund.refund_id, capture_id)
    assert (outcome.status, outcome.reason) == ("REFUSED", "failed")


# ── access tokens and checks ──


async def test_a_token_is_used_until_paypal_refuses_it(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    await gateway.pay(paypal_shop.request())
    transport = gateway._transport
    first = transport._token
    assert (await gateway.pay(paypal_shop.request())).status == "ACTION_REQUIRED"
    assert transport._token == first
    await asyncio.to_thread(paypal_shop.api.post, "/paypal/forget-tokens")
    outcomes = await asyncio.gather(*(gateway.pay(paypal_shop.request()) for _ in range(3)))
    assert [outcome.status for outcome in outcomes] == ["ACTION_REQUIRED"] * 3
    assert transport._token != first
    transport._token_ends = time.monotonic() - 1
    second = transport._token
    assert (await gateway.pay(paypal_shop.request())).status == "ACTION_REQUIRED"
    assert transport._token != second


async def test_a_working_account_has_no_problem(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    assert await gateway.check() is None
    before = paypal_shop.webhook_id
    webhook_id = await asyncio.to_thread(
        paypal_shop.create_webhook, "https://till.example", "CHECKOUT.ORDER.APPROVED"
    )
    lacking = paypal_shop.gateway(webhook_id=webhook_id)
    problem = str(await lacking.check())
    await lacking.close()
    assert "lacks events: add PAYMENT.CAPTURE.COMPLETED, " in problem
    callback = f"{paypal_shop.receiver.url}/gateways/paypal/callback"
    await asyncio.to_thread(paypal_shop.create_webhook, callback)
    assert before != paypal_shop.webhook_id


WRONG_ACCOUNTS: Final = (
    ({"client_id": "x" * 20}, "refuses the credentials: correct OPENTILL_GATEWAY_PAYPAL_CLIENT_ID"),
    ({"client_secret": "s" * 20}, "refuses the credentials"),
    ({"webhook_id": "0XX"}, "does not know the webhook (INVALID_RESOURCE_ID): correct OPENTILL_"),
)


@pytest.mark.parametrize(("changes", "expected"), WRONG_ACCOUNTS)
async def test_a_check_names_the_setting_that_is_wrong(
    paypal_shop: PayPalShop,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    expected: str,
) -> None:
    gateway = paypal_shop.gateway(**changes)
    assert expected in str(await gateway.check())
    outcome = await gateway.pay(paypal_shop.request())
    # Nothing was sent, so that another gateway may be tried.
    assert outcome.status == ("ACTION_REQUIRED" if "webhook_id" in changes else "UNREACHABLE")
    shown = f"{gateway._options!r} {outcome!r} {caplog.text}"
    assert paypal_shop.file("client_secret.txt") not in shown
    assert "s" * 20 not in shown
    await gateway.close()
