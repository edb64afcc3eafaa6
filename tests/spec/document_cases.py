"""Test cases that `schemathesis` generates from the API document, valid and invalid ones.

This module adds what no schema contains: ids of existing objects, and tokens of members.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import requests
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from opentill import agreement
from opentill.app import openapi_document
from opentill.core.settings import Settings
from opentill.people import MerchantRole
from opentill.people.api import EXAMPLE_LOGO
from support.api_server import Shop
from support.people import PASSWORD, create_person, invite, new_address

DOCUMENT: Final = openapi_document(Settings())

# Each row: a field, and the reason with which a case that is valid according to the schema may be
# refused, because no schema can express the rule.
RULES: Final = (
    ("currency", "currency must be an active ISO 4217"),
    ("price", "price must be at least 0.01"),
    ("price", "price must have no fraction"),
    ("image", "image must be an (absolute )?http or https URL"),
    ("successUrl", "successUrl must be an (absolute )?http or https URL"),
    ("cancelUrl", "cancelUrl must be an (absolute )?http or https URL"),
    ("customerEmail", "customerEmail must be an email address"),
    # \\s in a pattern matches other characters in Python than in the server.
    (
        "customerEmail",
        "customerEmail must be the whole email address",
    ),
    ("name", "name must be text of 1 to [12]00"),
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
    ("url", "url must have a port of web servers"),
    ("url|image|successUrl|cancelUrl", ".* must have a host that can exist"),
    ("url", "url must be an (absolute )?http or https URL"),
    ("url", "url must be one of at most"),
    ("url", "url must be without a fragment"),
    ("id", "id must be an endpoint that is ENABLED"),
    ("eventId", "eventId must be the id of one of your"),
    ("since", "since must say from when on"),
    # JSON Schema accepts 1.0 as an integer.
    (
        "since|until|expiresAt",
        "(since|until|expiresAt) must be a time in Unix mil",
    ),
    ("expiresAt", "expiresAt must be in the future"),
    # JSON Schema accepts 1.0 as an integer.
    (
        "expiresIn|quantity|maxQuantity|maxUses",
        "(expiresIn|quantity|maxQuantity|maxUses) must be a whole number",
    ),
    ("expiresAt", "expiresAt must be a time to come"),
    ("maxQuantity", "maxQuantity must be 1"),
    ("quantity", "quantity must be (less|at most)"),
    (r"item(\.\w+)?", r"item(\.\w+)? must "),
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

# Schemathesis changes the document that it gets.
SCHEMA: Final = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))
SCHEMA.config.generation.with_security_parameters = False  # test_keys.py tests keys
# A value that is too long for its field may also make the body too long for any operation, which
# results in the status 413.
SCHEMA.config.checks.negative_data_rejection.expected_statuses.append("413")
SCHEMA_OPERATIONS: Final = [operation.ok() for operation in SCHEMA.get_all_operations()]
# Checks of schemathesis that are left out, for instance because an archived product stays readable
# (contract.md#product-archive).
EXCLUDED: Final = {
    "positive_data_acceptance",  # test_document.py has a stricter check
    "use_after_free",
    "ensure_resource_availability",
}
SCHEMATHESIS_CHECKS: Final = [
    check
    for name in CHECKS.get_all_names()
    if name not in EXCLUDED
    for check in CHECKS.get_by_names([name])
]


class Caller:
    """A member of a merchant, for the operations that need a person's token."""

    def __init__(self, shop: Shop, role: MerchantRole = "owner") -> None:
        """Log in."""
        self.shop = shop
        self.email = create_person(shop.api_server, shop.id, role).email
        self.log_in()

    def log_in(self) -> None:
        """Log in and store the tokens."""
        body = {"email": self.email, "password": PASSWORD}
        response = self.shop.api_server.http.post("/v1/merchant/sessions", json=body)
        assert response.status_code == 201, response.text
        self.tokens: dict[str, Any] = response.json()["data"]

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate the member."""
        return {"authorization": f"Bearer {self.tokens['accessToken']}"}

    def _create(self, path: str, body: dict[str, Any]) -> str:
        http = self.shop.api_server.http
        response = http.post(f"/v1/merchant/{path}", json=body, headers=self.headers)
        assert response.status_code == 201, response.text
        return str(response.json()["data"]["id"])

    def create_key(self) -> str:
        """Create an API key that a developer may change, and return its id."""
        return self._create("keys", {"scopes": ["products:read"]})

    def create_member(self) -> str:
        """Create another member, whom a case may remove, and return the person's id."""
        return create_person(self.shop.api_server, self.shop.id, "viewer").person_id

    def create_invitation(self) -> str:
        """Invite a person, and return the invitation's id.

        The API would refuse more than 50 invitations by a person a day.
        """
        return invite(self.shop.api_server, new_address(), self.shop.id, "viewer").link.id

    def valid_fields(self, path: str) -> dict[str, Any]:
        """Return fields of a valid body whose values depend on the deployment's state."""
        create = VALID_FIELDS.get(path)
        return create(self) if create else {}

    def _profile(self) -> dict[str, Any]:
        path = "/v1/merchant/profile"
        response = self.shop.api_server.http.get(path, headers=self.headers)
        return {
            "displayName": "Harbour Books",
            "supportEmail": new_address(),
            "supportUrl": "https://shop.example.com/help",
            "termsUrl": None,
            "timeZone": "Asia/Kathmandu",
            "version": response.json()["data"]["version"],
        }

    def _agreement(self) -> dict[str, Any]:
        current = agreement.current(self.shop.api_server.settings)
        return {"renderedDocumentSha256": current.rendered_document_sha256}


VALID_FIELDS: Final[dict[str, Callable[[Caller], dict[str, Any]]]] = {
    # Every role that may create keys may grant these scopes.
    "/v1/merchant/keys": lambda _: {"scopes": ["orders:read", "products:write"]},
    "/v1/merchant/sessions": lambda caller: {
        "email": caller.email,
        "password": PASSWORD,
        "merchantId": caller.shop.id,
    },
    "/v1/merchant/sessions/refresh": lambda caller: {"refreshToken": caller.tokens["refreshToken"]},
    "/v1/merchant/team/invitations": lambda _: {"email": new_address()},
    "/v1/merchant/agreement/acceptances": Caller._agreement,
    "/v1/merchant/logo": lambda _: {"content": EXAMPLE_LOGO},
    "/v1/merchant/profile": Caller._profile,
}
# For each path with {id}, a function that creates the object. Each case gets a new object, because
# most cases end it.
OBJECTS: Final[dict[str, Callable[[Caller], str]]] = {
    "/v1/merchant/keys/{id}": Caller.create_key,
    "/v1/merchant/keys/{id}/regenerate": Caller.create_key,
    "/v1/merchant/team/{id}": Caller.create_member,
    "/v1/merchant/team/invitations/{id}": Caller.create_invitation,
}
# These operations use up or revoke tokens, so each case needs a new login.
TOKEN_OPERATIONS: Final = {"/v1/merchant/sessions", "/v1/merchant/sessions/refresh"}


def fill_case(
    case: Any, shop: Shop, owner: Caller | None, ids: dict[str, str], mode: GenerationMode
) -> None:
    """Set ids of existing objects and, in valid cases, fields that depend on the state."""
    path = case.operation.path
    kind = re.sub("^/v1/(merchant/)?", "", path).split("/")[0]
    if owner is not None and path in OBJECTS:
        case.path_parameters["id"] = OBJECTS[path](owner)
    elif "{id}" in path and case.operation.method == "delete":
        create = {"products": shop.create_product, "webhook-endpoints": shop.create_endpoint}[kind]
        case.path_parameters["id"] = create()["id"]
    elif "{id}" in path:
        case.path_parameters["id"] = ids[kind]
    if not isinstance(case.body, dict):
        return
    if isinstance(case.body.get("productId"), str):
        case.body["productId"] = ids["products"]
    if owner is not None and mode is GenerationMode.POSITIVE:
        case.body |= owner.valid_fields(path)


def is_json(value: object) -> bool:
    try:
        json.loads(str(value))
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def http_session() -> Iterator[requests.Session]:
    """A persistent connection for all requests."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers.clear()  # without these defaults, only the headers of the case are sent
        yield session
