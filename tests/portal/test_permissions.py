"""Every page × every role × every merchant: who gets in, and who is refused how."""

from typing import Final, get_args

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
from support.people import Visitor, person, title

PAGES: Final = [one for portal in PORTALS for one in portal.pages]
OF_MERCHANTS: Final = [one for one in PAGES if one.path.startswith("/dashboard/{")]
OF_CONSOLES: Final = [one for one in PAGES if one.of_console]
# A permission that only reads ends with one of these.
READS: Final = (".read", ".export")


def _path(one: Page, merchant_id: str) -> str:
    """Return the page's path with ids in it that nothing has."""
    path = one.path.replace("{merchant:id}", merchant_id)
    while "{" in path:
        before, _, rest = path.partition("{")
        path = f"{before}xx_0000000000000000000000000a{rest.partition('}')[2]}"
    return path


def test_every_permission_has_one_row_with_known_roles() -> None:
    assert [rule.permission for rule in RULES] == list(get_args(Permission))
    for rule in RULES:
        assert set(rule.members.split()) <= set(MERCHANT_ROLES)
        assert set(rule.staff.split()) <= set(STAFF_ROLES)
        assert rule.members or rule.staff


def test_what_takes_a_step_up() -> None:
    """Keys, secrets, the Epay key, the team, payouts, terms, approvals … take one."""
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


def test_what_the_roles_are_for() -> None:
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
    assert OF_MERCHANTS
    assert OF_CONSOLES
    for one in PAGES:
        needs_one = one.path.startswith(DASHBOARD_PATH) or one.of_console
        assert needs_one == (one.allowed not in {"anyone", "a person"}), one.path
        if needs_one and one.method == "GET":
            assert one.allowed.endswith(READS), one.path
        if needs_one and one.method == "POST":
            assert not one.allowed.endswith(READS), one.path
    assert len({(one.method, one.path) for one in PAGES}) == len(PAGES)


def _outcome(visitor: Visitor, one: Page, merchant_id: str) -> int:
    path = _path(one, merchant_id)
    return (visitor.get(path) if one.method == "GET" else visitor.post(path)).status_code


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_a_member_gets_what_the_table_says_and_nothing_elsewhere(
    shop: Shop, role: MerchantRole
) -> None:
    other = shop.api_server.shop()
    member = person(shop.api_server, shop.id, role)
    wrong = {}
    for one in OF_MERCHANTS:
        here, there = (_outcome(member, one, merchant) for merchant in (shop.id, other.id))
        allowed = member_may(role, one.allowed)  # type: ignore[arg-type]
        if (here == 403) == allowed or there != 404 or here >= 500:
            wrong[one.method, one.path] = (here, there)
    assert wrong == {}


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_staff_look_at_every_merchant_and_change_nothing(shop: Shop, role: StaffRole) -> None:
    staff = person(shop.api_server, None, staff_role=role)
    wrong = {
        (one.method, one.path): status
        for one in OF_MERCHANTS
        for status in [_outcome(staff, one, shop.id)]
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
def test_staff_get_of_the_console_what_the_table_says(shop: Shop, role: StaffRole) -> None:
    staff = person(shop.api_server, None, staff_role=role)
    wrong = {
        (one.method, one.path): status
        for one in OF_CONSOLES
        for status in [_outcome(staff, one, shop.id)]
        if (status == 403) == staff_may(role, one.allowed)  # type: ignore[arg-type]
        or status >= 500
    }
    assert wrong == {}
    menu = staff.get("/console").text
    assert ('href="/console/audit"' in menu) == staff_may(role, "audit.read")


def test_to_whoever_is_not_staff_there_is_no_console(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    answers = {(one.method, one.path): _outcome(ada, one, shop.id) for one in OF_CONSOLES}
    assert set(answers.values()) == {404}
    assert "/console" not in ada.get(f"/dashboard/{shop.id}/").text


def test_staff_without_a_second_factor_get_nothing_where_money_is_real(shop: Shop) -> None:
    app = shop.api_server.app
    staff = person(shop.api_server, None, staff_role="admin")
    before = app.settings
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    try:
        for one in OF_CONSOLES:
            path = _path(one, shop.id)
            answer = staff.get(path) if one.method == "GET" else staff.post(path)
            assert answer.headers.get("location") == "/security?second=1", one.path
    finally:
        app.settings = before


def test_nobody_gets_in_without_logging_in(shop: Shop) -> None:
    visitor = Visitor(shop.api_server)
    for one in PAGES:
        if one.allowed == "anyone":
            continue
        path = _path(one, shop.id)
        if one.method == "GET":
            answer = visitor.get(path)
            assert answer.status_code == 303, one.path
            assert answer.headers["location"].startswith("/login?next=%2F"), one.path
        else:  # what was entered is kept: test_expired_session.py
            answer = visitor.post(path)
            assert (answer.status_code, title(answer)) == (401, "Please log in again"), one.path


def test_a_merchant_that_does_not_exist_looks_as_one_of_others(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    other = shop.api_server.shop()
    nowhere = "mer_0000000000000000000000000a"
    answers = [ada.get(f"/dashboard/{one}/") for one in (other.id, nowhere, "mer_x", "x/y/z")]
    assert {one.status_code for one in answers} == {404}
    assert {title(one) for one in answers} == {"We cannot find this page"}
    assert answers[0].text.replace(other.id, "") == answers[1].text.replace(nowhere, "")
