"""``submit.php`` and ``mapi.php`` of the Epay API place orders; every refusal."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from epay.submissions import assert_refused
from support.epay_shop import EpayShop


@pytest.mark.parametrize("transport", ["get", "post", "multipart"])
def test_submit_php_redirects_the_browser_to_the_payment_page(
    epay_shop: EpayShop, transport: str
) -> None:
    form = epay_shop.sign(epay_shop.form())
    http = epay_shop.api_server.http
    match transport:
        case "get":
            response = http.get("/epay/submit.php", params=form)
        case "post":
            response = http.post("/epay/submit.php", data=form)
        case _:
            parts = {name: (None, text.encode()) for name, text in form.items()}
            response = http.post("/epay/submit.php", files=parts)
    assert response.status_code == 302
    page = http.get(response.headers["location"])
    assert page.status_code == 200
    assert "VIP会员" in page.text
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert row["code"] == 1
    assert row["payurl"] == response.headers["location"]


def test_a_client_may_send_unencoded_characters(epay_shop: EpayShop) -> None:
    form = epay_shop.sign(epay_shop.form(name="测试＆商品", param="中"))
    raw = "&".join(f"{name}={text}" for name, text in form.items()).encode()
    headers = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}
    epay_order = epay_shop.api_server.http.post(
        "/epay/mapi.php", content=raw, headers=headers
    ).json()
    assert epay_order["code"] == 1
    row = epay_shop.call_api("order", trade_no=epay_order["trade_no"])
    assert (row["name"], row["param"]) == ("测试＆商品", "中")


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-16", "utf-7", "hex", "no-such"])
def test_a_multipart_field_is_read_as_utf_8_even_if_it_declares_another_charset(
    epay_shop: EpayShop, charset: str
) -> None:
    form = epay_shop.sign(epay_shop.form() | {"x": "\\ud800+ACY-"})
    files = {
        name: (None, text.encode(), f"text/plain; charset={charset}") for name, text in form.items()
    }
    assert epay_shop.api_server.http.post("/epay/mapi.php", files=files).json()["code"] == 1


def test_mapi_php_returns_the_payment_page_and_the_qr_code(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order()
    assert epay_order["msg"] == "success"
    assert epay_order["trade_no"].isalnum()
    assert epay_order["payurl"].startswith(f"{epay_shop.api_server.url}/checkout/cs_")
    assert epay_order["qrcode"].startswith("http")
    image = epay_shop.api_server.http.get(epay_order["img"])
    assert image.headers["content-type"].startswith("image/svg+xml")


def test_changing_the_type_changes_no_other_order(
    epay_shop: EpayShop,
) -> None:
    other_shop = EpayShop(epay_shop.api_server, epay_shop.inbox)
    form, other_form = (
        shop.form(type="alipay", out_trade_no="SAME-1") for shop in (epay_shop, other_shop)
    )
    epay_order = epay_shop.post("mapi", epay_shop.sign(form)).json()
    other_shops_order = other_shop.post("mapi", other_shop.sign(other_form)).json()
    order_of_another_number = epay_shop.place_order(type="alipay")
    changed_order = other_shop.post("mapi", other_shop.sign(other_form | {"type": "wxpay"})).json()
    assert changed_order["trade_no"] == other_shops_order["trade_no"] != epay_order["trade_no"]
    types = [
        shop.call_api("order", trade_no=order["trade_no"])["type"]
        for shop, order in (
            (other_shop, changed_order),
            (epay_shop, epay_order),
            (epay_shop, order_of_another_number),
        )
    ]
    assert types == ["wxpay", "alipay", "alipay"]


@pytest.mark.parametrize("changes", [{"type": "creditcard"}, {"type": "bank"}, {"device": "jump"}])
def test_mapi_php_returns_only_the_payment_page_if_there_is_no_qr_code(
    epay_shop: EpayShop, changes: dict[str, str]
) -> None:
    epay_order = epay_shop.place_order(**changes)
    assert set(epay_order) == {"code", "msg", "trade_no", "out_trade_no", "payurl"}
    assert epay_shop.api_server.http.get(epay_order["payurl"]).status_code == 200


def test_an_epay_order_is_readable_through_the_api(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order(
        display_merchant_name="小店", param="uid=7", out_trade_no="a.b-c_d|9"
    )
    order = epay_shop.shop.read_order(epay_shop.order_id(epay_order))
    assert (order["amount"], order["currency"], order["status"]) == ("10.50", "CNY", "PENDING")
    assert order["payerIp"] == "203.0.113.7"
    numbers = {"out_trade_no": "a.b-c_d|9", "trade_no": epay_order["trade_no"]}
    assert order["metadata"] == numbers | {"param": "uid=7"}
    assert order["clientReference"] == "a.b-c_d|9"
    assert epay_shop.shop.read_order(epay_order["trade_no"]) == order
    product = epay_shop.shop.data("GET", f"/v1/products/{order['productId']}")
    assert (product["status"], product["currency"]) == ("ARCHIVED", "CNY")
    page = epay_shop.api_server.http.get(epay_order["payurl"]).text
    assert "小店" in page
    assert "a.b-c_d|9" in page
    other_order = epay_shop.shop.read_order(epay_shop.order_id(epay_shop.place_order()))
    assert other_order["productId"] == order["productId"]


# Each row: changed parameters, code, part of the message.
REFUSED_CHANGES: list[tuple[dict[str, Any], int, str]] = [
    ({"pid": None}, -4, "pid"),
    ({"pid": ""}, -4, "pid"),
    ({"type": None}, -4, "type"),
    ({"out_trade_no": None}, -4, "out_trade_no"),
    ({"notify_url": None}, -4, "notify_url"),
    ({"name": ""}, -4, "name"),
    ({"money": None}, -4, "money"),
    ({"clientip": None}, -4, "clientip"),
    ({"pid": "1"}, -3, "签名校验失败"),
    ({"pid": "１２３"}, -3, "签名校验失败"),
    ({"pid": "x" * 3000}, -3, "签名校验失败"),
    ({"type": "a b"}, -1, "type"),
    ({"type": "a\\b"}, -1, "type"),
    ({"type": "x" * 33}, -1, "type"),
    ({"type": "paynow"}, -1, "alipay"),  # no gateway offers this method in CNY
    ({"out_trade_no": "a b"}, -1, "out_trade_no"),
    ({"out_trade_no": "x" * 65}, -1, "out_trade_no"),
    ({"out_trade_no": "号"}, -1, "out_trade_no"),
    ({"money": "0"}, -1, "money"),
    ({"money": "0.00"}, -1, "money"),
    ({"money": "-1"}, -1, "money"),
    ({"money": "1.001"}, -1, "money"),
    ({"money": "1.0010"}, -1, "money"),
    ({"money": "1." + "0" * 31}, -1, "money"),
    ({"money": "1e2"}, -1, "money"),
    ({"money": "１"}, -1, "money"),
    ({"money": "1,00"}, -1, "money"),
    ({"money": "123456789"}, -1, "money"),
    ({"money_type": "XXX"}, -1, "money_type"),
    ({"money_type": "JPY", "money": "10.5"}, -1, "JPY"),
    ({"money_type": "EUR", "type": "creditcard"}, -1, "EUR"),  # EUR has no exchange rate
    ({"notify_url": "ftp://shop.example/n"}, -1, "notify_url"),
    ({"notify_url": "https://u:p@shop.example/n"}, -1, "notify_url"),
    ({"notify_url": "shop.example/n"}, -1, "notify_url"),
    ({"return_url": "javascript:alert(1)"}, -1, "return_url"),
    ({"return_url": "https://shop.example/" + "x" * 2048}, -1, "return_url"),
    ({"return_url": "https://shop.example/{CHECKOUT_SESSION_ID}"}, -1, "return_url"),
    ({"return_url": "https://" + "商" * 64 + ".example/"}, -1, "return_url"),
    ({"return_url": "https://shop..example/"}, -1, "return_url"),
    ({"notify_url": "https://店..example/"}, -1, "notify_url"),
    ({"notify_url": "https://shop.example/" + "x" * 1900}, -1, "notify_url"),
    ({"param": "x" * 2049}, -1, "param"),
    ({"param": "a\\b"}, -1, "param"),
    ({"name": "\\ "}, -1, "name"),
    ({"display_merchant_name": "x" * 81}, -1, "display_merchant_name"),
    ({"clientip": "nobody"}, -1, "clientip"),
    ({"clientip": "fe80::1%<b>"}, -1, "clientip"),
    ({"trade_no": "1"}, -1, "trade_no"),
    ({"trade_status": ""}, -1, "trade_status"),
    ({"channel_param": "4242424242424242"}, -1, "channel_param"),
    ({"channel_param": "4242 4242-4242 4242"}, -1, "channel_param"),
    ({"channel_param": '{"cvv":"123"}'}, -1, "channel_param"),
    ({"channel_param": "exp_month=12"}, -1, "channel_param"),
    ({"name": "x&trade_status=TRADE_SUCCESS"}, -1, "name"),
    ({"param": "a&money=1"}, -1, "param"),
    ({"whatever": "a&sign=1"}, -1, "whatever"),
    ({"a&trade_no": "1"}, -1, "参数名"),
    ({"name": "a\0b"}, -1, "NUL"),
]


@pytest.mark.parametrize(
    ("changes", "code", "text"), REFUSED_CHANGES, ids=lambda value: repr(value)[:50]
)
def test_each_refused_submission_has_its_code(
    epay_shop: EpayShop, changes: dict[str, Any], code: int, text: str
) -> None:
    form = epay_shop.form(**changes)
    response = epay_shop.post("mapi", epay_shop.sign(form))
    assert text in assert_refused(response, code)
    assert epay_shop.call_api("query")["orders"] == 0


@pytest.mark.parametrize("name", ["out_trade_no", "notify_url", "return_url", "name", "money"])
def test_submit_php_refuses_missing_parameters(epay_shop: EpayShop, name: str) -> None:
    response = epay_shop.post("submit", epay_shop.sign(epay_shop.form(**{name: None})))
    assert name in assert_refused(response, -4)


def test_the_body_is_ignored_if_the_query_has_a_pid(epay_shop: EpayShop) -> None:
    form = epay_shop.sign(epay_shop.form())
    body = epay_shop.sign(epay_shop.form(money="99"))
    response = epay_shop.api_server.http.post("/epay/mapi.php", params=form, data=body)
    assert response.json()["out_trade_no"] == form["out_trade_no"]
    mixed = {name: form[name] for name in form if name != "money"}
    response = epay_shop.api_server.http.post(
        "/epay/mapi.php", params=mixed, data={"money": "10.5"}
    )
    assert_refused(response, -3)


def test_the_last_value_of_a_repeated_parameter_counts(epay_shop: EpayShop) -> None:
    form = epay_shop.sign(epay_shop.form())
    pairs = [("money", "0.01"), *form.items()]
    assert epay_shop.api_server.http.get("/epay/submit.php", params=pairs).status_code == 302


@pytest.mark.parametrize(
    ("method", "path", "options", "code"),
    [
        ("POST", "mapi.php", {"content": b"x=" + b"1" * 65536}, -1),
        ("POST", "mapi.php", {"content": b"pid=%ff%fe"}, -1),
        ("GET", "mapi.php?pid=%ff", {}, -1),
        ("POST", "mapi.php", {"content": b"&".join(b"a%d=1" % n for n in range(200))}, -1),
        ("POST", "mapi.php", {"content": b"{}", "headers": {"content-type": "text/json"}}, -4),
        (
            "POST",
            "mapi.php",
            {"content": b"--", "headers": {"content-type": "multipart/form-data"}},
            -1,
        ),
        (
            "POST",
            "mapi.php",
            {
                "content": b"--b\r\ncontent-disposition: form-data; name=pid\r\n\r\n1",
                "headers": {"content-type": "multipart/form-data; boundary=b"},
            },
            -1,
        ),
        ("POST", "mapi.php", {}, -4),
        ("PUT", "mapi.php", {"content": b"pid=1"}, -1),
        ("DELETE", "submit.php", {}, -1),
        ("OPTIONS", "api.php", {}, -1),
        ("GET", "qrcode.php", {}, -1),
        ("GET", "", {}, -1),
    ],
)
def test_any_invalid_request_gets_a_response_in_the_format_of_epay(
    epay_shop: EpayShop, method: str, path: str, options: dict[str, Any], code: int
) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"} | options.pop("headers", {})
    response = epay_shop.api_server.http.request(
        method, f"/epay/{path}", headers=headers, **options
    )
    assert_refused(response, code)


def test_a_repeated_submission_returns_the_same_order(epay_shop: EpayShop) -> None:
    form = epay_shop.form(param="7")
    epay_order = epay_shop.post("mapi", epay_shop.sign(form)).json()
    assert epay_shop.post("mapi", epay_shop.sign(form)).json() == epay_order
    assert epay_shop.post("mapi", epay_shop.sign(form | {"money": "10.50"})).json() == epay_order
    changed_order = epay_shop.post("mapi", epay_shop.sign(form | {"type": "wxpay"})).json()
    assert (changed_order["trade_no"], changed_order["payurl"]) == (
        epay_order["trade_no"],
        epay_order["payurl"],
    )
    assert changed_order["qrcode"] != epay_order["qrcode"]
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["type"] == "wxpay"
    assert epay_shop.call_api("query")["orders"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"money": "10.51"},
        {"money_type": "HKD"},
        {"name": "other"},
        {"notify_url": "https://shop.example/other"},
        {"return_url": "https://shop.example/other"},
        {"param": "8"},
        {"param": None},
    ],
    ids=str,
)
def test_the_same_number_with_other_values_is_refused(
    epay_shop: EpayShop, changes: dict[str, str]
) -> None:
    form = epay_shop.form(param="7")
    assert epay_shop.post("mapi", epay_shop.sign(form)).json()["code"] == 1
    form = {name: text for name, text in (form | changes).items() if text is not None}
    text = assert_refused(epay_shop.post("mapi", epay_shop.sign(form)), -1)
    assert "out_trade_no" in text


def test_a_number_of_a_paid_or_revoked_order_cannot_be_reused(epay_shop: EpayShop) -> None:
    form = epay_shop.form()
    epay_order = epay_shop.post("mapi", epay_shop.sign(form)).json()
    epay_shop.pay(epay_order)
    assert "已支付" in assert_refused(epay_shop.post("mapi", epay_shop.sign(form)), -1)
    form = epay_shop.form()
    epay_shop.post("submit", epay_shop.sign(form))
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    epay_shop.shop.revoke(epay_shop.order_id(row))
    assert "已撤销" in assert_refused(epay_shop.post("mapi", epay_shop.sign(form)), -1)


def test_two_merchants_may_use_the_same_number(epay_shop: EpayShop) -> None:
    other_shop = EpayShop(epay_shop.api_server, epay_shop.inbox)
    order = epay_shop.place_order(out_trade_no="shared")
    other_order = other_shop.place_order(out_trade_no="shared")
    assert order["trade_no"] != other_order["trade_no"]
    assert other_shop.call_api("order", trade_no=order["trade_no"])["msg"] == "订单不存在"


def test_concurrent_submissions_place_one_order(epay_shop: EpayShop) -> None:
    form = epay_shop.sign(epay_shop.form(type="creditcard"))
    with ThreadPoolExecutor(20) as threads:
        responses = list(threads.map(lambda _: epay_shop.post("mapi", form).json(), range(20)))
    assert {response["code"] for response in responses} == {1}, responses
    assert len({response["trade_no"] for response in responses}) == 1
    assert epay_shop.call_api("query")["orders"] == 1
    counts = epay_shop.api_server.sql(
        "select count(*) as n from orders where merchant_id = $1", epay_shop.id
    )
    assert counts == [{"n": 1}]
    products = epay_shop.api_server.sql(
        "select count(*) as n from products where merchant_id = $1", epay_shop.id
    )
    assert products == [{"n": 1}]


def test_a_name_is_truncated_between_characters_and_stripped(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_order(name=" a\\" + "会" * 60 + " ")
    name = epay_shop.call_api("order", trade_no=epay_order["trade_no"])["name"]
    assert name == "a" + "会" * 42
    assert len(name.encode()) == 127


def test_a_double_slash_in_the_path_is_accepted(epay_shop: EpayShop) -> None:
    response = epay_shop.api_server.http.post(
        "/epay//mapi.php", data=epay_shop.sign(epay_shop.form())
    )
    assert response.json()["code"] == 1
