"""Logging in: refusals look the same, attempts are counted before hashing, and logins end."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from opentill import people
from opentill.core.errors import TooManyRequests
from opentill.db.database import Db, Tx
from opentill.people import limits, passwords, queries
from opentill.people.lifetimes import MINUTE_MS, OF_MEMBERS, OF_STAFF
from opentill.people.model import digest
from opentill.web import forms
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, new_address

NOW: Final = 1_790_000_000_000
HOUR: Final = 60 * MINUTE_MS


def test_a_login_leads_to_the_requested_page_and_ends_by_logging_out(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    # Email addresses are compared without case.
    visitor = Visitor(shop.api_server, ada.email.upper())
    assert visitor.get(f"/dashboard/{shop.id}/").headers["location"] == (
        f"/login?next=%2Fdashboard%2F{shop.id}%2F"
    )
    response = visitor.log_in(next=f"/dashboard/{shop.id}/?x=1")
    assert (response.status_code, response.headers["location"]) == (
        303,
        f"/dashboard/{shop.id}/?x=1",
    )
    (cookie,) = [
        cookie
        for cookie in response.headers.get_list("set-cookie")
        if cookie.startswith("opentill=")
    ]
    assert cookie.split("; ")[1:] == ["Path=/", "Max-Age=1209600", "HttpOnly", "SameSite=Lax"]
    assert visitor.get(f"/dashboard/{shop.id}/").status_code == 200
    token = visitor.token
    assert visitor.post("/logout").headers["location"] == "/login"
    visitor.set_token(token)  # as a thief would use a copied token
    assert visitor.get(f"/dashboard/{shop.id}/").status_code == 303


def test_a_token_is_stored_as_its_digest_only(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    token = ada.token
    assert len(token) == 43  # 43 characters of base64 are 256 bits
    rows = shop.api_server.sql("select * from logins where person_id = $1", ada.person_id)
    assert [row["token_sha256"] for row in rows] == [digest(token)]
    assert token not in str(rows)


def test_logging_in_replaces_the_browsers_previous_token(shop: Shop) -> None:
    """An attacker could plant a cookie whose token stays valid (session fixation)."""
    ada = create_person(shop.api_server, shop.id, "owner")
    visitor = Visitor(shop.api_server, ada.email)
    visitor.set_token("x" * 43)
    visitor.log_in()
    assert visitor.token != "x" * 43


def _credential(client_data: bytes, **other_fields: object) -> str:
    encoded = base64.urlsafe_b64encode(client_data).decode()
    return json.dumps({"rawId": "AAAA", "response": {"clientDataJSON": encoded}} | other_fields)


@pytest.mark.parametrize(
    "credential",
    [
        "[" * 20_000,
        '{"a":' * 4_000,
        "",
        "1",
        "[]",
        '{"response": "x"}',
        '{"response": {"clientDataJSON": 1}}',
        _credential(b"[" * 9_000),
        _credential(b'"type challenge origin"'),
        _credential(b'{"type": 1, "challenge": [], "origin": {}}'),
        _credential(b'{"type": "", "challenge": "AAAA", "origin": ""}'),
        _credential(b'{"type": "", "challenge": "AAAA", "origin": ""}', rawId=[]),
        _credential(b"\xff"),
    ],
)
def test_a_malformed_passkey_is_refused_like_a_wrong_one(shop: Shop, credential: str) -> None:
    port = urlsplit(shop.api_server.url).port
    headers = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
    visitor = Visitor(shop.api_server)
    response = visitor.post("/login/passkey", {"credential": credential}, headers=headers)
    assert (response.status_code, heading_of(response)) == (401, "Log in with a passkey")


def test_an_unknown_account_and_a_wrong_password_look_the_same(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    wrong_password = Visitor(shop.api_server, ada.email).log_in("not my password at all")
    unknown_email = new_address()
    unknown = Visitor(shop.api_server, unknown_email).log_in("not my password at all")
    assert wrong_password.status_code == unknown.status_code == 401
    assert wrong_password.text.replace(ada.email, "") == unknown.text.replace(unknown_email, "")
    assert wrong_password.headers.keys() == unknown.headers.keys()
    assert "password at all" not in wrong_password.text


async def test_an_unknown_account_takes_as_long_as_a_known_one(db: Db) -> None:
    stored = await passwords.hash_password(PASSWORD)

    async def measure(stored_password: str | None) -> float:
        """Return the processor time of a check, on which other processes have no influence."""
        started = time.process_time()
        assert not await passwords.matches("wrong", stored_password)
        return time.process_time() - started

    known_s = min([await measure(stored) for _ in range(7)])
    unknown_s = min([await measure(None) for _ in range(7)])
    assert 0.5 < known_s / unknown_s < 2


@pytest.mark.parametrize(
    "requested_page",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/dashboard//evil.example",
        "/dashboard/../login",
        "javascript:alert(1)",
        "/logout",
        "/dashboards",
        "/dashboard\n",
    ],
)
def test_a_login_redirects_only_to_the_dashboard(shop: Shop, requested_page: str) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    response = Visitor(shop.api_server, ada.email).log_in(next=requested_page)
    assert response.headers["location"] == "/dashboard"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://evil.example"}, 303),
        ({}, 303),
    ],
)
def test_a_form_of_another_site_is_refused(
    shop: Shop, headers: dict[str, str], status: int
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    assert ada.post("/logout", headers=headers).status_code == status
    is_logged_out = status == 303
    assert ada.get(f"/dashboard/{shop.id}/").status_code == (303 if is_logged_out else 200)


@pytest.mark.parametrize("component", ["scheme", "port"])
def test_an_origin_of_another_scheme_or_port_is_foreign(shop: Shop, component: str) -> None:
    """A page that an attacker forged over http does not belong to an https deployment."""
    ada = create_person(shop.api_server, shop.id, "owner")
    url = urlsplit(shop.api_server.url)
    foreign_origin = {
        "scheme": shop.api_server.url.replace("http://", "https://"),
        "port": f"{url.scheme}://{url.hostname}",
    }[component]
    assert ada.post("/logout", headers={"origin": foreign_origin}).status_code == 403
    assert ada.get(f"/dashboard/{shop.id}/").status_code == 200


@pytest.mark.parametrize(
    ("public_url", "host", "origin", "is_ours"),
    [
        ("https://pay.example.com", "pay.example.com", "https://pay.example.com", True),
        ("https://pay.example.com", "pay.example.com", "https://pay.example.com:443", True),
        ("https://pay.example.com:443", "pay.example.com", "https://pay.example.com", True),
        ("https://pay.example.com/till", "inside:8080", "https://PAY.example.com", True),
        ("https://pay.example.com", "other.example", "https://other.example", True),
        ("https://pay.example.com", "127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("https://pay.example.com", "localhost:8080", "http://localhost:8080", True),
        ("https://pay.example.com", "pay.example.com", "http://pay.example.com", False),
        ("https://pay.example.com", "pay.example.com", "http://pay.example.com:443", False),
        ("https://pay.example.com", "other.example", "http://other.example", False),
        ("https://pay.example.com", "pay.example.com", "https://pay.example.com:8443", False),
        ("https://pay.example.com", "pay.example.com", "ftp://pay.example.com", False),
        ("https://pay.example.com", "pay.example.com", "https://pay.example.com:x", False),
        ("http://pay.example.com", "pay.example.com", "https://pay.example.com", False),
    ],
)
def test_an_origin_is_compared_with_its_scheme(
    public_url: str, host: str, origin: str, *, is_ours: bool
) -> None:
    headers = {b"host": host.encode(), b"origin": origin.encode()}
    if is_ours:
        forms.check_origin(headers, public_url, cookies_count=True)
    else:
        with pytest.raises(forms.Foreign):
            forms.check_origin(headers, public_url, cookies_count=True)


def test_an_htmx_header_does_not_change_the_response_to_a_form(shop: Shop) -> None:
    script = {"hx-request": "true"}
    ada = create_person(shop.api_server, shop.id, "owner")
    foreign = ada.post("/logout", headers=script | {"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert heading_of(foreign)
    assert "hx-refresh" not in foreign.headers
    viewer = create_person(shop.api_server, shop.id, "viewer")
    denied = viewer.post(f"/dashboard/{shop.id}/team/invite", {"email": "x@example.com"})
    with_header = viewer.post(
        f"/dashboard/{shop.id}/team/invite", {"email": "x@example.com"}, headers=script
    )
    assert (with_header.status_code, heading_of(with_header)) == (
        denied.status_code,
        heading_of(denied),
    )
    assert ada.post("/logout", headers=script).headers["location"] == "/login"


def test_a_form_without_an_origin_is_refused(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    del ada.http.headers["origin"]
    assert ada.post("/logout").status_code == 403


@pytest.mark.parametrize(
    ("role", "staff_role", "idle", "total"),
    [
        ("owner", None, OF_MEMBERS.idle, OF_MEMBERS.total),
        (None, "admin", OF_STAFF.idle, OF_STAFF.total),
    ],
)
def test_a_login_ends_when_it_is_unused_or_old(
    shop: Shop,
    clock: Callable[[int], None],
    role: people.MerchantRole | None,
    staff_role: people.StaffRole | None,
    idle: int,
    total: int,
) -> None:
    start = shop.api_server.app.clock()
    path = f"/dashboard/{shop.id}/"
    clock(start)
    ada = create_person(shop.api_server, shop.id if role else None, role, staff_role)
    clock(start + idle - 1)
    assert ada.get(path).status_code == 200
    clock(start + 2 * idle - 1)  # the idle time has passed since the last request
    assert ada.get(path).status_code == 303
    bob = create_person(shop.api_server, shop.id if role else None, role, staff_role)
    bobs_start = start + 2 * idle - 1
    for moment in range(bobs_start, bobs_start + total, idle // 2):
        clock(moment)
        assert bob.get(path).status_code == 200
    clock(bobs_start + total)
    assert bob.get(path).status_code == 303


# ── limits of login attempts ──


async def _fail(db: Db, account: str, address: str, now: int, *, is_known: bool = False) -> int:
    """Count an attempt of an IP address; return 0, or how many seconds it has to wait."""
    try:
        await limits.count(db, account, address, now, is_known_browser=is_known)
    except TooManyRequests as problem:
        return problem.retry_after_s
    return 0


async def test_delays_double_with_each_failure_and_delayed_attempts_do_not_count(db: Db) -> None:
    account, now = new_address(), NOW
    waits = list[int]()
    for _ in range(12):
        while wait := await _fail(db, account, "192.0.2.1", now):
            waits.append(wait)
            now += wait * 1000
    assert waits == [1, 2, 4, 8, 16, 32]  # the other six attempts did not have to wait


async def test_requests_that_overtake_each_other_do_not_wait(db: Db) -> None:
    """Requests wait for each other's counts, so an earlier one may be counted after a later one."""
    account, office = new_address(), "203.0.113.210"
    assert await _fail(db, account, office, NOW + 5) == 0
    assert await _fail(db, account, office, NOW) == 0
    succeeded = await limits.count(db, new_address(), office, NOW + 5)
    await db.run(lambda tx: limits.forgive(tx, succeeded))
    assert await _fail(db, new_address(), office, NOW) == 0
    assert await _fail_factor(db, account, office, NOW + 5) == 0
    assert await _fail_factor(db, account, office, NOW) == 0


async def test_attempts_of_others_do_not_lock_out_a_known_browser(db: Db) -> None:
    account = new_address()
    for number in range(200):
        await _fail(db, account, f"198.51.100.{number}", NOW + number * MINUTE_MS)
    later = NOW + 200 * MINUTE_MS
    assert await _fail(db, account, "192.0.2.1", later, is_known=True) == 0
    # Each new address has one free attempt. After that, all unknown browsers share one attempt in
    # 30 s.
    assert await _fail(db, account, "203.0.113.5", later) == 0
    assert await _fail(db, account, "203.0.113.5", later) == 0
    assert 0 < await _fail(db, account, "203.0.113.5", later) <= 30


async def test_failures_at_a_shared_address_do_not_lock_out_a_known_browser(db: Db) -> None:
    office = "203.0.113.200"
    for _ in range(60):
        await _fail(db, new_address(), office, NOW)
    assert await _fail(db, new_address(), office, NOW) > 0  # an unknown browser has to wait
    assert await _fail(db, new_address(), office, NOW, is_known=True) == 0


async def test_attempts_of_a_known_browser_do_not_count_for_its_address(db: Db) -> None:
    office = "203.0.113.201"
    for _ in range(60):
        await _fail(db, new_address(), office, NOW, is_known=True)
    assert await _fail(db, new_address(), office, NOW) == 0


async def _fail_factor(
    db: Db, person_id: str, address: str, now: int, *, is_known: bool = False
) -> int:
    """Count a code of a second factor; return 0, or how many seconds it has to wait."""
    try:
        await limits.count_factor(db, person_id, address, now, is_known_browser=is_known)
    except TooManyRequests as problem:
        return problem.retry_after_s
    return 0


async def test_codes_of_many_people_from_one_address_are_delayed(db: Db) -> None:
    """Stolen passwords of many people give no free guesses at all of their second factors."""
    thief = "203.0.113.202"
    people_ids = [f"per_{new_address()}" for _ in range(40)]
    waits = [await _fail_factor(db, person_id, thief, NOW) for person_id in people_ids]
    assert waits[:21] == [0] * 21
    assert all(waits[21:])
    # The people themselves, at other addresses or in a known browser, do not wait.
    assert await _fail_factor(db, people_ids[0], "203.0.113.203", NOW) == 0
    assert await _fail_factor(db, people_ids[0], thief, NOW, is_known=True) == 0


async def test_a_new_address_may_try_an_account_at_which_sixty_addresses_failed(db: Db) -> None:
    account = new_address()
    for number in range(60):
        for _ in range(4):
            await _fail(db, account, f"198.51.100.{number}", NOW)
    assert await _fail(db, account, "203.0.113.7", NOW) == 0
    # The address has used its free attempt.
    assert 0 < await _fail(db, account, "203.0.113.7", NOW) <= 30
    assert await _fail(db, account, "203.0.113.8", NOW) == 0
    assert await _fail(db, account, "2001:db8:77::1", NOW) == 0


async def test_guesses_at_an_account_are_bounded_for_any_number_of_addresses(db: Db) -> None:
    """Each network has one free attempt a day. All others together: first 20, then 120 an hour."""
    account, addresses = new_address(), 30
    guesses = 0
    for second in range(0, 3600, 30):
        for number in range(addresses):
            at = NOW + second * 1000
            guesses += await _fail(db, account, f"198.51.100.{number}", at) == 0
    assert addresses + 110 <= guesses <= addresses + 20 + 120


async def test_the_subnets_of_an_ipv6_network_share_one_free_attempt(db: Db) -> None:
    account = new_address()
    for number in range(40):
        await _fail(db, account, f"2001:db8:1:{number:x}::1", NOW)
    assert await _fail(db, account, "2001:db8:1:ffff::1", NOW) > 0
    assert await _fail(db, account, "2001:db8:2::1", NOW) == 0


async def test_only_one_of_an_addresss_concurrent_first_attempts_is_free(db: Db) -> None:
    account = new_address()
    for number in range(60):
        await _fail(db, account, f"198.51.100.{number}", NOW)
    # This starts the delay of attempts that are not free.
    await _fail(db, account, "198.51.100.1", NOW)
    waits = await asyncio.gather(*(_fail(db, account, "192.0.2.123", NOW) for _ in range(10)))
    assert waits.count(0) == 1


async def test_one_address_cannot_try_many_accounts(db: Db) -> None:
    waits = [await _fail(db, new_address(), "2001:db8::1", NOW) for _ in range(30)]
    assert waits[:21] == [0] * 21
    assert all(waits[21:])
    # This address is in the same /64 network.
    assert await _fail(db, new_address(), "2001:db8::ffff", NOW) > 0
    assert await _fail(db, new_address(), "2001:db8:0:1::1", NOW) == 0


async def test_success_forgets_earlier_failures_of_the_same_client(db: Db) -> None:
    account = new_address()
    for _ in range(5):
        await _fail(db, account, "192.0.2.77", NOW)
    attempt = await limits.count(db, account, "192.0.2.77", NOW)
    assert await _fail(db, account, "192.0.2.77", NOW) > 0
    await db.run(lambda tx: limits.forgive(tx, attempt))
    assert [await _fail(db, account, "192.0.2.77", NOW) for _ in range(6)] == [0] * 6


async def test_concurrent_attempts_are_counted_exactly(db: Db) -> None:
    account = new_address()
    waits = await asyncio.gather(*(_fail(db, account, "192.0.2.88", NOW) for _ in range(30)))
    assert waits.count(0) == 6  # the sixth attempt is the first that starts a delay


def test_too_many_attempts_are_refused_with_a_page_that_keeps_the_address(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(shop.api_server.app.clock())
    ada = create_person(shop.api_server, shop.id, "owner")
    visitor = Visitor(shop.api_server, ada.email)
    responses = [visitor.log_in("not my password at all") for _ in range(7)]
    assert [response.status_code for response in responses] == [401] * 6 + [429]
    assert responses[-1].headers["retry-after"]
    assert ada.email in responses[-1].text
    assert "1 second" in responses[-1].text
    assert heading_of(responses[-1]) == "Log in"
    assert visitor.log_in().status_code == 429  # an attempt with the right password has to wait too


async def test_old_counts_of_attempts_are_pruned(db: Db) -> None:
    async def prune(tx: Tx) -> int:
        return await people.prune(tx, NOW + 365 * 24 * HOUR)

    await _fail(db, new_address(), "192.0.2.99", NOW)
    assert await db.run(prune) == 4
    assert await db.run(prune) == 0


def test_a_password_stored_by_a_version_that_did_not_normalize_is_renewed(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    typed, normal = "bu\u0308cher im regen lesen", "b\u00fccher im regen lesen"
    kdf = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=32)
    old_hash = kdf.derive_phc_encoded(typed.encode())
    shop.api_server.tx(
        lambda tx: queries.RENEW_PASSWORD.run(tx, id=ada.person_id, password=old_hash)
    )
    assert Visitor(shop.api_server, ada.email).log_in(normal).status_code != 303
    assert Visitor(shop.api_server, ada.email).log_in(typed).status_code == 303
    (row,) = shop.api_server.sql("select password from persons where id = $1", ada.person_id)
    assert row["password"] != old_hash
    assert Visitor(shop.api_server, ada.email).log_in(normal).status_code == 303
    assert Visitor(shop.api_server, ada.email).log_in(typed).status_code == 303
