"""The OpenAPI document is valid, complete, and describes the running server."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
import requests
from hypothesis import HealthCheck, assume, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi import definitions

from opentill.app import OPERATIONS, PEOPLE_OPERATIONS, create_app, openapi_document
from opentill.core.settings import Settings
from opentill.http.operations import Operation
from spec.document_cases import (
    DOCUMENT,
    RULES,
    SCHEMA_OPERATIONS,
    SCHEMATHESIS_CHECKS,
    TOKEN_OPERATIONS,
    Caller,
    fill_case,
    http_session,
    is_json,
)
from support.api_server import ApiServer, Shop, assert_refused
from support.examples import examples
from support.people import reset_login_limits

__all__ = ["http_session", "reset_login_limits"]

# The number of examples that are generated for an operation: in `make test`, and in `make stress`.
EXAMPLES: Final = (
    examples(3, at_night=120),
    pytest.param(200, marks=pytest.mark.stress),
)


def test_the_document_is_valid_openapi() -> None:
    errors = [str(error) for error in definitions.OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)]
    assert errors == []


def test_every_reference_has_a_schema() -> None:
    referenced = re.findall(r"'\$ref': '#/components/schemas/([^']+)'", str(DOCUMENT))
    assert set(referenced) <= set(DOCUMENT["components"]["schemas"])
    assert "{name}" not in str(DOCUMENT)


def test_operation_ids_are_unique() -> None:
    ids = [
        operation["operationId"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids) == len(OPERATIONS) + len(PEOPLE_OPERATIONS)


def _undescribed(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a schema, at any depth, that have no description."""
    for field, field_schema in schema.get("properties", {}).items():
        component = str(field_schema.get("$ref", "")).rpartition("/")[2]
        target = DOCUMENT["components"]["schemas"].get(component, {})
        if not field_schema.get("description") and not target.get("description"):
            yield f"{name}.{field}"
        yield from _undescribed(f"{name}.{field}", field_schema)
        yield from _undescribed(f"{name}.{field}", field_schema.get("items", {}))


def test_every_field_and_parameter_is_described() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    missing = [field for name, schema in schemas.items() for field in _undescribed(name, schema)]
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            missing += [
                f"{method} {path}: {parameter['name']}"
                for parameter in operation["parameters"]
                if not parameter.get("description")
            ]
    assert missing == []


@pytest.mark.parametrize("body", ["ProductUpdate", "LinkUpdate", "LinkItemUpdate"])
def test_nullable_fields_of_a_change_describe_null(body: str) -> None:
    fields = DOCUMENT["components"]["schemas"][body]["properties"]
    nullable = {
        name: field["description"]
        for name, field in fields.items()
        if "null" in field.get("type", "")
    }
    assert "description" in nullable or "metadata" in nullable
    assert [name for name, text in nullable.items() if "Null" not in text] == []


def test_the_server_serves_this_document(api_server: ApiServer) -> None:
    response = api_server.http.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    # The examples in the document contain the URL.
    document = openapi_document(Settings(public_url=api_server.url))
    assert response.json() == document
    assert document["servers"] == [{"url": api_server.url}]
    assert document.keys() == DOCUMENT.keys()


CONDITIONS = [
    # Each row: If-None-Match, in which {tag} stands for the document's tag, and whether it matches.
    ("{tag}", True),
    ("W/{tag}", True),
    ('"other", {tag}', True),
    ("*", True),
    ('"other"', False),
    ("", False),
]


@pytest.mark.parametrize(("if_none_match", "matches"), CONDITIONS)
def test_a_client_that_has_the_document_gets_304(
    api_server: ApiServer, if_none_match: str, matches: bool
) -> None:
    original = api_server.http.get("/openapi.json")
    tag = original.headers["etag"]
    headers = {"if-none-match": if_none_match.format(tag=tag)}
    revalidated = api_server.http.get("/openapi.json", headers=headers)
    assert revalidated.status_code == (304 if matches else 200)
    assert revalidated.headers["etag"] == tag
    assert revalidated.content == (b"" if matches else original.content)


async def test_the_document_is_encoded_once() -> None:
    """Each response sends the same object, not an equal copy."""
    app = create_app(Settings(gateways=()))
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    for _ in range(2):
        await app(
            {
                "type": "http", "method": "GET", "path": "/openapi.json", "headers": [],
                "raw_path": b"/openapi.json", "query_string": b"", "client": ("192.0.2.1", 1),
                "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80),
                "root_path": "", "app": app, "state": {},
            },
            receive,
            send,
        )  # fmt: skip
    first_body, second_body = filter(None, bodies)
    assert msgspec.json.decode(first_body)["openapi"] == DOCUMENT["openapi"]
    assert first_body is second_body


def _named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=_named)
def test_every_error_of_an_operation_is_documented(operation: Operation) -> None:
    documented = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
    # Any operation returns 400 for an unknown query parameter.
    required = {str(operation.status), "400", "429", "500", "503"}
    if operation.auth:
        required.add("401")
    if "{id}" in operation.path:
        required.add("404")
    if operation.method == "POST":
        required |= {"409", "413", "422"}
    if operation.method != "GET":
        required.add("415")
    assert required <= set(documented)
    replayed = {
        status
        for status, response in documented.items()
        if "idempotent-replayed" in response["headers"]
    }
    assert replayed == (
        {str(operation.status), "400", "403", "404", "415"} & set(documented)
        if operation.method == "POST"
        else set()
    )
    limit_headers = {
        name
        for name, header in documented["429"]["headers"].items()
        if "rate limit" in header.get("description", "")
    }
    assert limit_headers == {"ratelimit", "ratelimit-policy"}


def test_operations_without_parameters_or_fields_refuse_unknown_ones(shop: Shop) -> None:
    assert_refused(shop.get("/v1/balance", x="1"), "x")
    form = {"content": b"x=1", "headers": {"content-type": "text/plain", "idempotency-key": "k"}}
    tea = f"/v1/products/{shop.create_product()['id']}"
    expire = f"/v1/checkouts/{shop.create_session()['id']}/expire"
    responses = [
        shop.call(method, path, **form)
        for method, path in (("DELETE", tea), ("POST", expire), ("POST", expire))
    ]
    assert [response.status_code for response in responses] == [415, 415, 415]
    assert [response.headers.get("idempotent-replayed") for response in responses] == [
        None,
        None,
        "true",
    ]


@pytest.mark.parametrize("operation", [*OPERATIONS, *PEOPLE_OPERATIONS], ids=_named)
def test_examples_of_an_operation_match_its_schemas(operation: Operation) -> None:
    import jsonschema_rs

    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    bodies = [described["requestBody"]] if "requestBody" in described else []
    for message in (*bodies, *described["responses"].values()):
        content = message["content"].get("application/json")
        if content and "example" in content:
            schema = content["schema"] | {"components": DOCUMENT["components"]}
            jsonschema_rs.validate(schema, content["example"])


# ── The running server compared with the document ──


@pytest.fixture(scope="module")
def shop_with_objects(api_server: ApiServer) -> tuple[Shop, dict[str, str]]:
    """A merchant with one object of every kind."""
    shop = api_server.create_shop(overdraft_minor=10**12)
    order = shop.create_paid_order(shop.create_product(price="99999999.99")["id"])
    refund = shop.refund(order["id"], amount="0.01")
    ids = {
        "products": order["productId"],
        "checkouts": order["checkoutSessionId"],
        "orders": order["id"],
        "refunds": refund["id"],
        "disputes": shop.open_dispute(shop.create_paid_order()["id"]).id,
        "payouts": shop.create_payout().id,
        "payment-links": shop.data(
            "POST", "/v1/payment-links", json={"productId": order["productId"]}
        )["id"],
        "webhook-endpoints": shop.create_endpoint()["id"],
        "events": shop.data("GET", "/v1/events")["items"][0]["id"],
    }
    return shop, ids


@pytest.mark.parametrize("number", EXAMPLES)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("operation", SCHEMA_OPERATIONS, ids=lambda operation: operation.label)
def test_the_server_conforms_to_its_document(
    shop_with_objects: tuple[Shop, dict[str, str]],
    http_session: requests.Session,
    operation: Any,
    mode: GenerationMode,
    number: int,
) -> None:
    shop, ids = shop_with_objects
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
        return
    if operation.method == "delete":  # earlier cases created endpoints, but a new merchant has none
        shop = shop.api_server.create_shop()
    path = operation.path
    owner = Caller(shop) if path.startswith("/v1/merchant/") else None

    @seed(20261121)
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=number, suppress_health_check=list(HealthCheck))
    def run(case: Any) -> None:
        # A query cannot contain an empty list or an object.
        values = list((case.query or {}).values())
        assume(not any(isinstance(value, dict | list) for value in values))
        # A metadata value in a query is always text, also for a Boolean or a number.
        parameters = (case.query or {}).items()
        assume(not any("metadata" in name and is_json(value) for name, value in parameters))
        if owner is not None and path in TOKEN_OPERATIONS:
            owner.log_in()
        fill_case(case, shop, owner, ids, mode)
        headers = {"x-api-key": shop.key} if owner is None else owner.headers
        response = case.call(base_url=shop.api_server.url, headers=headers, session=http_session)
        assert "x-request-id" in response.headers
        case.validate_response(response, checks=SCHEMATHESIS_CHECKS, headers=headers)
        if mode is GenerationMode.POSITIVE:
            assert response.status_code not in {401, 403, 404}, response.text
        if mode is GenerationMode.POSITIVE and response.status_code == 400:
            error = response.json()["error"]
            assert any(
                re.fullmatch(field, error["field"]) and re.match(reason, error["reason"])
                for field, reason in RULES
            ), error

    run()
