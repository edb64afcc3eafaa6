"""Unknown fields are named, unknown parameters and repeated headers are refused.

See contract.md#unknown-input and contract.md#doubled-headers.
"""

import json
from typing import Any, Final

import pytest

from opentill.app import OPERATIONS
from opentill.http.operations import Operation
from support.api_server import TEA, ApiServer, Shop, assert_refused

IGNORED_HEADER: Final = "opentill-ignored-fields"
UNKNOWN_ID: Final = "prod_01m7y0m0jzefzv5n8efcf1hqw1"
LISTS: Final = [
    operation for operation in OPERATIONS if "page" in operation.query.__struct_encode_fields__
]


def _label(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=_label)
def test_an_unknown_query_parameter_is_refused_by_every_operation(
    shop: Shop, operation: Operation
) -> None:
    path = operation.path.replace("{id}", UNKNOWN_ID)
    reason = assert_refused(shop.call(operation.method, f"{path}?page_=1"), "page_")
    supported = operation.query.__struct_encode_fields__
    assert all(name in reason for name in supported)
    assert supported or "no query parameters" in reason


@pytest.mark.parametrize(
    ("query", "field", "nearest"),
    [
        ("customer=ada@example.com", "customer", ""),
        ("product_id=x", "product_id", "productId"),
        ("pagesize=5", "pagesize", "page"),
        ("start_date=1", "start_date", "startDate"),
        ("Status=PAID", "Status", "status"),
        ("status=PAID&unknown", "unknown", ""),
        ("page=1&x=", "x", ""),
        ("=1", "query", ""),
        ("a%0d%0ab=1", "a\ufffd\ufffdb", ""),
        ("%E2%80%AEgnp=1", "\ufffdgnp", ""),
        ("%00=1", "\ufffd", ""),
        ("k" * 9000 + "=1", "k" * 64, ""),
    ],
)
def test_the_error_names_the_parameter_and_the_nearest_known_one(
    shop: Shop, query: str, field: str, nearest: str
) -> None:
    reason = assert_refused(shop.get(f"/v1/orders?{query}"), field)
    assert f"the nearest is {nearest}" in reason
    assert len(reason) < 300


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        pytest.param(operation, name, id=f"{_label(operation)} {name}")
        for operation in OPERATIONS
        for name in operation.query.__struct_encode_fields__
    ],
)
def test_an_empty_query_value_is_refused(shop: Shop, operation: Operation, name: str) -> None:
    """A program with an empty variable must not get all orders instead of one customer's."""
    path = operation.path.replace("{id}", UNKNOWN_ID)
    parameter = f"{name}[k]" if name == "metadata" else name
    for query in (f"{parameter}=", parameter, f"{parameter}=&size=5"):
        reason = assert_refused(shop.call(operation.method, f"{path}?{query}"), name)
        assert "it is empty: leave it out instead" in reason
        assert reason.startswith(f"{name} must be ")


def test_a_repeated_parameter_with_an_empty_value_is_refused(shop: Shop) -> None:
    assert_refused(shop.get("/v1/orders?page=2&page="), "page")
    assert_refused(shop.get("/v1/orders?page=&page=2"), "page")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/orders", "productId"),
        ("/v1/disputes", "orderId"),
        ("/v1/webhook-endpoints/{id}/deliveries", "eventId"),
    ],
)
def test_a_filter_by_an_id_that_matches_nothing_is_an_empty_list(
    shop: Shop, path: str, name: str
) -> None:
    path = path.replace("{id}", shop.create_endpoint()["id"] if "{id}" in path else "")
    shop.create_paid_order()
    for value in (UNKNOWN_ID, "x", "7", "a b", "🙂", "' or 1=1"):
        for page in (1, 3):
            response = shop.get(path, **{name: value, "page": page, "size": 2})
            assert response.status_code == 200
            assert response.json()["data"] == {
                "items": [],
                "pagination": {"page": page, "size": 2, "total": 0, "totalPages": 0},
            }


PRODUCT: Final = {"description": "x", "price": "1", "currency": "USD", "name": "x"}


@pytest.mark.parametrize(
    ("unknown_fields", "expected"),
    [
        ({"priceMinor": 1}, "priceMinor"),
        ({"b": {"c": 1}, "a": None}, "b,a"),
        ({"x y": 1, "a,b": 1, "ü": 1}, "x%20y,a%2Cb,%C3%BC"),
        ({"a\r\nset-cookie: b": 1}, "a%0D%0Aset-cookie%3A%20b"),
        ({"": 1}, '""'),
        ({"Name": 1}, "Name"),
        ({"k" * 300: 1}, "k" * 64),
        ({"metadata": {"anything": 1}}, None),
        ({}, None),
    ],
)
def test_an_unknown_body_field_is_ignored_and_named(
    shop: Shop, unknown_fields: dict[str, Any], expected: str | None
) -> None:
    response = shop.post("/v1/products", PRODUCT | unknown_fields)
    assert response.status_code == 201
    assert response.headers.get(IGNORED_HEADER) == expected


def test_unknown_fields_beyond_the_length_of_the_header_are_counted(shop: Shop) -> None:
    unknown_fields = {f"field{n}": n for n in range(3000)}
    names = shop.post("/v1/products", PRODUCT | unknown_fields).headers[IGNORED_HEADER].split(",")
    assert names[:2] == ["field0", "field1"]
    assert len(",".join(names)) <= 1024
    assert int(names[-1].removeprefix("+")) == 3000 - (len(names) - 1)


def test_every_operation_with_a_body_names_ignored_fields(shop: Shop) -> None:
    body = {"unknown_": 1}
    order = shop.create_paid_order()
    link = shop.data("POST", "/v1/payment-links", json={"productId": shop.create_product()["id"]})
    ids: dict[str, str] = {
        "products": shop.create_product()["id"],
        "checkouts": shop.create_session()["id"],
        "orders": order["id"],
        "webhook-endpoints": shop.create_endpoint()["id"],
        "payment-links": link["id"],
    }
    for operation in OPERATIONS:
        if operation.method in {"POST", "PATCH"}:
            path = operation.path.replace("{id}", ids[operation.path.split("/")[2]])
            response = shop.call(operation.method, path, json=body)
            assert response.headers[IGNORED_HEADER] == "unknown_", path


def test_ignored_fields_are_named_in_refusals_and_replays(shop: Shop) -> None:
    misspelt = {"prodctId": "x"}
    response = shop.post("/v1/checkouts", misspelt)
    assert_refused(response, "productId")
    assert response.headers[IGNORED_HEADER] == "prodctId"
    extended, plain_text = TEA | {"sku": 1}, {"content-type": "text/plain"}
    rows: list[tuple[str, dict[str, Any], dict[str, str], int, str | None]] = [
        ("/v1/checkouts", misspelt, {}, 400, "prodctId"),
        ("/v1/products", extended, {}, 201, "sku"),
        ("/v1/products?page=1", extended, {}, 400, "sku"),  # the query is refused, not the body
        ("/v1/products", extended, plain_text, 415, None),  # the server has not parsed the body
    ]
    for number, (path, body, headers, status, expected) in enumerate(rows):
        all_headers = {"x-api-key": shop.key, "content-type": "application/json"}
        all_headers |= {"idempotency-key": f"k{number}"} | headers
        content = json.dumps(body).encode()
        original, replayed = (
            shop.api_server.http.post(path, content=content, headers=all_headers) for _ in range(2)
        )
        assert [original.status_code, replayed.status_code] == [status, status]
        assert replayed.headers["idempotent-replayed"] == "true"
        assert [original.headers.get(IGNORED_HEADER), replayed.headers.get(IGNORED_HEADER)] == [
            expected,
            expected,
        ]
        assert original.content == replayed.content


def _post_with_repeated_header(shop: Shop, name: str, values: list[str]) -> Any:
    headers = [("x-api-key", shop.key), ("content-type", "application/json")]
    headers = [header for header in headers if header[0] != name.lower()]
    headers += [(name, value) for value in values]
    content = json.dumps(PRODUCT).encode()
    return shop.api_server.http.post("/v1/products", content=content, headers=headers)


@pytest.mark.parametrize("values", [["a", "a"], ["a", "b"], ["", "a"]])
@pytest.mark.parametrize("name", ["Idempotency-Key", "Content-Type"])
def test_a_repeated_header_is_refused(shop: Shop, name: str, values: list[str]) -> None:
    if name == "Content-Type":
        values = ["application/json", *values[1:]]
    assert "once" in assert_refused(_post_with_repeated_header(shop, name, values), name)
    assert shop.data("GET", "/v1/products")["items"] == []


def test_a_request_with_a_repeated_api_key_header_is_401(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    for values in (
        [shop.key, shop.key],
        [shop.key, other_shop.key],
        [shop.key, ""],
        ["", shop.key],
    ):
        response = _post_with_repeated_header(shop, "X-Api-Key", values)
        assert (response.status_code, response.json()) == (
            401,
            {"code": 401, "message": "Unauthorized"},
        )
    assert shop.data("GET", "/v1/products")["items"] == []


def test_an_operation_without_authentication_ignores_keys(api_server: ApiServer) -> None:
    path = "/v1/config/legal/merchant-services-agreement"
    headers = [("x-api-key", "a"), ("x-api-key", "b")]
    assert api_server.http.get(path, headers=headers).status_code == 200
