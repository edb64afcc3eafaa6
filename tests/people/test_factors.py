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
PAGES: Final = [one for portal in PORTALS for one in portal.pages]


@pytest.fixture
def live(shop: Shop) -> Iterator[None]:
    """A deployment that takes real money."""
    app, before = shop.api_server.app, shop.api_server.app.settings
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    yield
    app.settings = before


def path_of(page: Page, merchant_id: str) -> str:
    """Return a page's path with ids of resources that do not exist."""
    path = page.path.replace("{merchant:id}", merchant_id)
    return re.sub(r"{[^}]+}", "xx_0000000000000000000000000a", path)


def person_token(shop: Shop, ada: Visitor) -> tuple[str, str]:
    """Log in by the API; the access token and the refresh token."""
    answer = _post(shop, "/v1/merchant/sessions", email=ada.email, password=PASSWORD)
    assert answer.status_code == 201, answer.text
    tokens = answer.json()["data"]
    return tokens["accessToken"], tokens["refreshToken"]


def _post(shop: Shop, path: str, **body: str) -> httpx2.Response:
    return shop.api_server.http.post(path, json=body)


def _with_passkey(shop: Shop, **place: str) -> tuple[Visitor, PasskeyDevice]:
    ada = create_person(shop.api_server, shop.id if "role" in place else None, **place)  # type: ignore[arg-type]
    return ada, add_passkey(ada)


def test_an_account_with_a_passkey_needs_more_than_the_password(shop: Shop) -> None:
    ada, device = _with_passkey(shop, role="owner")
    thief = Visitor(shop.api_server, ada.email)
    entered = thief.log_in()
    assert (entered.status_code, entered.headers["location"]) == (303, FACTOR)
    for path in (f"/dashboard/{shop.id}/", "/security", "/dashboard", f"/dashboard/{shop.id}/team"):
        assert thief.get(path).headers["location"].startswith(FACTOR), path
    posts = ("authenticator/begin", "passkeys/begin", "passkeys/remove", "codes", "logins/end")
    for place in posts:
        assert thief.post(f"/security/{place}").status_code == 401, place
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303


def _location(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.headers.get("location", "")


def test_proving_a_passkey_after_the_password_leads_to_the_requested_page(shop: Shop) -> None:
    ada, device = _with_passkey(shop, role="owner")
    visitor, goal = Visitor(shop.api_server, ada.email), f"/dashboard/{shop.id}/team?x=1"
    page = visitor.log_in(next=goal).headers["location"]
    assert page == f"{FACTOR}?next={quote(goal, safe='')}"
    here, before = localhost_headers(visitor), visitor.token
    options = passkey_options(visitor.get(page, headers=here))
    sent = {"credential": device.use(options, here["origin"]), "next": goal}
    assert _location(visitor.post(FACTOR, sent, headers=here)) == (303, goal)
    assert visitor.get(goal).status_code == 200
    assert visitor.token != before
    replayed = Visitor(shop.api_server, ada.email)
    replayed.log_in()
    assert replayed.post(FACTOR, sent, headers=here).status_code == 401
    assert _location(replayed.post("/logout")) == (303, "/login")
    assert replayed.get(FACTOR).headers["location"] == "/login"


def test_adding_the_first_passkey_returns_recovery_codes(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    device, here = PasskeyDevice(), localhost_headers(ada)
    page = ada.post("/security/passkeys/begin", headers=here)
    credential = device.create(passkey_options(page), here["origin"])
    added = ada.post("/security/passkeys", {"credential": credential, "name": ""}, headers=here)
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", added.text)
    assert len(set(codes)) == 10
    visitor = Visitor(shop.api_server, ada.email)
    assert visitor.log_in(code=codes[0]).headers["location"] == "/dashboard"
    other = Visitor(shop.api_server, ada.email)
    assert other.log_in(code=codes[0]).status_code == 401  # used
    other.log_in()
    assert other.post(FACTOR, {"code": "aaaa bbbb cccc dddd"}).status_code == 401
    assert _location(other.post(FACTOR, {"code": codes[1]})) == (303, "/dashboard")
    add_passkey(other)
    assert "Recovery codes left: 8" in other.get("/security").text
    for row in shop.api_server.sql("select id from passkeys where person_id = $1", ada.person_id):
        other.post("/security/passkeys/remove", {"id": row["id"]})
    assert Visitor(shop.api_server, ada.email).log_in(code=codes[2]).status_code == 303
    (left,) = shop.api_server.sql(
        "select count(*) from recovery_codes where person_id = $1", ada.person_id
    )
    assert left["count"] == 0, "they are worth nothing without a factor"


def test_a_login_from_before_the_first_factor_lacks_it(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    earlier, token = Visitor(shop.api_server, ada.email), person_token(shop, ada)
    earlier.log_in()
    assert earlier.get("/security").status_code == 200
    add_passkey(ada)
    assert earlier.get("/security").headers["location"].startswith(FACTOR)
    assert (
        shop.api_server.http.get(
            "/v1/merchant/profile", headers={"authorization": f"Bearer {token[0]}"}
        ).status_code
        == 401
    )
    refreshed = _post(shop, "/v1/merchant/sessions/refresh", refreshToken=token[1])
    assert refreshed.status_code == 401
    assert ada.get("/security").status_code == 200


def test_the_api_also_requires_the_second_factor(shop: Shop) -> None:
    ada, _ = _with_passkey(shop, role="owner")
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
    ada, device = _with_passkey(shop, role="owner")
    clock(shop.api_server.app.clock() + 10 * 60_000)
    path, form = f"/dashboard/{shop.id}/team/invite", {"email": "bob@example.com", "role": "viewer"}
    here = localhost_headers(ada)
    for proof in ({}, {"proof_password": PASSWORD}, {"proof_password": PASSWORD, "proof_code": ""}):
        assert heading_of(ada.post(path, form | proof)) == "Please confirm that it is you"
    eve, other = _with_passkey(shop, role="owner")
    clock(shop.api_server.app.clock() + 10 * 60_000)
    options = passkey_options(ada.post(path, form, headers=here))
    foreign = other.use(passkey_options(eve.post(path, form, headers=here)), here["origin"])
    by_other = other.use(options, here["origin"])
    for credential in (foreign, by_other):
        refused = ada.post(path, form | {"proof_credential": credential}, headers=here)
        assert heading_of(refused) == "Please confirm that it is you"
    options = passkey_options(ada.post(path, form, headers=here))
    assert len(options["allowCredentials"]) == 1
    passkey_proof = {"proof_credential": device.use(options, here["origin"])}
    assert "bob@example.com is invited" in ada.post(path, form | passkey_proof, headers=here).text
    clock(shop.api_server.app.clock() + 10 * 60_000)
    again = ada.post(path, form | passkey_proof, headers=here)
    assert heading_of(again) == "Please confirm that it is you"


def test_an_invalid_assertion_consumes_its_challenge(shop: Shop) -> None:
    _, device = _with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server)
    here = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=here))
    right = {"credential": device.use(options, here["origin"])}
    wrong = {"credential": device.use(options, "https://evil.example")}
    assert visitor.post("/login/passkey", wrong, headers=here).status_code == 401
    assert visitor.post("/login/passkey", right, headers=here).status_code == 401
    assert log_in_by_passkey(visitor, device).status_code == 303


def test_failed_logins_at_the_same_address_do_not_block_passkeys(shop: Shop) -> None:
    """Neither requested challenges nor failures with passkeys or passwords count against them."""
    ada, device = _with_passkey(shop, role="owner")
    stranger = Visitor(shop.api_server, ada.email)
    here = localhost_headers(stranger)
    for _ in range(40):
        options = passkey_options(stranger.post("/login/passkey/begin", headers=here))
        wrong = {"credential": PasskeyDevice().use(options, here["origin"])}
        assert stranger.post("/login/passkey", wrong, headers=here).status_code == 401
    for _ in range(30):
        Visitor(shop.api_server, new_address()).log_in("not my password at all")
        stranger.log_in("not my password at all")
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303


def test_a_login_challenge_is_valid_once_and_for_five_minutes(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    _, device = _with_passkey(shop, role="owner")
    now = shop.api_server.app.clock()
    clock(now)
    visitor = Visitor(shop.api_server)
    here = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=here))
    form = {"credential": device.use(options, here["origin"])}
    assert visitor.post("/login/passkey", form, headers=here).status_code == 303
    assert visitor.post("/login/passkey", form, headers=here).status_code == 401
    late = passkey_options(visitor.post("/login/passkey/begin", headers=here))
    clock(now + CHALLENGE_MS)
    form = {"credential": device.use(late, here["origin"])}
    assert visitor.post("/login/passkey", form, headers=here).status_code == 401


def test_the_stored_digest_of_a_used_challenge_is_no_challenge(shop: Shop) -> None:
    """Sending the digest as a challenge is refused, and deletes nothing."""
    ada, device = _with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    here = localhost_headers(visitor)
    options = passkey_options(visitor.post("/login/passkey/begin", headers=here))
    form = {"credential": device.use(options, here["origin"])}
    assert visitor.post("/login/passkey", form, headers=here).status_code == 303
    challenge = base64.urlsafe_b64decode(options["challenge"] + "==")
    stored = base64.urlsafe_b64encode(login_challenges.used_digest(challenge)).rstrip(b"=").decode()
    pending = Visitor(shop.api_server, ada.email)
    pending.log_in()
    forged = {"credential": device.use({**options, "challenge": stored}, here["origin"])}
    assert pending.post(FACTOR, forged, headers=here).status_code == 401
    assert visitor.post("/login/passkey", forged, headers=here).status_code == 401
    assert visitor.post("/login/passkey", form, headers=here).status_code == 401


def test_a_challenge_with_a_foreign_signature_is_refused() -> None:
    challenge = login_challenges.create("our key", 1_790_000_000_000)
    assert login_challenges.expires_at("our key", challenge, 1_790_000_000_001) is not None
    assert login_challenges.expires_at("another", challenge, 1_790_000_000_001) is None
    for cut in (challenge[1:], challenge[:-1], challenge + b"x", b"", challenge[:16]):
        assert login_challenges.expires_at("our key", cut, 1_790_000_000_001) is None
    longer = challenge[:16] + (2**60).to_bytes(8) + challenge[24:]
    assert login_challenges.expires_at("our key", longer, 1_790_000_000_001) is None


def test_a_passkey_with_another_persons_user_handle_is_refused(shop: Shop) -> None:
    ada, device = _with_passkey(shop, role="owner")
    eve, _ = _with_passkey(shop, role="viewer")
    visitor = Visitor(shop.api_server)
    here = localhost_headers(visitor)
    handle = base64.urlsafe_b64encode(eve.person_id.encode()).rstrip(b"=").decode()
    for wrong in (handle, "", "!", "____"):
        options = passkey_options(visitor.post("/login/passkey/begin", headers=here))
        credential = device.use(options, here["origin"], userHandle=wrong)
        refused = visitor.post("/login/passkey", {"credential": credential}, headers=here)
        assert refused.status_code == 401, wrong
    assert ada.get("/security").status_code == 200


def test_a_challenge_is_refused_in_another_ceremony(shop: Shop) -> None:
    ada, device = _with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    here = localhost_headers(visitor)
    visitor.log_in()
    for_factor = passkey_options(visitor.get(FACTOR, headers=here))
    by_login = {"credential": device.use(for_factor, here["origin"])}
    assert visitor.post("/login/passkey", by_login, headers=here).status_code == 401
    for_login = passkey_options(visitor.post("/login/passkey/begin", headers=here))
    as_factor = {"credential": device.use(for_login, here["origin"])}
    assert visitor.post(FACTOR, as_factor, headers=here).status_code == 401
    assert visitor.get("/security").headers["location"].startswith(FACTOR)


def test_a_kept_form_waits_for_the_second_factor(shop: Shop) -> None:
    ada, device = _with_passkey(shop, role="owner")
    ada.post("/logout")
    bob = new_address()
    path = f"/dashboard/{shop.id}/team/invite"
    form = {"email": bob, "role": "viewer", "form_person": ada.person_id}
    login_form = {"login_email": ada.email, "login_password": PASSWORD}
    for sent in (form | login_form, form | {"login_email": "", "login_password": ""}, form):
        page = ada.post(path, sent)
        assert page.status_code == 401
        assert 'name="role" value="viewer"' in page.text
        assert 'href="/login/factor"' in page.text
    assert shop.api_server.sql("select 1 from person_links where email = $1", bob) == []
    here = localhost_headers(ada)
    credential = device.use(passkey_options(ada.get(FACTOR, headers=here)), here["origin"])
    ada.post(FACTOR, {"credential": credential}, headers=here)
    assert "is invited" in ada.post(path, form | {"login_email": "", "login_password": ""}).text


def test_wrong_codes_are_counted_over_all_addresses_and_only_after_the_password(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(shop.api_server.app.clock())
    ada, _ = _with_passkey(shop, role="owner")
    app = shop.api_server.app

    def attempt(number: int, password: str = PASSWORD) -> type[Exception] | None:
        credentials = people.Credentials(
            email=ada.email, password=password, code="aaaa bbbb cccc dddd",
            browser=people.Browser(f"198.51.100.{number}", "Testfox/1.0"),
        )  # fmt: skip
        try:
            shop.api_server.run(
                people.log_in(app.db, credentials, app.settings.secret_key, app.clock())
            )
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


def test_staff_keep_one_factor_where_money_is_real(shop: Shop, live: None) -> None:
    grace, _ = _with_passkey(shop, staff_role="admin")
    (row,) = shop.api_server.sql("select id from passkeys where person_id = $1", grace.person_id)
    refused = grace.post("/security/passkeys/remove", {"id": row["id"]})
    assert refused.status_code == 400
    assert "Staff must keep a second factor" in refused.text
    add_passkey(grace)
    assert grace.post("/security/passkeys/remove", {"id": row["id"]}).status_code == 303
    assert grace.get("/console").status_code == 200


def test_staff_set_up_their_first_factor_only_in_a_login_that_a_link_has_begun(
    shop: Shop, live: None
) -> None:
    grace = create_person(shop.api_server, None, staff_role="admin")
    thief = Visitor(shop.api_server, grace.email)
    thief.log_in()
    needs = (303, "/security?second=1")
    here = localhost_headers(thief)
    for place in ("authenticator/begin", "passkeys/begin", "password", "logins/end", "codes"):
        assert _location(thief.post(f"/security/{place}", headers=here)) == needs, place
    assert "only after you have followed a link" in thief.get("/security?second=1").text
    assert _location(grace.post("/security/password")) == needs
    assert _location(grace.get("/dashboard")) == needs
    add_passkey(grace)
    assert grace.get("/console").status_code == 200
    assert thief.get("/console").headers["location"].startswith(FACTOR)


@pytest.mark.parametrize("confirmed", [True, False])
def test_an_invitation_that_a_member_has_seen_lets_no_staff_set_up_a_factor(
    shop: Shop, live: None, confirmed: bool
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
    here = localhost_headers(thief)
    for place in ("authenticator/begin", "passkeys/begin"):
        answer = thief.post(f"/security/{place}", headers=here)
        assert _location(answer) == (303, "/security?second=1"), place


@pytest.mark.parametrize("last", ["authenticator", "passkey"])
def test_of_two_last_factors_of_staff_that_are_removed_at_once_one_stays(
    shop: Shop, live: None, last: str
) -> None:
    grace, _ = _with_passkey(shop, staff_role="admin")
    app, key = shop.api_server.app, shop.api_server.app.settings.secret_key
    (row,) = shop.api_server.sql("select id from passkeys where person_id = $1", grace.person_id)
    login = shop.api_server.run(people.find(app.db, grace.token, "192.0.2.1", app.clock()))
    assert login is not None

    async def both() -> list[object]:
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
        if last == "passkey":
            removals.reverse()
        return await asyncio.gather(*removals, return_exceptions=True)

    outcomes = shop.api_server.run(both())
    assert sum(isinstance(one, people.LastFactor) for one in outcomes) == 1
    assert grace.get("/console").status_code == 200


def _ways(shop: Shop, place: dict[str, Any]) -> Iterator[tuple[str, Visitor]]:
    """Yield somebody with a role in each of three states of their second factor."""
    yield "none", create_person(shop.api_server, **place)
    proved = create_person(shop.api_server, **place)
    add_passkey(proved)
    yield "proved", proved
    lacking = Visitor(shop.api_server, proved.email)
    lacking.log_in()
    yield "lacking", lacking


ROLES: Final[list[dict[str, Any]]] = [
    *({"merchant_id": "", "role": role} for role in people.MERCHANT_ROLES),
    *({"merchant_id": None, "staff_role": role} for role in people.STAFF_ROLES),
]


@pytest.mark.parametrize("place", ROLES, ids=lambda page: page.get("role") or page["staff_role"])
def test_every_page_for_every_role_with_and_without_the_second_factor(
    shop: Shop, live: None, place: dict[str, Any]
) -> None:
    """Pages are the tables of all portals; an answer of a page itself is none of the refusals."""
    where = place | ({"merchant_id": shop.id} if place["merchant_id"] == "" else {})
    is_staff = "staff_role" in place
    pages = [page for page in PAGES if page.allowed != "anyone" and "logins/end" not in page.path]
    wrong: list[tuple[str, str, str, int, str]] = []
    for way, visitor in _ways(shop, where):
        for page in pages:
            path = path_of(page, shop.id)
            answer = visitor.get(path) if page.method == "GET" else visitor.post(path)
            status, location = _location(answer)
            if way == "lacking":
                expected = (
                    location.startswith(FACTOR)
                    if page.method == "GET"
                    else (status, heading_of(answer)) == (401, "Please log in again")
                )
            elif way == "none" and is_staff and not page.enrolls:
                expected = location == "/security?second=1"
            else:
                expected = not location.startswith(("/login", "/security?second")) and status < 500
            if not expected:
                wrong.append((way, page.method, path, status, location))
    assert wrong == []


def test_a_live_list_of_a_login_that_lacks_its_factor_gets_no_rows(shop: Shop) -> None:
    ada, _ = _with_passkey(shop, role="owner")
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    answer = visitor.get(f"/dashboard/{shop.id}/payments", headers={"hx-request": "true"})
    assert (answer.status_code, answer.text) == (403, "")


def test_an_invitation_is_not_accepted_by_a_login_that_lacks_its_factor(shop: Shop) -> None:
    ada, _ = _with_passkey(shop, role="owner")
    other = shop.api_server.create_shop(name="Second Shop")
    link = invite(shop.api_server, ada.email, other.id, "owner")
    confirm = "update persons set confirmed = true where id = $1 returning 1"
    shop.api_server.sql(confirm, ada.person_id)
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    answer = visitor.post(link.path, {"name": "Eve", "password": "seven slow rivers sing"})
    assert answer.headers["location"].startswith("/login")
    assert ada.get(f"/dashboard/{other.id}/").status_code == 404
