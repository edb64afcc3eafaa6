"""An API key may be restricted to scopes (contract.md#key-scopes)."""

from typing import Final

import httpx2
import pytest

from opentill import merchants
from opentill.app import OPERATIONS, PEOPLE_OPERATIONS
from opentill.http.operations import Operation
from opentill.merchants import KeyFields, NewKey
from opentill.people import MERCHANT_ROLES, RULES, SCOPES, MerchantRole, key_scopes, member_may
from support.api_server import ApiServer, Shop, error_of
from support.people import create_person, reset_login_limits

__all__ = ["reset_login_limits"]

WITH_KEY: Final = [operation for operation in OPERATIONS if operation.auth]
# The scope that each operation needs, written here again, so that an error in the code is found.
NEEDED_SCOPES: Final = {
    "POST /v1/products": "products:write",
    "GET /v1/products": "products:read",
    "GET /v1/products/{id}": "products:read",
    "PATCH /v1/products/{id}": "products:write",
    "DELETE /v1/products/{id}": "products:write",
    "POST /v1/checkouts": "checkouts:write",
    "GET /v1/checkouts": "checkouts:read",
    "GET /v1/checkouts/{id}": "checkouts:read",
    "POST /v1/checkouts/{id}/expire": "checkouts:write",
    "POST /v1/payment-links": "payment-links:write",
    "GET /v1/payment-links": "payment-links:read",
    "GET /v1/payment-links/{id}": "payment-links:read",
    "PATCH /v1/payment-links/{id}": "payment-links:write",
    "GET /v1/orders": "orders:read",
    "GET /v1/orders/export": "orders:export",
    "GET /v1/orders/{id}": "orders:read",
    "POST /v1/orders/{id}/refunds": "refunds:write",
    "GET /v1/orders/{id}/refunds": "refunds:read",
    "GET /v1/refunds/{id}": "refunds:read",
    "GET /v1/disputes": "disputes:read",
    "GET /v1/disputes/{id}": "disputes:read",
    "GET /v1/payouts": "payouts:read",
    "GET /v1/payouts/{id}": "payouts:read",
    "GET /v1/balance/transactions": "balance:read",
    "GET /v1/balance/statement.csv": "balance:read",
    "GET /v1/balance": "balance:read",
    "POST /v1/webhook-endpoints": "webhooks:write",
    "GET /v1/webhook-endpoints": "webhooks:read",
    "GET /v1/webhook-endpoints/{id}": "webhooks:read",
    "PATCH /v1/webhook-endpoints/{id}": "webhooks:write",
    "DELETE /v1/webhook-endpoints/{id}": "webhooks:write",
    "POST /v1/webhook-endpoints/{id}/rotate-secret": "webhooks:write",
    "GET /v1/webhook-endpoints/{id}/deliveries": "events:read",
    "POST /v1/webhook-endpoints/{id}/resend": "events:write",
    "POST /v1/webhook-endpoints/{id}/test": "events:write",
    "GET /v1/events": "events:read",
    "GET /v1/events/{id}": "events:read",
}
# The roles in the table below. A new role need not be added.
LISTED_ROLES: Final = ("owner", "finance", "support", "developer", "viewer")
# For each scope, the roles that may give it to a key: O owner, F finance, S support, D developer, V
# viewer.
GRANTING_ROLES: Final = {
    "orders:read": "OFSDV",
    "refunds:read": "OFSDV",
    "checkouts:read": "OFSDV",
    "payment-links:read": "OFSDV",
    "refunds:write": "OFS",
    "orders:export": "OF",
    "products:read": "OFSDV",
    "products:write": "OD",
    "checkouts:write": "OFSD",
    "payment-links:write": "OFSD",
    "balance:read": "OFV",
    "payouts:read": "OFV",
    "disputes:read": "OFSV",
    "webhooks:read": "OSDV",
    "webhooks:write": "OD",
    "events:read": "OSDV",
    "events:write": "OD",
}


def create_restricted_key(shop: Shop, *scopes: str) -> NewKey:
    """Create a key of a shop with only these scopes."""
    now = shop.api_server.app.clock()
    fields = KeyFields(scopes=list(scopes))
    return shop.api_server.tx(
        lambda tx: merchants.create_key(tx, shop.id, "production", now, fields)
    )


def send(api_server: ApiServer, operation: Operation, key: str) -> httpx2.Response:
    path = operation.path.replace("{id}", "prod_01m7y0m0jzefzv5n8efcf1hqw1")
    return api_server.http.request(operation.method, path, headers={"x-api-key": key})


def test_each_operation_has_the_scope_in_the_table() -> None:
    scopes = {f"{operation.method} {operation.path}": operation.scope for operation in WITH_KEY}
    assert scopes == NEEDED_SCOPES
    assert set(NEEDED_SCOPES.values()) == set(SCOPES) == set(GRANTING_ROLES)
    without_key = [row for row in (*OPERATIONS, *PEOPLE_OPERATIONS) if row not in WITH_KEY]
    assert not any(operation.scope for operation in without_key)


def test_a_restricted_key_can_call_only_operations_of_its_scope(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    keys = {scope: create_restricted_key(shop, scope).key for scope in SCOPES}
    for operation in WITH_KEY:
        for scope, key in keys.items():
            response = send(api_server, operation, key)
            label = (operation.method, operation.path, scope)
            if scope == operation.scope:
                assert response.status_code not in {401, 403}, label
                continue
            assert response.status_code == 403, label
            body = error_of(response)
            assert (body["code"], body["message"]) == (40301, "Not permitted"), label
            assert body["error"] == {
                "field": "scope",
                "reason": f"this API key needs the scope {operation.scope}; it has {scope}",
            }


def test_a_refused_request_of_a_restricted_key_changes_nothing(shop: Shop) -> None:
    order = shop.create_paid_order()
    reader = create_restricted_key(shop, "orders:read", "refunds:read").key
    refunder = create_restricted_key(shop, "refunds:write").key

    def refund(key: str, **headers: str) -> int:
        return shop.call(
            "POST",
            f"/v1/orders/{order['id']}/refunds",
            json={"amount": "1.00"},
            headers={"x-api-key": key, **headers},
        ).status_code

    idempotency = {"idempotency-key": "once"}
    assert refund(reader, **idempotency) == 403
    assert shop.read_order(order["id"])["refundStatus"] == "NONE"
    assert refund(refunder, **idempotency) == 201
    # The first key's stored response is not replayed for another key.
    assert refund(reader, **idempotency) == 403


def test_a_key_without_scopes_can_call_every_operation(shop: Shop) -> None:
    for operation in WITH_KEY:
        assert send(shop.api_server, operation, shop.key).status_code not in {401, 403}


def test_a_replaced_key_keeps_its_scopes(shop: Shop) -> None:
    old_key = create_restricted_key(shop, "orders:read")
    now = shop.api_server.app.clock()
    new_key = shop.api_server.tx(lambda tx: merchants.regenerate_key(tx, old_key.id, now))
    assert new_key.scopes == ["orders:read"]
    headers = {"x-api-key": new_key.key}
    assert shop.call("GET", "/v1/orders", headers=headers).status_code == 200
    assert shop.call("GET", "/v1/balance", headers=headers).status_code == 403


def test_a_role_may_give_the_scopes_whose_permissions_it_has() -> None:
    for scope, roles in GRANTING_ROLES.items():
        for role in MERCHANT_ROLES:
            if role in LISTED_ROLES:
                is_listed = role[0].upper() in roles
                assert (scope in key_scopes.grantable_scopes(role)) == is_listed, (scope, role)
            permissions = [rule.permission for rule in RULES if scope in rule.scopes.split()]
            assert permissions
            assert (scope in key_scopes.grantable_scopes(role)) == all(
                member_may(role, permission) for permission in permissions
            )


class TokenCaller:
    """A member with a token for the API of people."""

    def __init__(self, shop: Shop, role: MerchantRole) -> None:
        self.shop = shop
        self.visitor = create_person(shop.api_server, shop.id, role)
        body = {"email": self.visitor.email, "password": "nine purple lanterns hum"}
        login = shop.api_server.http.post("/v1/merchant/sessions", json=body)
        self.headers = {"authorization": f"Bearer {login.json()['data']['accessToken']}"}

    def call(self, method: str, path: str, body: object = None) -> httpx2.Response:
        return self.shop.api_server.http.request(
            method, f"/v1/merchant{path}", headers=self.headers,
            **({} if body is None else {"json": body}),
        )  # fmt: skip


def test_a_member_cannot_obtain_a_key_with_more_permissions_than_the_own_role(shop: Shop) -> None:
    owner, developer = TokenCaller(shop, "owner"), TokenCaller(shop, "developer")
    for scope, roles in GRANTING_ROLES.items():
        created = developer.call("POST", "/keys", {"name": scope, "scopes": [scope]})
        assert created.status_code == (201 if "D" in roles else 403), scope
        assert owner.call("POST", "/keys", {"scopes": [scope]}).status_code == 201
    refused = developer.call("POST", "/keys", {"name": "everything"})
    assert refused.status_code == 403
    assert error_of(refused)["error"]["field"] == "scopes"
    refused = developer.call("POST", "/keys", {"scopes": ["orders:read", "refunds:write"]})
    assert refused.status_code == 403
    owners_key = owner.call("POST", "/keys", {"name": "everything"}).json()["data"]
    assert owners_key["scopes"] is None
    # A developer may revoke an owner's key, but not replace or rename it.
    for method, path, body in (
        ("POST", f"/keys/{owners_key['id']}/regenerate", {}),
        ("PATCH", f"/keys/{owners_key['id']}", {"name": "mine"}),
    ):
        assert developer.call(method, path, body).status_code == 403
    headers = {"x-api-key": owners_key["key"]}
    assert shop.call("GET", "/v1/balance", headers=headers).status_code == 200
    assert developer.call("DELETE", f"/keys/{owners_key['id']}").status_code == 200
    assert shop.call("GET", "/v1/balance", headers=headers).status_code == 401


@pytest.mark.parametrize("scopes", [[], ["orders:reed"], ["orders"], ["payments.read"], [""]])
def test_an_unknown_scope_is_refused_by_name(shop: Shop, scopes: list[str]) -> None:
    refusal = TokenCaller(shop, "owner").call("POST", "/keys", {"scopes": scopes})
    assert refusal.status_code == 400
    assert error_of(refusal)["error"]["field"].startswith("scopes")


def test_the_keys_of_a_member_can_be_revoked_when_the_member_is_removed(shop: Shop) -> None:
    owner, developer = TokenCaller(shop, "owner"), TokenCaller(shop, "developer")
    keys = [
        developer.call("POST", "/keys", {"name": name, "scopes": ["products:read"]}).json()["data"]
        for name in ("first", "second")
    ]
    owners_key = owner.call("POST", "/keys", {"name": "other"}).json()["data"]
    person_id = developer.visitor.person_id
    listed = owner.call("GET", f"/keys?madeBy={person_id}").json()["data"]
    assert [(key["name"], key["scopes"], key["madeBy"]) for key in listed["items"]] == [
        (name, ["products:read"], person_id) for name in ("second", "first")
    ]

    def is_valid(key: str) -> bool:
        response = shop.call("GET", "/v1/products", headers={"x-api-key": key})
        return response.status_code == 200

    assert all(is_valid(key["key"]) for key in keys)
    assert owner.call("DELETE", f"/team/{person_id}?revokeKeys=true").status_code == 200
    assert not any(is_valid(key["key"]) for key in keys)
    assert is_valid(owners_key["key"])
    assert is_valid(shop.key)


def test_a_key_outlives_its_creator_by_default(shop: Shop) -> None:
    owner, developer = TokenCaller(shop, "owner"), TokenCaller(shop, "developer")
    key = developer.call("POST", "/keys", {"scopes": ["products:read"]}).json()["data"]
    assert owner.call("DELETE", f"/team/{developer.visitor.person_id}").status_code == 200
    assert shop.call("GET", "/v1/products", headers={"x-api-key": key["key"]}).status_code == 200


def test_keys_that_exceed_a_lowered_role_are_revoked_on_request(shop: Shop) -> None:
    owner = TokenCaller(shop, "owner")
    for revokes, body in (
        (False, {"role": "viewer"}),
        (True, {"role": "viewer", "revokeKeys": True}),
        (False, {"role": "viewer", "revokeKeys": False}),
    ):
        developer = TokenCaller(shop, "developer")
        exceeding_key, permitted_key = (
            developer.call("POST", "/keys", {"scopes": [scope]}).json()["data"]["key"]
            for scope in ("products:write", "products:read")
        )
        changed = owner.call("PATCH", f"/team/{developer.visitor.person_id}", body)
        assert changed.json()["data"]["role"] == "viewer"
        # The status 403 shows that a key is valid, but lacks the scope.
        statuses = [
            shop.call("GET", "/v1/products", headers={"x-api-key": key}).status_code
            for key in (exceeding_key, permitted_key)
        ]
        assert statuses == [401 if revokes else 403, 200], body


def test_an_unchanged_or_raised_role_revokes_no_keys(shop: Shop) -> None:
    owner, developer = TokenCaller(shop, "owner"), TokenCaller(shop, "developer")
    key = developer.call("POST", "/keys", {"scopes": ["products:write"]}).json()["data"]["key"]
    path = f"/team/{developer.visitor.person_id}"
    for body in (
        {"role": "developer", "revokeKeys": True},
        {"role": "support"},
        {"role": "support", "revokeKeys": True},
        {"role": "owner", "revokeKeys": True},
    ):
        assert owner.call("PATCH", path, body).status_code == 200
        assert shop.call("GET", "/v1/balance", headers={"x-api-key": key}).status_code == 403


def test_an_unrestricted_key_exceeds_every_role_but_owner(shop: Shop) -> None:
    owner, lowered_owner = TokenCaller(shop, "owner"), TokenCaller(shop, "owner")
    key = lowered_owner.call("POST", "/keys", {}).json()["data"]["key"]
    path = f"/team/{lowered_owner.visitor.person_id}"
    body = {"role": "developer", "revokeKeys": True}
    assert owner.call("PATCH", path, body).status_code == 200
    assert shop.call("GET", "/v1/products", headers={"x-api-key": key}).status_code == 401


def test_the_document_names_the_scope_of_each_operation(api_server: ApiServer) -> None:
    document = api_server.http.get("/openapi.json").json()
    for operation in WITH_KEY:
        documented = document["paths"][operation.path][operation.method.lower()]
        assert f"Scope: `{operation.scope}`." in documented["description"]
        assert operation.scope in documented["responses"]["403"]["description"]
