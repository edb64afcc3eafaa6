"""The OpenAPI document has the forms that generators of clients need, beyond being valid."""

import re
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import pytest

from opentill.app import OPERATIONS, PEOPLE_OPERATIONS, openapi_document
from opentill.core.settings import Settings
from opentill.http import schemas
from opentill.http.fields import is_decimal

DOCUMENT: Final = openapi_document(Settings())
OPERATION_IDS: Final = {
    # people call these operations
    "logIn",
    "logOut",
    "refreshTokens",
    "getProfile",
    "updateProfile",
    "updateLogo",
    "removeLogo",
    "listApiKeys",
    "createApiKey",
    "updateApiKey",
    "regenerateApiKey",
    "revokeApiKey",
    "listMembers",
    "updateMember",
    "removeMember",
    "listInvitations",
    "inviteMember",
    "withdrawInvitation",
    "listAcceptancesOfAgreement",
    "acceptAgreement",
    "createMerchantEndpoint",
    "listMerchantEndpoints",
    "getMerchantEndpoint",
    "updateMerchantEndpoint",
    "deleteMerchantEndpoint",
    "rotateMerchantSecret",
    "listMerchantDeliveries",
    "resendMerchantEvents",
    "testMerchantEndpoint",
    # merchants call these operations
    "archiveProduct",
    "createCheckoutSession",
    "createPaymentLink",
    "listPaymentLinks",
    "getPaymentLink",
    "updatePaymentLink",
    "createProduct",
    "createRefund",
    "createWebhookEndpoint",
    "deleteWebhookEndpoint",
    "expireCheckoutSession",
    "exportOrders",
    "exportStatement",
    "getBalance",
    "getCheckoutSession",
    "getDispute",
    "getEvent",
    "getMerchantServicesAgreement",
    "getOrder",
    "getPayout",
    "getProduct",
    "getRefund",
    "getWebhookEndpoint",
    "listBalanceTransactions",
    "listCheckoutSessions",
    "listDisputes",
    "listEvents",
    "listOrderRefunds",
    "listOrders",
    "listPayouts",
    "listProducts",
    "listWebhookDeliveries",
    "listWebhookEndpoints",
    "resendEvents",
    "sendTestEvent",
    "rotateWebhookSecret",
    "updateProduct",
    "updateWebhookEndpoint",
}


def _schemas(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema below ``node`` with its path; examples are not schemas."""
    if isinstance(node, list):
        for number, child in enumerate(node):
            yield from _schemas(child, f"{path}/{number}")
    elif isinstance(node, dict):
        if re.search(r"/(schema|items|propertyNames|additionalProperties)$", path) or re.search(
            r"/(schemas|properties)/[^/]+$|/(anyOf|oneOf|allOf)/\d+$", path
        ):
            yield path, node
        for name, child in node.items():
            in_properties = path.endswith("/properties")
            if in_properties or name not in {"example", "examples", "default", "enum", "const"}:
                yield from _schemas(child, f"{path}/{name}")


# The paths of amounts and rates end in this way.
AMOUNT: Final = re.compile(
    "([aA]mount|[pP]rice|[fF]ee|Rate|Usd|debit|After|/available|/pending|/frozen)$"
)
ALL_SCHEMAS: Final = tuple(_schemas(DOCUMENT))
DOCUMENT_OPERATIONS: Final = [
    operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
    if "operationId" in operation
]


def _types(schema: dict[str, Any]) -> list[str]:
    type_ = schema.get("type", [])
    return [type_] if isinstance(type_, str) else type_


def test_the_schemas_of_the_document_are_found() -> None:
    paths = {path for path, _ in ALL_SCHEMAS}
    assert "/components/schemas/Order/properties/paidAt" in paths
    assert "/components/schemas/Transaction/properties/type" in paths
    assert len(ALL_SCHEMAS) > 300


def test_every_integer_has_a_width_and_every_time_has_64_bits() -> None:
    time_count = 0
    for path, schema in ALL_SCHEMAS:
        if "integer" not in _types(schema):
            continue
        assert schema.get("format") in {"int32", "int64"}, path
        if schema["format"] == "int32":
            values = [schema["const"]] if "const" in schema else schema.get("enum")
            low, high = (
                (min(values), max(values)) if values else (schema["minimum"], schema["maximum"])
            )
            assert -(2**31) <= low <= high < 2**31, path
        if re.search(r"([a-z]At|_at|/at|[sS]ince|[uU]ntil|Date)$", path):
            assert schema["format"] == "int64", path
            time_count += 1
    assert time_count > 30
    for operation in DOCUMENT_OPERATIONS:
        for parameter in operation["parameters"]:
            if parameter["name"] in {"startDate", "endDate"}:
                assert parameter["schema"]["format"] == "int64"


def test_every_enum_has_the_type_of_all_its_values() -> None:
    types = {str: "string", int: "integer", type(None): "null"}
    enum_count = 0
    for path, schema in ALL_SCHEMAS:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        enum_count += bool(values)
        assert {types[type(value)] for value in values} in (set(), set(_types(schema))), path
    assert enum_count > 20


def test_a_nullable_schema_has_null_in_its_type() -> None:
    for path, schema in ALL_SCHEMAS:
        choices = schema.get("anyOf", schema.get("oneOf", ()))
        assert {"type": "null"} not in choices or "enum" in choices[0], path
        assert schema.get("default", "") is not None, f"{path}: absent is not null"
    order = DOCUMENT["components"]["schemas"]["Order"]["properties"]
    documented = {
        name: {key: value for key, value in order[name].items() if key != "description"}
        for name in ("customerName", "paidAt")
    }
    assert documented["customerName"] == {"type": ["string", "null"]}
    assert documented["paidAt"] == {"type": ["integer", "null"], "format": "int64"}
    # The source, schemas.py, explains why this is no list of types.
    methods, null = order["paymentMethod"]["anyOf"]
    assert (methods["type"], null) == ("string", {"type": "null"})
    error = DOCUMENT["components"]["schemas"]["Failure"]["properties"]["error"]
    assert error == {"$ref": "#/components/schemas/Detail"}  # the field is absent rather than null


def test_every_default_satisfies_its_schema() -> None:
    defaults = [(path, schema) for path, schema in ALL_SCHEMAS if "default" in schema]
    assert len(defaults) > 40
    for path, schema in defaults:
        assert jsonschema_rs.is_valid(schema, schema["default"]), path


def test_amounts_are_text_that_no_generator_reads_as_a_number() -> None:
    """Generators make floating-point numbers of ``format: decimal`` and of the type ``number``."""
    amounts = 0
    for path, schema in ALL_SCHEMAS:
        assert "number" not in _types(schema), path
        if "string" in _types(schema):
            assert schema.get("format") in {None, "date", "uri"}, path
        if AMOUNT.search(path):
            assert is_decimal(schema), path
            amounts += 1
    assert amounts >= 70


def test_an_object_in_a_query_is_written_in_brackets_and_its_schema_has_a_name() -> None:
    """Users of a generator that lacks such queries provide a class with this name."""
    queries = [
        parameter
        for operation in DOCUMENT_OPERATIONS
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    filters = [parameter for parameter in queries if "$ref" in parameter["schema"]]
    assert len(filters) == 2
    for parameter in queries:
        is_filter = parameter in filters
        assert is_filter != ("type" in parameter["schema"]), parameter
        assert "object" not in _types(parameter["schema"]), parameter
        assert (parameter.get("style") == "deepObject") == is_filter, parameter


def test_all_properties_of_an_object_have_different_names_in_generated_code() -> None:
    for path, schema in ALL_SCHEMAS:
        names = [re.sub("[^a-z0-9]", "", name.lower()) for name in schema.get("properties", ())]
        assert len(set(names)) == len(names), path
    assert "displayMerchantName" in DOCUMENT["components"]["schemas"]["SessionBody"]["properties"]


def test_schemas_have_valid_type_names_and_responses_refer_to_them() -> None:
    names = list(DOCUMENT["components"]["schemas"])
    assert [name for name in names if not re.fullmatch("([A-Z][a-z]+)+", name)] == []
    assert len({name.lower() for name in names}) == len(names)
    assert [path for path, schema in ALL_SCHEMAS if "title" in schema] == []
    used = set(re.findall(r"'#/components/schemas/(\w+)'", str(DOCUMENT)))
    assert used == set(names)
    for operation in DOCUMENT_OPERATIONS:
        for response in operation["responses"].values():
            for media_type, content in response["content"].items():
                assert media_type != "application/json" or set(content["schema"]) == {"$ref"}


def test_method_names_of_generated_clients_are_stable() -> None:
    """Changing a summary changes the operationId and thus the code of integrators."""
    assert {operation["operationId"] for operation in DOCUMENT_OPERATIONS} == OPERATION_IDS
    assert len(DOCUMENT_OPERATIONS) == len(OPERATIONS) + len(PEOPLE_OPERATIONS)


def test_operations_and_webhooks_share_no_tag() -> None:
    """openapi-generator writes one file per tag, so that webhooks would overwrite operations."""
    operation_tags, webhook_tags = (
        {tag for methods in DOCUMENT.get(part, {}).values() for operation in methods.values()
         for tag in operation["tags"]}
        for part in ("paths", "webhooks")
    )  # fmt: skip
    assert operation_tags & webhook_tags == set()
    assert operation_tags | webhook_tags == {tag["name"] for tag in DOCUMENT["tags"]}


def test_descriptions_are_complete_and_cite_no_sections() -> None:
    info = DOCUMENT["info"]
    assert set(info) >= {"title", "summary", "description", "contact", "license", "version"}
    assert info["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert [tag["name"] for tag in DOCUMENT["tags"] if len(tag.get("description", "")) < 20] == []
    empty_description = re.compile("(An extension of the contract[.:]? *)?")
    for operation in DOCUMENT_OPERATIONS:
        assert not empty_description.fullmatch(operation.get("description", "")), operation[
            "operationId"
        ]
        for parameter in operation["parameters"]:
            assert parameter["description"], (operation["operationId"], parameter["name"])
    for path, schema in ALL_SCHEMAS:
        if re.fullmatch("/components/schemas/[^/]+", path):
            assert schema.get("description"), path
    texts = re.findall(r"'(?:description|summary)': (?:'([^']*)'|\"([^\"]*)\")", str(DOCUMENT))
    assert len(texts) > 300
    for text in ("".join(pair) for pair in texts):
        assert not re.search(r"§|contract\.md|decision \d|``|  ", text), text


@pytest.mark.parametrize(
    ("contact", "fields"),
    [
        ("help@till.example", {"email": "help@till.example"}),
        ("support@example.com", {}),  # the default, with which nobody reaches the operator
        ("https://example.com/help", {"url": "https://example.com/help"}),
        ("+852 5555 0000", {}),
        ("write to help@example.com", {}),
    ],
)
def test_the_contact_is_that_of_the_operator(contact: str, fields: dict[str, str]) -> None:
    document = openapi_document(Settings(operator_name="Till Ltd", operator_contact=contact))
    assert document["info"]["contact"] == {"name": "Till Ltd", **fields}


REWRITTEN: Final = [
    ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "default": None},
     {"type": ["string", "null"], "maxLength": 3}),
    ({"anyOf": [{"enum": ["A", "B"], "description": "letter"}, {"type": "null"}], "default": None},
     {"anyOf": [{"enum": ["A", "B"], "type": "string"}, {"type": "null"}],
      "description": "letter"}),
    ({"anyOf": [{"type": "integer", "maximum": 9, "minimum": 0}, {"type": "null"}], "default": 3},
     {"type": ["integer", "null"], "format": "int32", "maximum": 9, "minimum": 0, "default": 3}),
    ({"anyOf": [{"$ref": "#/components/schemas/OrderOut"}, {"type": "null"}]},
     {"anyOf": [{"$ref": "#/components/schemas/Order"}, {"type": "null"}]}),
    ({"$ref": "#/components/schemas/Listing_OrderOut_"},
     {"$ref": "#/components/schemas/OrderList"}),
    ({"type": "integer", "maximum": 9}, {"type": "integer", "format": "int64", "maximum": 9}),
    ({"type": "string", "pattern": r"^[a-z]\Z"}, {"type": "string", "pattern": "^[a-z]$"}),
    ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2], "format": "int32"}),
    ({"const": 0}, {"type": "integer", "const": 0, "format": "int32"}),
    ({"type": "object", "properties": {
        "type": {"enum": ["A"]},
        "old_name": {"type": "string", schemas.SPELLING_OF: "name"},
        "default": {"type": "array", "items": {"type": "integer"}},
    }},
     {"type": "object", "properties": {
         "type": {"type": "string", "enum": ["A"]},
         "default": {"type": "array", "items": {"type": "integer", "format": "int64"}},
     }}),
    ({"type": "string", "description": "A ``name`` (contract.md#ids).\n\n    Twice\n    as long."},
     {"type": "string", "description": "A `name`.\n\nTwice\nas long."}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), REWRITTEN)
def test_schemas_are_rewritten_for_generators(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert schemas.rewrite(schema) == expected
    assert schemas.rewrite(expected) == expected
    document = {
        "components": {"schemas": {"ThingOut": schema}},
        "paths": {"/a": {"schema": schema}},
    }
    rewritten = schemas.rewrite_document(document)
    assert rewritten == {
        "components": {"schemas": {"Thing": expected}},
        "paths": {"/a": {"schema": expected}},
    }
    assert schemas.rewrite_document(rewritten) == rewritten


def test_two_structs_whose_schemas_would_have_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        schemas.rewrite_document({"components": {"schemas": {"Thing": {}, "ThingOut": {}}}})
