"""Lost second factors end after two administrators and a delay, unless the person stops it."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from opentill import people
from opentill.core.errors import Invalid, NotFound
from opentill.db.clock import now_ms
from opentill.people import lost_factors, totp
from opentill.people.lifetimes import HOUR_MS
from opentill.people.model import FactorReset
from people.passkey_device import (
    PasskeyDevice,
    add_passkey,
    localhost_headers,
    log_in_by_passkey,
    passkey_options,
)
from support.api_server import Shop
from support.people import PASSWORD, TESTER, Visitor, create_person, heading_of, new_address

NEW_PASSWORD: Final = "seven slow rivers sing"
DAY_MS: Final = 24 * HOUR_MS


def _end_due(shop: Shop) -> int:
    app = shop.api_server.app
    return shop.api_server.run(lost_factors.end_due(app.db, app.clock()))


def _resets(shop: Shop) -> list[FactorReset]:
    return shop.api_server.tx(lost_factors.open_resets)


def _reset_link(shop: Shop, ada: Visitor) -> str:
    now = shop.api_server.app.clock()
    return shop.api_server.tx(
        lambda tx: people.offer_new_password(tx, ada.email, now, actor=TESTER)
    ).path


def _actions(shop: Shop, ada: Visitor) -> list[str]:
    rows = shop.api_server.sql(
        "select action from audit_log where action like 'people factors%' and subject like $1"
        " order by number",
        f"{ada.person_id}%",
    )
    return [row["action"] for row in rows]


def _request_reset(shop: Shop, admin: Visitor, ada: Visitor) -> FactorReset:
    form = {"lost": ada.email, "reason": "lost the phone, known by voice"}
    assert admin.post("/console/people/factors", form).status_code == 303
    (reset,) = [reset for reset in _resets(shop) if reset.email == ada.email]
    return reset


@pytest.fixture
def ada(shop: Shop) -> tuple[Visitor, PasskeyDevice]:
    """An owner whose only factor is a passkey, and the passkey's device."""
    visitor = create_person(shop.api_server, shop.id, "owner")
    return visitor, add_passkey(visitor)


def test_lost_factors_end_a_day_after_a_second_administrator_confirmed(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice], clock: Callable[[int], None]
) -> None:
    start = shop.api_server.app.clock()
    clock(start)
    grace, judy = (create_person(shop.api_server, None, staff_role="admin") for _ in range(2))
    owner, device = ada
    reset = _request_reset(shop, grace, owner)
    confirm = ("/console/people/factors/confirm", {"id": reset.id})
    refused = grace.post(*confirm)
    assert (refused.status_code, "Another administrator" in refused.text) == (400, True)
    assert "requested by" in judy.get("/console/people").text
    second_request = grace.post("/console/people/factors", {"lost": owner.email, "reason": "again"})
    assert "open already" in second_request.text
    assert judy.post(*confirm).status_code == 303
    assert judy.post(*confirm).status_code == 404
    (confirmed_reset,) = _resets(shop)
    assert confirmed_reset.due_at == start + DAY_MS
    clock(start + DAY_MS - 1)
    assert _end_due(shop) == 0
    assert Visitor(shop.api_server, owner.email).log_in().headers["location"] == "/login/factor"
    clock(start + DAY_MS)
    assert _end_due(shop) == 1
    assert _end_due(shop) == 0
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 401
    assert Visitor(shop.api_server, owner.email).log_in().headers["location"] == "/dashboard"
    assert _actions(shop, owner) == [
        "people factors ask", "people factors begin", "people factors end",
    ]  # fmt: skip


def test_proving_a_factor_stops_its_reset(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice], clock: Callable[[int], None]
) -> None:
    start = shop.api_server.app.clock()
    clock(start)
    grace, judy = (create_person(shop.api_server, None, staff_role="admin") for _ in range(2))
    owner, device = ada
    other = create_person(shop.api_server, shop.id, "owner")
    add_passkey(other)
    _request_reset(shop, grace, other)
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", owner.post("/security/codes").text)

    def log_in_with_passkey() -> None:
        assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303

    def log_in_with_code() -> None:
        visitor = Visitor(shop.api_server, owner.email)
        assert visitor.log_in(code=codes[0]).status_code == 303

    def log_in_and_enter_code() -> None:
        visitor = Visitor(shop.api_server, owner.email)
        visitor.log_in()
        assert visitor.post("/login/factor", {"code": codes[1]}).status_code == 303

    def follow_stop_link() -> None:
        path = shop.api_server.tx(lambda tx: lost_factors.new_stop_link(tx, owner.email))
        assert path is not None
        visitor = Visitor(shop.api_server)
        assert heading_of(visitor.get(path)) == "Keep your second factors"
        assert visitor.post(path).headers["location"] == "/login?kept=1"
        assert visitor.post(path).status_code == 404

    def stop_as_administrator() -> None:
        assert grace.post("/console/people/factors/stop", {"id": reset.id}).status_code == 303

    for stop in (
        log_in_with_passkey, log_in_with_code, log_in_and_enter_code, follow_stop_link,
        stop_as_administrator,
    ):  # fmt: skip
        reset = _request_reset(shop, grace, owner)
        judy.post("/console/people/factors/confirm", {"id": reset.id})
        stop()
        assert [open_reset.email for open_reset in _resets(shop)] == [other.email]
    clock(start + 2 * DAY_MS)
    assert _end_due(shop) == 0
    log_in_with_passkey()


def test_a_reset_needs_a_person_with_a_factor(shop: Shop) -> None:
    grace = create_person(shop.api_server, None, staff_role="admin")
    for email in (grace.email, "nobody@example.com", ""):
        refused = grace.post("/console/people/factors", {"lost": email, "reason": "lost"})
        assert (refused.status_code, "Nobody with this address" in refused.text) == (
            400,
            True,
        )
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert auditor.post("/console/people/factors", {"lost": grace.email}).status_code == 403


def test_a_person_cannot_confirm_the_reset_of_their_own_factors(shop: Shop) -> None:
    grace, judy = (create_person(shop.api_server, None, staff_role="admin") for _ in range(2))
    add_passkey(judy)
    reset = _request_reset(shop, grace, judy)
    assert judy.post("/console/people/factors/confirm", {"id": reset.id}).status_code == 400
    requester = people.Approver(reset.asked_by, lambda _account: False)
    with pytest.raises(Invalid, match="another operator"):
        shop.api_server.tx(
            lambda tx: lost_factors.confirm(tx, reset.id, requester, 0, reason="again", wait_ms=0)
        )
    sql = "update factor_resets set confirmed_by = asked_by where id = $1 returning 1"
    with pytest.raises(Exception, match="factor_reset_takes_two"):
        shop.api_server.sql(sql, reset.id)


def test_the_confirming_administrator_must_be_independent_of_the_requesting_one(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    start, path = shop.api_server.app.clock(), "/console/people/factors/confirm"
    grace, judy, olga = (create_person(shop.api_server, None, staff_role="admin") for _ in range(3))
    add_passkey(judy)
    email = new_address()
    page = grace.post("/console/people/invite", {"email": email, "role": "admin"})
    link = re.search(r"/invite/[\w-]{43}", page.text)
    assert link is not None
    puppet = Visitor(shop.api_server, email)
    assert puppet.post(link[0], {"name": "Eve", "password": NEW_PASSWORD}).status_code == 303
    confirmation = {"id": _request_reset(shop, grace, judy).id}
    refused = puppet.post(path, confirmation)
    assert (refused.status_code, "invited you" in refused.text) == (400, True)
    olga.http.cookies.clear()  # with these cookies, Olga logs in in Grace's browser
    grace.post("/logout")
    grace.log_in()
    grace.post("/logout")
    olga.http.cookies.update(grace.http.cookies)
    olga.log_in()
    refused = olga.post(path, confirmation)
    assert (refused.status_code, "has logged in with this browser" in refused.text) == (400, True)
    clock(start + 3 * DAY_MS + HOUR_MS)
    puppet.log_in(NEW_PASSWORD)
    assert puppet.post(path, confirmation).status_code == 303


def test_ending_and_proving_a_factor_concurrently_has_one_outcome(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice], clock: Callable[[int], None]
) -> None:
    start, app = shop.api_server.app.clock(), shop.api_server.app
    clock(start)
    owner, _ = ada
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", owner.post("/security/codes").text)
    shop.api_server.tx(
        lambda tx: lost_factors.request_reset(tx, owner.email, start, actor=TESTER, wait_ms=HOUR_MS)
    )
    clock(start + HOUR_MS)
    credentials = people.Credentials(
        email=owner.email, password=PASSWORD, code=codes[0],
        browser=people.Browser("192.0.2.1", "Testfox/1.0"),
    )  # fmt: skip

    async def log_in_and_end() -> list[Any]:
        return await asyncio.gather(
            people.log_in(app.db, credentials, app.settings.secret_key, app.clock()),
            lost_factors.end_due(app.db, app.clock()),
            return_exceptions=True,
        )

    shop.api_server.run(log_in_and_end())
    (row,) = shop.api_server.sql(
        "select status, (select count(*) from passkeys where person_id = $1) as passkeys"
        " from factor_resets where person_id = $1",
        owner.person_id,
    )
    assert row in ({"status": "STOPPED", "passkeys": 1}, {"status": "DONE", "passkeys": 0})


# ── a new password ──


def test_a_new_password_keeps_the_factors_if_one_is_proved(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice]
) -> None:
    owner, device = ada
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", owner.post("/security/codes").text)
    link, visitor = _reset_link(shop, owner), Visitor(shop.api_server, owner.email)
    for form, status in (
        # The form neither proves a factor nor says that all are lost.
        ({"password": NEW_PASSWORD}, 400),
        ({"password": NEW_PASSWORD, "code": "aaaa bbbb cccc dddd"}, 401),
        ({"password": NEW_PASSWORD, "code": "aaaa bbbb cccc dddd", "lost": "yes"}, 401),
    ):
        assert visitor.post(link, form).status_code == status
    response = visitor.post(link, {"password": NEW_PASSWORD, "code": codes[0]})
    assert response.headers["location"] == "/login?changed=1"
    assert owner.get("/security").headers["location"].startswith("/login")
    assert visitor.log_in(NEW_PASSWORD).headers["location"] == "/login/factor"
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303
    headers, link = localhost_headers(visitor), _reset_link(shop, owner)
    credential = device.use(passkey_options(visitor.get(link, headers=headers)), headers["origin"])
    form = {"password": "nine quiet herons wait", "credential": credential}
    assert visitor.post(link, form, headers=headers).headers["location"] == "/login?changed=1"
    other_device = add_passkey(create_person(shop.api_server, shop.id, "viewer"))
    link = _reset_link(shop, owner)
    credential = other_device.use(
        passkey_options(visitor.get(link, headers=headers)), headers["origin"]
    )
    assert visitor.post(link, form | {"credential": credential}, headers=headers).status_code == 401


def test_a_new_password_without_a_factor_closes_the_account_until_the_factors_end(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice], clock: Callable[[int], None]
) -> None:
    start = shop.api_server.app.clock()
    clock(start)
    owner, device = ada
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", owner.post("/security/codes").text)
    pending_login = Visitor(shop.api_server, owner.email)
    pending_login.log_in()
    form = {"password": NEW_PASSWORD, "lost": "yes"}
    visitor = Visitor(shop.api_server, owner.email)
    response = visitor.post(_reset_link(shop, owner), form)
    assert response.headers["location"] == "/login?changed=later"
    for earlier_login in (owner, pending_login):
        assert earlier_login.get("/security").headers["location"].startswith("/login?next")
    for code in ("", codes[0]):
        closed = visitor.log_in(NEW_PASSWORD, code=code)
        assert (closed.status_code, "you can log in only in 24 hours" in closed.text) == (
            403,
            True,
        )
    assert visitor.log_in("not the password at all").status_code == 401
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 401
    body = {"email": owner.email, "password": NEW_PASSWORD, "code": codes[0]}
    assert shop.api_server.http.post("/v1/merchant/sessions", json=body).status_code == 401
    # A second reset does not restart the waiting time, even if it proves a factor.
    clock(start + HOUR_MS)
    response = visitor.post(_reset_link(shop, owner), {"password": NEW_PASSWORD, "code": codes[0]})
    assert response.headers["location"] == "/login?changed=later"
    clock(start + DAY_MS)
    assert _end_due(shop) == 1
    assert visitor.log_in(NEW_PASSWORD).headers["location"] == "/dashboard"
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 401


def test_the_stop_link_stops_the_reset_that_a_new_password_started(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice]
) -> None:
    owner, device = ada
    visitor = Visitor(shop.api_server, owner.email)
    visitor.post(_reset_link(shop, owner), {"password": NEW_PASSWORD, "lost": "yes"})
    path = shop.api_server.tx(lambda tx: lost_factors.new_stop_link(tx, owner.email))
    assert path is not None
    visitor.post(path)
    assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 303
    assert visitor.log_in(NEW_PASSWORD).headers["location"] == "/login/factor"


def test_factors_end_at_once_if_the_waiting_time_is_zero(
    shop: Shop, ada: tuple[Visitor, PasskeyDevice]
) -> None:
    app, before = shop.api_server.app, shop.api_server.app.settings
    owner, device = ada
    app.settings = msgspec.structs.replace(before, factor_reset_hours=0)
    try:
        visitor = Visitor(shop.api_server, owner.email)
        response = visitor.post(_reset_link(shop, owner), {"password": NEW_PASSWORD, "lost": "yes"})
        assert response.headers["location"] == "/login?changed=1"
        assert visitor.log_in(NEW_PASSWORD).headers["location"] == "/dashboard"
        assert log_in_by_passkey(Visitor(shop.api_server), device).status_code == 401
    finally:
        app.settings = before


def test_staff_without_a_factor_set_one_up_after_a_link_to_a_new_password(shop: Shop) -> None:
    app, before = shop.api_server.app, shop.api_server.app.settings
    grace = create_person(shop.api_server, None, staff_role="admin")
    app.settings = msgspec.structs.replace(before, gateways=("sandbox", "manual"))
    try:
        visitor = Visitor(shop.api_server, grace.email)
        response = visitor.post(_reset_link(shop, grace), {"password": NEW_PASSWORD})
        assert response.headers["location"] == "/security?second=1"
        add_passkey(visitor)
        assert visitor.get("/console").status_code == 200
    finally:
        app.settings = before


def test_an_invalid_stop_link_is_not_found(shop: Shop) -> None:
    visitor = Visitor(shop.api_server)
    assert visitor.get("/keep-factors/x").status_code == 404
    assert visitor.post("/keep-factors/x").status_code == 404
    with pytest.raises(NotFound):
        shop.api_server.tx(lambda tx: lost_factors.open_reset_of(tx, "nobody@example.com"))


def test_an_authenticator_that_cannot_be_decrypted_is_replaced_after_a_recovery_code(
    shop: Shop,
) -> None:
    grace = create_person(shop.api_server, None, staff_role="admin")
    grace.post("/security/authenticator/begin")
    codes = _confirm_authenticator(grace)
    shop.api_server.sql(
        "update persons set totp_secret = 'encrypted with a lost key' where id = $1 returning 1",
        grace.person_id,
    )
    visitor = Visitor(shop.api_server, grace.email)
    assert visitor.log_in(code="123456").status_code == 401
    assert visitor.log_in(code=codes[0]).status_code == 303
    visitor.post("/security/authenticator/begin")
    assert len(_confirm_authenticator(visitor)) == 10
    assert visitor.get("/console").status_code == 200


def _confirm_authenticator(visitor: Visitor) -> list[str]:
    """Confirm the pending authenticator; return the new recovery codes."""
    secret = re.search(
        r'id="key"[^>]* value="([A-Z2-7 ]+)"', visitor.get("/security/authenticator").text
    )
    assert secret is not None
    code = totp.code_at(secret[1].replace(" ", ""), now_ms() // 1000 // totp.PERIOD_S)
    confirmed = visitor.post("/security/authenticator", {"code": code})
    return re.findall(r"<code>([a-z2-7 ]+)</code>", confirmed.text)
