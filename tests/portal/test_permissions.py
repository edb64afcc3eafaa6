"""Every page × every role × own and other merchants: who may open it, how others are refused."""

from typing import Any, Final, get_args

import msgspec
import pytest

from opentill.app import PORTALS
from opentill.people import (
    MERCHANT_ROLES,
    RULES,
    STAFF_ROLES,
    MerchantRole,
    Permission,
    StaffRole,
    member_may,
    staff_may,
)
from opentill.portal.model import DASHBOARD_PATH, Page
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of

PAGES: Final = [page for portal in PORTALS for page in portal.pages]
MERCHANT_PAGES: Final = [page for page in PAGES if page.path.startswith("/dashboard/{")]
CONSOLE_PAGES: Final = [page for page in PAGES if page.in_console]
# Suffixes of permissions that only read.
READS: Final = (".read", ".export")


def _path(page: Page[Any], merchant_id: str) -> str:
    """Return the page's path with ids that do not exist."""
    path = page.path.replace("{merchant:id}", merchant_id)
    while "{" in path:
        before, _, after = path.partition("{")
        path = f"{before}xx_0000000000000000000000000a{after.partition('}')[2]}"
    return path


def test_every_permission_has_one_row_with_known_roles() -> None:
    assert [rule.permission for rule in RULES] == list(get_args(Permission))
    for rule in RULES:
        assert set(rule.members.split()) <= set(MERCHANT_ROLES)
        assert set(rule.staff.split()) <= set(STAFF_ROLES)
        assert rule.members or rule.staff


def test_dangerous_permissions_need_a_step_up() -> None:
    assert {rule.permission for rule in RULES if rule.proof} == {
        "payouts.account",  # bank accounts
        "keys.manage",
        "endpoints.manage",  # webhook addresses
        "endpoints.secrets",
        "epay.manage",
        "team.manage",
        "agreement.accept",
        "merchants.manage",
        "terms.manage",
        "payouts.manage",
        "balance.adjust",
        "orders.decide",
        "orders.refund",  # by staff; a member's above a setting: tests/dashboard/test_payment.py
        "disputes.decide",
        "approvals.decide",
        "people.manage",
        "deployment.manage",
        "rates.manage",
    }
    own = {one.path for one in PAGES if one.proof and one.allowed == "a person"}
    assert "/security/logins/end" in own
    assert {
        one.path for one in PAGES if "/authenticator" in one.path and one.method == "POST"
    } <= own
    assert {one.path for one in PAGES if "/passkeys/" in one.path and one.method == "POST"
            and one.allowed == "a person"} <= own  # fmt: skip
    assert "/security/codes" in own


def test_viewers_only_read_and_owners_have_every_permission() -> None:
    of_members = [rule for rule in RULES if rule.members]
    assert all(member_may("owner", rule.permission) for rule in of_members)
    for rule in of_members:
        changes = not rule.permission.endswith(READS)
        assert not (changes and member_may("viewer", rule.permission)), rule
        assert not (changes and rule.staff), rule  # staff change nothing in a merchant's pages
        if rule.permission.endswith(".read"):
            assert member_may("viewer", rule.permission), rule
            assert rule.staff.split() == list(STAFF_ROLES), rule
    for rule in RULES:
        assert not staff_may("auditor", rule.permission) or rule.permission.endswith(".read"), rule
    owners = {rule.permission for rule in RULES if rule.members == "owner"}
    assert owners == {"payouts.account", "settings.manage", "team.manage", "agreement.accept"}


def test_every_page_of_a_merchant_and_of_the_console_has_a_permission() -> None:
    assert MERCHANT_PAGES
    assert CONSOLE_PAGES
    for page in PAGES:
        needs_permission = page.path.startswith(DASHBOARD_PATH) or page.in_console
        assert needs_permission == (page.allowed not in {"anyone", "a person"}), page.path
        if needs_permission:
            assert page.allowed.endswith(READS) == (page.method == "GET"), page.path
    assert len({(one.method, one.path) for one in PAGES}) == len(PAGES)


def _status(visitor: Visitor, page: Page[Any], merchant_id: str) -> int:
    path = _path(page, merchant_id)
    return (visitor.get(path) if page.method == "GET" else visitor.post(path)).status_code


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_a_member_may_open_the_pages_of_the_role_at_the_own_merchant_only(
    shop: Shop, role: MerchantRole
) -> None:
    other = shop.api_server.create_shop()
    member = create_person(shop.api_server, shop.id, role)
    wrong = {}
    for page in MERCHANT_PAGES:
        own, others = (_status(member, page, merchant) for merchant in (shop.id, other.id))
        allowed = member_may(role, page.allowed)  # type: ignore[arg-type]
        if (own == 403) == allowed or others != 404 or own >= 500:
            wrong[page.method, page.path] = (own, others)
    assert wrong == {}


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_may_read_every_merchants_pages_and_change_nothing(
    shop: Shop, role: StaffRole
) -> None:
    staff = create_person(shop.api_server, None, staff_role=role)
    wrong = {
        (one.method, one.path): status
        for one in MERCHANT_PAGES
        for status in [_status(staff, one, shop.id)]
        if (status == 403) == staff_may(role, one.allowed)  # type: ignore[arg-type]
        or (one.method == "POST" and status != 403)
    }
    assert wrong == {}
    assert "You see this merchant" in staff.get(f"/dashboard/{shop.id}/").text
    visits = shop.api_server.sql(
        "select who, reason from audit_log where merchant_id = $1 and action = 'people visit'",
        shop.id,
    )
    assert visits == [{"who": f"{staff.email} ({staff.person_id})", "reason": f"as staff, {role}"}]


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_may_open_the_pages_of_their_role_in_the_console(shop: Shop, role: StaffRole) -> None:
    staff = create_person(shop.api_server, None, staff_role=role)
    wrong = {
        (one.method, one.path): status
        for one in CONSOLE_PAGES
        for status in [_status(staff, one, shop.id)]
        if (status == 403) == staff_may(role, one.allowed)  # type: ignore[arg-type]
        or status >= 500
    }
    assert wrong == {}
    menu = staff.get("/console").text
    assert ('href="/console/audit"' in menu) == staff_may(role, "audit.read")


def test_the_console_does_not_exist_for_members(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    assert {_status(ada, page, shop.id) for page in CONSOLE_PAGES} == {404}
    assert "/console" not in ada.get(f"/dashboard/{shop.id}/").text


def test_staff_need_a_second_factor_in_a_live_deployment(shop: Shop) -> None:
    app = shop.api_server.app
    staff = create_person(shop.api_server, None, staff_role="admin")
    before = app.settings
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    try:
        for page in CONSOLE_PAGES:
            path = _path(page, shop.id)
            response = staff.get(path) if page.method == "GET" else staff.post(path)
            assert response.headers.get("location") == "/security?second=1", page.path
    finally:
        app.settings = before


def test_pages_need_a_login(shop: Shop) -> None:
    visitor = Visitor(shop.api_server)
    for page in PAGES:
        if page.allowed == "anyone":
            continue
        path = _path(page, shop.id)
        if page.method == "GET":
            response = visitor.get(path)
            assert response.status_code == 303, page.path
            assert response.headers["location"].startswith("/login?next=%2F"), page.path
        else:  # the form is kept: test_kept_forms.py
            response = visitor.post(path)
            assert (response.status_code, heading_of(response)) == (401, "Please log in again"), (
                path
            )


def test_other_merchants_look_as_if_they_did_not_exist(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    other = shop.api_server.create_shop()
    nowhere = "mer_0000000000000000000000000a"
    responses = [ada.get(f"/dashboard/{one}/") for one in (other.id, nowhere, "mer_x", "x/y/z")]
    assert {one.status_code for one in responses} == {404}
    assert {heading_of(one) for one in responses} == {"We cannot find this page"}
    assert responses[0].text.replace(other.id, "") == responses[1].text.replace(nowhere, "")
