"""Tolerance for variants of Epay clients, and the pages that customers' browsers get."""

import re
from decimal import Decimal
from typing import Any, Final

import pytest

from opentill.web.responses import POLICY
from support.epay_shop import EpayShop, assert_chinese

HTML: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("base", ["", "/", "/epay", "//epay"])
def test_the_epay_api_is_also_served_at_the_root(epay_shop: EpayShop, base: str) -> None:
    http = epay_shop.api_server.http
    form = epay_shop.sign(epay_shop.form(type="creditcard"))
    base = f"{epay_shop.api_server.url}{base}"
    epay_order = http.post(f"{base}/mapi.php", data=form).json()
    assert epay_order["code"] == 1, epay_order
    response = http.get(f"{base}/submit.php", params=form)
    assert (response.status_code, response.headers["location"]) == (302, epay_order["payurl"])
    params = {
        "act": "order",
        "pid": epay_shop.pid,
        "key": epay_shop.key,
        "trade_no": epay_order["trade_no"],
    }
    assert http.get(f"{base}/api.php", params=params).json()["status"] == 0


@pytest.mark.parametrize("sign_type", ["md5", " Md5 ", "MD5", "", "  "])
def test_sign_type_is_case_insensitive_and_optional(epay_shop: EpayShop, sign_type: str) -> None:
    form = epay_shop.sign(epay_shop.form(type="creditcard")) | {"sign_type": sign_type}
    assert epay_shop.post("mapi", form).json()["code"] == 1


@pytest.mark.parametrize("type_", ["qqpay", "jdpay", "usdt", "epay", "cashier", "ALIPAY", "微信"])
def test_an_unsupported_type_opens_the_payment_page_with_all_methods(
    epay_shop: EpayShop, type_: str
) -> None:
    epay_order = epay_shop.place_order(type=type_)
    assert set(epay_order) == {"code", "msg", "trade_no", "out_trade_no", "payurl"}
    page = epay_shop.api_server.http.get(epay_order["payurl"]).text
    assert 'value="CREDIT_CARD"' in page
    assert 'value="ALIPAY"' in page
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["type"] == type_
    epay_shop.pay(epay_order)
    epay_shop.send_notices()
    notification = _find_notification(epay_shop, epay_order)
    assert notification["type"] == type_


def test_a_later_type_replaces_the_submitted_one(epay_shop: EpayShop) -> None:
    form = epay_shop.form(type="qqpay")
    epay_order = epay_shop.post("mapi", epay_shop.sign(form)).json()
    for type_ in ("epay", "creditcard", "qqpay", "epay"):
        changed_order = epay_shop.post("mapi", epay_shop.sign(form | {"type": type_})).json()
        assert changed_order == epay_order
        assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["type"] == type_


@pytest.mark.parametrize(
    ("money", "currency", "minor"),
    [("1.000", "CNY", 100), ("10.50000", "CNY", 1050), ("1.0", "CNY", 100), ("5.00", "JPY", 5)],
)
def test_trailing_zeros_of_an_amount_are_ignored(
    epay_shop: EpayShop, money: str, currency: str, minor: int
) -> None:
    epay_shop.api_server.set_rate("JPY", "USD", Decimal("0.007"))
    epay_order = epay_shop.place_order(money=money, money_type=currency, type="creditcard")
    rows = epay_shop.api_server.sql(
        "select amount_minor from orders where merchant_id = $1 and id = $2",
        epay_shop.id,
        epay_shop.order_id(epay_order),
    )
    assert rows == [{"amount_minor": minor}]
    epay_shop.pay(epay_order)
    epay_shop.send_notices()
    notification = _find_notification(epay_shop, epay_order)
    assert notification["money"] == money  # the notification repeats the shop's text
    body = epay_shop.call_api(
        "refund", trade_no=epay_order["trade_no"], money=money + "0" * ("." in money)
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


def _find_notification(epay_shop: EpayShop, epay_order: dict[str, Any]) -> dict[str, str]:
    """Return the notification of an order that the shop received."""
    number = epay_order["trade_no"]
    return next(message for message in epay_shop.inbox.received if message["trade_no"] == number)


def _build_signed_form(epay_shop: EpayShop, changes: dict[str, Any]) -> dict[str, str]:
    form = epay_shop.sign(
        epay_shop.form(**{name: text for name, text in changes.items() if name != "sign"})
    )
    return form | {"sign": changes.get("sign", form["sign"])}


@pytest.mark.parametrize("changes", REFUSALS, ids=str)
def test_a_refused_browser_gets_a_page_with_the_same_code_and_message(
    epay_shop: EpayShop, changes: dict[str, Any]
) -> None:
    form = _build_signed_form(epay_shop, changes)
    refusal = epay_shop.post("submit", form).json()
    for path in ("/epay/submit.php", "/submit.php"):
        for response in (
            epay_shop.api_server.http.post(path, data=form, headers={"accept": HTML}),
            epay_shop.api_server.http.get(path, params=form, headers={"accept": HTML}),
        ):
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert response.headers["content-security-policy"] == POLICY.format(picture="")
            assert response.headers["cache-control"] == "no-store"
            assert '<html lang="zh-Hans"' in response.text
            assert f"<code>{refusal['code']}</code>" in response.text
            assert refusal["msg"].replace("&", "&amp;") in response.text
            assert "<script" not in response.text
            # The sandbox bank takes no real money.
            assert '<aside class="test-mode"' in response.text
            # A link to another language would lose the submission.
            assert "?lang=" not in response.text
    # Clients that do not ask for HTML, and all clients of mapi.php, get JSON.
    for accept in ("*/*", "application/json", "text/html;q=0, */*", ""):
        response = epay_shop.post("submit", form, headers={"accept": accept})
        assert response.json() == refusal
    assert epay_shop.post("mapi", form, headers={"accept": HTML}).json()["code"] < 0


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("zh-CN,zh;q=0.9", "zh-Hans"), ("zh-TW", "zh-Hant"), ("en-GB", "en"), ("*", "zh-Hans")],
)
def test_the_page_about_a_refusal_is_in_the_browsers_language(
    epay_shop: EpayShop, accepted: str, language: str
) -> None:
    headers = {"accept": HTML, "accept-language": accepted}
    page = epay_shop.post("submit", {}, headers=headers).text
    assert f'<html lang="{language}"' in page
    # The message, which is for the shop, stays Chinese.
    assert '<dd lang="zh-Hans"' in page


@pytest.mark.parametrize("changes", REFUSALS, ids=str)
def test_messages_of_refusals_are_chinese_and_name_no_internals(
    epay_shop: EpayShop, changes: dict[str, Any]
) -> None:
    assert_chinese(epay_shop.post("mapi", _build_signed_form(epay_shop, changes)).json()["msg"])


def test_messages_of_refused_refunds_are_chinese_and_name_the_limit(epay_shop: EpayShop) -> None:
    epay_order, unpaid, fully_refunded = (
        epay_shop.place_paid_order(),
        epay_shop.place_order(),
        epay_shop.place_paid_order(),
    )
    disputed = epay_shop.place_paid_order()
    epay_shop.shop.open_dispute(epay_shop.order_id(disputed))
    epay_shop.call_api("refund", trade_no=fully_refunded["trade_no"], money="10.5")
    rows = [(epay_order, "10.51", "10.50 CNY"), (epay_order, "x", "0.01"), (unpaid, "1", "未支付")]
    rows += [(fully_refunded, "1", "全部退款"), (disputed, "1", "争议")]
    for order, money, phrase in rows:
        text = epay_shop.call_api("refund", trade_no=order["trade_no"], money=money)["msg"]
        assert phrase in text
        assert_chinese(text)


def test_a_refund_above_the_balance_is_refused_with_the_usual_message(
    epay_shop: EpayShop,
) -> None:
    # The fee makes the balance smaller than the payment.
    shop_without_overdraft = EpayShop(epay_shop.api_server, epay_shop.inbox, overdraft_minor=0)
    body = shop_without_overdraft.call_api(
        "refund", trade_no=shop_without_overdraft.place_paid_order()["trade_no"], money="10.5"
    )
    assert body == {"code": -1, "msg": "商户余额不足，不能退款"}


def test_a_refused_amount_is_answered_with_the_smallest_and_the_largest_amount(
    epay_shop: EpayShop,
) -> None:
    epay_shop.api_server.set_rate("IDR", "USD", Decimal("0.00006"))
    response = epay_shop.mapi(money="50", money_type="IDR", type="creditcard")
    assert response["code"] == -1
    assert "83.34 到 99999999.99 IDR" in response["msg"]
    epay_shop.place_order(money="83.34", money_type="IDR", type="creditcard")
    epay_shop.api_server.set_rate("XPF", "USD", Decimal(10_000_000))
    response = epay_shop.mapi(money="10000001", money_type="XPF", type="creditcard")
    assert "1.00 到 10000000.00 XPF" in response["msg"]


@pytest.mark.parametrize(("email", "buyer"), [("", ""), ("maria@example.com", "maria@example.com")])
def test_the_payment_page_requires_no_email_from_epay_customers(
    epay_shop: EpayShop, email: str, buyer: str
) -> None:
    epay_order = epay_shop.place_order(type="creditcard")
    page = epay_shop.api_server.http.get(
        epay_order["payurl"], headers={"accept-language": "en"}
    ).text
    (field,) = re.findall(r'<input id="email"[^>]*>', page)
    assert "required" not in field
    form = {"email": email, "name": "", "method": "CREDIT_CARD", "lang": "en"}
    response = epay_shop.api_server.http.post(epay_order["payurl"], data=form)
    assert (response.status_code, "continue" in response.headers["location"]) == (303, True)
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["buyer"] == buyer


def test_an_invalid_email_is_refused_and_other_customers_must_enter_one(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_order(type="creditcard")
    session = epay_shop.shop.create_session(epay_shop.shop.create_product(currency="CNY")["id"])
    for url, email in ((epay_order["payurl"], "nobody"), (session["url"], "")):
        form = {"email": email, "name": "", "method": "CREDIT_CARD", "lang": "en"}
        assert epay_shop.api_server.http.post(url, data=form).status_code == 400
    page = epay_shop.api_server.http.get(session["url"]).text
    (field,) = re.findall(r'<input id="email"[^>]*>', page)
    assert " required" in field
