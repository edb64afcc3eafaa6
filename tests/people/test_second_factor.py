"""Each code of an authenticator (RFC 6238) and each recovery code is valid once."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from opentill.db.clock import now_ms
from opentill.people import totp
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, new_address

# The secret of RFC 6238 Appendix B, "12345678901234567890", in base32.
SECRET: Final = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


@pytest.mark.parametrize(
    ("unix_time", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_equal_the_test_vectors_of_rfc_6238(unix_time: int, code: str) -> None:
    assert totp.code_at(SECRET, unix_time // totp.PERIOD_S) == code


def test_a_code_is_valid_one_period_early_or_late_and_only_once() -> None:
    now, period = 1_790_000_000, 1_790_000_000 // totp.PERIOD_S
    for offset, is_valid in ((-2, False), (-1, True), (0, True), (1, True), (2, False)):
        matching = totp.matching_period(SECRET, totp.code_at(SECRET, period + offset), now, 0)
        assert matching == (period + offset if is_valid else None)
    assert totp.matching_period(SECRET, totp.code_at(SECRET, period), now, period) is None
    assert totp.matching_period(SECRET, totp.code_at(SECRET, period - 1), now, period) is None


def _set_up_authenticator(ada: Visitor) -> tuple[str, list[str]]:
    """Set up an authenticator in the dashboard; return its secret and the recovery codes."""
    assert ada.post("/security/authenticator/begin").headers["location"] == (
        "/security/authenticator"
    )
    page = ada.get("/security/authenticator").text
    secret = re.search(r'id="key"[^>]* value="([A-Z2-7 ]+)"', page)
    assert secret is not None
    assert ada.get("/security/authenticator.svg").headers["content-type"].startswith("image/svg")
    plain_secret = secret[1].replace(" ", "")
    for wrong in ("000000", "²²²²²²", "１２３４５６"):
        assert ada.post("/security/authenticator", {"code": wrong}).status_code == 400
    confirmed = ada.post("/security/authenticator", {"code": _code(plain_secret)})
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", confirmed.text)
    assert len(set(codes)) == 10
    return plain_secret, codes


def _code(secret: str, offset: int = 0) -> str:
    """Return the code of the current period, or of one before or after it."""
    return totp.code_at(secret, now_ms() // 1000 // totp.PERIOD_S + offset)


def test_a_login_with_an_authenticator_needs_an_unused_code(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    secret, codes = _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server, ada.email)
    refused = visitor.log_in("not my password at all", code=_code(secret, 1))
    assert (refused.status_code, "Email or password is wrong" in refused.text) == (401, True)
    assert 'name="code"' not in refused.text
    assert visitor.log_in(code="000000").status_code == 401
    code = _code(secret, 1)  # the authenticator's clock is one period ahead
    assert visitor.log_in(code=f"{code[:3]} {code[3:]}").status_code == 303
    assert visitor.log_in(code=code).status_code == 401  # the code has been used
    assert visitor.log_in(code=codes[0].upper()).status_code == 303
    # This recovery code has been used.
    assert visitor.log_in(code=codes[0]).status_code == 401
    assert "Recovery codes left: 9" in ada.get("/security").text
    stored = str(shop.api_server.sql("select * from persons where id = $1", ada.person_id))
    assert secret not in stored


def test_a_code_with_the_password_does_not_skip_the_second_step(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = {"email": ada.email, "password": PASSWORD, "code": "123456"}
    assert ada.post("/login", form).headers["location"] == "/dashboard"
    secret, _ = _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server, ada.email)
    response = visitor.post("/login", form | {"code": _code(secret, 1)})
    assert response.headers["location"] == "/login/factor"
    assert visitor.get("/security").headers["location"].startswith("/login/factor")


def test_the_login_page_asks_for_a_code_only_after_the_right_password(shop: Shop) -> None:
    """Nothing before the password shows whether an account exists or has a second factor."""
    ada, bob = (create_person(shop.api_server, shop.id, "owner") for _ in range(2))
    secret, _ = _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server)
    assert 'name="code"' not in visitor.get("/login").text
    pages = set[str]()
    for email in (ada.email, bob.email, new_address()):
        visitor.email = email
        refused = visitor.log_in("not my password at all")
        assert refused.status_code == 401
        pages.add(refused.text.replace(email, "EMAIL"))
    assert len(pages) == 1
    visitor.email = ada.email
    assert visitor.log_in().headers["location"] == "/login/factor"
    page = visitor.get("/login/factor").text
    assert ada.email in page
    assert re.search(r'name="code"[^>]* inputmode="numeric"[^>]* autofocus', page)
    assert visitor.post("/login/factor", {"code": _code(secret, 1)}).status_code == 303
    assert visitor.get("/security").status_code == 200


def test_a_recovery_code_has_a_form_of_its_own_that_errors_keep(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    _, codes = _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    assert 'href="/login/factor?recovery=1"' in visitor.get("/login/factor").text
    page = visitor.get("/login/factor", params={"recovery": "1"})
    assert heading_of(page) == "Enter a recovery code"
    assert 'inputmode="numeric"' not in page.text
    refused = visitor.post("/login/factor", {"code": "wrong", "recovery": "1"})
    assert (refused.status_code, heading_of(refused)) == (401, "Enter a recovery code")
    accepted = visitor.post("/login/factor", {"code": codes[0], "recovery": "1"})
    assert accepted.status_code == 303


def test_a_pending_login_opens_nothing_and_ends_after_ten_minutes(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    start = shop.api_server.app.clock()
    ada = create_person(shop.api_server, shop.id, "owner")
    secret, _ = _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    pending_token = visitor.token
    for page in ("/dashboard", f"/dashboard/{shop.id}/payments", "/security"):
        assert visitor.get(page).headers["location"].startswith("/login/factor"), page
    headers = {"authorization": f"Bearer {pending_token}"}
    assert shop.api_server.http.get("/v1/merchant/profile", headers=headers).status_code == 401
    assert Visitor(shop.api_server).get("/login/factor").headers["location"] == "/login"
    clock(start + 9 * 60_000)
    assert visitor.get("/login/factor").status_code == 200
    clock(start + 11 * 60_000)  # looking at the page has not prolonged the login
    refused = visitor.post("/login/factor", {"code": _code(secret, 1)})
    assert refused.headers["location"] == "/login"
    # The code is still unused.
    assert visitor.log_in(code=_code(secret, 1)).status_code == 303
    assert visitor.token != pending_token


def test_codes_after_the_right_password_are_limited_for_all_browsers_together(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    secret, _ = _set_up_authenticator(ada)
    clock(shop.api_server.app.clock())
    statuses = list[int]()
    for _ in range(12):
        visitor = Visitor(shop.api_server, ada.email)
        statuses.append(visitor.log_in(code="000000").status_code)
    assert statuses == [401] * 11 + [429]
    visitor = Visitor(shop.api_server, ada.email)
    assert visitor.log_in(code=_code(secret, 1)).status_code == 429


def test_new_recovery_codes_replace_the_old_ones_and_end_with_the_factor(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    _, old_codes = _set_up_authenticator(ada)
    new_codes = re.findall(r"<code>([a-z2-7 ]+)</code>", ada.post("/security/codes").text)
    visitor = Visitor(shop.api_server, ada.email)
    assert visitor.log_in(code=old_codes[0]).status_code == 401
    assert visitor.log_in(code=new_codes[0]).status_code == 303
    assert ada.post("/security/authenticator/remove").status_code == 303
    assert visitor.log_in().status_code == 303
    actions = shop.api_server.sql(
        "select action from audit_log where who = $1 order by number",
        f"{ada.email} ({ada.person_id})",
    )
    assert [row["action"] for row in actions][1:] == [
        "people second factor",
        "people recovery codes",
        "people second factor",
    ]


def test_an_authenticator_is_replaced_within_the_same_half_minute(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    secrets = [_set_up_authenticator(ada)[0] for _ in range(2)]
    visitor = Visitor(shop.api_server, ada.email)
    codes = [_code(secret, 1) for secret in secrets]
    assert [visitor.log_in(code=code).status_code for code in codes] == [401, 303]


def test_removing_the_last_second_factor_makes_logins_weak(shop: Shop) -> None:
    def read_strengths(visitor: Visitor) -> set[bool]:
        rows = shop.api_server.sql(
            "select strong from logins where person_id = $1", visitor.person_id
        )
        assert rows
        return {row["strong"] for row in rows}

    ada, bob = (create_person(shop.api_server, None, staff_role="admin") for _ in range(2))
    secret, _ = [_set_up_authenticator(person)[0] for person in (ada, bob)]
    assert Visitor(shop.api_server, ada.email).log_in(code=_code(secret, 1)).status_code == 303
    shop.api_server.sql(
        "insert into passkeys values ($1, $2, $3, $3, 0, 'Phone', 0, null)",
        f"pk_{ada.person_id}", ada.person_id, ada.person_id.encode(),
    )  # fmt: skip
    assert ada.post("/security/authenticator/remove").status_code == 303
    assert read_strengths(ada) == {True}, "Ada still has the passkey"
    ada.post("/security/passkeys/remove", {"id": f"pk_{ada.person_id}"})
    assert (read_strengths(ada), read_strengths(bob)) == ({False}, {True})
    bob.post("/security/authenticator/remove")
    assert read_strengths(bob) == {False}


# ── step-up ──


def test_a_step_up_requires_the_password_and_keeps_the_form(shop: Shop, clock: object) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    later = shop.api_server.app.clock() + 10 * 60_000
    clock(later)  # type: ignore[operator]
    form = {"email": "o'bob&co@example.com", "role": "viewer"}
    path = f"/dashboard/{shop.id}/team/invite"
    step_up = ada.post(path, form)
    assert heading_of(step_up) == "Confirm that it is you"
    assert 'value="o&#39;bob&amp;co@example.com"' in step_up.text
    previous_token = ada.token
    refused = ada.post(path, form | {"proof_password": "wrong"})
    assert (refused.status_code, "is wrong" in refused.text) == (403, True)
    response = ada.post(
        path, {"email": "bob@example.com", "role": "viewer", "proof_password": PASSWORD}
    )
    assert "bob@example.com is invited" in response.text
    assert ada.token != previous_token
    other_browser = Visitor(shop.api_server)
    other_browser.set_token(previous_token)
    # The previous token is void after a step-up.
    assert other_browser.get("/security").status_code == 303
    assert heading_of(ada.post(path, {"email": "eve@example.com", "role": "viewer"})) == "Team"
    clock(later + 10 * 60_000)  # type: ignore[operator]
    assert heading_of(ada.post(path, form)) == "Confirm that it is you"


def test_a_repeated_form_is_recognized_with_and_without_a_step_up(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    _, codes = _set_up_authenticator(ada)
    path = f"/dashboard/{shop.id}/developers/webhooks/{shop.create_endpoint()['id']}"

    def rotate(form_id: str, *code: str) -> str:
        proof = {"proof_email": ada.email, "proof_password": PASSWORD}
        form = {"form_id": form_id} | ({**proof, "proof_code": code[0]} if code else {})
        page = ada.post(f"{path}/rotate", form)
        return heading_of(page) if "The secret was replaced." in page.text else "not replaced"

    form_id = "ab" * 16
    # The second time, the form is repeated as if its first response had been lost.
    for code in codes[:2]:
        shop.api_server.sql(
            "update logins set proved_at = 0 where person_id = $1 returning 1", ada.person_id
        )
        assert rotate(form_id, code).startswith("Endpoint at ")
    # The used code is ignored, because the previous proof is recent enough.
    assert rotate(form_id, codes[1]).startswith("Endpoint at ")
    ada.log_in(code=codes[2])
    assert rotate(form_id).startswith("Endpoint at ")
    count = "select count(*) from audit_log where merchant_id = $1 and action = 'webhooks rotate'"
    assert shop.api_server.sql(count, shop.id) == [{"count": 1}]
    rotate("cd" * 16)
    stored = shop.api_server.sql(
        "select fingerprint from idempotency_keys where merchant_id = $1 and key like 'form %'",
        shop.id,
    )
    assert len(stored) == 2
    # The fingerprint of the form does not include the fields of the step-up.
    assert stored[0] == stored[1]


def test_a_kept_form_does_not_contain_the_step_up(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    ada.post("/logout")
    form = {"role": "viewer", "proof_email": ada.email, "proof_password": PASSWORD}
    page = ada.post(f"/dashboard/{shop.id}/team/invite", form).text
    assert 'name="role" value="viewer"' in page
    assert "proof_" not in page
    assert PASSWORD not in page
    assert "not kept" not in page  # logging in is a step-up too, so nothing of the form is missing


# ── a person's own account ──


def test_a_changed_password_ends_the_other_logins(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    other_login = Visitor(shop.api_server, ada.email)
    other_login.log_in()
    new_password = "seven slow rivers sing"
    for form, status, sentence in (
        ({"current": "wrong", "password": new_password}, 403, "is wrong"),
        ({"current": PASSWORD, "password": "password1234"}, 400, "easily guessed"),
    ):
        refused = ada.post("/security/password", form)
        assert (refused.status_code, sentence in refused.text) == (status, True)
    assert other_login.get("/security").status_code == 200
    assert (
        ada.post("/security/password", {"current": PASSWORD, "password": new_password}).status_code
        == 303
    )
    assert ada.get("/security").status_code == 200
    assert other_login.get("/security").status_code == 303
    assert other_login.log_in().status_code == 401
    assert other_login.log_in(new_password).status_code == 303


def test_a_person_ends_one_or_all_of_their_other_logins_only(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    bob = create_person(shop.api_server, shop.id, "viewer")
    other_logins = [Visitor(shop.api_server, ada.email) for _ in range(3)]
    for visitor in other_logins:
        visitor.log_in()
    (bobs_login,) = shop.api_server.sql("select id from logins where person_id = $1", bob.person_id)
    ada.post("/security/logins/end", {"id": bobs_login["id"]})
    assert bob.get("/security").status_code == 200
    page = ada.get("/security").text
    ids = re.findall(r'name="id" value="(ses_\w+)"', page)
    assert len(ids) == 3
    ada.post("/security/logins/end", {"id": ids[0]})
    statuses = sorted(visitor.get("/security").status_code for visitor in other_logins)
    assert statuses == [200, 200, 303]
    ada.post("/security/logins/end")
    assert {visitor.get("/security").status_code for visitor in other_logins} == {303}
    assert ada.get("/security").status_code == 200


def test_staff_need_a_second_factor_in_live_mode(shop: Shop) -> None:
    import msgspec

    app = shop.api_server.app
    staff = create_person(shop.api_server, None, staff_role="admin")
    before, path = app.settings, f"/dashboard/{shop.id}/"
    assert staff.get(path).status_code == 200
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    try:
        assert staff.get(path).headers["location"] == "/security?second=1"
        assert "Staff need a second factor" in staff.get("/security?second=1").text
        _set_up_authenticator(staff)
        assert staff.get(path).status_code == 200
    finally:
        app.settings = before
