"""The Epay V2 gateway: what it sends, and which responses it believes."""

import json
import time
from typing import Any

import msgspec
import pytest

from gateways.epay_v2_till import Till, order, refusal, signed
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways.accounts import check
from opentill.gateways.conformance.case import repeated
from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay_v2 import wire
from support.epay_v2_bank import EpayV2BankShop, stranger_public_key
from support.ports import free_socket, url_of
from support.wallet_shop import id_of_age

PAID = Money(999, "CNY")


async def test_requests_are_signed_and_a_signed_reply_has_the_page(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    page = {"pay_type": "jump", "pay_info": "https://pay.example/1", "trade_no": "2026"}
    till = Till(epay_v2_shop, signed(epay_v2_shop, **page))
    request = epay_v2_shop.request(description="Tea & trade_status=TRADE_SUCCESS")
    outcome = await till.gateway.pay(request)
    assert (outcome.status, outcome.action_url) == ("ACTION_REQUIRED", "https://pay.example/1")
    ((url, form),) = till.server.requests
    assert url.endswith("/epay_v2/api/pay/create")
    assert (form["method"], form["device"], form["money"]) == ("jump", "pc", "9.99")
    assert (form["out_trade_no"], form["sign_type"]) == (request.attempt_id, "RSA")
    assert abs(int(form["timestamp"]) - time.time()) < 60
    assert "&" not in form["name"]
    assert epay_v2_shop.account.is_signed(form)
    assert not epay_v2_shop.account.is_signed(form | {"money": "9.98"})


@pytest.mark.parametrize(
    ("page", "kind", "content", "expected"),
    [
        ("jump", "jump", "https://pay.example/1", ("ACTION_REQUIRED", "https://pay.example/1", "")),
        ("web", "qrcode", "weixin://x", ("ACTION_REQUIRED", "", "weixin://x")),
        ("web", "jump", "https://pay.example/1", ("ACTION_REQUIRED", "https://pay.example/1", "")),
        ("jump", "jump", "javascript:alert(1)", ("DECLINED", "", "")),
        ("web", "html", "<form>", ("DECLINED", "", "")),
        ("web", "urlscheme", "weixin://x", ("DECLINED", "", "")),
    ],
)
async def test_only_pages_and_codes_are_shown(
    epay_v2_shop: EpayV2BankShop, page: str, kind: str, content: str, expected: tuple[str, ...]
) -> None:
    reply = signed(epay_v2_shop, pay_type=kind, pay_info=content, trade_no="2026")
    till = Till(epay_v2_shop, reply, page=page)
    outcome = await till.gateway.pay(epay_v2_shop.request(on_phone=True))
    assert (outcome.status, outcome.action_url, outcome.qr_text) == expected
    form = till.server.requests[0][1]
    assert (form["method"], form["device"]) == (page, "mobile")


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        (-1, "当前支付方式单笔最大限额为100元，请选择其他支付方式！", "DECLINED"),
        (-2, "通道异常", "DECLINED"),
        (-3, "时间戳字段不正确，请检查服务器时间", "UNREACHABLE"),
        (-5, "接口方法不存在", "UNREACHABLE"),
        (-1, "请求过于频繁，请稍后再试", "UNREACHABLE"),
    ],
)
async def test_an_order_that_was_not_processed_goes_to_the_next_account(
    epay_v2_shop: EpayV2BankShop, code: int, message: str, status: str
) -> None:
    outcome = await Till(epay_v2_shop, refusal(message, code)).gateway.pay(epay_v2_shop.request())
    assert (outcome.status, outcome.reason) == (status, f"{code}: {message}")


async def test_a_page_without_a_number_is_not_shown(epay_v2_shop: EpayV2BankShop) -> None:
    """Without the server's number, the attempt would be declined while the customer pays."""
    reply = signed(epay_v2_shop, pay_type="jump", pay_info="https://pay.example/1")
    outcome = await Till(epay_v2_shop, reply).gateway.pay(epay_v2_shop.request())
    assert (outcome.status, outcome.action_url) == ("UNKNOWN", "")


def unbelievable(shop: EpayV2BankShop, genuine: bytes) -> list[tuple[str, bytes]]:
    """Return replies like a genuine one, none of which counts."""
    values = json.loads(genuine)
    old = {**values, "timestamp": str(int(time.time()) - 301)}
    old["sign"] = shop.account.sign(old)
    unsigned = {name: value for name, value in values.items() if name != "sign"}
    by_merchant = {**unsigned, "sign": rsa_signature.sign(unsigned, _merchant_key(shop))}
    no_time = {name: value for name, value in unsigned.items() if name != "timestamp"}
    no_time["sign"] = shop.account.sign(no_time)
    return [
        (name, changed if isinstance(changed, bytes) else json.dumps(changed).encode())
        for name, changed in {
            "unsigned": unsigned,
            "changed": {**values, "status": 1, "money": "9.98", "pay_info": "https://evil.example"},
            "added": {**values, "another": "1"},
            "old": old,
            "without a time": no_time,
            "signed by the merchant": by_merchant,
            "MD5": {**values, "sign_type": "MD5"},
            "other text": {**values, "code": "0", "sign": "AAAA"},
            "no object": b"[1]",
            "surrogate": genuine.replace(b'"trade_no": "2026"', b'"trade_no": "\\ud800"'),
        }.items()
    ]


def _merchant_key(shop: EpayV2BankShop) -> Any:
    return shop.gateway()._options.private_key


async def test_nothing_unsigned_or_old_is_believed(epay_v2_shop: EpayV2BankShop) -> None:
    request = epay_v2_shop.request()
    refund = epay_v2_shop.refund_request(request.attempt_id, 100)
    page = signed(epay_v2_shop, pay_type="jump", pay_info="https://pay.example", trade_no="2026")
    for name, reply in unbelievable(epay_v2_shop, page):
        outcome = await Till(epay_v2_shop, reply).gateway.pay(request)
        assert outcome.status == "UNKNOWN", name
    for name, reply in unbelievable(epay_v2_shop, order(epay_v2_shop, request.attempt_id)):
        queried = await Till(epay_v2_shop, reply).gateway.find_payment(request.attempt_id, "2026")
        assert queried.status == "UNKNOWN", name
    done = signed(epay_v2_shop, out_refund_no=refund.refund_id, trade_no="2026", status=1)
    for name, reply in unbelievable(epay_v2_shop, done):
        answer = await Till(epay_v2_shop, reply).gateway.refund(refund)
        assert answer.status == "UNKNOWN", name
        looked_up = await Till(epay_v2_shop, reply).gateway.find_refund(refund.refund_id)
        assert looked_up.status == "UNKNOWN", name


async def test_a_reply_may_be_json_in_json_or_in_gbk(epay_v2_shop: EpayV2BankShop) -> None:
    attempt_id = new_id("att")
    plain = order(epay_v2_shop, attempt_id, name="茶", fee="1.50", data="")
    values = json.loads(plain)
    for reply in (
        json.dumps(plain.decode()).encode(),
        plain.decode().encode("gbk"),
        b"\xef\xbb\xbf" + plain,
        json.dumps({**values, "rows": [{"a": 1}], "more": None, "code": "0"}).encode(),
        plain.replace(b'"1.50"', b"1.50"),
    ):
        outcome = await Till(epay_v2_shop, reply).gateway.find_payment(attempt_id, "2026")
        assert (outcome.status, outcome.amount) == ("SUCCEEDED", PAID)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "SUCCEEDED"),
        ({"money": "9.9900"}, "SUCCEEDED"),
        ({"money": "much"}, "UNKNOWN"),
        ({"status": 0}, "ACTION_REQUIRED"),
        ({"status": 2}, "UNKNOWN"),
        ({"status": 3}, "UNKNOWN"),
        ({"status": 4}, "UNKNOWN"),
        ({"pid": 1002}, "UNKNOWN"),
        ({"out_trade_no": "att_other"}, "UNKNOWN"),
        ({"code": -1, "msg": "订单号不存在"}, "NOT_FOUND"),
        ({"code": -1, "msg": "系统错误"}, "UNKNOWN"),
    ],
)
async def test_a_query_says_what_the_server_signs(
    epay_v2_shop: EpayV2BankShop, changes: dict[str, str | int], status: str
) -> None:
    attempt_id = new_id("att")
    till = Till(epay_v2_shop, order(epay_v2_shop, attempt_id, **changes))
    assert (await till.gateway.find_payment(attempt_id, "2026")).status == status


@pytest.mark.parametrize(("age_ms", "status"), [(1000, "UNKNOWN"), (61_000, "DECLINED")])
async def test_an_order_whose_page_nobody_has_seen_is_declined_after_a_minute(
    epay_v2_shop: EpayV2BankShop, age_ms: int, status: str
) -> None:
    attempt_id = id_of_age(age_ms)
    till = Till(epay_v2_shop, order(epay_v2_shop, attempt_id, status=0))
    assert (await till.gateway.find_payment(attempt_id, "")).status == status


async def test_an_order_is_closed_by_another_signature_than_it_is_queried(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    gateway, request = epay_v2_shop.gateway(), epay_v2_shop.request()
    page = (await gateway.pay(request)).action_url
    till = Till(
        epay_v2_shop, order(epay_v2_shop, request.attempt_id, status=0), signed(epay_v2_shop)
    )
    assert (await till.gateway.expire(request.attempt_id, "2026")).status == "DECLINED"
    forms = [form for _, form in till.server.requests]
    assert ["trade_no" in form for form in forms] == [False, True]
    assert forms[0]["sign"] != forms[1]["sign"]
    assert page
    # A server that cannot close the order: the customer may still pay it.
    unpaid = order(epay_v2_shop, request.attempt_id, status=0)
    till = Till(epay_v2_shop, unpaid, refusal("通道不支持关闭"), unpaid)
    assert (await till.gateway.expire(request.attempt_id, "2026")).status == "ACTION_REQUIRED"
    till = Till(epay_v2_shop, unpaid, refusal("x"), order(epay_v2_shop, request.attempt_id))
    assert (await till.gateway.expire(request.attempt_id, "2026")).status == "SUCCEEDED"
    await gateway.close()


@pytest.mark.parametrize(
    ("message", "code", "order_status", "expected"),
    [
        ("退款金额不能大于订单金额", -1, 1, "REFUSED"),
        ("退款金额不能大于订单金额", -1, 2, "UNKNOWN"),  # it may be this refund
        ("退款失败：timeout", -1, 1, "UNKNOWN"),
        ("系统错误", -1, 1, "UNKNOWN"),
        ("RSA签名校验失败", -3, 1, "UNREACHABLE"),
        ("接口方法不存在", -5, 1, "UNREACHABLE"),
        ("管理员未开启商户后台自助退款", -1, 1, "REFUSED"),
    ],
)
async def test_an_unsigned_refusal_of_a_refund_counts_only_with_a_signed_order(
    epay_v2_shop: EpayV2BankShop, message: str, code: int, order_status: int, expected: str
) -> None:
    refund = epay_v2_shop.refund_request(new_id("att"), 100)
    queried = order(epay_v2_shop, refund.attempt_id, status=order_status)
    till = Till(epay_v2_shop, refusal(message, code), queried)
    outcome = await till.gateway.refund(refund)
    assert outcome.status == expected
    assert message in outcome.reason
    # Unsigned, the order says nothing.
    unsigned = json.dumps({**json.loads(queried), "sign": ""}).encode()
    outcome = await Till(epay_v2_shop, refusal(message, code), unsigned).gateway.refund(refund)
    assert outcome.status == (expected if expected == "UNREACHABLE" else "UNKNOWN")


async def test_a_signed_refusal_of_a_refund_counts(epay_v2_shop: EpayV2BankShop) -> None:
    refund = epay_v2_shop.refund_request(new_id("att"), 100)
    reply = signed(epay_v2_shop, code=-1, msg="商户余额不足，请先充值")
    till = Till(epay_v2_shop, reply)
    assert (await till.gateway.refund(refund)).status == "REFUSED"
    forged = reply.replace("商户余额不足".encode(), "退款金额不足".encode())
    assert (await Till(epay_v2_shop, forged).gateway.refund(refund)).status == "UNKNOWN"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status": 1}, "SUCCEEDED"),
        ({"status": 0}, "REFUSED"),
        ({"status": 2}, "PENDING"),
        ({"status": 1, "trade_no": "2027"}, "PENDING"),
        ({"status": 1, "out_refund_no": "re_other"}, "PENDING"),
        ({"code": -1, "msg": "退款记录不存在"}, "PENDING"),
        ({"code": -5, "msg": "接口方法不存在"}, "SUCCEEDED"),  # the server has no such query
    ],
)
async def test_an_accepted_refund_is_looked_up(
    epay_v2_shop: EpayV2BankShop, query: dict[str, str | int], expected: str
) -> None:
    refund = epay_v2_shop.refund_request(new_id("att"), 100, provider_ref="2026")
    accepted = {"out_refund_no": refund.refund_id, "trade_no": "2026", "money": "1.00"}
    till = Till(
        epay_v2_shop,
        signed(epay_v2_shop, **accepted, refund_no="R1"),
        signed(epay_v2_shop, **(accepted | query)),
    )
    assert (await till.gateway.refund(refund)).status == expected
    form = till.server.requests[0][1]
    assert (form["trade_no"], form["out_refund_no"]) == ("2026", refund.refund_id)


async def test_a_refund_of_another_amount_or_number_is_unknown(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    refund = epay_v2_shop.refund_request(new_id("att"), 100)
    for reply in (
        signed(epay_v2_shop, out_refund_no=refund.refund_id, money="1.01"),
        signed(epay_v2_shop, out_refund_no="re_other", money="1.00"),
    ):
        assert (await Till(epay_v2_shop, reply).gateway.refund(refund)).status == "UNKNOWN"


async def test_a_refund_whose_response_was_lost_is_sent_again_only_where_that_is_safe(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    first = epay_v2_shop.refund_request(new_id("att"), 100)
    missing = signed(epay_v2_shop, code=-1, msg="退款记录不存在")
    done = signed(epay_v2_shop, out_refund_no=first.refund_id, status=1)
    till = Till(epay_v2_shop, missing)
    outcome = await till.gateway.refund(repeated(first))
    assert outcome.status == "UNKNOWN"
    assert "`opentill refunds done` or `failed`" in outcome.reason
    assert len(till.server.requests) == 1
    assert (await Till(epay_v2_shop, done).gateway.refund(repeated(first))).status == "SUCCEEDED"
    till = Till(epay_v2_shop, missing, signed(epay_v2_shop), done, refunds="repeat")
    assert (await till.gateway.refund(repeated(first))).status == "SUCCEEDED"
    assert [url.rpartition("/")[2] for url, _ in till.server.requests] == [
        "refundquery", "refund", "refundquery",
    ]  # fmt: skip


async def test_the_server_accepts_or_refuses_the_account(epay_v2_shop: EpayV2BankShop) -> None:
    assert await check(epay_v2_shop.gateway()) is None
    other = rsa_signature.bare_private_key(rsa_signature.generate())
    with free_socket() as sock:
        nowhere = url_of(sock)
    for gateway, field, text in (
        (epay_v2_shop.gateway(pid="1002"), "pid", "RSA签名校验失败"),
        (epay_v2_shop.gateway(private_key=other), "pid", "correct pid and private_key"),
        (epay_v2_shop.gateway(public_key=stranger_public_key()), "public_key", "signature"),
        (epay_v2_shop.gateway(bank_url=nowhere), "", "refused the connection"),
        (Till(epay_v2_shop, signed(epay_v2_shop, pid=1002)).gateway, "pid", "account 1002"),
        (Till(epay_v2_shop, signed(epay_v2_shop, pay_status=0)).gateway, "", "take payments"),
        (Till(epay_v2_shop, refusal("维护中")).gateway, "", "维护中"),
        (Till(epay_v2_shop, signed(epay_v2_shop, age_s=400)).gateway, "public_key", "clock"),
    ):
        problem = await check(gateway)
        assert problem is not None
        assert text in problem.text, problem
        assert (problem.field, other in problem.text) == (field, False), problem
        await gateway.close()


def test_blank_values_are_neither_signed_nor_sent(epay_v2_shop: EpayV2BankShop) -> None:
    key = _merchant_key(epay_v2_shop)
    form = wire.signed({"name": "x", "param": " ", "return_url": ""}, "1001", key, 1_800_000_000)
    assert sorted(form) == ["name", "pid", "sign", "sign_type", "timestamp"]
    assert epay_v2_shop.account.is_signed(form)
    assert msgspec.json.encode(form)
