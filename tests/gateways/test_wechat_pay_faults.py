"""Faults of WeChat Pay's own kinds; ``test_conformance`` has those of any provider."""

from typing import Final

import msgspec
import pytest

from opentill.core.money import Money
from opentill.gateways.model import PaymentStatus
from opentill.gateways.wechat_pay import WeChatPayGateway
from support.ports import free_socket, url_of
from support.wallet_shop import CNY, id_of_age
from support.wechat_pay_shop import WeChatPayShop

PAY_FAULTS: Final = (
    # Each row: fault, times, and the outcome
    ("timeout_after", 1, "ACTION_REQUIRED"),
    ("reset_after", 1, "ACTION_REQUIRED"),
    ("slow", 1, "ACTION_REQUIRED"),
    ("wrong_signature", 1, "ACTION_REQUIRED"),
    ("wrong_signature", 2, "UNKNOWN"),
    ("expired_certificate", 2, "UNKNOWN"),
)


@pytest.mark.parametrize(("kind", "times", "expected"), PAY_FAULTS)
async def test_an_order_without_a_usable_response_is_placed_again(
    wechat_pay_shop: WeChatPayShop,
    hasty_wechat_pay_gateway: WeChatPayGateway,
    kind: str,
    times: int,
    expected: PaymentStatus,
) -> None:
    wechat_pay_shop.inject_fault("pay", kind, times=times, **_delay(kind))
    outcome = await hasty_wechat_pay_gateway.pay(wechat_pay_shop.request())
    assert outcome.status == expected
    if kind == "expired_certificate":
        assert " was valid until 20" in outcome.reason


def _delay(kind: str) -> dict[str, float]:
    return {"delay_s": 1.0} if kind.startswith("timeout") else {"delay_s": 0.1}


QUERY_FAULTS: Final = (
    "wrong_signature",
    "expired_certificate",
    "wrong_amount",
    "other_account",
)


@pytest.mark.parametrize("kind", QUERY_FAULTS)
async def test_a_query_without_a_usable_response_says_nothing(
    wechat_pay_shop: WeChatPayShop, hasty_wechat_pay_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_wechat_pay_gateway)
    wechat_pay_shop.inject_fault("find", kind, **_delay(kind))
    outcome = await hasty_wechat_pay_gateway.find_payment(attempt_id)
    if kind == "wrong_amount":  # only OpenTill can compare it with the order
        assert (outcome.status, outcome.amount) == ("SUCCEEDED", Money(1000, CNY))
    else:
        assert outcome.status == "UNKNOWN"
        assert outcome.reason


@pytest.mark.parametrize("kind", ["wrong_signature", "expired_certificate", "other_account"])
async def test_a_refund_without_a_trustworthy_response_is_done_once(
    wechat_pay_shop: WeChatPayShop, hasty_wechat_pay_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    wechat_pay_shop.inject_fault("refund", kind)
    assert (await hasty_wechat_pay_gateway.refund(refund)).status == "UNKNOWN"
    assert (await hasty_wechat_pay_gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"
    again = await hasty_wechat_pay_gateway.refund(msgspec.structs.replace(refund, repeated=True))
    assert again.status in ("SUCCEEDED", "PENDING")
    assert (await hasty_wechat_pay_gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"


@pytest.mark.parametrize("kind", ["error_500", "wrong_signature"])
async def test_no_refund_is_sent_while_its_payment_cannot_be_queried(
    wechat_pay_shop: WeChatPayShop, hasty_wechat_pay_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    wechat_pay_shop.inject_fault("find", kind)
    assert (await hasty_wechat_pay_gateway.refund(refund)).status == "UNREACHABLE"
    assert (await hasty_wechat_pay_gateway.find_refund(refund.refund_id)).status == "NOT_FOUND"


@pytest.mark.parametrize("kind", ["wrong_signature", "wrong_amount", "other_account"])
async def test_a_query_of_a_refund_is_checked(
    wechat_pay_shop: WeChatPayShop, hasty_wechat_pay_gateway: WeChatPayGateway, kind: str
) -> None:
    attempt_id = await wechat_pay_shop.pay(hasty_wechat_pay_gateway)
    refund = wechat_pay_shop.refund_request(attempt_id, 999)
    await hasty_wechat_pay_gateway.refund(refund)
    wechat_pay_shop.inject_fault("find_refund", kind)
    outcome = await hasty_wechat_pay_gateway.find_refund(refund.refund_id)
    # A query does not know the amount, so that a wrong one cannot be noticed.
    assert outcome.status == ("SUCCEEDED" if kind == "wrong_amount" else "UNKNOWN")


@pytest.mark.parametrize("kind", ["error_500", "wrong_signature", "reset_after"])
async def test_an_order_that_could_not_be_closed_stays_open(
    wechat_pay_shop: WeChatPayShop, hasty_wechat_pay_gateway: WeChatPayGateway, kind: str
) -> None:
    request = wechat_pay_shop.request()
    await hasty_wechat_pay_gateway.pay(request)
    wechat_pay_shop.inject_fault("close", kind)
    assert (
        await hasty_wechat_pay_gateway.expire(request.attempt_id, "")
    ).status == "ACTION_REQUIRED"
    assert (await hasty_wechat_pay_gateway.expire(request.attempt_id, "")).status == "DECLINED"


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
    assert "gave no usable response" in str(await gateway.check())
    await gateway.close()
