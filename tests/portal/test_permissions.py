"""Each page can be opened by its roles only, at their own merchant only."""

import re
from collections import Counter
from typing import Any, Final, get_args

import pytest

from opentill.app import PORTALS
from opentill.people import (
    MERCHANT_ROLES,
    NEED_PROOF,
    RULES,
    STAFF_ROLES,
    MerchantRole,
    Permission,
    StaffRole,
    member_may,
    staff_may,
)
from opentill.portal.labels import PROVED_ACTION
from opentill.portal.model import CONSOLE_PATH, DASHBOARD_PATH, Page
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of

PAGES: Final = [page for portal in PORTALS for page in portal.pages]
MERCHANT_PAGES: Final = [page for page in PAGES if page.path.startswith("/dashboard/{")]
CONSOLE_PAGES: Final = [page for page in PAGES if page.in_console]
READ_SUFFIXES: Final = (".read", ".export")  # permissions with these suffixes change nothing


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
        "payouts.account",  # changes bank accounts
        "balance.prepay",
        "gateways.manage",
        "keys.manage",
        "endpoints.manage",  # changes the URLs of webhooks
        "endpoints.secrets",
        "epay.manage",
        "team.manage",
        "agreement.accept",
        "merchants.manage",
        "terms.manage",
        "payouts.manage",
        "balance.adjust",
        "orders.decide",
        "orders.refund",  # applies to staff; members need a step-up only above a configured amount
        "disputes.decide",
        "approvals.decide",
        "people.manage",
        "deployment.manage",
        "rates.manage",
    }


def test_changes_of_the_own_second_factors_and_logins_need_a_step_up() -> None:
    forms = [page for page in PAGES if page.method == "POST" and page.allowed == "a person"]
    with_proof = {page.path for page in forms if page.proof}
    assert {"/security/logins/end", "/security/codes"} <= with_proof
    for page in forms:
        if "/authenticator" in page.path or "/passkeys/" in page.path:
            assert page.path in with_proof


def test_the_page_that_asks_for_a_proof_names_the_action_of_each_form() -> None:
    with_proof = {page.allowed for page in PAGES if page.proof or page.allowed in NEED_PROOF}
    assert set(PROVED_ACTION) == with_proof - {"anyone"} | {"payments.refund"}
    # The permission's text is the title of one form at most: "Adjust the balance" is no report.
    unnamed = [page for page in PAGES if page.method == "POST" and not page.proves]
    proved = [page.allowed for page in unnamed if page.proof or page.allowed in NEED_PROOF]
    assert [name for name, number in Counter(proved).items() if number > 1] == []


def test_viewers_only_read_and_owners_have_every_permission() -> None:
    member_rules = [rule for rule in RULES if rule.members]
    assert all(member_may("owner", rule.permission) for rule in member_rules)
    for rule in member_rules:
        changes = not rule.permission.endswith(READ_SUFFIXES)
        assert not (changes and member_may("viewer", rule.permission)), rule
        assert not (changes and rule.staff), rule  # staff change nothing on a merchant's pages
        if rule.permission.endswith(".read"):
            assert member_may("viewer", rule.permission), rule
            assert rule.staff.split() == list(STAFF_ROLES), rule
    for rule in RULES:
        assert not staff_may("auditor", rule.permission) or rule.permission.endswith(".read"), rule
    owners = {rule.permission for rule in RULES if rule.members == "owner"}
    assert owners == {
        "payouts.account",
        "settings.manage",
        "gateways.manage",
        "team.manage",
        "agreement.accept",
    }


def test_every_page_of_a_merchant_and_of_the_console_has_a_permission() -> None:
    assert MERCHANT_PAGES
    assert CONSOLE_PAGES
    for page in PAGES:
        needs_permission = page.path.startswith(DASHBOARD_PATH) or page.in_console
        assert needs_permission == (page.allowed not in {"anyone", "a person"}), page.path
        # Only those who pay out may read the file for the bank, which has account numbers.
        if needs_permission and page.path != f"{CONSOLE_PATH}/payout-runs/{{run:id}}/file":
            assert page.allowed.endswith(READ_SUFFIXES) == (page.method == "GET"), page.path
    assert len({(page.method, page.path) for page in PAGES}) == len(PAGES)


def _status(visitor: Visitor, page: Page[Any], merchant_id: str) -> int:
    path = _path(page, merchant_id)
    return (visitor.get(path) if page.method == "GET" else visitor.post(path)).status_code


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_a_member_may_open_the_pages_of_the_role_at_the_own_merchant_only(
    shop: Shop, role: MerchantRole
) -> None:
    other_shop = shop.api_server.create_shop()
    member = create_person(shop.api_server, shop.id, role)
    violations = {}
    for page in MERCHANT_PAGES:
        own_status, other_status = (_status(member, page, id_) for id_ in (shop.id, other_shop.id))
        is_allowed = member_may(role, page.allowed)  # type: ignore[arg-type]
        if (own_status == 403) == is_allowed or other_status != 404 or own_status >= 500:
            violations[page.method, page.path] = (own_status, other_status)
    assert violations == {}


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_may_read_every_merchants_pages_and_change_nothing(
    shop: Shop, role: StaffRole
) -> None:
    staff = create_person(shop.api_server, None, staff_role=role)
    violations = {
        (page.method, page.path): status
        for page in MERCHANT_PAGES
        for status in [_status(staff, page, shop.id)]
        if (status == 403) == staff_may(role, page.allowed)  # type: ignore[arg-type]
        or (page.method == "POST" and status != 403)
    }
    assert violations == {}
    assert "You see this merchant" in staff.get(f"/dashboard/{shop.id}/").text
    visits = shop.api_server.sql(
        "select who, reason from audit_log where merchant_id = $1 and action = 'people visit'",
        shop.id,
    )
    assert visits == [{"who": f"{staff.email} ({staff.person_id})", "reason": f"as staff, {role}"}]


def test_no_page_has_two_elements_with_one_id(shop: Shop) -> None:
    """A label of a form or of a filter would lead to the other element."""
    owner = create_person(shop.api_server, shop.id, "owner")
    admin = create_person(shop.api_server, None, staff_role="admin")
    for visitor, pages in ((owner, MERCHANT_PAGES), (admin, CONSOLE_PAGES)):
        for path in [_path(page, shop.id) for page in pages if page.method == "GET"]:
            ids = re.findall(r'\sid="([^"]*)"', visitor.get(path).text)
            assert [id_ for id_ in set(ids) if ids.count(id_) > 1] == [], path


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_may_open_the_pages_of_their_role_in_the_console(shop: Shop, role: StaffRole) -> None:
    staff = create_person(shop.api_server, None, staff_role=role)
    violations = {
        (page.method, page.path): status
        for page in CONSOLE_PAGES
        for status in [_status(staff, page, shop.id)]
        if (status == 403) == staff_may(role, page.allowed)  # type: ignore[arg-type]
        or status >= 500
    }
    assert violations == {}
    menu = staff.get("/console").text
    assert ('href="/console/audit"' in menu) == staff_may(role, "audit.read")


def test_the_console_is_not_found_for_members(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    assert {_status(ada, page, shop.id) for page in CONSOLE_PAGES} == {404}
    assert "/console" not in ada.get(f"/dashboard/{shop.id}/").text


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
        else:  # test_kept_forms.py tests that the page keeps the form
            response = visitor.post(path)
            assert (response.status_code, heading_of(response)) == (401, "Please log in again"), (
                path
            )


def test_another_merchant_gets_the_same_response_as_one_that_does_not_exist(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    other_id = shop.api_server.create_shop().id
    unused_id = "mer_0000000000000000000000000a"
    responses = [ada.get(f"/dashboard/{id_}/") for id_ in (other_id, unused_id, "mer_x", "x/y/z")]
    assert {response.status_code for response in responses} == {404}
    assert {heading_of(response) for response in responses} == {"We cannot find this page"}
    assert "There is no page at this address" in responses[0].text
    assert "24 hours" not in responses[0].text
    assert responses[0].text.replace(other_id, "") == responses[1].text.replace(unused_id, "")
