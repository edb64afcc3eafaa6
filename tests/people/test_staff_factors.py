"""Second factors of staff, and pages that require the second factor of every role."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from opentill import people
from opentill.app import PORTALS
from opentill.db.clock import now_ms
from opentill.people import passkeys, second_factor, totp
from opentill.portal.model import Page
from people.factor_pages import FACTOR, create_person_with_passkey, read_redirect
from people.passkey_device import (
    add_passkey,
    localhost_headers,
)
from support.api_server import Shop
from support.examples import pairwise
from support.people import Visitor, create_person, heading_of, invite

PAGES: Final = [page for portal in PORTALS for page in portal.pages]


@pytest.fixture
def live_mode(shop: Shop) -> Iterator[None]:
    """Switch the deployment to live mode."""
    app, before = shop.api_server.app, shop.api_server.app.settings
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    yield
    app.settings = before


def path_of(page: Page, merchant_id: str) -> str:
    """Return a page's path with ids of resources that do not exist."""
    path = page.path.replace("{merchant:id}", merchant_id)
    return re.sub(r"{[^}]+}", "xx_0000000000000000000000000a", path)


def test_staff_cannot_remove_their_last_factor_in_live_mode(shop: Shop, live_mode: None) -> None:
    grace, _ = create_person_with_passkey(shop, staff_role="admin")
    (row,) = shop.api_server.sql("select id from passkeys where person_id = $1", grace.person_id)
    refused = grace.post("/security/passkeys/remove", {"id": row["id"]})
    assert refused.status_code == 400
    assert "Staff must keep a second factor" in refused.text
    add_passkey(grace)
    assert grace.post("/security/passkeys/remove", {"id": row["id"]}).status_code == 303
    assert grace.get("/console").status_code == 200


def test_staff_set_up_their_first_factor_only_in_a_login_that_began_with_a_link(
    shop: Shop, live_mode: None
) -> None:
    grace = create_person(shop.api_server, None, staff_role="admin")
    thief = Visitor(shop.api_server, grace.email)
    thief.log_in()
    factor_required = (303, "/security?second=1")
    headers = localhost_headers(thief)
    for form in ("authenticator/begin", "passkeys/begin", "password", "logins/end", "codes"):
        response = thief.post(f"/security/{form}", headers=headers)
        assert read_redirect(response) == factor_required, form
    assert "only after you have followed a link" in thief.get("/security?second=1").text
    assert read_redirect(grace.post("/security/password")) == factor_required
    assert read_redirect(grace.get("/dashboard")) == factor_required
    add_passkey(grace)
    assert grace.get("/console").status_code == 200
    assert thief.get("/console").headers["location"].startswith(FACTOR)


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_login_by_an_invitation_that_a_member_saw_cannot_set_up_staffs_first_factor(
    shop: Shop, live_mode: None, confirmed: bool
) -> None:
    eve, grace = (
        create_person(shop.api_server, shop.id, "owner"),
        create_person(shop.api_server, None, None, "admin"),
    )
    sql = "update persons set confirmed = $2 where id = $1 returning 1"
    shop.api_server.sql(sql, grace.person_id, confirmed)
    thief = Visitor(shop.api_server, grace.email)
    thief.log_in()
    page = eve.post(f"/dashboard/{shop.id}/team/invite", {"email": grace.email, "role": "viewer"})
    link = re.search(r"/invite/[\w-]{43}", page.text)
    assert link is not None
    form = {} if confirmed else {"name": "Grace", "password": "seven slow rivers sing"}
    assert thief.post(link[0], form).status_code == 303
    headers = localhost_headers(thief)
    for begin in ("authenticator/begin", "passkeys/begin"):
        response = thief.post(f"/security/{begin}", headers=headers)
        assert read_redirect(response) == (303, "/security?second=1"), begin


@pytest.mark.parametrize("is_passkey_first", [False, True])
def test_staff_that_remove_their_last_two_factors_concurrently_keep_one(
    shop: Shop, live_mode: None, is_passkey_first: bool
) -> None:
    grace, _ = create_person_with_passkey(shop, staff_role="admin")
    app, key = shop.api_server.app, shop.api_server.app.settings.secret_key
    (row,) = shop.api_server.sql("select id from passkeys where person_id = $1", grace.person_id)
    login = shop.api_server.run(people.find(app.db, grace.token, "192.0.2.1", app.clock()))
    assert login is not None

    async def remove_both() -> list[object]:
        async with app.db.transaction() as tx:
            await second_factor.begin(tx, login, key)
            secret = await second_factor.pending_secret(tx, login, key)
            code = totp.code_at(secret, now_ms() // 1000 // totp.PERIOD_S)
            await second_factor.confirm(tx, login, code, key, app.clock())
        removals = [
            app.db.run(lambda tx: second_factor.remove(tx, login, app.clock(), keep_one=True)),
            app.db.run(
                lambda tx: passkeys.remove(tx, login, row["id"], app.clock(), keep_one=True)
            ),
        ]
        if is_passkey_first:
            removals.reverse()
        return await asyncio.gather(*removals, return_exceptions=True)

    outcomes = shop.api_server.run(remove_both())
    assert sum(isinstance(outcome, people.LastFactor) for outcome in outcomes) == 1
    assert grace.get("/console").status_code == 200


def _logins(shop: Shop, role: dict[str, Any]) -> Iterator[tuple[str, Visitor]]:
    """Yield logins with a role: without any factor, with a proved one, with an unproved one."""
    yield "none", create_person(shop.api_server, **role)
    proved = create_person(shop.api_server, **role)
    add_passkey(proved)
    yield "proved", proved
    pending = Visitor(shop.api_server, proved.email)
    pending.log_in()
    yield "pending", pending


ROLES: Final[list[dict[str, Any]]] = [
    *({"merchant_id": "", "role": role} for role in people.MERCHANT_ROLES),
    *({"merchant_id": None, "staff_role": role} for role in people.STAFF_ROLES),
]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.get("role") or role["staff_role"])
def test_every_page_requires_the_second_factor_of_every_role(
    shop: Shop, live_mode: None, role: dict[str, Any]
) -> None:
    is_staff, parameter = "staff_role" in role, role
    if not is_staff:
        role = role | {"merchant_id": shop.id}
    pages = [page for page in PAGES if page.allowed != "anyone" and "logins/end" not in page.path]
    violations: list[tuple[str, str, str, int, str]] = []
    # With the necessary factor, the pages of the other roles are in `test_permissions.py`.
    shows_pages = role.get("role") == "owner" or role.get("staff_role") == "admin"
    for factor, visitor in _logins(shop, role):
        if not shows_pages and (factor == "proved" or (factor == "none" and not is_staff)):
            continue
        for page in pages if shows_pages else pairwise(pages, ROLES, parameter):
            path = path_of(page, shop.id)
            response = visitor.get(path) if page.method == "GET" else visitor.post(path)
            status, location = read_redirect(response)
            if factor == "pending":
                is_right = (
                    location.startswith(FACTOR)
                    if page.method == "GET"
                    else (status, heading_of(response)) == (401, "Please log in again")
                )
            elif factor == "none" and is_staff and not page.enrolls:
                is_right = location == "/security?second=1"
            else:
                is_right = not location.startswith(("/login", "/security?second")) and status < 500
            if not is_right:
                violations.append((factor, page.method, path, status, location))
    assert violations == []


def test_the_live_list_of_a_pending_login_gets_no_rows(shop: Shop) -> None:
    ada, _ = create_person_with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    response = visitor.get(f"/dashboard/{shop.id}/payments", headers={"hx-request": "true"})
    assert (response.status_code, response.text) == (403, "")


def test_a_pending_login_cannot_accept_an_invitation(shop: Shop) -> None:
    ada, _ = create_person_with_passkey(shop, role="owner")
    second_shop = shop.api_server.create_shop(name="Second Shop")
    link = invite(shop.api_server, ada.email, second_shop.id, "owner")
    confirm = "update persons set confirmed = true where id = $1 returning 1"
    shop.api_server.sql(confirm, ada.person_id)
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    response = visitor.post(link.path, {"name": "Eve", "password": "seven slow rivers sing"})
    assert response.headers["location"].startswith("/login")
    assert ada.get(f"/dashboard/{second_shop.id}/").status_code == 404
