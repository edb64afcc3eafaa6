"""Orders of the Epay V2 API are placed, queried and closed; every response is signed."""

import time
from typing import Any
from urllib.parse import urlencode

import pytest

from support.api_server import ApiServer
from support.epay_shop import EpayShop
from support.epay_v2_shop import EpayV2Shop


def test_an_order_is_created_queried_and_paid(v2_shop: EpayV2Shop) -> None:
    form = v2_shop.submission(param="uid=7", device="jump", name="VIP会员 & +1", money="10.50")
    placed = v2_shop.call("pay/create", **form)
    assert placed.keys() == {"code", "trade_no", "pay_type", "pay_info"}
    assert (placed["code"], placed["pay_type"]) == (0, "jump")
    page = v2_shop.api_server.http.get(placed["pay_info"])
    assert "VIP会员 &amp; +1" in page.text
    queried = v2_shop.call("pay/query", trade_no=placed["trade_no"])
    added = queried.pop("addtime")
    assert time.strptime(added, "%Y-%m-%d %H:%M:%S")
    assert queried == {
        "code": 0,
        "trade_no": placed["trade_no"],
        "out_trade_no": form["out_trade_no"],
        "type": "alipay",
        "pid": int(v2_shop.pid),
        "name": "VIP会员 & +1",
        "money": "10.50",
        "param": "uid=7",
        "status": 0,
    }
    v2_shop.pay(placed)
    paid = v2_shop.call("pay/query", out_trade_no=form["out_trade_no"])
    assert (paid["status"], paid["addtime"]) == (1, added)
    assert time.strptime(paid["endtime"], "%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize("prefix", ["/api/", "/epay/api/", "/epay//api//"])
def test_both_base_addresses_work_with_and_without_redundant_slashes(
    v2_shop: EpayV2Shop, prefix: str
) -> None:
    signed = v2_shop.sign_v2(v2_shop.submission(device="jump"))
    assert v2_shop.send("pay/create", signed, prefix)["code"] == 0


def test_a_qr_code_is_returned_for_the_web_and_an_address_for_a_jump(v2_shop: EpayV2Shop) -> None:
    scanned = v2_shop.create(type="alipay")
    assert scanned["pay_type"] == "qrcode"
    assert scanned["pay_info"].startswith("http")
    assert "/checkout/" not in scanned["pay_info"]
    for changes in ({"method": "jump"}, {"device": "jump"}, {"type": "creditcard"}):
        placed = v2_shop.create(**changes)
        assert placed["pay_type"] == "jump"
        assert "/checkout/cs_" in placed["pay_info"]
    assert v2_shop.create(method=None, device="jump")["pay_type"] == "jump"


@pytest.mark.parametrize("method", ["jsapi", "app", "scan", "applet", "x"])
def test_other_methods_are_refused(v2_shop: EpayV2Shop, method: str) -> None:
    refused = v2_shop.call("pay/create", **v2_shop.submission(method=method))
    message = "不支持的接口类型(method)，可用的有：web, jump"
    assert refused == {"code": -1, "msg": message}


@pytest.mark.parametrize("by", ["query", "form", "multipart"])
def test_a_browser_is_sent_from_submit_to_the_payment_page(v2_shop: EpayV2Shop, by: str) -> None:
    form = v2_shop.submission(type=None, clientip=None, method=None, channel_id="7")
    signed = v2_shop.sign_v2(form)
    http = v2_shop.api_server.http
    match by:
        case "query":
            response = http.get("/api/pay/submit", params=signed)
        case "form":
            response = http.post("/api/pay/submit?_input_charset=utf-8", data=signed)
        case _:
            files = {name: (None, value) for name, value in signed.items()}
            response = http.post("/epay/api/pay/submit", files=files)
    assert response.status_code == 302
    assert response.headers["referrer-policy"] == "no-referrer"
    page = http.get(response.headers["location"])
    assert "VIP会员" in page.text
    assert v2_shop.call("pay/query", out_trade_no=form["out_trade_no"])["status"] == 0


def test_a_refused_submission_is_a_page_for_browsers_and_signed_for_programs(
    v2_shop: EpayV2Shop,
) -> None:
    signed = v2_shop.sign_v2(v2_shop.submission(money="0", method=None))
    url = f"/api/pay/submit?{urlencode(signed)}"
    http = v2_shop.api_server.http
    assert v2_shop.read(http.get(url)) == {"code": -1, "msg": "金额不合法"}
    page = http.get(url, headers={"accept": "text/html"})
    assert (page.status_code, "金额不合法" in page.text) == (200, True)


def test_the_same_number_is_the_same_order_and_changed_values_are_refused(
    v2_shop: EpayV2Shop,
) -> None:
    form = v2_shop.submission(device="jump")
    first = v2_shop.call("pay/create", **form)
    assert v2_shop.call("pay/create", **form) == first
    changed = v2_shop.call("pay/create", **(form | {"money": "9.00"}))
    assert changed["code"] == -1
    v2_shop.pay(first)
    assert "已支付" in v2_shop.call("pay/create", **form)["msg"]


def test_an_unpaid_order_is_closed_and_its_number_can_be_used_again(v2_shop: EpayV2Shop) -> None:
    form = v2_shop.submission(device="jump")
    placed = v2_shop.call("pay/create", **form)
    closed = {"code": 0, "msg": "订单关闭成功"}
    assert v2_shop.call("pay/close", trade_no=placed["trade_no"]) == closed
    assert v2_shop.call("pay/close", out_trade_no=form["out_trade_no"]) == closed
    assert v2_shop.call("pay/query", out_trade_no=form["out_trade_no"])["status"] == 0
    again = v2_shop.call("pay/create", **form)
    assert (again["code"], again["trade_no"] != placed["trade_no"]) == (0, True)
    v2_shop.pay(again)
    refused = {"code": -1, "msg": "只能关闭未支付的订单"}
    assert v2_shop.call("pay/close", trade_no=again["trade_no"]) == refused
    assert v2_shop.call("pay/query", trade_no=again["trade_no"])["status"] == 1


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("pay/query", {}, "订单号不能为空"),
        ("pay/query", {"trade_no": "order1"}, "订单号不存在"),
        ("pay/query", {"out_trade_no": "nothing"}, "订单号不存在"),
        ("pay/close", {}, "订单号不能为空"),
        ("pay/close", {"out_trade_no": "nothing"}, "当前订单不存在！"),
        ("pay/refund", {"money": "1"}, "订单号不能为空"),
        ("pay/refund", {"money": "1", "trade_no": "order1"}, "当前订单不存在！"),
        ("pay/refundquery", {}, "商户退款单号不能为空"),
        ("pay/refundquery", {"refund_no": "nothing"}, "退款记录不存在"),
    ],
)
def test_unknown_orders_are_refused_in_the_reference_servers_words(
    v2_shop: EpayV2Shop, path: str, fields: dict[str, str], message: str
) -> None:
    assert v2_shop.call(path, **fields) == {"code": -1, "msg": message}


def test_orders_of_another_merchant_are_unknown(v2_shop: EpayV2Shop, api_server: ApiServer) -> None:
    other = EpayV2Shop(api_server, v2_shop.inbox)
    placed = other.create_paid()
    paths = (
        ("pay/query", {}),
        ("pay/close", {}),
        ("pay/refund", {"money": "1", "out_refund_no": "R-1"}),
    )
    for number_of_path, (path, fields) in enumerate(paths):
        for number in ("trade_no", "out_trade_no"):
            seconds = int(time.time()) - number_of_path  # so that each path has its own signature
            named = fields | {number: placed[number]}
            refused = v2_shop.send(path, v2_shop.sign_v2(named, timestamp=seconds))
            assert (refused["code"], "不存在" in refused["msg"]) == (-1, True)
    assert other.refunds() == []


MISSING = {
    "out_trade_no": "订单号(out_trade_no)不能为空",
    "notify_url": "通知地址(notify_url)不能为空",
    "name": "商品名称(name)不能为空",
    "money": "金额(money)不能为空",
    "type": "支付方式(type)不能为空",
    "clientip": "用户IP地址(clientip)不能为空",
}


def test_missing_fields_are_named_in_the_reference_servers_words(v2_shop: EpayV2Shop) -> None:
    for name, message in MISSING.items():
        refused = v2_shop.call("pay/create", **v2_shop.submission(**{name: None}))
        assert refused == {"code": -1, "msg": message}
    form = v2_shop.sign_v2(v2_shop.submission(return_url=None))
    refused = v2_shop.send("pay/submit", form)
    assert refused == {"code": -1, "msg": "回调地址(return_url)不能为空"}
    assert v2_shop.create(return_url=None)["code"] == 0


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"money": "0"}, "金额不合法"),
        ({"money": "0.00"}, "金额不合法"),
        ({"money": "-1"}, "金额不合法"),
        ({"money": "1e3"}, "金额不合法"),
        ({"money": "1.001"}, "金额不合法"),
        ({"money": "１"}, "金额不合法"),
        ({"money": "1" + "0" * 40}, "金额不合法"),
        ({"out_trade_no": "a b"}, "订单号(out_trade_no)格式不正确"),
        ({"out_trade_no": "a" * 65}, "订单号(out_trade_no)格式不正确"),
        ({"out_trade_no": "订单"}, "订单号(out_trade_no)格式不正确"),
        ({"notify_url": "ftp://shop.example"}, "notify_url"),
        ({"return_url": "no address"}, "return_url"),
        (
            {"notify_url": "https://shop.example/?" + "a" * 1900},
            "notify_url、name 和 param 合计过长",
        ),
        ({"param": "a" * 2049}, "param"),
        ({"param": "a\\b"}, "param"),
        ({"clientip": "x"}, "clientip"),
        ({"type": "a b"}, "type"),
        ({"money_type": "XXQ"}, "money_type"),
        ({"trade_no": "order1"}, "trade_no"),
        ({"trade_status": "TRADE_SUCCESS"}, "trade_status"),
        ({"out_refund_no": "R-1"}, "out_refund_no"),
        ({"name": "a&trade_status=TRADE_SUCCESS"}, "trade_status"),
        ({"param": "a&pid=1"}, "pid"),
        ({"channel_param": "4242424242424242"}, "channel_param"),
    ],
)
def test_values_outside_their_form_are_refused_with_a_signature(
    v2_shop: EpayV2Shop, changes: dict[str, Any], part: str
) -> None:
    refused = v2_shop.call("pay/create", **v2_shop.submission(**changes))
    assert (refused["code"], part in refused["msg"]) == (-1, True), refused
    assert "&" not in refused["msg"]


def test_a_number_of_v1_becomes_one_of_v2_and_not_the_reverse(v2_shop: EpayV2Shop) -> None:
    form = v2_shop.submission(device="jump")
    v1_form = {name: text for name, text in form.items() if name != "method"}
    first = v2_shop.post("mapi", v2_shop.sign(v1_form)).json()
    assert first["code"] == 1
    assert v2_shop.call("pay/create", **form)["trade_no"] == first["trade_no"]
    refused = v2_shop.post("mapi", v2_shop.sign(v1_form)).json()
    assert (refused["code"], "V2" in refused["msg"]) == (-1, True)


def test_a_merchant_chooses_its_versions(v2_shop: EpayV2Shop) -> None:
    v2_shop.set_versions("V2")
    for act in ("query", "orders"):
        refused = EpayShop.call_api(v2_shop, act)
        assert refused == {"code": -3, "msg": "该商户只能使用RSA签名类型"}
    response = v2_shop.post("mapi", v2_shop.sign(v2_shop.form()))
    assert response.json() == {"code": -3, "msg": "该商户只能使用RSA签名类型"}
    wrong = v2_shop.post("mapi", v2_shop.sign(v2_shop.form(), "a" * 32))
    assert wrong.json() == {"code": -3, "msg": "签名校验失败"}
    assert v2_shop.create()["code"] == 0
    v2_shop.set_versions("V1")
    assert v2_shop.call("merchant/info")["code"] == -3
    assert v2_shop.place_order()["code"] == 1


def test_transfers_are_not_enabled(v2_shop: EpayV2Shop) -> None:
    payee = {"type": "alipay", "account": "a@b.example", "name": "王五", "money": "1.00"}
    refused = {"code": -1, "msg": "商户未开启代付API接口"}
    assert v2_shop.call("transfer/submit", **payee, out_biz_no="T-1", remark="x") == refused
    assert v2_shop.call("transfer/query", out_biz_no="T-1") == refused
    assert v2_shop.call("transfer/balance") == refused
