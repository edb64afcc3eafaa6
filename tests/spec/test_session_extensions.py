"""A session has optional fields, or sells an item (contract.md#session-create, #session-item)."""

import csv
import io
from decimal import Decimal
from typing import Any, Final

import pytest

from support.api_server import ApiServer, Shop, assert_refused
from support.people import Visitor, create_person

HALF_AN_HOUR: Final = 1_800_000
DAY: Final = 86_400_000
CART: Final = {"name": "Cart 42", "price": "31.48", "currency": "USD"}
VALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("quantity", 1),
    ("quantity", 99),
    ("quantity", None),
    ("expiresIn", HALF_AN_HOUR),
    ("expiresIn", DAY),
    ("expiresIn", None),
    ("paymentMethods", ["CREDIT_CARD"]),
    ("paymentMethods", ["PAYNOW", "ALIPAY", "ALIPAY"]),
    ("locale", "zh-Hant"),
    ("locale", "de"),
    ("locale", "ja"),
    ("locale", "pt"),
    ("clientReference", "r"),
    ("clientReference", "编号 " + "r" * 197),
    ("customer_name", "Ada"),
)
INVALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("quantity", 0),
    ("quantity", 100),
    ("quantity", 1.5),
    ("quantity", "2"),
    ("quantity", True),
    ("quantity", 10**30),
    ("expiresIn", HALF_AN_HOUR - 1),
    ("expiresIn", DAY + 1),
    ("expiresIn", "3600000"),
    ("paymentMethods", []),
    ("paymentMethods", ["CASH"]),
    ("paymentMethods", "CREDIT_CARD"),
    ("paymentMethods", ["PAYNOW"]),  # PayNow takes only SGD
    ("locale", "it"),
    ("locale", ""),
    ("clientReference", ""),
    ("clientReference", "  "),
    ("clientReference", "r" * 201),
    ("clientReference", 7),
    ("customer_name", "n" * 201),
    ("item", CART),  # a session has either a product or an item
)
INVALID_ITEM_FIELDS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("name", {"name": " "}),
    ("name", {"name": "n" * 201}),
    ("price", {"price": "0.00"}),
    ("price", {"price": "-1"}),
    ("price", {"price": "100000000"}),
    ("price", {"price": 5}),
    ("currency", {"currency": "usd"}),
    ("currency", {"currency": "XTS"}),
    ("price", {"currency": "JPY", "price": "10.50"}),
    ("currency", {"currency": "PYG", "price": "100"}),  # PYG has no exchange rate
    ("image", {"image": "javascript:alert(1)"}),
    ("description", {"description": "d" * 1001}),
)


@pytest.mark.parametrize(("field", "value"), VALID_FIELDS)
def test_a_valid_optional_field_opens_a_session(shop: Shop, field: str, value: Any) -> None:
    assert shop.create_session(**{field: value})["status"] == "OPEN"


@pytest.mark.parametrize(("field", "value"), INVALID_FIELDS)
def test_an_invalid_optional_field_is_refused(shop: Shop, field: str, value: Any) -> None:
    body = {"productId": shop.create_product()["id"]} | {field: value}
    assert field in assert_refused(shop.post("/v1/checkouts", body), field)
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 0


def test_the_fields_of_a_session_appear_wherever_its_order_does(shop: Shop) -> None:
    product = shop.create_product()["id"]
    plain_order = shop.create_paid_order(product)
    fields = {"quantity": 3, "clientReference": "INV/2026-0042", "locale": "zh-Hans"}
    session = shop.create_session(product, **fields, paymentMethods=["ALIPAY", "CREDIT_CARD"])
    assert session["amount"] == "29.97"
    assert session["paymentMethods"] == ["CREDIT_CARD", "ALIPAY"]
    session_with_order = shop.data("GET", f"/v1/checkouts/{session['id']}")
    assert session_with_order == {**session, "orderId": session_with_order["orderId"]}
    order = shop.read_order(session_with_order["orderId"])
    assert (order["amount"], order["quantity"], order["clientReference"]) == (
        "29.97", 3, "INV/2026-0042"
    )  # fmt: skip
    (listed,) = shop.data("GET", "/v1/orders", params={"query": " inv/2026-0042"})["items"]
    assert listed["id"] == order["id"]
    shop.confirm(order["id"])
    rows = list(csv.DictReader(io.StringIO(shop.get("/v1/orders/export").text)))
    columns = ("quantity", "clientReference", "paymentLinkId")
    assert [[row[name] for name in columns] for row in rows] == [
        ["1", "", ""], ["3", "INV/2026-0042", ""]
    ]  # fmt: skip
    events = shop.data("GET", "/v1/events")["items"]
    for event in events:
        data = event["data"]
        if data["order_id"] == plain_order["id"]:
            assert not {"quantity", "client_reference", "payment_link_id"} & set(data)
        else:
            assert (data["quantity"], data["client_reference"]) == (3, "INV/2026-0042")
    assert {event["type"] for event in events} == {"order.paid", "checkout.completed"}


def test_the_amount_has_the_limits_of_a_price_in_every_currency(shop: Shop) -> None:
    product = shop.create_product(price="50000000.00")["id"]
    assert "at most 1," in assert_refused(
        shop.post("/v1/checkouts", {"productId": product, "quantity": 2}), "quantity"
    )
    shop.api_server.set_rate("JPY", "USD", Decimal("0.006"))
    yen = shop.create_product(price="1010101", currency="JPY")["id"]
    assert shop.create_session(yen, quantity=99)["amount"] == "99999999.00"


def test_a_session_expires_after_the_requested_time(shop: Shop) -> None:
    session = shop.create_session(expiresIn=HALF_AN_HOUR)
    assert session["expiresAt"] - session["createdAt"] == HALF_AN_HOUR


def test_the_alternative_field_of_the_customers_name_is_a_fallback(
    shop: Shop,
) -> None:
    response = shop.post(
        "/v1/checkouts", {"productId": shop.create_product()["id"], "customer_name": "Ada"}
    )
    assert "opentill-ignored-fields" not in response.headers
    page = shop.api_server.http.get(response.json()["data"]["url"]).text
    assert 'value="Ada"' in page
    assert shop.create_order(customerName="Bea", customer_name="Ada")["customerName"] == "Bea"


def test_the_page_has_the_methods_language_and_reference_of_the_session(shop: Shop) -> None:
    session = shop.create_session(
        paymentMethods=["ALIPAY"], locale="zh-Hant", clientReference="<b>7</b>", quantity=2
    )
    # A separate client is needed, because a client remembers the language.
    http = Visitor(shop.api_server).http
    page = http.get(session["url"], headers={"accept-language": "en"}).text
    assert '<html lang="zh-Hant"' in page
    assert page.count('name="method"') == 1
    assert 'value="ALIPAY"' in page
    assert "&lt;b&gt;7&lt;/b&gt;" in page
    assert "2 × " in page
    assert '<html lang="en"' in http.get(session["url"], params={"lang": "en"}).text
    chosen = {"accept-language": "zh", "cookie": "opentill_language=en"}
    assert '<html lang="en"' in http.get(session["url"], headers=chosen).text
    form = {"email": "ada@example.com", "name": "", "method": "CREDIT_CARD", "lang": "en"}
    assert http.post(session["url"], data=form).status_code == 400


def test_an_item_is_sold_without_a_product(shop: Shop) -> None:
    product = shop.create_product()
    body = {"item": {**CART, "name": " Cart 42 ", "description": "Two teas"}, "quantity": 2}
    session = shop.data("POST", "/v1/checkouts", json=body)
    assert (session["amount"], session["currency"]) == ("62.96", "USD")
    page = shop.api_server.http.get(session["url"]).text
    assert "Cart 42" in page
    assert "Two teas" in page
    second_session = shop.data("POST", "/v1/checkouts", json={"item": CART})
    stand_in = second_session["productId"]
    assert session["productId"] == stand_in
    assert shop.data("GET", f"/v1/products/{stand_in}")["status"] == "ARCHIVED"
    active = shop.data("GET", "/v1/products", params={"status": "ACTIVE"})["items"]
    assert [product["id"] for product in active] == [product["id"]]
    # After somebody has changed the stand-in product, the next session corrects it.
    shop.data("PATCH", f"/v1/products/{stand_in}", json={"currency": "EUR", "price": "7.00"})
    assert shop.data("POST", "/v1/checkouts", json={"item": CART})["currency"] == "USD"


@pytest.mark.parametrize(("field", "change"), INVALID_ITEM_FIELDS, ids=str)
def test_an_item_with_an_invalid_field_is_refused_with_that_field(
    shop: Shop, field: str, change: dict[str, Any]
) -> None:
    response = shop.post("/v1/checkouts", {"item": CART | change})
    assert assert_refused(response, f"item.{field}").startswith(f"item.{field} must ")
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 0


def test_an_item_without_a_price_is_refused_with_the_missing_field(shop: Shop) -> None:
    item = {name: text for name, text in CART.items() if name != "price"}
    response = shop.post("/v1/checkouts", {"item": item})
    assert assert_refused(response, "item.price").startswith("item.price is required: ")
    response = shop.post("/v1/checkouts", {"item": "Cart 42"})
    assert assert_refused(response, "item").startswith("item must be an object")


def test_items_leave_no_product_in_the_catalogue(shop: Shop) -> None:
    shop.data("POST", "/v1/checkouts", json={"item": CART})
    for query in ({}, {"status": "ARCHIVED"}):
        listed = shop.data("GET", "/v1/products", params=query)
        assert (listed["items"], listed["pagination"]["total"]) == ([], 0)
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("products", "products?status=ARCHIVED"):
        assert "Items (USD)" not in owner.get(f"/dashboard/{shop.id}/{path}").text
    product = shop.create_product()
    assert [row["id"] for row in shop.data("GET", "/v1/products")["items"]] == [product["id"]]


def test_items_of_two_merchants_have_different_products(api_server: ApiServer) -> None:
    product_ids = {
        api_server.create_shop().data("POST", "/v1/checkouts", json={"item": CART})["productId"]
        for _ in range(2)
    }
    assert len(product_ids) == 2
