"""Every text with a pattern ends where its pattern in the API document ends.

Python's ``$`` also matches before a final line break; that of other languages does not.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx2
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opentill.http import inputs
from spec.document_cases import DOCUMENT, Caller
from support.api_server import SUCCEEDED, ApiServer, Shop, error_of
from support.people import reset_login_limits

__all__ = ["reset_login_limits"]

# For each pattern of a parameter or of a field of a body, a text that matches it.
VALID_TEXTS: Final = {
    r"\S": "Tea",
    r"^[A-Z]{3}$": "USD",
    r"^0(\.[0-9]{1,5})?$": "0.19",
    r"^[0-9]{1,8}(\.[0-9]{1,2})?$": "9.99",
    r"^[0-9]{1,15}(\.[0-9]{1,2})?$": "9.99",
    r"^(0|[1-9][0-9]{0,17}|latest)$": "0",
    r"^#[0-9a-fA-F]{6}$": "#0d5c49",
    r"^[^\x00]*$": "tea",
    r"^ *[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+ *$": "ada@example.com",
    inputs.EMAIL_PATTERN: "ada@example.com",
    inputs.URL_PATTERN: "https://shop.example/tea",
}
# For each pattern, refusals of texts that match it, by rules that no pattern can express.
RULES: Final = {
    r"^[A-Z]{3}$": r"\S+ must be (an active ISO 4217 currency|a currency with an exchange rate).*",
    r"^[0-9]{1,8}(\.[0-9]{1,2})?$": r"\S+ must be (at least 0.01|more than item.minAmount)",
    r"^[0-9]{1,15}(\.[0-9]{1,2})?$": r"amount must (be from 0.01 to .*|not be more than .*)",
    r"^(0|[1-9][0-9]{0,17}|latest)$": "cursor must be the cursor of an earlier response, or absent",
    # Which hosts can exist, and for an endpoint which are public.
    inputs.URL_PATTERN: r"\S+ must (have a host that can exist: .*|be a public https address: .*"
    r"|have a port of web servers.*|be an (absolute )?http or https URL.*"
    r"|be without a fragment|be one of at most .*)",
    inputs.EMAIL_PATTERN: "customerEmail must (be an email address|have a domain).*",
}
ITEM: Final = {"name": "Tea", "price": "9.99", "currency": "USD"}
RANGE: Final = {"name": "Tea", "minAmount": "1.00", "maxAmount": "20.00", "currency": "USD"}


def _texts(schema: Mapping[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the schema of each text with a pattern."""
    component = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = DOCUMENT["components"]["schemas"].get(component, schema)
    if "pattern" in schema:
        yield path, schema
    for field, field_schema in schema.get("properties", {}).items():
        yield from _texts(field_schema, *path, field)
    if isinstance(values := schema.get("additionalProperties"), dict):
        yield from _texts(values, f"{path[0]}[cart]")
    for choice in schema.get("anyOf", ()):
        yield from _texts(choice, *path)


def _texts_of_requests() -> Iterator[Any]:
    """Yield a case for each text with a pattern. No header can contain a line break."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            queries = (each for each in operation["parameters"] if each["in"] == "query")
            schemas = [((each["name"],), each["schema"]) for each in queries]
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]
                schemas.append(((), content["application/json"]["schema"]))
            for place, schema in schemas:
                for field, text in _texts(schema, *place):
                    name = f"{method} {path} {'.'.join(field)}"
                    yield pytest.param(method, path, field, text, id=name)


def _send_text(
    shop_with_objects: tuple[Shop, dict[str, str]],
    method: str,
    path: str,
    field: tuple[str, ...],
    text: str,
) -> httpx2.Response:
    """Send a request that is valid if the text of its field is valid."""
    shop, ids = shop_with_objects
    owner = Caller(shop) if path.startswith("/v1/merchant/") else None
    headers = {} if owner is None else owner.headers | {"x-api-key": None}
    kind = re.sub("^/v1/(merchant/)?", "", path).split("/")[0]
    if path == "/v1/products/{id}":
        ids = {**ids, "products": shop.create_product()["id"]}  # its currency will change
    url = path.replace("{id}", ids.get(kind, ""))
    if method == "get":
        return shop.call(method, url, params={field[0]: text}, headers=headers)
    if field[0] == "item":
        base = RANGE if field[1] in RANGE.keys() - ITEM.keys() else ITEM
        if method == "patch":
            link = shop.data("POST", "/v1/payment-links", json={"item": ITEM})
            url, base = path.replace("{id}", link["id"]), {}
        return shop.call(method, url, json={"item": base | {field[1]: text}})
    shown = DOCUMENT["paths"][path][method]["requestBody"]["content"]["application/json"]
    body = shown["example"] | (owner.valid_fields(path) if owner else {}) | {field[0]: text}
    body.pop("refundNo", None)  # it must be another one for each refund
    if "productId" in body:
        body["productId"] = ids["products"]
    return shop.call(method, url, json=body, headers=headers)


@pytest.fixture(scope="module")
def shop_with_objects(api_server: ApiServer) -> tuple[Shop, dict[str, str]]:
    """A merchant, and the ids of its objects by the first segment of their path."""
    shop = api_server.create_shop(overdraft_minor=10**12)
    order = shop.create_paid_order()
    link = shop.data("POST", "/v1/payment-links", json={"productId": order["productId"]})
    return shop, {
        "products": order["productId"],
        "orders": order["id"],
        "payment-links": link["id"],
        "webhook-endpoints": shop.create_endpoint()["id"],
    }


@pytest.mark.parametrize(("method", "path", "field", "schema"), list(_texts_of_requests()))
def test_a_text_ends_where_its_pattern_ends(
    shop_with_objects: tuple[Shop, dict[str, str]],
    method: str,
    path: str,
    field: tuple[str, ...],
    schema: dict[str, Any],
) -> None:
    valid = VALID_TEXTS[schema["pattern"]]
    assert _send_text(shop_with_objects, method, path, field, valid).status_code in SUCCEEDED
    for ending in ("\n", "\r\n", "\r", " ", "\N{LINE SEPARATOR}"):
        response = _send_text(shop_with_objects, method, path, field, valid + ending)
        if jsonschema_rs.is_valid(schema, valid + ending):
            assert response.status_code in SUCCEEDED, (ending, response.text)
        else:
            assert response.status_code == 400, (ending, response.text)
            assert error_of(response)["error"]["field"] in (field[0], ".".join(field)), ending


@pytest.mark.parametrize(("method", "path", "field", "schema"), list(_texts_of_requests()))
def test_a_text_that_matches_its_pattern_is_accepted(
    shop_with_objects: tuple[Shop, dict[str, str]],
    method: str,
    path: str,
    field: tuple[str, ...],
    schema: dict[str, Any],
) -> None:
    """All texts of a pattern are accepted, except by rules that no pattern can express."""
    pattern = re.compile(schema["pattern"].replace("$", r"\Z"), re.ASCII)
    texts = st.from_regex(pattern, alphabet=st.characters(min_codepoint=1, max_codepoint=127))

    @settings(
        max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(texts.filter(functools.partial(jsonschema_rs.is_valid, schema)))
    def send(text: str) -> None:
        response = _send_text(shop_with_objects, method, path, field, text)
        if response.status_code not in SUCCEEDED:
            refused = error_of(response)["error"]
            assert response.status_code == 400, text
            assert refused["field"].startswith(field[0]), text  # item.minAmount: item.maxAmount
            assert re.fullmatch(RULES.get(schema["pattern"], "none"), refused["reason"]), refused

    send()
