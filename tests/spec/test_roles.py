"""Each role may call the operations that the document permits, and no others."""

from typing import Any, Final

import pytest
import requests
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import GenerationMode

from opentill.app import PEOPLE_OPERATIONS
from opentill.people import MERCHANT_ROLES, MerchantRole, member_may
from spec.document_cases import (
    SCHEMA_OPERATIONS,
    SCHEMATHESIS_CHECKS,
    Caller,
    fill_case,
    http_session,
)
from support.api_server import ApiServer
from support.examples import examples
from support.people import reset_login_limits

__all__ = ["http_session", "reset_login_limits"]

# For each operation, the roles that may call it; all others get 403. O owner, F finance, S support,
# D developer, V viewer.
MATRIX: Final = {
    "DELETE /sessions": "OFSDV",
    "GET /profile": "OFSDV",
    "PATCH /profile": "O----",
    "PUT /logo": "O----",
    "DELETE /logo": "O----",
    "GET /keys": "O--DV",
    "POST /keys": "O--D-",
    "PATCH /keys/{id}": "O--D-",
    "POST /keys/{id}/regenerate": "O--D-",
    "DELETE /keys/{id}": "O--D-",
    "GET /team": "OFSDV",
    "PATCH /team/{id}": "O----",
    "DELETE /team/{id}": "O----",
    "GET /team/invitations": "OFSDV",
    "POST /team/invitations": "O----",
    "DELETE /team/invitations/{id}": "O----",
    "GET /agreement/acceptances": "OFSDV",
    "POST /agreement/acceptances": "O----",
    "POST /webhook-endpoints": "O--D-",
    "GET /webhook-endpoints": "O-SDV",
    "GET /webhook-endpoints/{id}": "O-SDV",
    "PATCH /webhook-endpoints/{id}": "O--D-",
    "DELETE /webhook-endpoints/{id}": "O--D-",
    "POST /webhook-endpoints/{id}/rotate-secret": "O--D-",
    "GET /webhook-endpoints/{id}/deliveries": "O-SDV",
    "POST /webhook-endpoints/{id}/resend": "O-SD-",
    "POST /webhook-endpoints/{id}/test": "O--D-",
}
LOG_OUT: Final = "DELETE /sessions"
PREFIX: Final = "/v1/merchant"
BY_LABEL: Final = {
    operation.label.replace(f" {PREFIX}", " "): operation
    for operation in SCHEMA_OPERATIONS
    if operation.path.startswith(f"{PREFIX}/")
}


def _is_allowed(label: str, role: MerchantRole) -> bool:
    return role[0].upper() in MATRIX[label]


def test_the_matrix_matches_the_permissions_of_every_operation() -> None:
    with_permission = {
        f"{operation.method} {operation.path.removeprefix(PREFIX)}": operation
        for operation in PEOPLE_OPERATIONS
        if operation.permission
    }
    assert set(with_permission) == set(MATRIX)
    assert [role[0].upper() for role in MERCHANT_ROLES] == list("OFSDV")
    for label, operation in with_permission.items():
        for role in MERCHANT_ROLES:
            allowed = member_may(role, operation.permission)  # type: ignore[arg-type]
            assert _is_allowed(label, role) == allowed, (label, role)


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_each_role_gets_the_documented_response_or_403_without_effect(
    api_server: ApiServer, http_session: requests.Session, role: MerchantRole
) -> None:
    shop = api_server.create_shop()
    owner, caller = Caller(shop), Caller(shop, role)
    ids = {"webhook-endpoints": shop.create_endpoint()["id"]}
    statuses: dict[str, set[int]] = {label: set() for label in MATRIX}

    def send(case: Any, label: str) -> None:
        fill_case(case, shop, owner, ids, GenerationMode.POSITIVE)
        response = case.call(base_url=api_server.url, headers=caller.headers, session=http_session)
        case.validate_response(response, checks=SCHEMATHESIS_CHECKS, headers=caller.headers)
        statuses[label].add(response.status_code)

    def check(label: str) -> None:
        @seed(20261123)
        @given(case=BY_LABEL[label].as_strategy(generation_mode=GenerationMode.POSITIVE))
        @settings(
            max_examples=examples(2) if _is_allowed(label, role) else 1,
            suppress_health_check=list(HealthCheck),
        )
        def run(case: Any) -> None:
            send(case, label)

        run()

    # Logging out comes last, because it ends the tokens.
    for label in sorted(MATRIX, key=lambda label: label == LOG_OUT):
        check(label)
    for label, codes in statuses.items():
        assert (codes == {403}) != _is_allowed(label, role), (label, codes)
        assert not codes & {401, 404}, (label, codes)
    written = api_server.sql(
        "select count(*) from audit_log where merchant_id = $1 and who like $2"
        " and action not like 'people %'",
        shop.id,
        f"{caller.email} %",
    )
    assert bool(written[0]["count"]) == (role in {"owner", "developer"})
