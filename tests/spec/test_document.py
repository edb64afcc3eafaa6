"""The OpenAPI document: valid, true of every operation, and held against the running server."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.specs.openapi import definitions

from opentill import agreement
from opentill.app import OPERATIONS, PEOPLE_OPERATIONS, create_app, document
from opentill.core.settings import Settings
from opentill.http.operations import Operation
from support.api_server import ApiServer, Shop
from support.examples import examples
from support.people import PASSWORD, address, person, unlimited

__all__ = ["unlimited"]

DOCUMENT: Final = document(Settings())
# Of each operation and mode: in `make test`, and in `make stress`.
EXAMPLES: Final = (
    examples(12),
    pytest.param(200, marks=pytest.mark.stress),
)

# What no schema can say; the document says it in words. Field and beginning of the reason.
RULES: Final = (
    ("currency", "currency must be an active ISO 4217"),
    ("price", "price must be at least 0.01"),
    ("price", "price must have no fraction"),
    ("image", "image must be an (absolute )?http or https URL"),
    ("successUrl", "successUrl must be an (absolute )?http or https URL"),
    ("cancelUrl", "cancelUrl must be an (absolute )?http or https URL"),
    ("customerEmail", "customerEmail must be an e-mail address"),
    ("customerEmail", "customerEmail must be the whole e-mail address"),  # what \\s is, differs
    ("name", "name must be text of 1 to 200"),
    ("displayMerchantName", "displayMerchantName must be text of 1 to 80"),
    ("metadata", "metadata must be at most 16 KiB"),
    ("productId", "productId must be the id of one of your"),
    ("productId", "productId is required: the id"),
    ("productId", "productId must be a product in a currency with"),
    ("productId", "productId must be a product worth"),
    ("endDate", "endDate must not be before startDate"),
    ("orderId", "orderId must be an order that is PAID"),
    ("orderId", "orderId must be the id of one of your"),
    ("url", "url must be a public https address"),
    ("url", "url must be an (absolute )?http or https URL"),
    ("url", "url must be one of at most"),
    ("url", "url must be without a fragment"),
    ("id", "id must be an endpoint that is ENABLED"),
    ("eventId", "eventId must be the id of one of your"),
    ("since", "since must say from when on"),
    (
        "since|until|expiresAt",
        "(since|until|expiresAt) must be a time in Unix mil",
    ),  # as 1.0, which is an integer too
    ("expiresAt", "expiresAt must be in the future"),
    (
        "expiresIn|quantity|maxQuantity|maxUses",
        "(expiresIn|quantity|maxQuantity|maxUses) must be a whole number",
    ),  # as 1.0, likewise
    ("expiresAt", "expiresAt must be a time to come"),
    ("maxQuantity", "maxQuantity must be 1"),
    ("quantity", "quantity must be (less|at most)"),
    ("item", r"item(\.\w+)? must "),
    ("productId", "productId is required"),
    ("paymentMethods", "paymentMethods must have one that is on offer"),
    ("clientReference", "clientReference must be text of 1 to 200"),
    ("cursor", "cursor must be the cursor of an earlier response"),
    ("amount", "amount must be from 0.01 to"),
    ("amount", "amount must not be more than what is left"),
    ("amount", "amount must leave the"),
    ("refundNo", "refundNo must be a number that no other"),
    ("id", "id must be an? (open )?session"),
    ("(?s).*", "(?s).* must be text without NUL and lone surrogates"),
    ("body", "keys must be text without NUL"),
    ("body", "body must not nest deeper"),
)


def test_it_is_a_valid_openapi_document() -> None:
    errors = [str(error) for error in definitions.OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)]
    assert errors == []


def test_every_reference_leads_somewhere() -> None:
    found = re.findall(r"'\$ref': '#/components/schemas/([^']+)'", str(DOCUMENT))
    assert set(found) <= set(DOCUMENT["components"]["schemas"])
    assert "{name}" not in str(DOCUMENT)


def test_operation_ids_are_unique() -> None:
    ids = [each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values()]
    assert len(set(ids)) == len(ids) == len(OPERATIONS) + len(PEOPLE_OPERATIONS)


def _undescribed(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    for field, given_schema in schema.get("properties", {}).items():
        component = str(given_schema.get("$ref", "")).rpartition("/")[2]
        target = DOCUMENT["components"]["schemas"].get(component, {})
        if not given_schema.get("description") and not target.get("description"):
            yield f"{name}.{field}"
        yield from _undescribed(f"{name}.{field}", given_schema)
        yield from _undescribed(f"{name}.{field}", given_schema.get("items", {}))


def test_every_field_and_every_parameter_is_described() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    missing = [field for name, one in schemas.items() for field in _undescribed(name, one)]
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            missing += [
                f"{method} {path}: {parameter['name']}"
                for parameter in operation["parameters"]
                if not parameter.get("description")
            ]
    assert missing == []


def test_the_server_gives_this_document(api_server: ApiServer) -> None:
    answer = api_server.http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    own = document(Settings(public_url=api_server.url))  # examples name the deployment's address
    assert answer.json() == own
    assert own["servers"] == [{"url": api_server.url}]
    assert own.keys() == DOCUMENT.keys()


KNOWN = [
    # If-None-Match, with the document's tag for {tag}; whether the client has it
    ("{tag}", True),
    ("W/{tag}", True),
    ('"other", {tag}', True),
    ("*", True),
    ('"other"', False),
    ("", False),
]


@pytest.mark.parametrize(("known", "has_it"), KNOWN)
def test_who_has_the_document_is_not_sent_it_again(
    api_server: ApiServer, known: str, has_it: bool
) -> None:
    first = api_server.http.get("/openapi.json")
    tag = first.headers["etag"]
    again = api_server.http.get("/openapi.json", headers={"if-none-match": known.format(tag=tag)})
    assert again.status_code == (304 if has_it else 200)
    assert again.headers["etag"] == tag
    assert again.content == (b"" if has_it else first.content)


async def test_the_document_is_encoded_once_and_not_for_each_request() -> None:
    """What goes out is the very same bytes each time, and not equal ones."""
    app = create_app(Settings(gateways=()))
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

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
    first, second = filter(None, sent)
    assert msgspec.json.decode(first)["openapi"] == DOCUMENT["openapi"]
    assert first is second


def _named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=_named)
def test_every_refusal_of_an_operation_is_documented(operation: Operation) -> None:
    shown = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
    wanted = {str(operation.status), "429", "500", "503"}
    if operation.auth:
        wanted.add("401")
    if "{id}" in operation.path:
        wanted.add("404")
    if operation.method == "POST":
        wanted |= {"400", "409", "413", "422"}
    assert wanted <= set(shown)


@pytest.mark.parametrize("operation", OPERATIONS, ids=_named)
def test_the_examples_of_an_operation_are_true(operation: Operation) -> None:
    import jsonschema_rs

    shown = DOCUMENT["paths"][operation.path][operation.method.lower()]
    bodies = [shown["requestBody"]] if "requestBody" in shown else []
    for holder in (*bodies, *shown["responses"].values()):
        content = holder["content"].get("application/json")
        if content and "example" in content:
            schema = content["schema"] | {"components": DOCUMENT["components"]}
            jsonschema_rs.validate(schema, content["example"])


# The running server against the document

SCHEMA: Final = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))  # which it changes
SCHEMA.config.generation.with_security_parameters = False  # test_keys.py is about keys
CHECKED: Final = [operation.ok() for operation in SCHEMA.get_all_operations()]
# An archived product stays readable (contract.md#product-archive): it does not disappear.
WITHOUT: Final = {
    "positive_data_acceptance",  # ours is below
    "use_after_free",
    "ensure_resource_availability",
}
CHECKS_OF_THEIRS: Final = [
    check
    for name in CHECKS.get_all_names()
    if name not in WITHOUT
    for check in CHECKS.get_by_names([name])
]


@pytest.fixture(scope="module")
def stocked(api_server: ApiServer) -> tuple[Shop, dict[str, str]]:
    """A merchant with one of everything."""
    shop = api_server.shop(overdraft_minor=10**12)
    order = shop.paid(shop.product(price="99999999.99")["id"])
    refund = shop.refund(order["id"], amount="0.01")
    ids = {
        "products": order["productId"],
        "checkouts": order["checkoutSessionId"],
        "orders": order["id"],
        "refunds": refund["id"],
        "disputes": shop.dispute(shop.paid()["id"]).id,
        "payouts": shop.payout().id,
        "payment-links": shop.data(
            "POST", "/v1/payment-links", json={"productId": order["productId"]}
        )["id"],
        "webhook-endpoints": shop.endpoint()["id"],
        "events": shop.data("GET", "/v1/events")["items"][0]["id"],
    }
    return shop, ids


class Owner:
    """A merchant's owner, who calls the operations of persons with a token."""

    def __init__(self, shop: Shop) -> None:
        """Log in."""
        self.shop = shop
        self.email = person(shop.api_server, shop.id, "owner").email
        self.log_in()

    def log_in(self) -> None:
        """Log in anew."""
        body = {"email": self.email, "password": PASSWORD}
        answer = self.shop.api_server.http.post("/v1/merchant/sessions", json=body)
        assert answer.status_code == 201, answer.text
        self.tokens: dict[str, Any] = answer.json()["data"]

    @property
    def headers(self) -> dict[str, str]:
        """What shows who calls."""
        return {"authorization": f"Bearer {self.tokens['accessToken']}"}

    def _made(self, path: str, body: dict[str, Any]) -> str:
        http = self.shop.api_server.http
        answer = http.post(f"/v1/merchant/{path}", json=body, headers=self.headers)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["id"])

    def key(self) -> str:
        """Make an API key; its id."""
        return self._made("keys", {})

    def member(self) -> str:
        """Make another member, so that the owner stays one; their id."""
        return person(self.shop.api_server, self.shop.id, "viewer").person_id

    def invitation(self) -> str:
        """Invite somebody; the id of the invitation."""
        return self._made("team/invitations", {"email": address(), "role": "viewer"})

    def right(self, path: str) -> dict[str, Any]:
        """Return the fields of a body that only the service knows the right values of."""
        if path == "/v1/merchant/sessions":
            return {"email": self.email, "password": PASSWORD, "merchantId": self.shop.id}
        if path == "/v1/merchant/sessions/refresh":
            return {"refreshToken": self.tokens["refreshToken"]}
        if path == "/v1/merchant/team/invitations":
            return {"email": address()}
        if path == "/v1/merchant/agreement/acceptances":
            current = agreement.current(self.shop.api_server.settings)
            return {"renderedDocumentSha256": current.rendered_document_sha256}
        if path == "/v1/merchant/profile":
            answer = self.shop.api_server.http.get(path, headers=self.headers)
            return {
                "displayName": "Harbour Books",
                "supportEmail": address(),
                "supportUrl": "https://shop.example.com/help",
                "termsUrl": None,
                "timeZone": "Asia/Kathmandu",
                "version": answer.json()["data"]["version"],
            }
        return {}


# What {id} stands for in operations of persons: made for each case, since most of them end it.
OF_OWNERS: Final[dict[str, Callable[[Owner], str]]] = {
    "/v1/merchant/keys/{id}": Owner.key,
    "/v1/merchant/keys/{id}/regenerate": Owner.key,
    "/v1/merchant/team/{id}": Owner.member,
    "/v1/merchant/team/invitations/{id}": Owner.invitation,
}
# These use up the tokens, or end them: each case has new ones.
END_TOKENS: Final = {"/v1/merchant/sessions", "/v1/merchant/sessions/refresh"}


@pytest.fixture(scope="module")
def connected() -> Iterator[requests.Session]:
    """One connection for all requests: otherwise each would make its own."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers.clear()  # only what a case says is sent
        yield session


def _fill(
    case: Any, shop: Shop, owner: Owner | None, ids: dict[str, str], mode: GenerationMode
) -> None:
    """Put in what no schema knows: ids of things that are there, and who the owner is."""
    path = case.operation.path
    kind = re.sub("^/v1/(merchant/)?", "", path).split("/")[0]
    if owner is not None and path in OF_OWNERS:
        case.path_parameters["id"] = OF_OWNERS[path](owner)
    elif "{id}" in path and case.operation.method == "delete":
        made = {"products": shop.product, "webhook-endpoints": shop.endpoint}[kind]
        case.path_parameters["id"] = made()["id"]
    elif "{id}" in path:
        case.path_parameters["id"] = ids[kind]
    if not isinstance(case.body, dict):
        return
    if isinstance(case.body.get("productId"), str):
        case.body["productId"] = ids["products"]
    if owner is not None and mode is GenerationMode.POSITIVE:
        case.body |= owner.right(path)


def _is_json(value: object) -> bool:
    try:
        json.loads(str(value))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("number", EXAMPLES)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("operation", CHECKED, ids=lambda operation: operation.label)
def test_the_server_does_what_its_document_says(
    stocked: tuple[Shop, dict[str, str]],
    connected: requests.Session,
    operation: Any,
    mode: GenerationMode,
    number: int,
) -> None:
    shop, ids = stocked
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
        return
    if operation.method == "delete":  # of a merchant who may still make endpoints
        shop = shop.api_server.shop()
    path = operation.path
    owner = Owner(shop) if path.startswith("/v1/merchant/") else None

    @seed(20261121)
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=number, suppress_health_check=list(HealthCheck))
    def run(case: Any) -> None:
        # An empty list or text in a query is none; an object is sent as something else.
        values = list((case.query or {}).values())
        assume(not any(value == "" or isinstance(value, dict | list) for value in values))
        # A value of metadata is text on the wire, also one that was to be true or a number.
        given = (case.query or {}).items()
        assume(not any("metadata" in name and _is_json(value) for name, value in given))
        if owner is not None and path in END_TOKENS:
            owner.log_in()
        _fill(case, shop, owner, ids, mode)
        headers = {"x-api-key": shop.key} if owner is None else owner.headers
        answer = case.call(base_url=shop.api_server.url, headers=headers, session=connected)
        assert "x-request-id" in answer.headers
        case.validate_response(answer, checks=CHECKS_OF_THEIRS, headers=headers)
        if mode is GenerationMode.POSITIVE:
            assert answer.status_code not in {401, 403, 404}, answer.text
        if mode is GenerationMode.POSITIVE and answer.status_code == 400:
            error = answer.json()["error"]
            assert any(
                re.fullmatch(field, error["field"]) and re.match(reason, error["reason"])
                for field, reason in RULES
            ), error

    run()
