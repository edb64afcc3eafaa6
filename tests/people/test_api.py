"""The API below ``/v1/merchant`` admits persons by token and role, and refuses API keys."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

import httpx2
import pytest

from opentill.app import OPERATIONS, PEOPLE_OPERATIONS
from opentill.http.operations import Operation
from opentill.people import MERCHANT_ROLES, MerchantRole, member_may
from opentill.people.lifetimes import MINUTE_MS, PROOF_MS
from support.api_server import ApiServer, Shop, assert_refused
from support.people import PASSWORD, Visitor, create_person, new_address
from support.pictures import PICTURE

SESSIONS: Final = "/v1/merchant/sessions"
TOKEN_OPERATIONS: Final = [key for key in PEOPLE_OPERATIONS if key.permission]


class Caller:
    """A person with a token for the API."""

    def __init__(self, api_server: ApiServer, email: str, **more: str) -> None:
        """Log in."""
        self.api_server = api_server
        response = api_server.http.post(
            SESSIONS, json={"email": email, "password": PASSWORD, **more}
        )
        assert response.status_code == 201, response.text
        self.tokens: dict[str, Any] = response.json()["data"]

    def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with the token."""
        headers = {"authorization": f"Bearer {self.tokens['accessToken']}"}
        headers |= options.pop("headers", {})
        return self.api_server.http.request(
            method, f"/v1/merchant{path}", headers=headers, **options
        )

    def data(self, method: str, path: str, **options: Any) -> Any:
        """Send a request that must succeed and return ``data``."""
        response = self.call(method, path, **options)
        assert response.status_code in {200, 201}, response.text
        return response.json().get("data")


def _create_caller(shop: Shop, role: MerchantRole = "owner") -> tuple[Visitor, Caller]:
    visitor = create_person(shop.api_server, shop.id, role)
    return visitor, Caller(shop.api_server, visitor.email)


def _is_unauthorized(response: httpx2.Response) -> bool:
    return response.status_code == 401 and response.json() == {
        "code": 401,
        "message": "Unauthorized",
    }


# ── tokens ──


def test_an_access_token_names_its_person_and_merchant(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    head, claims, _ = caller.tokens["accessToken"].split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "EdDSA", "typ": "JWT"}
    payload = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (payload["sub"], payload["mid"], payload["role"]) == (
        visitor.person_id,
        shop.id,
        "owner",
    )
    assert payload["sid"].startswith("ses_")
    assert payload["exp"] * 1000 == caller.tokens["expiresAt"]
    profile = caller.data("GET", "/profile")
    assert (profile["email"], profile["merchantId"]) == (visitor.email, shop.id)
    assert profile["agreementStatus"] == "NONE"
    assert "team.manage" in profile["permissions"]


def test_wrong_credentials_all_get_the_same_response(shop: Shop) -> None:
    visitor = create_person(shop.api_server, shop.id, "owner")
    for body in (
        {"email": visitor.email, "password": "not my password at all"},
        {"email": new_address(), "password": PASSWORD},
        {"email": visitor.email, "password": ""},
    ):
        response = shop.api_server.http.post(SESSIONS, json=body)
        assert _is_unauthorized(response)
        assert response.headers["www-authenticate"] == 'Bearer realm="opentill"'
    assert_refused(shop.api_server.http.post(SESSIONS, json={"email": "a@example.com"}), "password")


def test_a_member_of_several_merchants_must_name_one(shop: Shop) -> None:
    api_server, visitor = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    body = {"email": visitor.email, "password": PASSWORD}
    foreign = {"merchantId": api_server.create_shop().id}
    assert_refused(api_server.http.post(SESSIONS, json=body | foreign), "merchantId")
    caller = Caller(api_server, visitor.email, merchantId=shop.id)
    assert caller.data("GET", "/profile")["merchantId"] == shop.id


def test_an_access_token_ends_after_ten_minutes_and_is_refreshed(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    _, caller = _create_caller(shop)
    clock(now + 10 * MINUTE_MS)
    assert _is_unauthorized(caller.call("GET", "/profile"))
    body = {"refreshToken": caller.tokens["refreshToken"]}
    fresh = caller.api_server.http.post(f"{SESSIONS}/refresh", json=body).json()["data"]
    assert fresh["refreshToken"] != body["refreshToken"]
    caller.tokens = fresh
    assert caller.data("GET", "/profile")["merchantId"] == shop.id
    # A refresh token that is used twice ends the session, because one of the two users must be a
    # thief.
    assert _is_unauthorized(caller.api_server.http.post(f"{SESSIONS}/refresh", json=body))
    assert _is_unauthorized(caller.call("GET", "/profile"))
    body = {"refreshToken": fresh["refreshToken"]}
    assert _is_unauthorized(caller.api_server.http.post(f"{SESSIONS}/refresh", json=body))


def test_ending_a_session_or_changing_the_password_ends_its_tokens(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    other_session = Caller(shop.api_server, visitor.email)
    caller.data("DELETE", "/sessions")
    assert _is_unauthorized(caller.call("GET", "/profile"))
    assert other_session.call("GET", "/profile").status_code == 200
    form = {"current": PASSWORD, "password": "seven slow rivers sing"}
    assert visitor.post("/security/password", form).status_code == 303
    assert _is_unauthorized(other_session.call("GET", "/profile"))


def test_a_changed_role_applies_immediately(shop: Shop) -> None:
    _, owner = _create_caller(shop)
    bob, caller = _create_caller(shop, "finance")
    assert caller.call("GET", "/keys").status_code == 403
    owner.data("PATCH", f"/team/{bob.person_id}", json={"role": "developer"})
    assert caller.call("GET", "/keys").status_code == 200
    owner.data("DELETE", f"/team/{bob.person_id}")
    assert _is_unauthorized(caller.call("GET", "/profile"))


@pytest.mark.parametrize("change", ["signature", "none", "other key", "cookie", "refresh", "two"])
def test_a_forged_token_is_refused(shop: Shop, change: str) -> None:
    visitor, caller = _create_caller(shop)
    head, claims, signature = caller.tokens["accessToken"].split(".")
    head_without_algorithm = (
        base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    )
    token = {
        "signature": f"{head}.{claims}.{'A' * len(signature)}",
        "none": f"{head_without_algorithm}.{claims}.",
        "other key": f"{head}.{claims}x.{signature}",
        "cookie": visitor.token,
        "refresh": caller.tokens["refreshToken"],
        "two": f"{head}.{claims}.{signature}",
    }[change]
    lines = [("authorization", f"Bearer {token}")] * (2 if change == "two" else 1)
    response = shop.api_server.http.get("/v1/merchant/profile", headers=lines)
    assert _is_unauthorized(response)
    visitor.set_token(caller.tokens["refreshToken"].split(".")[0])
    # A refresh token is not accepted as a cookie.
    assert visitor.get("/security").status_code == 303


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"EdDSA","crit":1}',
        b'{"alg":"EdDSA","typ":"JWT","crit":["exp",1]}',
        b'{"alg":["EdDSA"]}',
        b'"alg"',
        b'["alg"]',
        b"1",
        b"[" * 5_000,
        b"\xff",
    ],
)
def test_a_token_with_a_malformed_header_is_refused(shop: Shop, header: bytes) -> None:
    head = base64.urlsafe_b64encode(header).decode().rstrip("=")
    for token in (f"{head}.e30.AA", head, f"{head}."):
        lines = {"authorization": f"Bearer {token}"}
        response = shop.api_server.http.get("/v1/merchant/profile", headers=lines)
        assert _is_unauthorized(response)


# ── permissions ──


def test_api_keys_and_tokens_are_refused_by_each_others_operations(shop: Shop) -> None:
    _, caller = _create_caller(shop)
    for operation in TOKEN_OPERATIONS:
        path = operation.path.replace("{id}", "key_0000000000000000000000000a")
        assert _is_unauthorized(shop.call(operation.method, path, json={})), operation.path
    headers = {"authorization": f"Bearer {caller.tokens['accessToken']}"}
    for operation in OPERATIONS:
        if operation.auth:
            path = operation.path.replace("{id}", "order_0000000000000000000000000a")
            response = shop.api_server.http.request(operation.method, path, headers=headers)
            assert _is_unauthorized(response), operation.path


def _status(caller: Caller, operation: Operation) -> int:
    path = operation.path.removeprefix("/v1/merchant").replace(
        "{id}", "key_0000000000000000000000000a"
    )
    # The body has scopes, because only an owner may create a key without them.
    return caller.call(operation.method, path, json={"x": 1, "scopes": ["orders:read"]}).status_code


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_every_operation_admits_exactly_the_roles_of_its_permission(
    shop: Shop, role: MerchantRole
) -> None:
    _, caller = _create_caller(shop, role)
    violations = {}
    for operation in TOKEN_OPERATIONS:
        if operation.path == SESSIONS:
            continue
        status = _status(caller, operation)
        if (status == 403) == member_may(role, operation.permission) or status in {401, 500}:  # type: ignore[arg-type]
            violations[operation.method, operation.path] = status
    assert violations == {}


def test_a_step_up_needs_a_login_of_the_last_ten_minutes(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    _, caller = _create_caller(shop)
    clock(now + PROOF_MS - 1)
    body = {"refreshToken": caller.tokens["refreshToken"]}
    caller.tokens = caller.api_server.http.post(f"{SESSIONS}/refresh", json=body).json()["data"]
    assert caller.call("POST", "/keys", json={}).status_code == 201
    clock(now + PROOF_MS)
    late_response = caller.call("POST", "/keys", json={})
    assert (late_response.status_code, late_response.json()["code"]) == (403, 40301)
    assert "log in again" in late_response.json()["error"]["reason"]
    assert caller.call("GET", "/keys").status_code == 200


# ── resources ──


def test_keys_are_created_replaced_and_revoked_immediately(shop: Shop) -> None:
    visitor, caller = _create_caller(shop, "developer")
    assert_refused(caller.call("POST", "/keys", json={"name": "x" * 101}), "name")
    body = {"name": "Till 2", "scopes": ["products:read"]}
    new_key = caller.data("POST", "/keys", json=body)
    replacement = caller.data("POST", f"/keys/{new_key['id']}/regenerate")
    assert new_key["name"] == replacement["name"] == "Till 2"
    statuses = [
        shop.call("GET", "/v1/products", headers={"x-api-key": key["key"]}).status_code
        for key in (new_key, replacement)
    ]
    assert statuses == [401, 200]
    path = f"/keys/{replacement['id']}/regenerate"
    assert_refused(caller.call("POST", f"{path}?overlapHours=5"), "overlapHours")
    replaced_id, replacement = replacement["id"], caller.data("POST", f"{path}?overlapHours=72")
    keys = {key["id"]: key for key in caller.data("GET", "/keys")["items"]}
    overlap_ms = keys[replaced_id]["expiresAt"] - keys[replacement["id"]]["createdAt"]
    assert (keys[replaced_id]["revokedAt"], overlap_ms) == (None, 72 * 3_600_000)
    renamed_key = caller.data("PATCH", f"/keys/{replacement['id']}", json={"name": "Till 3"})
    assert (renamed_key["id"], renamed_key["name"], renamed_key["hint"][-4:]) == (
        replacement["id"], "Till 3", replacement["key"][-4:],
    )  # fmt: skip
    assert_refused(
        caller.call("PATCH", f"/keys/{replacement['id']}", json={"name": "a\x07"}), "name"
    )
    caller.data("PATCH", f"/keys/{replacement['id']}", json={"name": "Till 2"})
    caller.data("DELETE", f"/keys/{replacement['id']}")
    assert (
        shop.call("GET", "/v1/products", headers={"x-api-key": replacement["key"]}).status_code
        == 401
    )
    listed = caller.data("GET", "/keys")
    ids = {new_key["id"], replaced_id, replacement["id"], shop.key_id}
    assert ids == {key["id"] for key in listed["items"]}
    assert [key["name"] for key in listed["items"]] == ["Till 2", "Till 2", "Till 2", ""]
    assert new_key["key"] not in json.dumps(listed)
    other_shop = shop.api_server.create_shop()
    for method, path in (("POST", "/regenerate"), ("DELETE", ""), ("PATCH", "")):
        response = caller.call(method, f"/keys/{other_shop.key_id}{path}", json={"name": "Mine"})
        assert response.status_code == 404
    audit_name = f"{visitor.email} ({visitor.person_id})"
    rows = shop.api_server.sql(
        "select action from audit_log where who = $1 and action like 'keys %' order by number",
        audit_name,
    )
    assert [row["action"] for row in rows] == [
        "keys create", "keys regenerate", "keys regenerate",
        "keys rename", "keys rename", "keys revoke",
    ]  # fmt: skip


def test_a_person_cannot_replay_another_persons_idempotency_key(shop: Shop) -> None:
    (_, ada), (_, bob) = _create_caller(shop), _create_caller(shop, "developer")
    headers = {"idempotency-key": "once"}
    original, repeated = (ada.call("POST", "/keys", json={}, headers=headers) for _ in range(2))
    assert original.content == repeated.content
    assert repeated.headers["idempotent-replayed"] == "true"
    assert bob.call("POST", "/keys", json={}, headers=headers).status_code == 422


def test_an_owner_manages_the_team(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    invitation = caller.data(
        "POST", "/team/invitations", json={"email": "eve@example.com", "role": "support"}
    )
    assert invitation["url"].startswith(f"{shop.api_server.url}/invite/")
    (listed,) = caller.data("GET", "/team/invitations")["items"]
    assert (listed["id"], "url" in listed) == (invitation["id"], False)
    caller.data("DELETE", f"/team/invitations/{invitation['id']}")
    assert caller.data("GET", "/team/invitations")["pagination"]["total"] == 0
    (member,) = caller.data("GET", "/team")["items"]
    assert (member["id"], member["role"]) == (visitor.person_id, "owner")
    assert_refused(caller.call("PATCH", f"/team/{member['id']}", json={"role": "viewer"}), "role")
    assert_refused(caller.call("DELETE", f"/team/{member['id']}"), "role")
    assert_refused(caller.call("PATCH", f"/team/{member['id']}", json={"role": "boss"}), "role")


def test_endpoints_belong_to_the_merchant_and_the_audit_log_names_the_person(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    endpoint = caller.data(
        "POST", "/webhook-endpoints", json={"url": "https://hooks.example.com/a"}
    )
    assert endpoint["secret"].startswith("whsec_")
    assert shop.data("GET", f"/v1/webhook-endpoints/{endpoint['id']}")["url"] == endpoint["url"]
    rows = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'webhooks add'", shop.id
    )
    assert rows == [{"who": f"{visitor.email} ({visitor.person_id})"}]


def test_an_owners_acceptance_of_the_agreement_is_recorded_once(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    agreement = shop.api_server.http.get("/v1/config/legal/merchant-services-agreement").json()[
        "data"
    ]
    path = "/agreement/acceptances"
    assert_refused(
        caller.call("POST", path, json={"renderedDocumentSha256": "0" * 64}),
        "renderedDocumentSha256",
    )
    body = {"renderedDocumentSha256": agreement["renderedDocumentSha256"]}
    headers = {"user-agent": "Testfox/1.0"}
    acceptance = caller.data("POST", path, json=body, headers=headers)
    assert {
        name: acceptance[name] for name in ("agreementVersion", "templateSha256", "personId")
    } == {
        "agreementVersion": agreement["agreementVersion"],
        "templateSha256": agreement["templateSha256"],
        "personId": visitor.person_id,
    }
    assert (acceptance["address"], acceptance["userAgent"]) == ("127.0.0.1", "Testfox/1.0")
    assert caller.data("POST", path, json=body) == acceptance
    assert caller.data("GET", path)["items"] == [acceptance]
    assert caller.data("GET", "/profile")["agreementStatus"] == "ACCEPTED"
    _, viewer = _create_caller(shop, "viewer")
    assert viewer.call("POST", path, json=body).status_code == 403
    assert viewer.data("GET", path)["items"] == [acceptance]


def test_a_profile_update_changes_only_its_fields_and_needs_the_current_version(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    before = caller.data("GET", "/profile")
    assert (before["displayName"], before["timeZone"], before["logoUrl"]) == (None, "UTC", None)
    update = {"displayName": " Harbour ", "accentColor": "#0D5C49", "timeZone": "Asia/Tokyo"}
    after = caller.data("PATCH", "/profile", json=update | {"version": before["version"]})
    stored = {"displayName": "Harbour", "accentColor": "#0d5c49", "timeZone": "Asia/Tokyo"}
    assert after == before | stored | {"version": after["version"]}
    assert after["version"] != before["version"]
    assert caller.data("GET", "/profile") == after
    stale = {"termsUrl": "https://example.com", "version": before["version"]}
    assert_refused(caller.call("PATCH", "/profile", json=stale), "version")
    for field, invalid_value in (("supportUrl", "ftp://example.com"), ("timeZone", "Nowhere")):
        assert_refused(caller.call("PATCH", "/profile", json={field: invalid_value}), field)
    assert caller.data("PATCH", "/profile", json={"displayName": None})["displayName"] is None
    rows = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'profile set'", shop.id
    )
    assert rows == [{"who": f"{visitor.email} ({visitor.person_id})"}] * 2
    _, developer = _create_caller(shop, "developer")
    assert developer.call("PATCH", "/profile", json=update).status_code == 403


def test_an_owner_sets_and_removes_the_logo(shop: Shop) -> None:
    visitor, caller = _create_caller(shop)
    content = base64.b64encode(PICTURE).decode()
    for _ in range(2):  # the second upload of the same picture changes nothing
        url = caller.data("PUT", "/logo", json={"content": content})["logoUrl"]
    assert url == f"{shop.api_server.url}/logos/{shop.id}/{hashlib.sha256(PICTURE).hexdigest()}"
    assert shop.api_server.http.get(url).content == PICTURE
    broken = base64.b64encode(PICTURE[:-9]).decode()
    for invalid_content in ("no base64", "", broken, base64.b64encode(b"<svg/>").decode()):
        assert_refused(caller.call("PUT", "/logo", json={"content": invalid_content}), "content")
    assert_refused(caller.call("PUT", "/logo", json={"content": "A" * 64_001}), "content")
    assert caller.call("PUT", "/logo", json={"content": "A" * 66_000}).status_code == 413
    assert caller.data("GET", "/profile")["logoUrl"] == url
    for _ in range(2):
        caller.data("DELETE", "/logo")
    assert caller.data("GET", "/profile")["logoUrl"] is None
    rows = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'profile logo'", shop.id
    )
    assert rows == [{"who": f"{visitor.email} ({visitor.person_id})"}] * 2
