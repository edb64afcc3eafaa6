"""What generators of clients need of the OpenAPI document, beside its being valid and true."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from opentill.app import OPERATIONS, PEOPLE_OPERATIONS, openapi_document
from opentill.core.settings import Settings
from opentill.http import schemas

DOCUMENT: Final = openapi_document(Settings())
METHODS: Final = {
    # of people
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
    # of merchants
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


def _schemas(given: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk over every schema of the document, with its place; examples are no schemas."""
    if isinstance(given, list):
        for number, one in enumerate(given):
            yield from _schemas(one, f"{place}/{number}")
    elif isinstance(given, dict):
        if re.search(r"/(schema|items|propertyNames|additionalProperties)$", place) or re.search(
            r"/(schemas|properties)/[^/]+$|/(anyOf|oneOf|allOf)/\d+$", place
        ):
            yield place, given
        for name, one in given.items():
            in_properties = place.endswith("/properties")
            if in_properties or name not in {"example", "examples", "default", "enum", "const"}:
                yield from _schemas(one, f"{place}/{name}")


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


def test_every_integer_says_how_wide_it_is_and_every_time_is_64_bits_wide() -> None:
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


def test_every_list_of_values_has_a_type_that_all_its_values_are_of() -> None:
    types = {str: "string", int: "integer", type(None): "null"}
    listed = 0
    for place, schema in ALL:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        listed += bool(values)
        assert {types[type(value)] for value in values} in (set(), set(_kinds(schema))), place
    assert listed > 20


def test_what_may_be_null_says_so_by_its_type() -> None:
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
    methods, null = order["paymentMethod"]["anyOf"]  # see schemas.py: why not a list of types
    assert (methods["type"], null) == ("string", {"type": "null"})
    error = DOCUMENT["components"]["schemas"]["Failure"]["properties"]["error"]
    assert error == {"$ref": "#/components/schemas/Detail"}  # absent, never null


def test_no_object_has_two_properties_that_a_generator_gives_one_name() -> None:
    for place, schema in ALL:
        names = [re.sub("[^a-z0-9]", "", name.lower()) for name in schema.get("properties", ())]
        assert len(set(names)) == len(names), place
    assert "displayMerchantName" in DOCUMENT["components"]["schemas"]["SessionBody"]["properties"]


def test_names_of_schemas_are_names_of_types_and_answers_have_one() -> None:
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


def test_the_names_of_methods_in_generated_clients_stay() -> None:
    """Who changes a summary changes the operationId, and by it the code of integrators."""
    assert {each["operationId"] for each in OPERATIONS_SHOWN} == METHODS
    assert len(OPERATIONS_SHOWN) == len(OPERATIONS) + len(PEOPLE_OPERATIONS)


def test_what_is_called_and_what_is_sent_share_no_tag() -> None:
    """openapi-generator writes one file for each tag: of two kinds the later takes its place."""
    called, sent = (
        {tag for path in DOCUMENT.get(kind, {}).values() for each in path.values()
         for tag in each["tags"]}
        for kind in ("paths", "webhooks")
    )  # fmt: skip
    assert called & sent == set()
    assert called | sent == {tag["name"] for tag in DOCUMENT["tags"]}


def test_everything_is_described_and_no_description_cites_a_section() -> None:
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
def test_the_contact_is_the_operator_s(contact: str, shown: dict[str, str]) -> None:
    made = openapi_document(Settings(operator_name="Till Ltd", operator_contact=contact))
    assert made["info"]["contact"] == {"name": "Till Ltd", **shown}


NULLABLE: Final = [
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


@pytest.mark.parametrize(("given", "made"), NULLABLE)
def test_schemas_take_the_forms_that_generators_understand(
    given: dict[str, Any], made: dict[str, Any]
) -> None:
    assert schemas.rewrite(given) == made
    assert schemas.rewrite(made) == made
    around = {"components": {"schemas": {"ThingOut": given}}, "paths": {"/a": {"schema": given}}}
    finished = schemas.rewrite_document(around)
    assert finished == {
        "components": {"schemas": {"Thing": made}},
        "paths": {"/a": {"schema": made}},
    }
    assert schemas.rewrite_document(finished) == finished


def test_two_structs_of_one_name_are_no_document() -> None:
    with pytest.raises(ValueError, match="one name"):
        schemas.rewrite_document({"components": {"schemas": {"Thing": {}, "ThingOut": {}}}})
