"""The WeChat Pay gateway against the sandbox bank's dialect: payments, refunds and faults."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.ids import first_id
from opentill.core.money import Money
from opentill.gateways import BadCallback, RefundOutcome
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
from support.ports import free_socket, url_of
from support.wechat_pay_shop import CNY, Notice, WeChatPayShop

HOUR_MS: Final = 3_600_000
ACCOUNT: Final = Account(keys.MCHID, keys.APPID)


@pytest.fixture(params=["certificates", "public key"])
async def gateway(
    request: pytest.FixtureRequest, wechat_pay_shop: WeChatPayShop
) -> AsyncIterator[WeChatPayGateway]:
    """A gateway, which verifies by platform certificates or by the public key."""
    gateway = wechat_pay_shop.gateway(by_public_key=request.param == "public key")
    yield gateway
    await gateway.close()


@pytest.fixture
async def hasty_gateway(wechat_pay_shop: WeChatPayShop) -> AsyncIterator[WeChatPayGateway]:
    """A gateway that waits for responses only for a short time."""
    gateway = wechat_pay_shop.gateway(timeout_s=0.4)
    yield gateway
    await gateway.close()


def now_ms() -> int:
    """Return real time."""
    return time.time_ns() // 1_000_000


def id_of_age(age_ms: int) -> str:
    """Return the id of an attempt that was created some time ago."""
    return first_id("att", now_ms() - age_ms)


async def take_notice(shop: WeChatPayShop, gateway: WeChatPayGateway) -> tuple[str, Notice]:
    """Pay, and return the attempt's id and its notification."""
    start = len(shop.receiver.received)
    attempt_id = await shop.pay(gateway)
    (notice,) = await asyncio.to_thread(shop.wait_for_notices, start)
    await gateway.fetch_keys(notice[0])
    return attempt_id, notice


async def test_the_adapter_implements_the_optional_protocols(gateway: WeChatPayGateway) -> None:
    assert isinstance(gateway, Checks)
    assert isinstance(gateway, Expires)
    assert isinstance(gateway, FetchesKeys)
    assert (gateway.methods("CNY"), gateway.methods("USD")) == (("WECHAT_PAY",), ())


# ── payments ──


async def test_a_scanned_code_is_paid(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    outcome = await gateway.pay(request)
    assert (outcome.status, outcome.action_url) == ("ACTION_REQUIRED", "")
    assert (await gateway.pay(request)).qr_text == outcome.qr_text
    assert (await gateway.find_payment(request.attempt_id)).status == "ACTION_REQUIRED"
    path = await asyncio.to_thread(wechat_pay_shop.open, outcome.qr_text)
    assert path == f"/phone/{request.attempt_id}"
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id)
    paid = await gateway.find_payment(request.attempt_id)
    assert (paid.status, paid.amount, paid.method) == ("SUCCEEDED", Money(999, CNY), "WECHAT_PAY")
    assert paid.provider_ref.startswith("42")
    assert (await gateway.expire(request.attempt_id, "")) == paid
    assert (await gateway.pay(request)).status == "SUCCEEDED"


async def test_a_phone_gets_a_link_that_leads_back_to_the_shop(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request(on_phone=True, payer_ip="")
    outcome = await gateway.pay(request)
    assert (outcome.status, outcome.qr_text) == ("ACTION_REQUIRED", "")
    path = await asyncio.to_thread(wechat_pay_shop.open, outcome.action_url)
    assert path == f"/phone/{request.attempt_id}"
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id)
    page = await asyncio.to_thread(
        wechat_pay_shop.browser.get, f"{wechat_pay_shop.bank_url}/pay/{request.attempt_id}"
    )
    assert f'href="{request.return_url}"' in page.text
    assert (await gateway.find_payment(request.attempt_id)).status == "SUCCEEDED"


async def test_a_declined_payment_may_be_tried_again(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await gateway.pay(request)
    await asyncio.to_thread(wechat_pay_shop.decide, request.attempt_id, "decline")
    outcome = await gateway.find_payment(request.attempt_id)
    assert (outcome.status, outcome.reason) == ("DECLINED", "payerror")


async def test_an_unpaid_order_is_closed(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    outcome = await gateway.pay(request)
    for _ in range(2):
        closed = await gateway.expire(request.attempt_id, "")
        assert (closed.status, closed.reason) == ("DECLINED", "closed")
    assert (await gateway.find_payment(request.attempt_id)).status == "DECLINED"
    again = await gateway.pay(request)  # WeChat Pay says ORDER_CLOSED
    assert (again.status, again.reason) == ("DECLINED", "closed")
    phone = await asyncio.to_thread(wechat_pay_shop.browser.get, outcome.qr_text)
    assert "You have not been charged." in phone.text


async def test_an_order_whose_time_is_over_is_closed_by_a_query(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    for age_ms, expected in ((10 * 60_000, "ACTION_REQUIRED"), (17 * 60_000, "DECLINED")):
        request = wechat_pay_shop.request(attempt_id=id_of_age(age_ms))
        assert (await gateway.pay(request)).status == "ACTION_REQUIRED"
        assert (await gateway.find_payment(request.attempt_id)).status == expected


async def test_an_unknown_order_is_not_found(gateway: WeChatPayGateway) -> None:
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    assert (await gateway.expire(id_of_age(0), "")).status == "NOT_FOUND"


async def test_an_order_of_another_amount_is_not_taken_for_the_same(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await gateway.pay(request)
    other = msgspec.structs.replace(request, amount=Money(1, CNY))
    outcome = await gateway.pay(other)
    assert (outcome.status, outcome.reason[:17]) == ("UNKNOWN", "OUT_TRADE_NO_USED")


@pytest.mark.parametrize(
    "changes",
    [{"description": "\x00\ud800\n"}, {"description": "茶" * 300}, {"expires_at": 1}],
    ids=["unprintable", "long", "expired"],
)
async def test_any_order_is_accepted(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway, changes: dict[str, Any]
) -> None:
    outcome = await gateway.pay(wechat_pay_shop.request(**changes))
    assert outcome.status == "ACTION_REQUIRED"


# ── refunds ──


async def test_a_payment_is_refunded_in_parts(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    first = wechat_pay_shop.refund_request(attempt_id, 400, reason="碎了" * 50)
    assert (await gateway.find_refund(first.refund_id)).status == "NOT_FOUND"
    outcome = await gateway.refund(first)
    assert (outcome.status, outcome.provider_ref[:2]) == ("PENDING", "50")
    assert (await gateway.find_refund(first.refund_id)).status == "SUCCEEDED"
    assert (await gateway.refund(first)).status == "SUCCEEDED"  # the same refund
    refused = await gateway.refund(wechat_pay_shop.refund_request(attempt_id, 600))
    assert (refused.status, refused.reason[:10]) == ("REFUSED", "NOT_ENOUGH")
    rest = await gateway.refund(wechat_pay_shop.refund_request(attempt_id, 599, reason=""))
    assert rest.status == "PENDING"
    paid = await gateway.find_payment(attempt_id)
    assert (paid.status, paid.amount) == ("SUCCEEDED", Money(999, CNY))
    stored = await asyncio.to_thread(wechat_pay_shop.api.get, f"/payments/{attempt_id}")
    assert stored.json()["refunded_minor"] == 999


async def test_a_refund_of_another_amount_is_not_taken_for_the_same(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    first = wechat_pay_shop.refund_request(attempt_id, 400)
    await gateway.refund(first)
    other = msgspec.structs.replace(first, amount=Money(1, CNY))
    # WeChat Pay refuses it, and knows the refund: its state counts.
    assert (await gateway.refund(other)).status == "SUCCEEDED"


async def test_only_payments_are_refunded(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = wechat_pay_shop.request()
    await gateway.pay(request)
    for attempt_id in (request.attempt_id, id_of_age(0)):
        outcome = await gateway.refund(wechat_pay_shop.refund_request(attempt_id, 1))
        assert outcome.status == "REFUSED"


async def test_a_refund_that_was_not_done_is_sent_again(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    wechat_pay_shop.inject_fault("refund", "unconfirmed")
    assert (await gateway.refund(refund)).status == "PENDING"
    assert (await gateway.find_refund(refund.refund_id)).status == "NOT_FOUND"
    await gateway.refund(refund)
    assert (await gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"


async def test_a_refund_that_the_customers_bank_returns_needs_the_merchant(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    await gateway.refund(refund)
    path = f"/refunds/{refund.refund_id}/reverse"
    assert (await asyncio.to_thread(wechat_pay_shop.api.post, path)).status_code == 200
    outcome = await gateway.find_refund(refund.refund_id)
    assert (outcome.status, outcome.reason) == ("PENDING", wire.ABNORMAL)


# ── faults ──


PAY_FAULTS: Final = (
    # Each row: fault, times, and the outcome
    ("timeout_before", 1, "ACTION_REQUIRED"),
    ("timeout_after", 1, "ACTION_REQUIRED"),
    ("timeout_after", 2, "UNKNOWN"),
    ("error_500", 1, "ACTION_REQUIRED"),
    ("error_500_after", 2, "UNKNOWN"),
    ("reset", 2, "UNKNOWN"),
    ("reset_after", 1, "ACTION_REQUIRED"),
    ("slow", 1, "ACTION_REQUIRED"),
    ("wrong_signature", 1, "ACTION_REQUIRED"),
    ("wrong_signature", 2, "UNKNOWN"),
    ("expired_certificate", 2, "UNKNOWN"),
)


@pytest.mark.parametrize(("kind", "times", "expected"), PAY_FAULTS)
async def test_an_order_without_a_usable_response_is_placed_again(
    wechat_pay_shop: WeChatPayShop,
    hasty_gateway: WeChatPayGateway,
    kind: str,
    times: int,
    expected: PaymentStatus,
) -> None:
    wechat_pay_shop.inject_fault("pay", kind, times=times, **_delay(kind))
    outcome = await hasty_gateway.pay(wechat_pay_shop.request())
    assert outcome.status == expected
    if kind == "expired_certificate":
        assert " was valid until 20" in outcome.reason


def _delay(kind: str) -> dict[str, float]:
    return {"delay_s": 1.0} if kind.startswith("timeout") else {"delay_s": 0.1}


QUERY_FAULTS: Final = (
    "timeout_before", "error_500", "reset", "wrong_signature", "expired_certificate",
    "wrong_amount", "other_account",
)  # fmt: skip


@pytest.mark.parametrize("kind", QUERY_FAULTS)
async def test_a_query_without_a_usable_response_says_nothing(
    wechat_pay_shop: WeChatPayShop, hasty_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_gateway)
    wechat_pay_shop.inject_fault("find", kind, **_delay(kind))
    outcome = await hasty_gateway.find_payment(attempt_id)
    if kind == "wrong_amount":  # only OpenTill can compare it with the order
        assert (outcome.status, outcome.amount) == ("SUCCEEDED", Money(1000, CNY))
    else:
        assert outcome.status == "UNKNOWN"
        assert outcome.reason


REFUND_FAULTS: Final = (
    ("timeout_before", "NOT_FOUND"),
    ("timeout_after", "SUCCEEDED"),
    ("error_500", "NOT_FOUND"),
    ("error_500_after", "SUCCEEDED"),
    ("reset", "NOT_FOUND"),
    ("reset_after", "SUCCEEDED"),
    ("wrong_signature", "SUCCEEDED"),
    ("expired_certificate", "SUCCEEDED"),
    ("other_account", "SUCCEEDED"),
)


@pytest.mark.parametrize(("kind", "after"), REFUND_FAULTS)
async def test_a_refund_without_a_usable_response_is_done_once(
    wechat_pay_shop: WeChatPayShop,
    hasty_gateway: WeChatPayGateway,
    kind: str,
    after: RefundStatus,
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    wechat_pay_shop.inject_fault("refund", kind, **_delay(kind))
    assert (await hasty_gateway.refund(refund)).status == "UNKNOWN"
    assert (await hasty_gateway.find_refund(refund.refund_id)).status == after
    again = await hasty_gateway.refund(msgspec.structs.replace(refund, repeated=True))
    assert again.status in ("SUCCEEDED", "PENDING")
    assert (await hasty_gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"


@pytest.mark.parametrize("kind", ["error_500", "wrong_signature"])
async def test_no_refund_is_sent_while_its_payment_cannot_be_queried(
    wechat_pay_shop: WeChatPayShop, hasty_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    wechat_pay_shop.inject_fault("find", kind)
    assert (await hasty_gateway.refund(refund)).status == "UNREACHABLE"
    assert (await hasty_gateway.find_refund(refund.refund_id)).status == "NOT_FOUND"


@pytest.mark.parametrize(
    "kind", ["error_500", "wrong_signature", "wrong_amount", "other_account", "reset"]
)
async def test_a_query_of_a_refund_is_checked(
    wechat_pay_shop: WeChatPayShop, hasty_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    await hasty_gateway.refund(refund)
    wechat_pay_shop.inject_fault("find_refund", kind)
    outcome = await hasty_gateway.find_refund(refund.refund_id)
    # A query does not know the amount, so that a wrong one cannot be noticed.
    assert outcome.status == ("SUCCEEDED" if kind == "wrong_amount" else "UNKNOWN")


@pytest.mark.parametrize("kind", ["error_500", "wrong_signature", "reset_after"])
async def test_an_order_that_could_not_be_closed_stays_open(
    wechat_pay_shop: WeChatPayShop, hasty_gateway: WeChatPayGateway, kind: str
) -> None:
    request = wechat_pay_shop.request()
    await hasty_gateway.pay(request)
    wechat_pay_shop.inject_fault("close", kind)
    assert (await hasty_gateway.expire(request.attempt_id, "")).status == "ACTION_REQUIRED"
    assert (await hasty_gateway.expire(request.attempt_id, "")).status == "DECLINED"


async def test_nothing_is_sent_to_a_server_that_refuses_connections(
    wechat_pay_shop: WeChatPayShop,
) -> None:
    sock = free_socket()
    url = url_of(sock)
    sock.close()
    gateway = wechat_pay_shop.gateway(url=url)
    assert (await gateway.pay(wechat_pay_shop.request())).status == "UNREACHABLE"
    refund = wechat_pay_shop.refund_request(id_of_age(0), 1)
    assert (await gateway.refund(refund)).status == "UNREACHABLE"
    assert (await gateway.find_refund(refund.refund_id)).status == "UNREACHABLE"
    assert "cannot be asked" in (await gateway.check() or "")
    await gateway.close()


# ── notifications ──


async def test_a_payment_is_notified(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id, (headers, body) = await take_notice(wechat_pay_shop, gateway)
    for _ in range(2):  # a repeated notification is read again; applying it is idempotent
        (event,) = gateway.read_callback(headers, body, now_ms())
        assert isinstance(event, GatewayPaymentEvent)
        assert event.attempt_id == attempt_id
        assert event.outcome == await gateway.find_payment(attempt_id)


async def test_refunds_are_notified_with_those_made_at_wechat_pay(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    start = len(wechat_pay_shop.receiver.received)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    sent = await gateway.refund(refund)
    made_there = await asyncio.to_thread(
        wechat_pay_shop.api.post, f"/payments/{attempt_id}/refunds", json={"amount_minor": 500}
    )
    await asyncio.to_thread(wechat_pay_shop.api.post, f"/refunds/{refund.refund_id}/reverse")
    notices = await asyncio.to_thread(wechat_pay_shop.wait_for_notices, start, 3)
    await gateway.fetch_keys(notices[0][0])
    events = [event for notice in notices for event in gateway.read_callback(*notice, now_ms())]
    assert all(isinstance(event, GatewayRefundEvent) for event in events)
    by_us = RefundOutcome(status="SUCCEEDED", provider_ref=sent.provider_ref)
    abnormal = RefundOutcome(status="PENDING", provider_ref=sent.provider_ref, reason=wire.ABNORMAL)
    reported = {
        (event.attempt_id, event.refund_id, event.outcome.status, event.amount)
        for event in events
        if isinstance(event, GatewayRefundEvent)
    }
    assert made_there.status_code == 201
    assert reported == {
        (attempt_id, refund.refund_id, by_us.status, Money(400, CNY)),
        (attempt_id, "", "SUCCEEDED", Money(500, CNY)),
        (attempt_id, refund.refund_id, abnormal.status, Money(400, CNY)),
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("wrong_signature", "its signature does not fit"),
        ("expired_certificate", r"platform certificate [0-9A-F]+ was valid until 20\d\d-"),
        ("other_account", "the payment is one of another mchid or appid"),
    ],
)
async def test_a_notification_that_is_not_genuine_is_refused(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway, kind: str, expected: str
) -> None:
    wechat_pay_shop.inject_fault("callback", kind)
    _, (headers, body) = await take_notice(wechat_pay_shop, gateway)
    with pytest.raises(BadCallback, match=expected):
        gateway.read_callback(headers, body, now_ms())


async def test_a_wrong_amount_is_reported_as_it_is(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    wechat_pay_shop.inject_fault("callback", "wrong_amount")
    _, (headers, body) = await take_notice(wechat_pay_shop, gateway)
    (event,) = gateway.read_callback(headers, body, now_ms())
    assert isinstance(event, GatewayPaymentEvent)
    assert event.outcome.amount == Money(1000, CNY)  # which OpenTill compares with the order


@pytest.mark.parametrize(
    ("changes", "age_ms", "expected"),
    [
        ({}, 360_000, "more than five minutes old"),
        ({}, -360_000, "more than five minutes old"),
        ({"wechatpay-timestamp": "1"}, 0, "signature does not fit"),
        ({"wechatpay-timestamp": "x" * 9}, 0, "no time"),
        ({"wechatpay-nonce": "x"}, 0, "signature does not fit"),
        ({"wechatpay-nonce": "x" * 5000}, 0, "too long"),
        ({"wechatpay-signature": ""}, 0, "no signature"),
        ({"wechatpay-signature": "WECHATPAY/SIGNTEST/abc"}, 0, "signature does not fit"),
        ({"wechatpay-signature": "A" * 5000}, 0, "signature does not fit"),
        ({"wechatpay-serial": "7B77373C3A93AA83"}, 0, "platform certificate 7B77373C3A93AA83"),
        ({"wechatpay-serial": "PUB_KEY_ID_1"}, 0, "public key PUB_KEY_ID_1, which is not"),
    ],
)
async def test_a_notification_with_wrong_headers_is_refused(
    wechat_pay_shop: WeChatPayShop,
    gateway: WeChatPayGateway,
    changes: dict[str, str],
    age_ms: int,
    expected: str,
) -> None:
    _, (headers, body) = await take_notice(wechat_pay_shop, gateway)
    with pytest.raises(BadCallback, match=expected):
        gateway.read_callback(headers | changes, body, now_ms() + age_ms)
    with pytest.raises(BadCallback, match="does not fit"):
        gateway.read_callback(headers, body + b" ", now_ms())


async def test_notifications_that_cannot_be_read_are_refused(
    wechat_pay_shop: WeChatPayShop,
) -> None:
    gateway = wechat_pay_shop.gateway(by_public_key=True)
    merchant = keys.Merchant(wechat_pay_shop.folder)
    resource = merchant.encrypt(b"{}", "transaction")
    bodies: tuple[tuple[Any, str], ...] = (
        ("[" * 5000, "format"),
        ({"event_type": "TRANSACTION.SUCCESS"}, "format"),
        (_notice(resource), "no payment of ours"),
        (_notice(resource | {"algorithm": "AES"}), "algorithm"),
        (_notice(resource | {"nonce": "x"}), "nonce"),
        (_notice(resource | {"nonce": "0" * 12}), "APIv3 key"),
        (_notice(resource | {"associated_data": "x"}), "APIv3 key"),
        (_notice(resource | {"ciphertext": "?"}), "cannot be used"),
        (_notice(resource, "REFUND.SUCCESS"), "no refund of ours"),
    )
    for content, expected in bodies:
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        with pytest.raises(BadCallback, match=expected):
            gateway.read_callback(_sign(merchant, body), body, now_ms())
    other_type = msgspec.json.encode(_notice(resource, "COUPON.USE"))
    assert gateway.read_callback(_sign(merchant, other_type), other_type, now_ms()) == ()
    await gateway.close()


def _notice(resource: dict[str, str], event_type: str = "TRANSACTION.SUCCESS") -> dict[str, Any]:
    return {"event_type": event_type, "resource": resource}


def _sign(merchant: keys.Merchant, body: bytes) -> dict[str, str]:
    now_s = int(time.time())
    return {
        "wechatpay-timestamp": str(now_s),
        "wechatpay-nonce": "n",
        "wechatpay-signature": merchant.own.sign(now_s, "n", body),
        "wechatpay-serial": keys.PUBLIC_KEY_ID,
    }


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


# ── certificates and checks ──


async def test_a_new_platform_certificate_is_downloaded(wechat_pay_shop: WeChatPayShop) -> None:
    gateway = wechat_pay_shop.gateway()
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    serial = await asyncio.to_thread(wechat_pay_shop.rotate)
    # A forged serial number cannot cause a download each time.
    outcome = await gateway.find_payment(id_of_age(0))
    assert (outcome.status, serial.lstrip("0") in outcome.reason) == ("UNKNOWN", True)
    gateway._transport.keys._pause_s = 0
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    await gateway.close()


async def test_a_working_account_has_no_problem(gateway: WeChatPayGateway) -> None:
    assert await gateway.check() is None


WRONG_ACCOUNTS: Final = (
    ({"mchid": "1900000002"}, "refuses our signature: correct OPENTILL_GATEWAY_WECHAT_PAY_MCHID"),
    ({"certificate": "", "serial": "7B77"}, "refuses our signature"),
    ({"api_v3_key": "x" * 32}, "cannot be decrypted with the APIv3 key"),
)


@pytest.mark.parametrize(("changes", "expected"), WRONG_ACCOUNTS)
async def test_a_check_names_the_setting_that_is_wrong(
    wechat_pay_shop: WeChatPayShop, changes: dict[str, Any], expected: str
) -> None:
    gateway = wechat_pay_shop.gateway(**changes)
    assert expected in (await gateway.check() or "")
    outcome = await gateway.pay(wechat_pay_shop.request())
    # Nothing was processed, so that another gateway may be tried.
    assert outcome.status == ("UNKNOWN" if "api_v3_key" in changes else "UNREACHABLE")
    await gateway.close()


async def test_a_check_notices_a_wrong_public_key(wechat_pay_shop: WeChatPayShop) -> None:
    key = keys.SigningKey(keys.new_key(), None).key.public_key()
    gateway = wechat_pay_shop.gateway(by_public_key=True, public_key=keys.public_pem(key).decode())
    assert "does not fit. If this stays, correct" in (await gateway.check() or "")
    await gateway.close()


async def test_secrets_are_not_shown_and_not_logged(
    wechat_pay_shop: WeChatPayShop, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = wechat_pay_shop.gateway(api_v3_key="s" * 32)
    outcome = await gateway.find_payment(id_of_age(0))
    assert "APIv3 key" in caplog.text
    shown = f"{gateway._options!r} {outcome!r} {caplog.text}"
    private = wechat_pay_shop.file("apiclient_key.pem").splitlines()[3]
    assert "s" * 32 not in shown
    assert private not in shown
    await gateway.close()
