"""Checkout sessions are opened, read and expired (contract.md#sessions)."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pytest

from support.api_server import ApiServer, Shop, assert_refused

DAY_MS: Final = 24 * 3600 * 1000
_URL: Final = "https://shop.example/"
_EMAIL: Final = "a" * 64 + "@" + "b" * 63 + "." + "c" * 63 + "." + "d" * 58 + ".ee"

VALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("successUrl", None),
    ("successUrl", _URL + "thanks?id={CHECKOUT_SESSION_ID}"),
    ("successUrl", _URL + "x" * (2048 - len(_URL))),
    ("cancelUrl", None),
    ("cancelUrl", "http://127.0.0.1:3000/cart"),
    ("customerEmail", None),
    ("customerEmail", ""),
    ("customerEmail", "ada@example.com"),
    ("customerEmail", "o'hara+tag@mail.example.co.uk"),
    ("customerEmail", "用户@例子.公司"),
    ("customerEmail", "a..b@docomo.ne.jp"),
    ("customerEmail", "a.@docomo.ne.jp"),
    ("customerEmail", _EMAIL),
    ("customerName", None),
    ("customerName", ""),
    ("customerName", "Ada Lovelace"),
    ("customerName", "n" * 200),
    ("displayMerchantName", None),
    ("displayMerchantName", "d" * 80),
    ("display_merchant_name", "d" * 80),
    ("metadata", {"cart": "42"}),
    ("unknown", {"ignored": True}),
)
INVALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("productId", None),
    ("productId", ""),
    ("productId", 7),
    ("productId", "x"),
    ("productId", "prod_01m7y0m0jzefzv5n8efcf1hqw1"),
    ("productId", "p" * 10_000),
    ("successUrl", ""),
    ("successUrl", "/thanks"),
    ("successUrl", "shop.example/thanks"),
    ("successUrl", "javascript:alert(1)"),
    ("successUrl", "https://a\u200db.example/"),
    ("successUrl", "https://a..b/"),
    ("successUrl", "https://user:word@shop.example/"),
    ("successUrl", _URL + "{OTHER}"),
    ("successUrl", _URL + "x" * (2049 - len(_URL))),
    ("successUrl", 7),
    ("cancelUrl", "ftp://shop.example/"),
    ("cancelUrl", "https://" + "\u00fc" * 62 + ".example/"),
    ("cancelUrl", "https://shop.example/\r\nset-cookie:a=b"),
    ("cancelUrl", []),
    ("customerEmail", "ada"),
    ("customerEmail", "ada@"),
    ("customerEmail", "@example.com"),
    ("customerEmail", ".@example.com"),
    ("customerEmail", "ada@example"),
    ("customerEmail", "ada@@example.com"),
    ("customerEmail", "ada@example..com"),
    ("customerEmail", "ada@" + "\u00fc" * 62 + ".example"),
    ("customerEmail", "ada@example.com\nbcc:eve@example.com"),
    ("customerEmail", "Ada <ada@example.com>"),
    ("customerEmail", "ada@example.com,eve@example.com"),
    ("customerEmail", "   "),
    ("customerEmail", "d" + _EMAIL),
    ("customerEmail", 7),
    ("customerName", "n" * 201),
    ("customerName", {}),
    ("displayMerchantName", ""),
    ("displayMerchantName", " "),
    ("displayMerchantName", "d" * 81),
    ("displayMerchantName", 7),
    ("display_merchant_name", ""),
    ("display_merchant_name", "d" * 81),
    ("display_merchant_name", 7),
    ("metadata", []),
    ("metadata", "x"),
    ("metadata", {"k" * 65: "v"}),
)


@pytest.mark.parametrize(("field", "value"), VALID_FIELDS)
def test_a_valid_field_opens_a_session(shop: Shop, field: str, value: Any) -> None:
    session = shop.create_session(**{field: value})
    assert session["status"] == "OPEN"
    assert session["amount"] == "9.99"
    assert "orderId" not in session


@pytest.mark.parametrize(("field", "value"), INVALID_FIELDS)
def test_an_invalid_field_is_refused(shop: Shop, field: str, value: Any) -> None:
    body = {"productId": shop.create_product()["id"]} | {field: value}
    assert field in assert_refused(shop.post("/v1/checkouts", body), field)
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 0


def test_a_missing_product_id_is_reported_as_required(shop: Shop) -> None:
    assert "required" in assert_refused(shop.post("/v1/checkouts", {}), "productId")
    assert "required" in assert_refused(shop.post("/v1/checkouts", {"productId": ""}), "productId")


def test_a_session_lasts_24_hours_and_has_its_page(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(1_795_233_600_000)
    session = shop.create_session()
    assert session["createdAt"] == 1_795_233_600_000
    assert session["expiresAt"] == 1_795_233_600_000 + DAY_MS
    assert session["url"] == f"{shop.api_server.url}/checkout/{session['id']}"
    assert shop.api_server.http.get(session["url"]).status_code == 200


def test_the_order_is_created_with_the_session_and_shown_on_retrieval_only(shop: Shop) -> None:
    session = shop.create_session(metadata={"cart": "42"}, customerEmail=" ada@example.com ")
    assert "orderId" not in session
    retrieved = shop.data("GET", f"/v1/checkouts/{session['id']}")
    extensions = {"quantity": 1, "paymentMethods": None, "locale": None, "clientReference": None}
    assert {**session, **extensions, "orderId": retrieved["orderId"]} == retrieved
    order = shop.read_order(retrieved["orderId"])
    assert order["status"] == "PENDING"
    assert order["checkoutSessionId"] == session["id"]
    assert order["metadata"] == {"cart": "42"}
    assert order["customerEmail"] == "ada@example.com"
    assert order["createdAt"] == session["createdAt"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "Harbour Books"),
        ({"displayMerchantName": "Camel"}, "Camel"),
        ({"display_merchant_name": "Snake"}, "Snake"),
        ({"displayMerchantName": "Camel", "display_merchant_name": "Snake"}, "Camel"),
        ({"displayMerchantName": None, "display_merchant_name": "Snake"}, "Snake"),
        ({"displayMerchantName": " Camel "}, "Camel"),
    ],
)
def test_the_payment_page_shows_the_display_name(
    shop: Shop, body: dict[str, Any], expected: str
) -> None:
    page = shop.api_server.http.get(shop.create_session(**body)["url"]).text
    for name in ("Harbour Books", "Camel", "Snake"):
        assert (name in page) == (name == expected)


def test_the_payment_page_is_prefilled_with_the_customers_data(shop: Shop) -> None:
    page = shop.api_server.http.get(
        shop.create_session(customerEmail="ada@example.com", customerName='Ada "L"')["url"]
    ).text
    assert 'value="ada@example.com"' in page
    assert re.search("Ada (&#34;|&quot;)L(&#34;|&quot;)", page)


def test_expiring_closes_the_order_and_can_be_repeated(shop: Shop) -> None:
    session = shop.create_session()
    path = f"/v1/checkouts/{session['id']}"
    expired = shop.data("POST", f"{path}/expire")
    assert expired["status"] == "EXPIRED"
    assert expired["expiresAt"] < session["expiresAt"]
    assert shop.read_order(expired["orderId"])["status"] == "CLOSED"
    assert shop.data("POST", f"{path}/expire") == expired == shop.data("GET", path)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"a":1,"a":', "body"), (b"{", "body"), (b" ", "body"), (b"\xff", "body"),
        (b'{"a":1,"a":2}', "a"), (b'{"a":"\\u0000"}', "a"), (b'{"a":"\\ud800"}', "a"),
        (b"[" * 17 + b"]" * 17, "body"),
    ],
)  # fmt: skip
def test_an_operation_without_fields_refuses_invalid_json(
    shop: Shop, body: bytes, field: str
) -> None:
    session = shop.create_session()
    path = f"/v1/checkouts/{session['id']}"
    for extra_headers in ({}, {"idempotency-key": "k"}):
        headers = {"content-type": "application/json"} | extra_headers
        assert_refused(shop.call("POST", f"{path}/expire", content=body, headers=headers), field)
    assert shop.data("GET", path)["status"] == "OPEN"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"a":1}', b"null", b"[]"])
def test_an_operation_without_fields_accepts_any_valid_json(shop: Shop, body: bytes) -> None:
    path = f"/v1/checkouts/{shop.create_session()['id']}/expire"
    headers = {"content-type": "application/json"}
    assert shop.call("POST", path, content=body, headers=headers).status_code == 200


def test_a_complete_session_cannot_expire(shop: Shop) -> None:
    order = shop.create_paid_order()
    path = f"/v1/checkouts/{order['checkoutSessionId']}"
    assert shop.data("GET", path)["status"] == "COMPLETE"
    assert "complete" in assert_refused(shop.post(f"{path}/expire"), "id")


def test_a_payment_after_the_session_expired_still_pays_the_order(shop: Shop) -> None:
    order = shop.create_order()
    shop.post(f"/v1/checkouts/{order['checkoutSessionId']}/expire")
    shop.confirm(order["id"])
    assert shop.read_order(order["id"])["status"] == "PAID"
    assert shop.data("GET", "/v1/balance")["pending"] == "9.59"


def test_a_revoked_order_ends_its_session(shop: Shop) -> None:
    order = shop.create_order()
    shop.revoke(order["id"])
    assert shop.read_order(order["id"])["status"] == "REVOKED"
    path = f"/v1/checkouts/{order['checkoutSessionId']}"
    assert shop.data("GET", path)["status"] == "EXPIRED"


@pytest.mark.parametrize("session_id", ["cs_0123456789abcdefghjkmnpqrstvwxyz", "x", "%00"])
def test_an_unknown_session_is_not_found(shop: Shop, session_id: str) -> None:
    for method, path in (("GET", ""), ("POST", "/expire")):
        response = shop.call(method, f"/v1/checkouts/{session_id}{path}")
        assert (response.status_code, response.json()) == (
            404,
            {"code": 40401, "message": "Not Found"},
        )


def test_a_currency_without_an_exchange_rate_is_refused(api_server: ApiServer) -> None:
    shop = api_server.create_shop(settlement_currency="USD")
    product = shop.create_product(currency="ISK", price="100")
    reason = assert_refused(shop.post("/v1/checkouts", {"productId": product["id"]}), "productId")
    assert "ISK" in reason


def test_amounts_worth_less_than_one_minor_unit_are_refused(api_server: ApiServer) -> None:
    api_server.set_rate("UGX", "USD", Decimal("0.00027"))
    shop = api_server.create_shop()
    product = shop.create_product(currency="UGX", price="1")
    assert_refused(shop.post("/v1/checkouts", {"productId": product["id"]}), "productId")
    assert (
        shop.create_order(shop.create_product(currency="UGX", price="100")["id"])["settledAmount"]
        == "0.03"
    )
