"""Hostile values of every field never cause a 5xx and are escaped where they are shown.

The fields are those of the operations' structs.
"""

import csv
import io
import json
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest

from opentill.app import OPERATIONS
from opentill.http.operations import Nothing, Operation
from spec.persistent_connection import persistent_connection
from support.api_server import TEA, Shop, error_of
from support.examples import is_night

ID: Final = "prod_01m7y0m0jzefzv5n8efcf1hqw1"

TEXTS: Final = {
    "NUL": "a\0b",
    "escape": "\x1b[31m",
    "lone surrogate": "\ud800",
    "swapped surrogates": "\udc00\ud800",
    "right-to-left": "\u202e\u2066abc\u2069\u200f",
    "html": "<script>alert(1)</script>\"'>&amp;<img src=x onerror=alert(1)>",
    "template": "{{7*7}}${7*7}#{7*7}<%= 7*7 %>",
    "formula": "=cmd|' /C calc'!A0",
    "sql": "'; drop table merchants; --",
    "header": "a\r\nset-cookie: a=b",
    "10,000 characters": "x" * 10_000,
    "10,000 of four bytes": "𝒳" * 10_000,
    "combining": "e" + "\u0301" * 5_000,
    "noncharacter": "\uffff\ufdd0",
    "byte order mark": "\ufeff",
    "zero width": "\u200b",
    "path": "../../../etc/passwd",
    "format": "%s%n%x{0}",
    "number": "1e400",
    "null": "null",
    "empty": "",
    "blank": " \t\n",
}
# JSON values of other types. They are text, because Python cannot encode some of them.
VALUES: Final = (
    "null", "true", "false", "0", "-1", "1.5", "1e400", "-1e400", "9" * 400, "1" + "0" * 5000,
    "-0", "[]", "{}", "[null]", '["a"]', '{"a":1}', '[["a"]]', '{"a":{"a":{"a":1}}}',
    "[" * 14 + "]" * 14, "[" * 15 + "]" * 15, "[" * 200 + "]" * 200,
    '{"a":1,"a":2}', '"\\ud800"', '"\\u0000"',
)  # fmt: skip
INVALID_JSON: Final = (
    "NaN", "Infinity", "undefined", "'a'", '"a', "", "01", "1.", "+1", "0x1", "[1,]", "{,}",
    '"\\x41"',
)  # fmt: skip


def _encode_wtf8(text: str) -> bytes:
    """Encode text with lone surrogates as WTF-8, which is not valid UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def _valid_body(operation: Operation, shop: Shop) -> dict[str, Any]:
    if operation.path == "/v1/products":
        return dict(TEA)
    if operation.path in {"/v1/checkouts", "/v1/payment-links"} and operation.method == "POST":
        return {"productId": shop.create_product()["id"]}
    if operation.path == "/v1/webhook-endpoints" and operation.method == "POST":
        return {"url": "https://shop.example/hook"}
    if operation.path.endswith("/resend"):
        return {"since": 0}
    return {}


def _path(operation: Operation, shop: Shop) -> str:
    if "orders" in operation.path:
        return operation.path.replace("{id}", shop.create_order()["id"])
    if "webhook-endpoints/" in operation.path:
        return operation.path.replace("{id}", shop.create_endpoint()["id"])
    if "payment-links/" in operation.path:
        body = {"productId": shop.create_product()["id"]}
        link = shop.data("POST", "/v1/payment-links", json=body)
        return operation.path.replace("{id}", link["id"])
    return operation.path.replace("{id}", shop.create_product()["id"])


# Values that are valid in fields whose type is not text.
VALID_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "since": (7,), "until": (7,), "failedOnly": (True,), "events": ([],),
    "quantity": (7,), "maxQuantity": (7,), "maxUses": (7,), "active": (True,),
}  # fmt: skip
FIELDS: Final = [
    (operation, field.encode_name)
    for operation in OPERATIONS
    for field in msgspec.structs.fields(operation.body)
]
PARAMETERS: Final = [
    (operation, field.encode_name)
    for operation in OPERATIONS
    for field in msgspec.structs.fields(operation.query)
]


def _is_first_field(rows: list[tuple[Operation, str]], operation: Operation, name: str) -> bool:
    """Return whether a field is its operation's first, which gets the values that take long."""
    return is_night() or name == next(field for row, field in rows if row is operation)


def _ids(row: Any) -> str:
    return f"{row.method} {row.path}" if isinstance(row, Operation) else str(row)


@pytest.mark.parametrize(("operation", "field"), FIELDS, ids=_ids)
def test_any_value_of_a_field_is_accepted_or_refused(
    shop: Shop, operation: Operation, field: str
) -> None:
    path, valid_body = _path(operation, shop), _valid_body(operation, shop)
    valid_body.pop(field, None)
    start = json.dumps(valid_body)[:-1] + (", " if valid_body else "")
    values = [json.dumps(text).encode() for text in TEXTS.values()]
    values += [text.encode() for text in VALUES]
    # For all other fields, parsing fails in the same way.
    if _is_first_field(FIELDS, operation, field):
        values += [_encode_wtf8(json.dumps(text, ensure_ascii=False)) for text in TEXTS.values()]
        values += [text.encode() for text in INVALID_JSON]
    with persistent_connection(shop) as connection:
        for value in values:
            content = start.encode() + b'"%s":' % field.encode() + value + b"}"
            response = connection.call(operation.method, path, content)
            assert response.status_code in {200, 201, 400, 413}, (value[:80], response.text)
            if response.status_code == 400:
                assert len(error_of(response)["error"]["reason"]) < 300
                assert len(response.content) < 1000


@pytest.mark.parametrize(("operation", "field"), FIELDS, ids=_ids)
def test_an_error_names_a_field_of_a_wrong_type(
    shop: Shop, operation: Operation, field: str
) -> None:
    path, valid_body = _path(operation, shop), _valid_body(operation, shop)
    values: tuple[Any, ...] = (7, 1.5, True, [], [1])
    values += ("x", []) if field == "metadata" else ({},)
    valid_values = [repr(value) for value in VALID_VALUES.get(field, ())]
    for value in (value for value in values if repr(value) not in valid_values):
        response = shop.call(operation.method, path, json=valid_body | {field: value})
        assert response.status_code == 400
        # Of a struct, the error may name the field inside that is missing, such as item.name.
        assert error_of(response)["error"]["field"].partition(".")[0] == field


@pytest.mark.parametrize(("operation", "field"), PARAMETERS, ids=_ids)
def test_any_value_of_a_parameter_is_accepted_or_refused(
    shop: Shop, operation: Operation, field: str
) -> None:
    path = _path(operation, shop)
    texts = [*TEXTS.values(), *(value for value in VALUES if len(value) < 1000)]
    if _is_first_field(PARAMETERS, operation, field):
        texts += INVALID_JSON
    with persistent_connection(shop) as connection:
        for text in texts:
            encoded = quote(_encode_wtf8(text))[:8000]
            response = connection.call(operation.method, f"{path}?{field}={encoded}")
            assert response.status_code in {200, 400}, (text[:80], response.text)


@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.query is not Nothing], ids=_ids
)
def test_a_malformed_query_is_refused(shop: Shop, operation: Operation) -> None:
    path = _path(operation, shop)
    field = msgspec.structs.fields(operation.query)[0].encode_name
    rows = (
        ("", 200),
        ("?", 400),
        ("&&&", 200),
        ("=", 400),
        ("=x", 400),
        ("x", 400),
        ("unknown=1&unknown=2", 400),
        ("%00=1", 400),
        (f"{field}=1&{field}=1", 400),
        (f"{field}=1&{field}=", 400),
        (f"{field}=", 400),  # a client's empty variable must not list all objects
        (field, 400),
        (f"{field}=%ff", 400),
        ("x=%ff", 400),
        ("x=%ed%a0%80", 400),
        (f"{field}=%zz", 400),
        (f"{field}[]=1", 400),
        (f"{field.upper()}=x", 400),
        ("&".join(f"a{n}=1" for n in range(101)), 400),
    )
    with persistent_connection(shop) as connection:
        for query, status in rows:
            response = connection.call("GET", f"{path}?{query}")
            assert response.status_code == status, (query, response.text)


@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if "{id}" in operation.path], ids=_ids
)
def test_an_invalid_id_is_not_found(shop: Shop, operation: Operation) -> None:
    with persistent_connection(shop) as connection:
        for text in TEXTS.values():
            segment = quote(_encode_wtf8(text), safe="")[:8000]
            response = connection.call(
                operation.method, operation.path.replace("{id}", segment), b"{}"
            )
            # An empty id results in the path of another operation, where the method may be missing
            # (405).
            assert response.status_code in {404, 405}, text[:80]


def test_hostile_headers_never_cause_a_5xx(shop: Shop) -> None:
    for name in (
        "x-api-key",
        "content-type",
        "idempotency-key",
        "accept",
        "x-forwarded-for",
        "cookie",
    ):
        for value in (
            b"\xff\xfe",
            b"\xed\xa0\x80",
            b"x" * 8000,
            b'"',
            b"<script>",
            b"*/*;q=x",
            b",",
        ):
            headers: Any = {"x-api-key": shop.key} | {name: value}
            response = shop.api_server.http.post("/v1/products", json=TEA, headers=headers)
            assert response.status_code in {201, 400, 401, 415, 422}, (name, value, response.text)


@pytest.mark.parametrize("text", ["html", "right-to-left", "formula", "template", "sql", "header"])
def test_hostile_text_is_unchanged_in_json_and_escaped_in_files_and_pages(
    shop: Shop, text: str
) -> None:
    hostile = TEXTS[text]
    short_text = hostile[:64]
    product = shop.create_product(name=hostile, description=hostile, metadata={short_text: hostile})
    assert product["name"] == hostile.strip()
    session = shop.create_session(
        product["id"],
        customerName=hostile,
        displayMerchantName=short_text,
        metadata={short_text: hostile},
    )
    order_id = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    shop.confirm(order_id)
    refund = shop.refund(order_id, reason=hostile, refundNo=short_text, amount="1")
    assert (refund["reason"], refund["refundNo"]) == (hostile, short_text)
    shop.report_refund(refund["id"], "REFUSED", hostile)
    assert shop.data("GET", f"/v1/refunds/{refund['id']}")["errorMessage"] == hostile
    assert shop.read_order(order_id)["metadata"] == {short_text: hostile}
    response = shop.get("/v1/orders/export")
    (row,) = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    assert row["customerName"].replace("'", "") == hostile.replace("'", "")
    assert "; -" not in row["customerName"]
    assert not row["customerName"].startswith(("=", "+", "-", "@"))
    page = shop.api_server.http.get(session["url"])
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "<img src=x" not in page.text
    assert "set-cookie" not in page.headers or "a=b" not in page.headers["set-cookie"]
