"""Notifications of V2 orders: signed by the platform's key, anew for each try."""

import re
import time
from urllib.parse import parse_qsl, urlsplit

import pytest

from opentill.epay import platform_key, timestamps
from opentill.gateways.epay import rsa_signature, signature
from opentill.merchants import OPENTILL
from support.api_server import ApiServer
from support.epay_v2_shop import EpayV2Shop

MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def _no_pending_notices(api_server: ApiServer) -> None:
    """Mark the pending notices of other tests as delivered."""
    deliver_all = (
        "update epay_notifications set state = 'DELIVERED', due_at = null where due_at is not null"
    )
    api_server.tx(lambda tx: tx.execute(deliver_all))


def is_genuine(v2_shop: EpayV2Shop, message: dict[str, str]) -> bool:
    """Verify a notification as the PHP SDK does."""
    is_recent = abs(int(message["timestamp"]) - time.time()) <= 300
    return is_recent and rsa_signature.verify(
        message, rsa_signature.read_public_key(v2_shop.platform_key)
    )


def test_a_notification_has_the_fields_of_v2(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid(param="uid=7&x=中 文", money="10.50")
    assert v2_shop.send_notices() == 1
    (message,) = v2_shop.inbox.received
    assert is_genuine(v2_shop, message)
    assert not signature.verify(message, v2_shop.key)
    queried = v2_shop.call("pay/query", trade_no=placed["trade_no"])
    assert message == {
        "pid": v2_shop.pid,
        "trade_no": placed["trade_no"],
        "out_trade_no": placed["out_trade_no"],
        "type": "alipay",
        "name": "VIP会员",
        "money": "10.50",
        "trade_status": "TRADE_SUCCESS",
        "param": "uid=7&x=中 文",
        "addtime": queried["addtime"],
        "endtime": queried["endtime"],
        "timestamp": message["timestamp"],
        "sign": message["sign"],
        "sign_type": "RSA",
    }
    assert "%E4%B8%AD+%E6%96%87" in v2_shop.inbox.paths[0]
    assert v2_shop.notice(placed)["state"] == "DELIVERED"


def test_each_try_is_signed_anew(v2_shop: EpayV2Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    v2_shop.create_paid()
    v2_shop.inbox.answer = (200, b"no")
    assert v2_shop.send_notices() == 1
    real = timestamps.now_s
    monkeypatch.setattr(timestamps, "now_s", lambda: real() + 120)
    v2_shop.inbox.answer = (200, b" Success! ")
    assert v2_shop.send_notices(v2_shop.api_server.app.clock() + 2 * MINUTE_MS) == 1
    first, second = v2_shop.inbox.received
    assert int(second["timestamp"]) - int(first["timestamp"]) in (120, 121)
    assert second["sign"] != first["sign"]
    assert is_genuine(v2_shop, first)
    assert is_genuine(v2_shop, second)


def test_an_order_of_v1_is_notified_by_v1(v2_shop: EpayV2Shop) -> None:
    v2_shop.place_paid_order()
    v2_shop.send_notices()
    (message,) = v2_shop.inbox.received
    assert signature.verify(message, v2_shop.key)
    assert message["sign_type"] == "MD5"
    assert "timestamp" not in message


def test_a_notification_is_signed_by_a_replaced_key(v2_shop: EpayV2Shop) -> None:
    v2_shop.create_paid()
    v2_shop.inbox.answer = (500, b"")
    v2_shop.send_notices()
    old = rsa_signature.read_public_key(v2_shop.platform_key)
    secret_key, now = v2_shop.api_server.settings.secret_key, v2_shop.api_server.app.clock()
    v2_shop.api_server.tx(lambda tx: platform_key.rotate(tx, secret_key, now, actor=OPENTILL))
    v2_shop.send_notices(now + 2 * MINUTE_MS)
    first, second = v2_shop.inbox.received
    assert rsa_signature.verify(first, old)
    assert not rsa_signature.verify(second, old)
    assert is_genuine(v2_shop, second)


def test_merchants_that_leave_v2_are_still_notified_by_it(v2_shop: EpayV2Shop) -> None:
    v2_shop.create_paid()
    v2_shop.set_versions("V1")
    v2_shop.send_notices()
    assert is_genuine(v2_shop, v2_shop.inbox.received[0])


def test_the_return_address_is_signed_when_the_browser_is_sent_there(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create(device="jump", return_url="https://shop.example/back?a=1")
    http = v2_shop.api_server.http
    leave = f"{urlsplit(placed['pay_info']).path}/shop"
    unpaid = http.get(leave)
    assert (unpaid.status_code, "shop.example" in unpaid.headers["location"]) == (303, False)
    v2_shop.pay(placed)
    page = http.get(placed["pay_info"]).text
    assert "shop.example" not in page
    (link,) = set(re.findall(r'href="(http[^"]*/shop)"', page))
    response = http.get(link)
    assert response.status_code == 303
    assert response.headers["referrer-policy"] == "no-referrer"
    assert "no-store" in response.headers["cache-control"]
    location = response.headers["location"]
    assert location.startswith("https://shop.example/back?a=1&pid=")
    message = dict(parse_qsl(urlsplit(location).query))
    del message["a"]
    assert is_genuine(v2_shop, message)
    assert message["trade_status"] == "TRADE_SUCCESS"


def test_an_order_of_v1_is_returned_by_its_page(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.place_paid_order(return_url="https://shop.example/back")
    assert "https://shop.example/back?" in v2_shop.api_server.http.get(placed["payurl"]).text
    leave = v2_shop.api_server.http.get(f"{urlsplit(placed['payurl']).path}/shop")
    message = dict(parse_qsl(urlsplit(leave.headers["location"]).query))
    assert signature.verify(message, v2_shop.key)


def test_a_platform_message_is_no_request(v2_shop: EpayV2Shop) -> None:
    """What the customer's browser carries to the shop is signed by another key."""
    v2_shop.create_paid()
    v2_shop.send_notices()
    (message,) = v2_shop.inbox.received
    for path in ("pay/query", "pay/refund", "pay/close", "pay/create", "merchant/info"):
        refused = v2_shop.send(path, message)
        assert refused == {"code": -3, "msg": "RSA签名校验失败"}
