"""Notifications of WeChat Pay: payments, refunds, and those that are refused."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import BadCallback, RefundOutcome
from opentill.gateways.model import (
    GatewayPaymentEvent,
    GatewayRefundEvent,
)
from opentill.gateways.wechat_pay import WeChatPayGateway, wire
from opentill.sandbox.wechat_pay import keys
from support.wallet_shop import CNY, now_ms
from support.wechat_pay_shop import Notice, WeChatPayShop


async def take_notice(
    shop: WeChatPayShop, gateway: WeChatPayGateway, fault: str = ""
) -> tuple[str, Notice]:
    """Pay, and return the attempt's id and its notification, which has the fault."""
    attempt_id = new_id("att")
    if fault:
        shop.inject_fault("callback", fault, match=attempt_id)
    await shop.pay(gateway, attempt_id=attempt_id)
    (notice,) = shop.notices(attempt_id)
    await gateway.fetch_keys(notice[0])
    return attempt_id, notice


async def test_a_payment_is_notified(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id, (headers, body) = await take_notice(wechat_pay_shop, wechat_pay_gateway)
    for _ in range(2):  # a repeated notification is read again; applying it is idempotent
        (event,) = wechat_pay_gateway.read_callback(headers, body, now_ms())
        assert isinstance(event, GatewayPaymentEvent)
        assert event.attempt_id == attempt_id
        assert event.outcome == await wechat_pay_gateway.find_payment(attempt_id)


async def test_refunds_are_notified_with_those_made_at_wechat_pay(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    attempt_id = await wechat_pay_shop.pay(wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 400)
    sent = await wechat_pay_gateway.refund(refund)
    made_there = await asyncio.to_thread(
        wechat_pay_shop.api.post, f"/payments/{attempt_id}/refunds", json={"amount_minor": 500}
    )
    await asyncio.to_thread(wechat_pay_shop.api.post, f"/refunds/{refund.refund_id}/reverse")
    paid, *notices = await asyncio.to_thread(wechat_pay_shop.wait_for_notices, attempt_id, 4)
    await wechat_pay_gateway.fetch_keys(paid[0])
    events = [
        event for notice in notices for event in wechat_pay_gateway.read_callback(*notice, now_ms())
    ]
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
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway, kind: str, expected: str
) -> None:
    _, (headers, body) = await take_notice(wechat_pay_shop, wechat_pay_gateway, kind)
    with pytest.raises(BadCallback, match=expected):
        wechat_pay_gateway.read_callback(headers, body, now_ms())


async def test_a_wrong_amount_is_reported_as_it_is(
    wechat_pay_shop: WeChatPayShop, wechat_pay_gateway: WeChatPayGateway
) -> None:
    _, (headers, body) = await take_notice(wechat_pay_shop, wechat_pay_gateway, "wrong_amount")
    (event,) = wechat_pay_gateway.read_callback(headers, body, now_ms())
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
    wechat_pay_gateway: WeChatPayGateway,
    changes: dict[str, str],
    age_ms: int,
    expected: str,
) -> None:
    _, (headers, body) = await take_notice(wechat_pay_shop, wechat_pay_gateway)
    with pytest.raises(BadCallback, match=expected):
        wechat_pay_gateway.read_callback(headers | changes, body, now_ms() + age_ms)
    with pytest.raises(BadCallback, match="does not fit"):
        wechat_pay_gateway.read_callback(headers, body + b" ", now_ms())


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
