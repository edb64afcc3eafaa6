"""Variants of clients and browsers."""

import re
from decimal import Decimal
from typing import Any, Final

import pytest

from opentill.web.responses import POLICY
from support.epay_shop import EpayShop, assert_chinese

HTML: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("base", ["", "/", "/epay", "//epay"])
def test_the_three_files_are_served_at_the_root_too(epay_shop: EpayShop, base: str) -> None:
    http = epay_shop.api_server.http
    form = epay_shop.sign(epay_shop.form(type="creditcard"))
    base = f"{epay_shop.api_server.url}{base}"
    placed = http.post(f"{base}/mapi.php", data=form).json()
    assert placed["code"] == 1, placed
    answer = http.get(f"{base}/submit.php", params=form)
    assert (answer.status_code, answer.headers["location"]) == (302, placed["payurl"])
    params = {
        "act": "order",
        "pid": epay_shop.pid,
        "key": epay_shop.key,
        "trade_no": placed["trade_no"],
    }
    assert http.get(f"{base}/api.php", params=params).json()["status"] == 0


@pytest.mark.parametrize("sign_type", ["md5", " Md5 ", "MD5", "", "  "])
def test_sign_type_is_case_insensitive_and_optional(epay_shop: EpayShop, sign_type: str) -> None:
    form = epay_shop.sign(epay_shop.form(type="creditcard")) | {"sign_type": sign_type}
    assert epay_shop.post("mapi", form).json()["code"] == 1


@pytest.mark.parametrize("kind", ["qqpay", "jdpay", "usdt", "epay", "cashier", "ALIPAY", "微信"])
def test_an_unsupported_type_opens_the_page_with_all_methods(
    epay_shop: EpayShop, kind: str
) -> None:
    placed = epay_shop.place_order(type=kind)
    assert set(placed) == {"code", "msg", "trade_no", "out_trade_no", "payurl"}
    page = epay_shop.api_server.http.get(placed["payurl"]).text
    assert 'value="CREDIT_CARD"' in page
    assert 'value="ALIPAY"' in page
    assert epay_shop.call_api("order", trade_no=placed["trade_no"])["type"] == kind
    epay_shop.pay(placed)
    epay_shop.send_notices()
    got = next(got for got in epay_shop.inbox.received if got["trade_no"] == placed["trade_no"])
    assert got["type"] == kind


def test_a_later_type_replaces_the_submitted_one(epay_shop: EpayShop) -> None:
    form = epay_shop.form(type="qqpay")
    placed = epay_shop.post("mapi", epay_shop.sign(form)).json()
    for kind in ("epay", "creditcard", "qqpay", "epay"):
        again = epay_shop.post("mapi", epay_shop.sign(form | {"type": kind})).json()
        assert again == placed
        assert epay_shop.call_api("order", trade_no=placed["trade_no"])["type"] == kind


@pytest.mark.parametrize(
    ("money", "currency", "minor"),
    [("1.000", "CNY", 100), ("10.50000", "CNY", 1050), ("1.0", "CNY", 100), ("5.00", "JPY", 5)],
)
def test_trailing_zeros_of_an_amount_are_ignored(
    epay_shop: EpayShop, money: str, currency: str, minor: int
) -> None:
    epay_shop.api_server.set_rate("JPY", "USD", Decimal("0.007"))
    placed = epay_shop.place_order(money=money, money_type=currency, type="creditcard")
    rows = epay_shop.api_server.sql(
        "select amount_minor from orders where merchant_id = $1 and id = $2",
        epay_shop.id,
        epay_shop.order_id(placed),
    )
    assert rows == [{"amount_minor": minor}]
    epay_shop.pay(placed)
    epay_shop.send_notices()
    got = next(got for got in epay_shop.inbox.received if got["trade_no"] == placed["trade_no"])
    assert got["money"] == money  # as it was submitted
    body = epay_shop.call_api(
        "refund", trade_no=placed["trade_no"], money=money + "0" * ("." in money)
    )
    assert body["code"] == 1, body
    epay_shop.api_server.check_books()


REFUSALS: Final[list[dict[str, Any]]] = [
    {"pid": None},
    {"sign": "0" * 32},
    {"money": "0"},
    {"money": "1.001"},
    {"money": "100000000"},
    {"money_type": "XXX"},
    {"money_type": "EUR", "type": "creditcard"},
    {"money_type": "JPY", "money": "10.5"},
    {"type": "paynow"},
    {"name": "<script>alert(1)</script>", "out_trade_no": "a b"},
    {"notify_url": "ftp://shop.example"},
    {"return_url": "https://shop.example/?a=1&trade_no=1"},
    {"trade_status": "TRADE_SUCCESS"},
]


def _sign_changed(epay_shop: EpayShop, changes: dict[str, Any]) -> dict[str, str]:
    form = epay_shop.sign(epay_shop.form(**{k: v for k, v in changes.items() if k != "sign"}))
    return form | {"sign": changes.get("sign", form["sign"])}


@pytest.mark.parametrize("changes", REFUSALS, ids=str)
def test_a_refused_browser_gets_a_page_with_the_same_code_and_message(
    epay_shop: EpayShop, changes: dict[str, Any]
) -> None:
    form = _sign_changed(epay_shop, changes)
    refusal = epay_shop.post("submit", form).json()
    for path in ("/epay/submit.php", "/submit.php"):
        for answer in (
            epay_shop.api_server.http.post(path, data=form, headers={"accept": HTML}),
            epay_shop.api_server.http.get(path, params=form, headers={"accept": HTML}),
        ):
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["content-security-policy"] == POLICY.format(picture="")
            assert answer.headers["cache-control"] == "no-store"
            assert '<html lang="zh-Hans"' in answer.text
            assert f"<code>{refusal['code']}</code>" in answer.text
            assert refusal["msg"].replace("&", "&amp;") in answer.text
            assert "<script" not in answer.text
            assert '<aside class="test-mode"' in answer.text  # the sandbox bank's: no real money
            assert "?lang=" not in answer.text  # there the submission would be missing
    # whoever else asks, and the other files, get JSON
    for accept in ("*/*", "application/json", "text/html;q=0, */*", ""):
        answer = epay_shop.post("submit", form, headers={"accept": accept})
        assert answer.json() == refusal
    assert epay_shop.post("mapi", form, headers={"accept": HTML}).json()["code"] < 0


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("zh-CN,zh;q=0.9", "zh-Hans"), ("zh-TW", "zh-Hant"), ("en-GB", "en"), ("*", "zh-Hans")],
)
def test_the_page_of_a_refusal_is_in_the_browsers_language(
    epay_shop: EpayShop, accepted: str, language: str
) -> None:
    headers = {"accept": HTML, "accept-language": accepted}
    page = epay_shop.post("submit", {}, headers=headers).text
    assert f'<html lang="{language}"' in page
    assert '<dd lang="zh-Hans"' in page  # the message is for the shop


@pytest.mark.parametrize("changes", REFUSALS, ids=str)
def test_reasons_are_chinese_and_name_no_internals(
    epay_shop: EpayShop, changes: dict[str, Any]
) -> None:
    assert_chinese(epay_shop.post("mapi", _sign_changed(epay_shop, changes)).json()["msg"])


def test_reasons_of_refused_refunds_are_chinese_and_name_the_limit(epay_shop: EpayShop) -> None:
    placed, unpaid, whole = (
        epay_shop.place_paid_order(),
        epay_shop.place_order(),
        epay_shop.place_paid_order(),
    )
    disputed = epay_shop.place_paid_order()
    epay_shop.shop.open_dispute(epay_shop.order_id(disputed))
    epay_shop.call_api("refund", trade_no=whole["trade_no"], money="10.5")
    rows = [(placed, "10.51", "10.50 CNY"), (placed, "x", "0.01"), (unpaid, "1", "未支付")]
    rows += [(whole, "1", "全部退款"), (disputed, "1", "争议")]
    for order, money, phrase in rows:
        text = epay_shop.call_api("refund", trade_no=order["trade_no"], money=money)["msg"]
        assert phrase in text
        assert_chinese(text)


def test_a_refund_beyond_the_balance_is_refused_in_words_of_the_convention(
    epay_shop: EpayShop,
) -> None:
    poor = EpayShop(
        epay_shop.api_server, epay_shop.inbox, overdraft_minor=0
    )  # it has the amount without the fee
    body = poor.call_api("refund", trade_no=poor.place_paid_order()["trade_no"], money="10.5")
    assert body == {"code": -1, "msg": "商户余额不足，不能退款"}


def test_the_refusal_of_an_amount_names_the_smallest_and_the_largest(
    epay_shop: EpayShop,
) -> None:
    epay_shop.api_server.set_rate("IDR", "USD", Decimal("0.00006"))
    answer = epay_shop.mapi(money="50", money_type="IDR", type="creditcard")
    assert answer["code"] == -1
    assert "83.34 到 99999999.99 IDR" in answer["msg"]
    epay_shop.place_order(money="83.34", money_type="IDR", type="creditcard")
    epay_shop.api_server.set_rate("XPF", "USD", Decimal(10_000_000))
    answer = epay_shop.mapi(money="10000001", money_type="XPF", type="creditcard")
    assert "1.00 到 10000000.00 XPF" in answer["msg"]


@pytest.mark.parametrize(("email", "buyer"), [("", ""), ("maria@example.com", "maria@example.com")])
def test_the_page_does_not_require_an_email_from_epay_customers(
    epay_shop: EpayShop, email: str, buyer: str
) -> None:
    placed = epay_shop.place_order(type="creditcard")
    page = epay_shop.api_server.http.get(placed["payurl"], headers={"accept-language": "en"}).text
    (field,) = re.findall(r'<input id="email"[^>]*>', page)
    assert "required" not in field
    form = {"email": email, "name": "", "method": "CREDIT_CARD", "lang": "en"}
    answer = epay_shop.api_server.http.post(placed["payurl"], data=form)
    assert (answer.status_code, "continue" in answer.headers["location"]) == (303, True)
    assert epay_shop.call_api("order", trade_no=placed["trade_no"])["buyer"] == buyer


def test_an_invalid_email_is_refused_and_other_customers_must_enter_one(
    epay_shop: EpayShop,
) -> None:
    placed = epay_shop.place_order(type="creditcard")
    session = epay_shop.shop.create_session(epay_shop.shop.create_product(currency="CNY")["id"])
    for url, email in ((placed["payurl"], "nobody"), (session["url"], "")):
        form = {"email": email, "name": "", "method": "CREDIT_CARD", "lang": "en"}
        assert epay_shop.api_server.http.post(url, data=form).status_code == 400
    page = epay_shop.api_server.http.get(session["url"]).text
    (field,) = re.findall(r'<input id="email"[^>]*>', page)
    assert " required" in field
