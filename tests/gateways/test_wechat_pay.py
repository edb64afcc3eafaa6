"""The WeChat Pay gateway against the sandbox bank's dialect: payments, refunds and states."""

import asyncio
from typing import Any, Final

import msgspec
import pytest

from opentill.core.money import Money
from opentill.gateways.model import (
    Checks,
    Expires,
    FetchesKeys,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    PaymentStatus,
    RefundStatus,
)
from opentill.gateways.wechat_pay import WeChatPayGateway, wire
from opentill.gateways.wechat_pay.wire import Account
from opentill.sandbox.wechat_pay import keys
from support.wallet_shop import CNY, id_of_age
from support.wechat_pay_shop import WeChatPayShop

ACCOUNT: Final = Account(keys.MCHID, keys.APPID)


async def test_the_adapter_implements_the_optional_protocols(
    wechat_pay_gateway: WeChatPayGateway,
) -> None:
    assert isinstance(wechat_pay_gateway, Checks)
    assert isinstance(wechat_pay_gateway, Expires)
    assert isinstance(wechat_pay_gateway, FetchesKeys)
    assert (wechat_pay_gateway.methods("CNY"), wechat_pay_gateway.methods("USD")) == (
        ("WECHAT_PAY",),
        (),
    )


# ── payments ──


async def test_a_scanned_code_is_paid(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    outcome = await wechat_pay_gateway.pay(request)
    assert (outcome.status, outcome.action_url) == ("ACTION_REQUIRED", "")
    assert (await wechat_pay_gateway.pay(request)).qr_text == outcome.qr_text
    assert (await wechat_pay_gateway.find_payment(request.attempt_id)).status == "ACTION_REQUIRED"
    path = await asyncio.to_thread(wechat_pay_shop.open, outcome.qr_text)
    assert path == f"/phone/{request.attempt_id}"
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id)
    paid = await wechat_pay_gateway.find_payment(request.attempt_id)
    assert (paid.status, paid.amount, paid.method) == ("SUCCEEDED", Money(999, CNY), "WECHAT_PAY")
    assert paid.provider_ref.startswith("42")
    assert (await wechat_pay_gateway.expire(request.attempt_id, "")) == paid
    assert (await wechat_pay_gateway.pay(request)).status == "SUCCEEDED"


async def test_a_phone_gets_a_link_that_leads_back_to_the_shop(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request(on_phone=True, payer_ip="")
    outcome = await wechat_pay_gateway.pay(request)
    assert (outcome.status, outcome.qr_text) == ("ACTION_REQUIRED", "")
    path = await asyncio.to_thread(wechat_pay_shop.open, outcome.action_url)
    assert path == f"/phone/{request.attempt_id}"
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id)
    page = await asyncio.to_thread(
        wechat_pay_shop.browser.get, f"{wechat_pay_shop.bank_url}/pay/{request.attempt_id}"
    )
    assert f'href="{request.return_url}"' in page.text
    assert (await wechat_pay_gateway.find_payment(request.attempt_id)).status == "SUCCEEDED"


async def test_a_declined_payment_may_be_tried_again(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await wechat_pay_gateway.pay(request)
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id, "decline")
    outcome = await wechat_pay_gateway.find_payment(request.attempt_id)
    assert (outcome.status, outcome.reason) == ("DECLINED", "payerror")


async def test_an_unpaid_order_is_closed(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    outcome = await wechat_pay_gateway.pay(request)
    for _ in range(2):
        closed = await wechat_pay_gateway.expire(request.attempt_id, "")
        assert (closed.status, closed.reason) == ("DECLINED", "closed")
    assert (await wechat_pay_gateway.find_payment(request.attempt_id)).status == "DECLINED"
    again = await wechat_pay_gateway.pay(request)  # WeChat Pay says ORDER_CLOSED
    assert (again.status, again.reason) == ("DECLINED", "closed")
    phone = await asyncio.to_thread(wechat_pay_shop.browser.get, outcome.qr_text)
    assert "You have not been charged." in phone.text


async def test_an_order_whose_time_is_over_is_closed_by_a_query(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    for age_ms, expected in ((10 * 60_000, "ACTION_REQUIRED"), (17 * 60_000, "DECLINED")):
        request = wechat_pay_shop.request(attempt_id=id_of_age(age_ms))
        assert (await wechat_pay_gateway.pay(request)).status == "ACTION_REQUIRED"
        assert (await wechat_pay_gateway.find_payment(request.attempt_id)).status == expected


async def test_an_unknown_order_is_not_found(wechat_pay_gateway: WeChatPayGateway) -> None:
    assert (await wechat_pay_gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    assert (await wechat_pay_gateway.expire(id_of_age(0), "")).status == "NOT_FOUND"


async def test_an_order_of_another_amount_is_not_taken_for_the_same(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await wechat_pay_gateway.pay(request)
    other = msgspec.structs.replace(request, amount=Money(1, CNY))
    outcome = await wechat_pay_gateway.pay(other)
    assert (outcome.status, outcome.reason[:17]) == ("UNKNOWN", "OUT_TRADE_NO_USED")


@pytest.mark.parametrize(
    "changes",
    [{"description": "\x00\ud800\n"}, {"description": "茶" * 300}, {"expires_at": 1}],
    ids=["unprintable", "long", "expired"],
)
async def test_any_order_is_accepted(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway, changes: dict[str, Any]
) -> None:
    outcome = await wechat_pay_gateway.pay(wechat_pay_shop.request(**changes))
    assert outcome.status == "ACTION_REQUIRED"


# ── refunds ──


async def test_a_payment_is_refunded_in_parts(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(wechat_pay_gateway)
    first = wechat_pay_shop.refund_request(attempt_id, 400, reason="碎了" * 50)
    assert (await wechat_pay_gateway.find_refund(first.refund_id)).status == "NOT_FOUND"
    outcome = await wechat_pay_gateway.refund(first)
    assert (outcome.status, outcome.provider_ref[:2]) == ("PENDING", "50")
    assert (await wechat_pay_gateway.find_refund(first.refund_id)).status == "SUCCEEDED"
    assert (await wechat_pay_gateway.refund(first)).status == "SUCCEEDED"  # the same refund
    refused = await wechat_pay_gateway.refund(wechat_pay_shop.refund_request(attempt_id, 600))
    assert (refused.status, refused.reason[:10]) == ("REFUSED", "NOT_ENOUGH")
    rest = await wechat_pay_gateway.refund(
        wechat_pay_shop.refund_request(attempt_id, 599, reason="")
    )
    assert rest.status == "PENDING"
    paid = await wechat_pay_gateway.find_payment(attempt_id)
    assert (paid.status, paid.amount) == ("SUCCEEDED", Money(999, CNY))
    stored = await asyncio.to_thread(wechat_pay_shop.api.get, f"/payments/{attempt_id}")
    assert stored.json()["refunded_minor"] == 999


async def test_a_refund_of_another_amount_is_not_taken_for_the_same(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(wechat_pay_gateway)
    first = wechat_pay_shop.refund_request(attempt_id, 400)
    await wechat_pay_gateway.refund(first)
    other = msgspec.structs.replace(first, amount=Money(1, CNY))
    # WeChat Pay refuses it, and knows the refund: its state counts.
    assert (await wechat_pay_gateway.refund(other)).status == "SUCCEEDED"


async def test_only_payments_are_refunded(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await wechat_pay_gateway.pay(request)
    for attempt_id in (request.attempt_id, id_of_age(0)):
        outcome = await wechat_pay_gateway.refund(wechat_pay_shop.refund_request(attempt_id, 1))
        assert outcome.status == "REFUSED"


async def test_a_refund_that_was_not_done_is_sent_again(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    wechat_pay_shop.inject_fault("refund", "unconfirmed")
    assert (await wechat_pay_gateway.refund(refund)).status == "PENDING"
    assert (await wechat_pay_gateway.find_refund(refund.refund_id)).status == "NOT_FOUND"
    await wechat_pay_gateway.refund(refund)
    assert (await wechat_pay_gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"


async def test_a_refund_that_the_customers_bank_returns_needs_the_merchant(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    await wechat_pay_gateway.refund(refund)
    path = f"/refunds/{refund.refund_id}/reverse"
    assert (await asyncio.to_thread(wechat_pay_shop.api.post, path)).status_code == 200
    outcome = await wechat_pay_gateway.find_refund(refund.refund_id)
    assert (outcome.status, outcome.reason) == ("PENDING", wire.ABNORMAL)


# ── states ──

PAYMENT_STATES: Final[tuple[tuple[str, PaymentStatus], ...]] = (
    ("SUCCESS", "SUCCEEDED"),
    ("REFUND", "SUCCEEDED"),
    ("NOTPAY", "ACTION_REQUIRED"),
    ("CLOSED", "DECLINED"),
    ("REVOKED", "VOIDED"),
    ("USERPAYING", "PENDING"),
    ("PAYERROR", "DECLINED"),
    ("NEW\x00", "UNKNOWN"),
)
REFUND_STATES: Final[tuple[tuple[str, RefundStatus], ...]] = (
    ("SUCCESS", "SUCCEEDED"),
    ("CLOSED", "REFUSED"),
    ("PROCESSING", "PENDING"),
    ("ABNORMAL", "PENDING"),
    ("", "UNKNOWN"),
)


def _order(**changes: Any) -> bytes:
    order = {
        "mchid": keys.MCHID, "appid": keys.APPID, "out_trade_no": id_of_age(0),
        "trade_state": "SUCCESS", "transaction_id": "4200",
        "amount": {"total": 999, "currency": CNY},
    }  # fmt: skip
    return msgspec.json.encode(order | changes)


@pytest.mark.parametrize(("state", "expected"), PAYMENT_STATES)
def test_every_state_of_a_payment_has_an_outcome(state: str, expected: PaymentStatus) -> None:
    event = wire.read_event("TRANSACTION.SUCCESS", _order(trade_state=state), ACCOUNT)
    assert isinstance(event, GatewayPaymentEvent)
    assert event.outcome.status == expected


@pytest.mark.parametrize(("state", "expected"), REFUND_STATES)
def test_every_state_of_a_refund_has_an_outcome(state: str, expected: RefundStatus) -> None:
    body = msgspec.json.encode({
        "mchid": keys.MCHID, "out_trade_no": id_of_age(0), "refund_status": state,
        "out_refund_no": "shop-1", "refund_id": "5000", "amount": {"total": 999, "refund": 9},
    })  # fmt: skip
    event = wire.read_event(f"REFUND.{state}", body, ACCOUNT)
    assert isinstance(event, GatewayRefundEvent)
    assert (event.outcome.status, event.refund_id) == (expected, "")
    assert (event.outcome.provider_ref, event.amount) == ("5000", Money(9, CNY))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mchid": "1900000009"}, "another mchid or appid"),
        ({"appid": "wx1"}, "another mchid or appid"),
        ({"out_trade_no": "A-1"}, "no payment of ours"),
        ({"amount": {}}, "no amount in CNY"),
        ({"amount": {"total": 999, "currency": "USD"}}, "no amount in CNY"),
        ({"amount": {"total": "999"}}, "no payment of ours"),
    ],
)
def test_a_payment_of_another_account_or_currency_is_refused(
    changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        wire.read_event("TRANSACTION.SUCCESS", _order(**changes), ACCOUNT)
