"""Operations of people against the document, with a token of each role: who gets 403 where."""

from typing import Any, Final

import pytest
import requests
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import GenerationMode

from opentill.app import PEOPLE_OPERATIONS
from opentill.people import MERCHANT_ROLES, MerchantRole, member_may
from support.api_server import ApiServer
from support.document_cases import CHECKED, CHECKS_OF_THEIRS, Caller, connected, fill
from support.examples import examples
from support.people import unlimited

__all__ = ["connected", "unlimited"]

# Who is let in; all others get 403. O owner, F finance, S support, D developer, V viewer.
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
BELOW: Final = "/v1/merchant"
BY_LABEL: Final = {
    operation.label.replace(f" {BELOW}", " "): operation
    for operation in CHECKED
    if operation.path.startswith(f"{BELOW}/")
}


def _lets_in(label: str, role: MerchantRole) -> bool:
    return role[0].upper() in MATRIX[label]


def test_the_matrix_has_every_operation_and_is_that_of_the_permissions() -> None:
    with_permission = {
        f"{one.method} {one.path.removeprefix(BELOW)}": one
        for one in PEOPLE_OPERATIONS
        if one.permission
    }
    assert set(with_permission) == set(MATRIX)
    assert [role[0].upper() for role in MERCHANT_ROLES] == list("OFSDV")
    for label, one in with_permission.items():
        for role in MERCHANT_ROLES:
            allowed = member_may(role, one.permission)  # type: ignore[arg-type]
            assert _lets_in(label, role) == allowed, (label, role)


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_each_role_gets_what_the_document_says_or_403_and_then_nothing_changes(
    api_server: ApiServer, connected: requests.Session, role: MerchantRole
) -> None:
    shop = api_server.shop()
    owner, caller = Caller(shop), Caller(shop, role)
    ids = {"webhook-endpoints": shop.endpoint()["id"]}
    statuses: dict[str, set[int]] = {label: set() for label in MATRIX}

    def send(case: Any, label: str) -> None:
        fill(case, shop, owner, ids, GenerationMode.POSITIVE)
        answer = case.call(base_url=api_server.url, headers=caller.headers, session=connected)
        case.validate_response(answer, checks=CHECKS_OF_THEIRS, headers=caller.headers)
        statuses[label].add(answer.status_code)

    def check(label: str) -> None:
        @seed(20261123)
        @given(case=BY_LABEL[label].as_strategy(generation_mode=GenerationMode.POSITIVE))
        @settings(
            max_examples=examples(2) if _lets_in(label, role) else 1,
            suppress_health_check=list(HealthCheck),
        )
        def run(case: Any) -> None:
            send(case, label)

        run()

    for label in sorted(MATRIX, key=lambda label: label == LOG_OUT):  # logs out last
        check(label)
    for label, found in statuses.items():
        assert (found == {403}) != _lets_in(label, role), (label, found)
        assert not found & {401, 404}, (label, found)
    written = api_server.sql(
        "select count(*) from audit_log where merchant_id = $1 and who like $2"
        " and action not like 'people %'",
        shop.id,
        f"{caller.email} %",
    )
    assert bool(written[0]["count"]) == (role in {"owner", "developer"})
