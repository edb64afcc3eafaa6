"""Products are created, changed and archived (contract.md#products)."""

from typing import Any, Final

import pytest

from opentill.core.money import EXPONENTS
from support.api_server import TEA, Shop, assert_refused

_URL: Final = "https://shop.example/"
_ABSENT: Final = object()


def _body(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (TEA | changes).items() if value is not _ABSENT}


VALID_FIELDS: Final[tuple[tuple[str, Any, Any], ...]] = (
    # Each row: field, value in the request, value in the response.
    ("name", "T", "T"),
    ("name", "T" * 200, "T" * 200),
    ("name", "茶" * 200, "茶" * 200),
    ("name", "  Tea  ", "Tea"),
    ("name", " " + "T" * 200 + " ", "T" * 200),
    ("name", "<b>Tea</b> & \u202etea", "<b>Tea</b> & \u202etea"),
    ("description", _ABSENT, ""),
    ("description", None, ""),
    ("description", "", ""),
    ("description", "d" * 1000, "d" * 1000),
    ("image", _ABSENT, None),
    ("image", None, None),
    ("image", _URL + "tea.png", _URL + "tea.png"),
    ("image", "http://shop.example:8080/tea?size=2#top", "http://shop.example:8080/tea?size=2#top"),
    ("image", _URL + "x" * (2048 - len(_URL)), _URL + "x" * (2048 - len(_URL))),
    ("price", "0.01", "0.01"),
    ("price", "1", "1.00"),
    ("price", "1.5", "1.50"),
    ("price", "99999999.99", "99999999.99"),
    ("price", "007.50", "7.50"),
    ("currency", "CNY", "CNY"),
    ("currency", "HKD", "HKD"),
    ("metadata", _ABSENT, {}),
    ("metadata", None, {}),
    ("metadata", {}, {}),
    ("metadata", {"k" * 64: "v"}, {"k" * 64: "v"}),
    ("metadata", {str(n): "v" for n in range(50)}, {str(n): "v" for n in range(50)}),
    ("metadata", {"a": [1, {"b": None}], "": True}, {"a": [1, {"b": None}], "": True}),
    ("unknown", "ignored", _ABSENT),
)
INVALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("name", _ABSENT),
    ("name", None),
    ("name", ""),
    ("name", "   "),
    ("name", "T" * 201),
    ("name", 7),
    ("name", ["Tea"]),
    ("description", "d" * 1001),
    ("description", 7),
    ("image", ""),
    ("image", "tea.png"),
    ("image", "//shop.example/tea.png"),
    ("image", "ftp://shop.example/tea.png"),
    ("image", "javascript:alert(1)"),
    ("image", "data:image/png;base64,AAAA"),
    ("image", "https://"),
    ("image", "https:///tea.png"),
    ("image", "https://user:word@shop.example/tea.png"),
    ("image", "https://user@shop.example/tea.png"),
    ("image", "https://shop.example/a b"),
    ("image", "https://shop.example/\n"),
    ("image", "https://shop.example:0/"),
    ("image", "https://shop.example:99999/"),
    ("image", "https://[::1/"),
    ("image", "https://shop.example\\@evil.example/"),
    ("image", _URL + "x" * (2049 - len(_URL))),
    ("price", _ABSENT),
    ("price", None),
    ("price", 9.99),
    ("price", 9),
    ("price", ""),
    ("price", "0"),
    ("price", "0.00"),
    ("price", "0.001"),
    ("price", "9.999"),
    ("price", "-9.99"),
    ("price", "+9.99"),
    ("price", "9."),
    ("price", ".99"),
    ("price", "9,99"),
    ("price", "1e2"),
    ("price", " 9.99"),
    ("price", "9.99\n"),
    ("price", "NaN"),
    ("price", "Infinity"),
    ("price", "0x10"),
    ("price", "1_0"),
    ("price", "９.99"),
    ("price", "٣"),
    ("price", "100000000"),
    ("price", "100000000.00"),
    ("price", "9" * 400),
    ("currency", _ABSENT),
    ("currency", None),
    ("currency", ""),
    ("currency", "usd"),
    ("currency", "US"),
    ("currency", "USDT"),
    ("currency", "USD\n"),
    ("currency", "ＵＳＤ"),
    ("currency", "DEM"),  # this currency was withdrawn in 2002
    ("currency", "HRK"),  # this currency was withdrawn in 2023
    ("currency", "XXX"),  # in ISO 4217, this code means "no currency"
    ("currency", "XTS"),  # in ISO 4217, this code is for tests
    ("currency", "XAU"),  # this code means gold
    ("currency", 840),
    ("metadata", "text"),
    ("metadata", []),
    ("metadata", 1),
    ("metadata", False),
    ("metadata", {"k" * 65: "v"}),
    ("metadata", {str(n): "v" for n in range(51)}),
    ("metadata", {"k": "v" * 16 * 1024}),
)


@pytest.mark.parametrize(("field", "value", "expected"), VALID_FIELDS)
def test_a_valid_field_creates_a_product(shop: Shop, field: str, value: Any, expected: Any) -> None:
    response = shop.post("/v1/products", _body({field: value}))
    assert response.status_code == 201, response.text
    product = response.json()["data"]
    assert product.get(field, _ABSENT) == expected
    assert product["status"] == "ACTIVE"
    assert product["createdAt"] == product["updatedAt"]
    assert shop.data("GET", f"/v1/products/{product['id']}") == product


@pytest.mark.parametrize(("field", "value"), INVALID_FIELDS)
def test_a_product_with_an_invalid_field_is_refused(shop: Shop, field: str, value: Any) -> None:
    reason = assert_refused(shop.post("/v1/products", _body({field: value})), field)
    assert field in reason
    assert "�" not in reason
    assert shop.data("GET", "/v1/products")["pagination"]["total"] == 0


@pytest.mark.parametrize(
    ("field", "value"), [row for row in INVALID_FIELDS if row[1] is not _ABSENT]
)
def test_a_change_to_an_invalid_value_is_refused(shop: Shop, field: str, value: Any) -> None:
    if value is None and field not in {"name", "price", "currency"}:
        return
    product = shop.create_product()
    assert_refused(shop.call("PATCH", f"/v1/products/{product['id']}", json={field: value}), field)
    assert shop.data("GET", f"/v1/products/{product['id']}") == product


def test_metadata_of_16_kib_is_accepted_and_one_more_byte_is_not(shop: Shop) -> None:
    longest_text = '{"k":"' + "v" * (16 * 1024 - 8) + '"}'
    before_metadata, after_metadata = '{"name":"Tea","price":"1","currency":"USD","metadata":', "}"
    for text, status in ((longest_text, 201), (longest_text.replace("v", "vv", 1), 400)):
        response = shop.call(
            "POST",
            "/v1/products",
            content=before_metadata + text + after_metadata,
            headers={"content-type": "application/json"},
        )
        assert response.status_code == status


@pytest.mark.parametrize(
    "text",
    [
        '{"b":1,"a":2}',
        '{"x":1.0,"y":1e5,"z":-0.0,"big":123456789012345678901234567890}',
        '{"nested":{"z":[1,2.50,{"a":null}],"y":true}}',
        '{"spaced" : [ 1 , 2 ]}',
        '{"escaped":"\\u00e9\\/\\n","plain":"é"}',
        '{"中文":"值","rtl":"\u202e","quote":"\\""}',
    ],
)
def test_metadata_is_returned_byte_for_byte_everywhere(shop: Shop, text: str) -> None:
    json_type = {"content-type": "application/json"}
    body = '{"name":"Tea","price":"9.99","currency":"USD","metadata":' + text + "}"
    created = shop.call("POST", "/v1/products", content=body, headers=json_type)
    product_id = created.json()["data"]["id"]
    body = f'{{"productId":"{product_id}","metadata":{text}}}'
    session = shop.call("POST", "/v1/checkouts", content=body, headers=json_type).json()["data"]
    order_id = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    expected = f'"metadata":{text}'.encode()
    assert expected in created.content
    for path in (
        f"/v1/products/{product_id}",
        "/v1/products",
        f"/v1/orders/{order_id}",
        "/v1/orders",
    ):
        assert expected in shop.get(path).content


@pytest.mark.parametrize("currency", sorted(EXPONENTS))
def test_a_price_has_at_most_the_decimals_of_the_currency(shop: Shop, currency: str) -> None:
    assert shop.create_product(currency=currency, price="10.00")["price"] == "10.00"
    fraction = shop.post("/v1/products", {"name": "T", "price": "10.50", "currency": currency})
    if EXPONENTS[currency] == 0:
        assert currency in assert_refused(fraction, "price")
    else:
        assert fraction.json()["data"]["price"] == "10.50"


def test_only_the_sent_fields_change(shop: Shop) -> None:
    expected_product = shop.create_product(
        description="Green", image="https://x.example/", metadata={"a": "1"}
    )
    path = f"/v1/products/{expected_product['id']}"
    for change, expected in (
        ({"name": " New "}, {"name": "New"}),
        ({"price": "8.5"}, {"price": "8.50"}),
        ({"currency": "EUR"}, {"currency": "EUR"}),
        ({"description": None}, {"description": ""}),
        ({"image": None}, {"image": None}),
        ({"metadata": {"b": "2"}}, {"metadata": {"b": "2"}}),
        ({"metadata": None}, {"metadata": {}}),
        ({}, {}),
    ):
        product = shop.data("PATCH", path, json=change)
        expected_product |= expected
        assert product | {"updatedAt": 0} == expected_product | {"updatedAt": 0}
        assert product["updatedAt"] >= expected_product["updatedAt"]
    assert shop.data("GET", path) == product


def test_a_currency_with_fewer_decimals_than_the_price_is_refused(shop: Shop) -> None:
    path = f"/v1/products/{shop.create_product()['id']}"
    assert "JPY" in assert_refused(shop.call("PATCH", path, json={"currency": "JPY"}), "price")
    assert shop.data("PATCH", path, json={"currency": "JPY", "price": "10"})["price"] == "10.00"


def test_an_open_session_keeps_its_price(shop: Shop) -> None:
    product = shop.create_product()
    order = shop.create_order(product["id"])
    shop.data("PATCH", f"/v1/products/{product['id']}", json={"price": "1", "name": "Other"})
    shop.call("DELETE", f"/v1/products/{product['id']}")
    assert shop.read_order(order["id"]) == order
    shop.confirm(order["id"])
    assert shop.read_order(order["id"])["amount"] == "9.99"


def test_an_archived_product_is_readable_and_cannot_be_sold(shop: Shop) -> None:
    product = shop.create_product()
    path = f"/v1/products/{product['id']}"
    shop.call("DELETE", path)
    archived = shop.data("GET", path)
    assert archived["status"] == "ARCHIVED"
    shop.call("DELETE", path)
    assert shop.data("GET", path) == archived
    assert_refused(shop.post("/v1/checkouts", {"productId": product["id"]}), "productId")
    assert shop.data("GET", "/v1/products", params={"status": "ACTIVE"})["items"] == []
    assert shop.data("GET", "/v1/products", params={"status": "ARCHIVED"})["items"] == [archived]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "product_id", ["prod_01m7y0m0jzefzv5n8efcf1hqw1", "x", "prod_", "%00", "..", "a%2Fb", "ＡＢ"]
)
def test_an_unknown_product_is_not_found(shop: Shop, method: str, product_id: str) -> None:
    body = {"json": {"name": "x"}} if method == "PATCH" else {}
    response = shop.call(method, f"/v1/products/{product_id}", **body)
    assert (response.status_code, response.json()) == (404, {"code": 40401, "message": "Not Found"})
