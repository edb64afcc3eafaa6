"""A person's second factor is required: a login without it can only prove it or log out."""

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from opentill import people
from opentill.app import PORTALS
from opentill.core.errors import TooManyRequests
from opentill.db.clock import now_ms
from opentill.people import login_challenges, logins, passkeys, second_factor, totp
from opentill.people.lifetimes import CHALLENGE_MS
from opentill.portal.model import Page
from people.passkey_device import (
    PasskeyDevice,
    add_passkey,
    localhost_headers,
    log_in_by_passkey,
    passkey_options,
)
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, invite, new_address

FACTOR: Final = "/login/factor"
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


def person_token(shop: Shop, ada: Visitor) -> tuple[str, str]:
    """Log in by the API; return the access token and the refresh token."""
    response = _post(shop, "/v1/merchant/sessions", email=ada.email, password=PASSWORD)
    assert response.status_code == 201, response.text
    tokens = response.json()["data"]
    return tokens["accessToken"], tokens["refreshToken"]


def _post(shop: Shop, path: str, **body: str) -> httpx2.Response:
    return shop.api_server.http.post(path, json=body)


def _create_person_with_passkey(shop: Shop, **role: str) -> tuple[Visitor, PasskeyDevice]:
    """Create a member of the shop (``role``) or staff (``staff_role``) with a passkey."""
    ada = create_person(shop.api_server, shop.id if "role" in role else None, **role)  # type: ignore[arg-type]
    return ada, add_passkey(ada)


def test_an_account_with_a_passkey_needs_more_than_the_password(shop: Shop) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    thief = Visitor(shop.api_server, ada.email)
    login_response = thief.log_in()
    assert (login_response.status_code, login_response.headers["location"]) == (303, FACTOR)
    for path in (f"/dashboard/{shop.id}/", "/security", "/dashboard", f"/dashboard/{shop.id}/team"):
        assert thief.get(path).headers["location"].startswith(FACTOR), path
    forms = ("authenticator/begin", "passkeys/begin", "passkeys/remove", "codes", "logins/end")
    for form in forms:
        assert thief.post(f"/security/{form}").status_code == 401, form
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303


def _location(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.headers.get("location", "")


def test_proving_a_passkey_after_the_password_leads_to_the_requested_page(shop: Shop) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    visitor, requested_page = Visitor(shop.api_server, ada.email), f"/dashboard/{shop.id}/team?x=1"
    factor_page = visitor.log_in(next=requested_page).headers["location"]
    assert factor_page == f"{FACTOR}?next={quote(requested_page, safe='')}"
    headers, previous_token = localhost_headers(visitor), visitor.token
    options = passkey_options(visitor.get(factor_page, headers=headers))
    form = {"credential": device.use(options, headers["origin"]), "next": requested_page}
    assert _location(visitor.post(FACTOR, form, headers=headers)) == (303, requested_page)
    assert visitor.get(requested_page).status_code == 200
    assert visitor.token != previous_token
    attacker = Visitor(shop.api_server, ada.email)
    attacker.log_in()
    assert attacker.post(FACTOR, form, headers=headers).status_code == 401
    assert _location(attacker.post("/logout")) == (303, "/login")
    assert attacker.get(FACTOR).headers["location"] == "/login"


def test_adding_the_first_passkey_returns_recovery_codes(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    device, headers = PasskeyDevice(), localhost_headers(ada)
    page = ada.post("/security/passkeys/begin", headers=headers)
    credential = device.create(passkey_options(page), headers["origin"])
    response = ada.post(
        "/security/passkeys", {"credential": credential, "name": ""}, headers=headers
    )
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", response.text)
    assert len(set(codes)) == 10
    visitor = Visitor(shop.api_server, ada.email)
    assert visitor.log_in(code=codes[0]).headers["location"] == "/dashboard"
    other_visitor = Visitor(shop.api_server, ada.email)
    assert other_visitor.log_in(code=codes[0]).status_code == 401  # each recovery code works once
    other_visitor.log_in()
    assert other_visitor.post(FACTOR, {"code": "aaaa bbbb cccc dddd"}).status_code == 401
    assert _location(other_visitor.post(FACTOR, {"code": codes[1]})) == (303, "/dashboard")
    add_passkey(other_visitor)
    assert "Recovery codes left: 8" in other_visitor.get("/security").text
    for row in shop.api_server.sql("select id from passkeys where person_id = $1", ada.person_id):
        other_visitor.post("/security/passkeys/remove", {"id": row["id"]})
    assert Visitor(shop.api_server, ada.email).log_in(code=codes[2]).status_code == 303
    (row,) = shop.api_server.sql(
        "select count(*) from recovery_codes where person_id = $1", ada.person_id
    )
    assert row["count"] == 0, "recovery codes end with the last factor"


def test_a_login_from_before_the_first_factor_lacks_it(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    earlier_login = Visitor(shop.api_server, ada.email)
    access_token, refresh_token = person_token(shop, ada)
    earlier_login.log_in()
    assert earlier_login.get("/security").status_code == 200
    add_passkey(ada)
    assert earlier_login.get("/security").headers["location"].startswith(FACTOR)
    headers = {"authorization": f"Bearer {access_token}"}
    assert shop.api_server.http.get("/v1/merchant/profile", headers=headers).status_code == 401
    refresh = _post(shop, "/v1/merchant/sessions/refresh", refreshToken=refresh_token)
    assert refresh.status_code == 401
    assert ada.get("/security").status_code == 200


def test_the_api_also_requires_the_second_factor(shop: Shop) -> None:
    ada, _ = _create_person_with_passkey(shop, role="owner")
    body = {"email": ada.email, "password": PASSWORD}
    refused = _post(shop, "/v1/merchant/sessions", **body)
    assert refused.status_code == 401
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", ada.post("/security/codes").text)
    body["code"] = codes[0]
    assert _post(shop, "/v1/merchant/sessions", **body).status_code == 201
    assert _post(shop, "/v1/merchant/sessions", **body).status_code == 401


def test_a_step_up_needs_the_passkey_besides_the_password(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    clock(shop.api_server.app.clock() + 10 * 60_000)
    path, form = f"/dashboard/{shop.id}/team/invite", {"email": "bob@example.com", "role": "viewer"}
    headers = localhost_headers(ada)
    for proof in ({}, {"proof_password": PASSWORD}, {"proof_password": PASSWORD, "proof_code": ""}):
        assert heading_of(ada.post(path, form | proof)) == "Confirm that it is you"
    eve, eves_device = _create_person_with_passkey(shop, role="owner")
    clock(shop.api_server.app.clock() + 10 * 60_000)
    options = passkey_options(ada.post(path, form, headers=headers))
    eves_options = passkey_options(eve.post(path, form, headers=headers))
    for challenge in (eves_options, options):
        credential = eves_device.use(challenge, headers["origin"])
        refused = ada.post(path, form | {"proof_credential": credential}, headers=headers)
        assert heading_of(refused) == "Confirm that it is you"
    options = passkey_options(ada.post(path, form, headers=headers))
    assert len(options["allowCredentials"]) == 1
    passkey_proof = {"proof_credential": device.use(options, headers["origin"])}
    assert (
        "bob@example.com is invited" in ada.post(path, form | passkey_proof, headers=headers).text
    )
    clock(shop.api_server.app.clock() + 10 * 60_000)
    late_response = ada.post(path, form | passkey_proof, headers=headers)
    assert heading_of(late_response) == "Confirm that it is you"


def test_an_invalid_assertion_consumes_its_challenge(shop: Shop) -> None:
    _, device = _create_person_with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server)
    headers = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
    valid_form = {"credential": device.use(options, headers["origin"])}
    invalid_form = {"credential": device.use(options, "https://evil.example")}
    assert visitor.post("/login/passkey", invalid_form, headers=headers).status_code == 401
    assert visitor.post("/login/passkey", valid_form, headers=headers).status_code == 401
    assert log_in_by_passkey(visitor, device).status_code == 303


def test_failed_logins_at_the_same_address_do_not_block_passkeys(shop: Shop) -> None:
    """Neither requested challenges nor failures with passkeys or passwords count against them."""
    ada, device = _create_person_with_passkey(shop, role="owner")
    stranger = Visitor(shop.api_server, ada.email)
    headers = localhost_headers(stranger)
    for _ in range(40):
        options = passkey_options(stranger.post("/login/passkey/begin", headers=headers))
        invalid_form = {"credential": PasskeyDevice().use(options, headers["origin"])}
        assert stranger.post("/login/passkey", invalid_form, headers=headers).status_code == 401
    for _ in range(30):
        Visitor(shop.api_server, new_address()).log_in("not my password at all")
        stranger.log_in("not my password at all")
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303


def test_a_login_challenge_is_valid_once_and_for_five_minutes(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    _, device = _create_person_with_passkey(shop, role="owner")
    now = shop.api_server.app.clock()
    clock(now)
    visitor = Visitor(shop.api_server)
    headers = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
    form = {"credential": device.use(options, headers["origin"])}
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 303
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 401
    late_options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
    clock(now + CHALLENGE_MS)
    form = {"credential": device.use(late_options, headers["origin"])}
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 401


def test_the_stored_digest_of_a_used_challenge_is_no_challenge(shop: Shop) -> None:
    """Sending the digest as a challenge is refused, and deletes nothing."""
    ada, device = _create_person_with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    headers = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
    form = {"credential": device.use(options, headers["origin"])}
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 303
    challenge = base64.urlsafe_b64decode(options["challenge"] + "==")
    stored = base64.urlsafe_b64encode(login_challenges.used_digest(challenge)).rstrip(b"=").decode()
    pending = Visitor(shop.api_server, ada.email)
    pending.log_in()
    forged = {"credential": device.use({**options, "challenge": stored}, headers["origin"])}
    assert pending.post(FACTOR, forged, headers=headers).status_code == 401
    assert visitor.post("/login/passkey", forged, headers=headers).status_code == 401
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 401


def test_a_challenge_with_a_foreign_signature_is_refused() -> None:
    challenge = login_challenges.create("our key", 1_790_000_000_000)
    assert login_challenges.expires_at("our key", challenge, 1_790_000_000_001) is not None
    assert login_challenges.expires_at("another", challenge, 1_790_000_000_001) is None
    with_later_expiry = challenge[:16] + (2**60).to_bytes(8) + challenge[24:]
    for forged in (
        challenge[1:], challenge[:-1], challenge + b"x", b"", challenge[:16], with_later_expiry
    ):  # fmt: skip
        assert login_challenges.expires_at("our key", forged, 1_790_000_000_001) is None


def test_a_passkey_with_another_persons_user_handle_is_refused(shop: Shop) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    eve, _ = _create_person_with_passkey(shop, role="viewer")
    visitor = Visitor(shop.api_server)
    headers = localhost_headers(visitor)
    handle = base64.urlsafe_b64encode(eve.person_id.encode()).rstrip(b"=").decode()
    for invalid_form in (handle, "", "!", "____"):
        options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
        credential = device.use(options, headers["origin"], userHandle=invalid_form)
        refused = visitor.post("/login/passkey", {"credential": credential}, headers=headers)
        assert refused.status_code == 401, invalid_form
    assert ada.get("/security").status_code == 200


def test_a_challenge_is_valid_only_for_the_form_that_it_was_created_for(shop: Shop) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    headers = localhost_headers(visitor)
    visitor.log_in()
    factor_options = passkey_options(visitor.get(FACTOR, headers=headers))
    form = {"credential": device.use(factor_options, headers["origin"])}
    assert visitor.post("/login/passkey", form, headers=headers).status_code == 401
    login_options = passkey_options(visitor.post("/login/passkey/begin", headers=headers))
    form = {"credential": device.use(login_options, headers["origin"])}
    assert visitor.post(FACTOR, form, headers=headers).status_code == 401
    assert visitor.get("/security").headers["location"].startswith(FACTOR)


def test_a_kept_form_waits_for_the_second_factor(shop: Shop) -> None:
    ada, device = _create_person_with_passkey(shop, role="owner")
    ada.post("/logout")
    bob = new_address()
    path = f"/dashboard/{shop.id}/team/invite"
    form = {"email": bob, "role": "viewer", "form_person": ada.person_id}
    login_form = {"login_email": ada.email, "login_password": PASSWORD}
    for entries in (form | login_form, form | {"login_email": "", "login_password": ""}, form):
        page = ada.post(path, entries)
        assert page.status_code == 401
        assert 'name="role" value="viewer"' in page.text
        assert 'href="/login/factor"' in page.text
    assert shop.api_server.sql("select 1 from person_links where email = $1", bob) == []
    headers = localhost_headers(ada)
    credential = device.use(passkey_options(ada.get(FACTOR, headers=headers)), headers["origin"])
    ada.post(FACTOR, {"credential": credential}, headers=headers)
    assert "is invited" in ada.post(path, form | {"login_email": "", "login_password": ""}).text


def test_wrong_codes_are_counted_over_all_addresses_and_only_after_the_password(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(shop.api_server.app.clock())
    ada, _ = _create_person_with_passkey(shop, role="owner")
    app = shop.api_server.app

    def attempt(number: int, password: str = PASSWORD) -> type[Exception] | None:
        credentials = people.Credentials(
            email=ada.email, password=password, code="aaaa bbbb cccc dddd",
            browser=people.Browser(f"198.51.100.{number}", "Testfox/1.0"),
        )  # fmt: skip
        try:
            shop.api_server.run(
                people.log_in(
                    app.db, credentials, app.settings.secret_key, app.clock(),
                    people.begin_for_commands,
                )
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - the test says which one it must be
            return type(error)
        return None

    outcomes = [attempt(number, "not the password at all") for number in range(5)]
    assert set(outcomes) == {people.WrongCredentials}
    entries = "select who, subject from audit_log where action = 'people factor failed'"
    assert shop.api_server.sql(entries + " and subject = $1", ada.person_id) == []
    outcomes = [attempt(10 + number) for number in range(12)]
    assert outcomes[:11] == [logins.WrongCode] * 11
    assert outcomes[11] is TooManyRequests
    assert len(shop.api_server.sql(entries + " and subject = $1", ada.person_id)) == 1


def test_staff_cannot_remove_their_last_factor_in_live_mode(shop: Shop, live_mode: None) -> None:
    grace, _ = _create_person_with_passkey(shop, staff_role="admin")
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
        assert _location(response) == factor_required, form
    assert "only after you have followed a link" in thief.get("/security?second=1").text
    assert _location(grace.post("/security/password")) == factor_required
    assert _location(grace.get("/dashboard")) == factor_required
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
        assert _location(response) == (303, "/security?second=1"), begin


@pytest.mark.parametrize("is_passkey_first", [False, True])
def test_staff_that_remove_their_last_two_factors_concurrently_keep_one(
    shop: Shop, live_mode: None, is_passkey_first: bool
) -> None:
    grace, _ = _create_person_with_passkey(shop, staff_role="admin")
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
    is_staff = "staff_role" in role
    if not is_staff:
        role = role | {"merchant_id": shop.id}
    pages = [page for page in PAGES if page.allowed != "anyone" and "logins/end" not in page.path]
    violations: list[tuple[str, str, str, int, str]] = []
    for factor, visitor in _logins(shop, role):
        for page in pages:
            path = path_of(page, shop.id)
            response = visitor.get(path) if page.method == "GET" else visitor.post(path)
            status, location = _location(response)
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
    ada, _ = _create_person_with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    response = visitor.get(f"/dashboard/{shop.id}/payments", headers={"hx-request": "true"})
    assert (response.status_code, response.text) == (403, "")


def test_a_pending_login_cannot_accept_an_invitation(shop: Shop) -> None:
    ada, _ = _create_person_with_passkey(shop, role="owner")
    second_shop = shop.api_server.create_shop(name="Second Shop")
    link = invite(shop.api_server, ada.email, second_shop.id, "owner")
    confirm = "update persons set confirmed = true where id = $1 returning 1"
    shop.api_server.sql(confirm, ada.person_id)
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    response = visitor.post(link.path, {"name": "Eve", "password": "seven slow rivers sing"})
    assert response.headers["location"].startswith("/login")
    assert ada.get(f"/dashboard/{second_shop.id}/").status_code == 404
