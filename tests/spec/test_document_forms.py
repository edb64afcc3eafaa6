"""What client generators require of the OpenAPI document beyond validity and truth."""

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
METHODS: Final = {
    # operations of people
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
    # operations of merchants
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


def _schemas(node: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema below ``node`` with its path; examples are not schemas."""
    if isinstance(node, list):
        for number, child in enumerate(node):
            yield from _schemas(child, f"{place}/{number}")
    elif isinstance(node, dict):
        if re.search(r"/(schema|items|propertyNames|additionalProperties)$", place) or re.search(
            r"/(schemas|properties)/[^/]+$|/(anyOf|oneOf|allOf)/\d+$", place
        ):
            yield place, node
        for name, child in node.items():
            in_properties = place.endswith("/properties")
            if in_properties or name not in {"example", "examples", "default", "enum", "const"}:
                yield from _schemas(child, f"{place}/{name}")


# The paths of amounts and rates.
AMOUNT: Final = re.compile(
    "([aA]mount|[pP]rice|[fF]ee|Rate|Usd|debit|After|/available|/pending|/frozen)$"
)
ALL: Final = tuple(_schemas(DOCUMENT))
OPERATIONS_SHOWN: Final = [
    each for path in DOCUMENT["paths"].values() for each in path.values() if "operationId" in each
]


def _kinds(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else kind


def test_the_walk_finds_the_schemas() -> None:
    places = {place for place, _ in ALL}
    assert "/components/schemas/Order/properties/paidAt" in places
    assert "/components/schemas/Transaction/properties/type" in places
    assert len(ALL) > 300


def test_every_integer_has_a_width_and_every_time_has_64_bits() -> None:
    times = 0
    for place, schema in ALL:
        if "integer" not in _kinds(schema):
            continue
        assert schema.get("format") in {"int32", "int64"}, place
        if schema["format"] == "int32":
            assert "const" in schema or schema["minimum"] >= -(2**31), place
            assert "const" in schema or schema["maximum"] < 2**31, place
        if re.search(r"([a-z]At|_at|/at|[sS]ince|[uU]ntil|Date)$", place):
            assert schema["format"] == "int64", place
            times += 1
    assert times > 30
    for operation in OPERATIONS_SHOWN:
        for parameter in operation["parameters"]:
            if parameter["name"] in {"startDate", "endDate"}:
                assert parameter["schema"]["format"] == "int64"


def test_every_enum_has_the_type_of_all_its_values() -> None:
    types = {str: "string", int: "integer", type(None): "null"}
    listed = 0
    for place, schema in ALL:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        listed += bool(values)
        assert {types[type(value)] for value in values} in (set(), set(_kinds(schema))), place
    assert listed > 20


def test_a_nullable_schema_has_null_in_its_type() -> None:
    for place, schema in ALL:
        choices = schema.get("anyOf", schema.get("oneOf", ()))
        assert {"type": "null"} not in choices or "enum" in choices[0], place
        assert schema.get("default", "") is not None, f"{place}: absent is not null"
    order = DOCUMENT["components"]["schemas"]["Order"]["properties"]
    shown = {
        name: {key: value for key, value in order[name].items() if key != "description"}
        for name in ("customerName", "paidAt")
    }
    assert shown["customerName"] == {"type": ["string", "null"]}
    assert shown["paidAt"] == {"type": ["integer", "null"], "format": "int64"}
    methods, null = order["paymentMethod"][
        "anyOf"
    ]  # schemas.py explains why this is no list of types
    assert (methods["type"], null) == ("string", {"type": "null"})
    error = DOCUMENT["components"]["schemas"]["Failure"]["properties"]["error"]
    assert error == {"$ref": "#/components/schemas/Detail"}  # absent, never null


def test_every_default_satisfies_its_schema() -> None:
    defaults = [(place, schema) for place, schema in ALL if "default" in schema]
    assert len(defaults) > 40
    for place, schema in defaults:
        assert jsonschema_rs.is_valid(schema, schema["default"]), place


def test_amounts_are_text_that_no_generator_reads_as_a_number() -> None:
    """Generators make floating-point numbers of ``format: decimal`` and of the type ``number``."""
    amounts = 0
    for place, schema in ALL:
        assert "number" not in _kinds(schema), place
        if "string" in _kinds(schema):
            assert schema.get("format") in {None, "date", "uri"}, place
        if AMOUNT.search(place):
            assert is_decimal(schema), place
            amounts += 1
    assert amounts >= 70


def test_an_object_in_a_query_is_written_in_brackets_and_its_schema_has_a_name() -> None:
    """Users of a generator that cannot write it put a class of their own in its place."""
    queries = [
        parameter
        for operation in OPERATIONS_SHOWN
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    filters = [parameter for parameter in queries if "$ref" in parameter["schema"]]
    assert len(filters) == 2
    for parameter in queries:
        is_filter = parameter in filters
        assert is_filter != ("type" in parameter["schema"]), parameter
        assert "object" not in _kinds(parameter["schema"]), parameter
        assert (parameter.get("style") == "deepObject") == is_filter, parameter


def test_no_two_properties_of_an_object_have_one_generated_name() -> None:
    for place, schema in ALL:
        names = [re.sub("[^a-z0-9]", "", name.lower()) for name in schema.get("properties", ())]
        assert len(set(names)) == len(names), place
    assert "displayMerchantName" in DOCUMENT["components"]["schemas"]["SessionBody"]["properties"]


def test_schema_names_are_valid_type_names_and_responses_have_one() -> None:
    names = list(DOCUMENT["components"]["schemas"])
    assert [name for name in names if not re.fullmatch("([A-Z][a-z]+)+", name)] == []
    assert len({name.lower() for name in names}) == len(names)
    assert [place for place, schema in ALL if "title" in schema] == []
    used = set(re.findall(r"'#/components/schemas/(\w+)'", str(DOCUMENT)))
    assert used == set(names)
    for operation in OPERATIONS_SHOWN:
        for answer in operation["responses"].values():
            for media_type, content in answer["content"].items():
                assert media_type != "application/json" or set(content["schema"]) == {"$ref"}


def test_method_names_of_generated_clients_are_stable() -> None:
    """Changing a summary changes the operationId and thus the code of integrators."""
    assert {each["operationId"] for each in OPERATIONS_SHOWN} == METHODS
    assert len(OPERATIONS_SHOWN) == len(OPERATIONS) + len(PEOPLE_OPERATIONS)


def test_operations_and_webhooks_share_no_tag() -> None:
    """openapi-generator writes one file per tag, so that webhooks would overwrite operations."""
    called, sent = (
        {tag for path in DOCUMENT.get(kind, {}).values() for each in path.values()
         for tag in each["tags"]}
        for kind in ("paths", "webhooks")
    )  # fmt: skip
    assert called & sent == set()
    assert called | sent == {tag["name"] for tag in DOCUMENT["tags"]}


def test_descriptions_are_complete_and_cite_no_sections() -> None:
    info = DOCUMENT["info"]
    assert set(info) >= {"title", "summary", "description", "contact", "license", "version"}
    assert info["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert [tag["name"] for tag in DOCUMENT["tags"] if len(tag.get("description", "")) < 20] == []
    bare = re.compile("(An extension of the contract[.:]? *)?")
    for operation in OPERATIONS_SHOWN:
        assert not bare.fullmatch(operation.get("description", "")), operation["operationId"]
        for parameter in operation["parameters"]:
            assert parameter["description"], (operation["operationId"], parameter["name"])
    for place, schema in ALL:
        if re.fullmatch("/components/schemas/[^/]+", place):
            assert schema.get("description"), place
    texts = re.findall(r"'(?:description|summary)': (?:'([^']*)'|\"([^\"]*)\")", str(DOCUMENT))
    assert len(texts) > 300
    for text in ("".join(pair) for pair in texts):
        assert not re.search(r"§|contract\.md|decision \d|``|  ", text), text


@pytest.mark.parametrize(
    ("contact", "shown"),
    [
        ("support@example.com", {"email": "support@example.com"}),
        ("https://example.com/help", {"url": "https://example.com/help"}),
        ("+852 5555 0000", {}),
        ("write to help@example.com", {}),
    ],
)
def test_the_contact_is_that_of_the_operator(contact: str, shown: dict[str, str]) -> None:
    document = openapi_document(Settings(operator_name="Till Ltd", operator_contact=contact))
    assert document["info"]["contact"] == {"name": "Till Ltd", **shown}


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
    around = {"components": {"schemas": {"ThingOut": schema}}, "paths": {"/a": {"schema": schema}}}
    finished = schemas.rewrite_document(around)
    assert finished == {
        "components": {"schemas": {"Thing": expected}},
        "paths": {"/a": {"schema": expected}},
    }
    assert schemas.rewrite_document(finished) == finished


def test_two_structs_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        schemas.rewrite_document({"components": {"schemas": {"Thing": {}, "ThingOut": {}}}})
