"""Operations of ``/v1/merchant/…``, for persons with a token.

Each operation except logging in needs a permission of ``permissions.py``; API keys are not
accepted. The operations on webhook endpoints are those of the merchant API, made available to
persons.
"""

from typing import Any, Final

import msgspec

from opentill.http.operations import Operation
from opentill.http.paging import Listing, PageQuery, page_example
from opentill.people import handlers
from opentill.people.permissions import MERCHANT_ROLES, Permission
from opentill.people.profile_update import ProfileUpdate
from opentill.people.tokens import Tokens
from opentill.people.wire import (
    AcceptanceBody,
    AcceptanceOut,
    InvitationOut,
    KeyBody,
    KeyOut,
    KeysQuery,
    KeyUpdate,
    KeyWithSecret,
    LoginBody,
    LogoBody,
    MemberOut,
    MemberUpdate,
    Profile,
    RefreshBody,
    RemovalQuery,
    Replacement,
)
from opentill.webhooks import api as webhooks_api

TAG: Final = "People"
_BELOW: Final = "/v1/merchant"
_TOKENS: Final[dict[str, Any]] = {
    "accessToken": "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.e30.c2ln",
    "refreshToken": "q2f0wQyZ5o.x7Jk1mB9uE",
    "expiresAt": 1736933100000,
}
_PROFILE: Final[dict[str, Any]] = {
    "personId": "per_01m7y0m0jzefzv5n8efcf1hqw1",
    "email": "ada@example.com",
    "name": "Ada Example",
    "role": "owner",
    "permissions": ["home.read", "settings.manage"],
    "merchantId": "mer_01m7y0m0jzefzv5n8efcf1hqw1",
    "merchantName": "Harbour Books Ltd",
    "displayName": "Harbour Books",
    "accentColor": "#0d5c49",
    "logoUrl": f"https://pay.example.com/logos/mer_01m7y0m0jzefzv5n8efcf1hqw1/{'5d' * 32}",
    "supportEmail": "help@shop.example.com",
    "supportUrl": "https://shop.example.com/help",
    "termsUrl": "https://shop.example.com/terms",
    "timeZone": "Europe/Berlin",
    "legalName": "Harbour Books GmbH",
    "legalAddress": "Hafenstraße 1\n20457 Hamburg\nGermany",
    "taxNumber": "DE123456789",
    "taxRate": "0.19",
    "version": "1f0c7b52a9d34e68",
    "agreementStatus": "ACCEPTED",
    "status": "ACTIVE",
    "capabilities": [
        {"capability": "charge", "on": True, "reason": None},
        {"capability": "refund", "on": True, "reason": None},
        {"capability": "payout", "on": False, "reason": "a passport is missing"},
    ],
}
_KEY: Final[dict[str, Any]] = {
    "id": "key_01m7y0m0jzefzv5n8efcf1hqw1",
    "name": "Shop",
    "hint": "svc_…Zk3P",
    "environment": "production",
    "createdAt": 1736932500000,
    "expiresAt": None,
    "revokedAt": None,
    "lastUsedAt": 1736936100000,
    "scopes": ["orders:read", "refunds:write"],
    "madeBy": "per_01m7y0m0jzefzv5n8efcf1hqw1",
}
_NEW_KEY: Final[dict[str, Any]] = {
    "id": "key_01m7y0m0jzefzv5n8efcf1hqw1",
    "name": "Shop",
    "key": "svc_EXAMPLE",
    "expiresAt": None,
    "scopes": ["orders:read", "refunds:write"],
}
_MEMBER: Final[dict[str, Any]] = {
    "id": "per_01m7y0m0jzefzv5n8efcf1hqw1",
    "email": "ada@example.com",
    "name": "Ada Example",
    "role": "owner",
    "createdAt": 1736932500000,
}
INVITATION: Final[dict[str, Any]] = {
    "id": "inv_01m7y0m0jzefzv5n8efcf1hqw1",
    "email": "bob@example.com",
    "role": "support",
    "createdAt": 1736932500000,
    "expiresAt": 1737018900000,
}
_ACCEPTANCE: Final[dict[str, Any]] = {
    "agreementVersion": "1.0",
    "templateSha256": "3f" * 32,
    "renderedDocumentSha256": "a9" * 32,
    "personId": "per_01m7y0m0jzefzv5n8efcf1hqw1",
    "person": "Ada Example <ada@example.com>",
    "acceptedAt": 1736932500000,
    "address": "192.0.2.7",
    "userAgent": "Mozilla/5.0",
}


def row(method: str, path: str, permission: Permission, summary: str, **more: Any) -> Operation:
    """Build an operation that needs a permission."""
    return Operation(
        method=method,
        path=_BELOW + path,
        tag=TAG,
        summary=summary,
        description=f"Permission: `{permission}`." + more.pop("about", ""),
        admit=handlers.admit_with(permission),
        permission=permission,
        **more,
    )


_LOGINS: Final = (
    Operation(
        method="POST",
        path=f"{_BELOW}/sessions",
        tag=TAG,
        summary="Log in",
        description="`code` is required if the person has a second factor: a code of the "
        "authenticator app, or a recovery code, which also replaces a passkey. `merchantId` is "
        "required if the person is a member of several merchants. An `Idempotency-Key` is ignored, "
        "since tokens are not stored: if the response is lost, log in again.",
        auth=False,
        body=LoginBody,
        response=Tokens,
        status=201,
        act=handlers.log_in,
        refusals=("a `merchantId` that is not one of the person's",),
        example={"email": "ada@example.com", "password": "nine purple lanterns hum"},
        response_example=_TOKENS,
    ),
    Operation(
        method="POST",
        path=f"{_BELOW}/sessions/refresh",
        tag=TAG,
        summary="Refresh tokens",
        description="Returns new tokens; the old refresh token stops working. If a refresh token "
        "is used a second time, the login ends. An `Idempotency-Key` is ignored: if the response "
        "is lost, log in again.",
        auth=False,
        body=RefreshBody,
        response=Tokens,
        act=handlers.refresh,
        example={"refreshToken": "q2f0wQyZ5o.x7Jk1mB9uE"},
        response_example=_TOKENS,
    ),
    row("DELETE", "/sessions", "home.read", "Log out", response=None, write=handlers.log_out),
    row(
        "GET", "/profile", "home.read", "Get the profile", response=Profile,
        read=handlers.profile, response_example=_PROFILE,
        about=" Who is logged in, and what customers see of the merchant.",
    ),
    row(
        "PATCH", "/profile", "settings.manage", "Update the profile", body=ProfileUpdate,
        response=Profile, write=handlers.change_profile, example={"accentColor": "#0d5c49"},
        response_example=_PROFILE, refusals=("a `version` that is not that of the profile now",),
        about=" Only the fields that are sent change; null clears a field. Sessions that are "
        "opened from now on have a new name; all other changes are shown at once. A receipt shows "
        "the seller's details and tax rate that were in force when its payment was made.",
    ),
)  # fmt: skip
# The example of a logo in the API document: a PNG of 32 by 32 pixels, in base64.
EXAMPLE_LOGO: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQAAAABbAUdZAAAADElEQVR42mNgGNwAAACgAAGO+7G0AAAAAElFTkSuQmCC"
)
_LOGOS: Final = (
    row(
        "PUT", "/logo", "settings.manage", "Update the logo", body=LogoBody, response=Profile,
        write=handlers.set_logo, example={"content": EXAMPLE_LOGO}, response_example=_PROFILE,
        refusals=("a picture that cannot be a logo",),
        about=" Customers see the new logo at once. Sending the same picture again changes "
        "nothing.",
    ),
    row(
        "DELETE", "/logo", "settings.manage", "Remove the logo", response=None,
        write=handlers.remove_logo, about=" The request can be repeated.",
    ),
)  # fmt: skip
_KEYS: Final = (
    row(
        "GET", "/keys", "keys.read", "List API keys", query=KeysQuery,
        response=Listing[KeyOut], read=handlers.list_keys, response_example=page_example(_KEY),
        about=" Keys are listed newest first, including revoked ones.",
    ),
    row(
        "POST", "/keys", "keys.manage", "Create an API key", body=KeyBody,
        response=KeyWithSecret, status=201, write=handlers.create_key, secret=True,
        example={"name": "Shop", "scopes": ["orders:read", "refunds:write"]},
        response_example=_NEW_KEY, refusals=("a scope that there is not",),
        about=" The `key` is shown only in this response. A key cannot do more than the role of"
        " the person who creates it. A key without `scopes` can do everything, and only owners can"
        " create one.",
    ),
    row(
        "PATCH", "/keys/{id}", "keys.manage", "Update an API key", body=KeyUpdate,
        response=KeyOut, write=handlers.change_key, example={"name": "Till 2"},
        response_example=_KEY, about=" Changes the name of the key. 403 if the key can do"
        " more than the person's role.",
    ),
    row(
        "POST", "/keys/{id}/regenerate", "keys.manage", "Regenerate an API key", query=Replacement,
        response=KeyWithSecret, status=201, write=handlers.regenerate_key, secret=True,
        response_example=_NEW_KEY, about=" The old key stops working at once, or after"
        " `overlapHours`; the new one has its scopes. 403 if the key can do more than the"
        " person's role.",
    ),
    row(
        "DELETE", "/keys/{id}", "keys.manage", "Revoke an API key", response=None,
        write=handlers.revoke_key, about=" Requests with the key get 401 from now on.",
    ),
)  # fmt: skip
_TEAM: Final = (
    row(
        "GET", "/team", "team.read", "List members", query=PageQuery,
        response=Listing[MemberOut], read=handlers.list_members,
        response_example=page_example(_MEMBER),
        about=" Members are listed in the order in which they joined.",
    ),
    row(
        "PATCH", "/team/{id}", "team.manage", "Update a member", body=MemberUpdate,
        response=MemberOut, write=handlers.change_member, example={"role": "finance"},
        response_example=_MEMBER, refusals=("another role for the last owner",),
        about=f" Roles: {', '.join(MERCHANT_ROLES)}. If the role is lowered, the API keys that the"
        " member created stay valid, unless `revokeKeys` is true: then keys that can do more than"
        " the new role are revoked. `GET /v1/merchant/keys?madeBy=` lists the keys.",
    ),
    row(
        "DELETE", "/team/{id}", "team.manage", "Remove a member", response=None,
        query=RemovalQuery, write=handlers.remove_member, refusals=("the last owner",),
        about=" The member loses access at once. API keys that the member created stay valid,"
        " unless `revokeKeys` is true. `GET /v1/merchant/keys?madeBy=` lists the keys.",
    ),
    row(
        "GET", "/team/invitations", "team.read", "List invitations", query=PageQuery,
        response=Listing[InvitationOut], read=handlers.list_invitations,
        response_example=page_example(INVITATION),
        about=" Lists the invitations that can still be accepted.",
    ),
    row(
        "DELETE", "/team/invitations/{id}", "team.manage", "Withdraw an invitation", response=None,
        write=handlers.withdraw, about=" The link stops working.",
    ),
)  # fmt: skip
_AGREEMENT: Final = (
    row(
        "GET", "/agreement/acceptances", "agreement.read", "List acceptances of the agreement",
        query=PageQuery, response=Listing[AcceptanceOut], read=handlers.list_acceptances,
        response_example=page_example(_ACCEPTANCE), about=" Newest first.",
    ),
    row(
        "POST", "/agreement/acceptances", "agreement.accept", "Accept the agreement",
        body=AcceptanceBody, response=AcceptanceOut, status=201, write=handlers.accept_agreement,
        example={"renderedDocumentSha256": "a9" * 32}, response_example=_ACCEPTANCE,
        refusals=("the digest of another document than the one in force",),
        about=" An acceptance is kept for ever. If it is repeated, the first one counts.",
    ),
)  # fmt: skip
# Operations of the merchant API that persons may use too → their permission and summary.
_ENDPOINTS: Final[dict[tuple[str, str], tuple[Permission, str]]] = {
    ("POST", ""): ("endpoints.secrets", "Create a merchant's endpoint"),
    ("GET", ""): ("endpoints.read", "List a merchant's endpoints"),
    ("GET", "/{id}"): ("endpoints.read", "Get a merchant's endpoint"),
    ("PATCH", "/{id}"): ("endpoints.manage", "Update a merchant's endpoint"),
    ("DELETE", "/{id}"): ("endpoints.manage", "Delete a merchant's endpoint"),
    ("POST", "/{id}/rotate-secret"): ("endpoints.secrets", "Rotate a merchant's secret"),
    ("GET", "/{id}/deliveries"): ("events.read", "List a merchant's deliveries"),
    ("POST", "/{id}/resend"): ("events.resend", "Resend a merchant's events"),
    ("POST", "/{id}/test"): ("events.test", "Test a merchant's endpoint"),
}
_PLACE: Final = "/v1/webhook-endpoints"


def _endpoint_operations() -> tuple[Operation, ...]:
    operations: list[Operation] = []
    for operation in webhooks_api.operations:
        key = operation.method, operation.path.removeprefix(_PLACE)
        if operation.path.startswith(_PLACE):
            permission, summary = _ENDPOINTS[key]
            operations.append(
                msgspec.structs.replace(
                    operation,
                    path=f"{_BELOW}/webhook-endpoints{key[1]}",
                    tag=TAG,
                    summary=summary,
                    description=f"As `{operation.method} {operation.path}`."
                    f" Permission: `{permission}`.",
                    admit=handlers.admit_with(permission),
                    permission=permission,
                    scope="",
                )
            )
    return tuple(operations)


operations: Final = (*_LOGINS, *_LOGOS, *_KEYS, *_TEAM, *_AGREEMENT, *_endpoint_operations())
