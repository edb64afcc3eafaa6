"""A person's second factor is required: a login without it can only prove it or log out."""

import base64
import re
from collections.abc import Callable
from urllib.parse import quote

import httpx2

from opentill import people
from opentill.core.errors import TooManyRequests
from opentill.people import login_challenges, logins
from opentill.people.lifetimes import CHALLENGE_MS
from people.factor_pages import FACTOR, create_person_with_passkey, read_redirect
from people.passkey_device import (
    PasskeyDevice,
    add_passkey,
    localhost_headers,
    log_in_by_passkey,
    passkey_options,
)
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, new_address


def person_token(shop: Shop, ada: Visitor) -> tuple[str, str]:
    """Log in by the API; return the access token and the refresh token."""
    response = _post(shop, "/v1/merchant/sessions", email=ada.email, password=PASSWORD)
    assert response.status_code == 201, response.text
    tokens = response.json()["data"]
    return tokens["accessToken"], tokens["refreshToken"]


def _post(shop: Shop, path: str, **body: str) -> httpx2.Response:
    return shop.api_server.http.post(path, json=body)


def test_an_account_with_a_passkey_needs_more_than_the_password(shop: Shop) -> None:
    ada, device = create_person_with_passkey(shop, role="owner")
    thief = Visitor(shop.api_server, ada.email)
    login_response = thief.log_in()
    assert (login_response.status_code, login_response.headers["location"]) == (303, FACTOR)
    for path in (f"/dashboard/{shop.id}/", "/security", "/dashboard", f"/dashboard/{shop.id}/team"):
        assert thief.get(path).headers["location"].startswith(FACTOR), path
    forms = ("authenticator/begin", "passkeys/begin", "passkeys/remove", "codes", "logins/end")
    for form in forms:
        assert thief.post(f"/security/{form}").status_code == 401, form
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303


def test_proving_a_passkey_after_the_password_leads_to_the_requested_page(shop: Shop) -> None:
    ada, device = create_person_with_passkey(shop, role="owner")
    visitor, requested_page = Visitor(shop.api_server, ada.email), f"/dashboard/{shop.id}/team?x=1"
    factor_page = visitor.log_in(next=requested_page).headers["location"]
    assert factor_page == f"{FACTOR}?next={quote(requested_page, safe='')}"
    headers, previous_token = localhost_headers(visitor), visitor.token
    options = passkey_options(visitor.get(factor_page, headers=headers))
    form = {"credential": device.use(options, headers["origin"]), "next": requested_page}
    assert read_redirect(visitor.post(FACTOR, form, headers=headers)) == (303, requested_page)
    assert visitor.get(requested_page).status_code == 200
    assert visitor.token != previous_token
    attacker = Visitor(shop.api_server, ada.email)
    attacker.log_in()
    assert attacker.post(FACTOR, form, headers=headers).status_code == 401
    assert read_redirect(attacker.post("/logout")) == (303, "/login")
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
    assert read_redirect(other_visitor.post(FACTOR, {"code": codes[1]})) == (303, "/dashboard")
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
    ada, _ = create_person_with_passkey(shop, role="owner")
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
    ada, device = create_person_with_passkey(shop, role="owner")
    clock(shop.api_server.app.clock() + 10 * 60_000)
    path, form = f"/dashboard/{shop.id}/team/invite", {"email": "bob@example.com", "role": "viewer"}
    headers = localhost_headers(ada)
    for proof in ({}, {"proof_password": PASSWORD}, {"proof_password": PASSWORD, "proof_code": ""}):
        assert heading_of(ada.post(path, form | proof)) == "Confirm that it is you"
    eve, eves_device = create_person_with_passkey(shop, role="owner")
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
    _, device = create_person_with_passkey(shop, role="owner")
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
    ada, device = create_person_with_passkey(shop, role="owner")
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
    _, device = create_person_with_passkey(shop, role="owner")
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
    ada, device = create_person_with_passkey(shop, role="owner")
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
    ada, device = create_person_with_passkey(shop, role="owner")
    eve, _ = create_person_with_passkey(shop, role="viewer")
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
    ada, device = create_person_with_passkey(shop, role="owner")
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
    ada, device = create_person_with_passkey(shop, role="owner")
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
    ada, _ = create_person_with_passkey(shop, role="owner")
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
