"""A login that lacks its second factor opens nothing, and never becomes a login without it."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.people import queries, totp
from opentill.portal.request import safe_next
from people.passkey_device import add_passkey, localhost_headers
from support.api_server import Shop
from support.people import Visitor, create_person

_MINUTE_MS: Final = 60_000


def _set_up_authenticator(ada: Visitor) -> str:
    """Set up an authenticator and return its secret."""
    ada.post("/security/authenticator/begin")
    match = re.search(
        r'id="key"[^>]* value="([A-Z2-7 ]+)"', ada.get("/security/authenticator").text
    )
    assert match is not None
    secret = match[1].replace(" ", "")
    confirmed = ada.post("/security/authenticator", {"code": _code(secret)})
    assert confirmed.status_code == 200
    return secret


def _code(secret: str, offset: int = 0) -> str:
    return totp.code_at(secret, now_ms() // 1000 // totp.PERIOD_S + offset)


@pytest.mark.parametrize("minutes", [1, 30])
def test_a_pending_login_ends_when_the_last_factor_is_removed(
    shop: Shop, clock: Callable[[int], None], minutes: int
) -> None:
    """The password alone had not opened the account, so it must not do so later."""
    start = shop.api_server.app.clock()
    ada = create_person(shop.api_server, shop.id, "owner")
    _set_up_authenticator(ada)
    visitor = Visitor(shop.api_server, ada.email)
    assert visitor.log_in().headers["location"] == "/login/factor"
    clock(start + minutes * _MINUTE_MS)
    shop.api_server.sql(
        "update logins set proved_at = $2 where person_id = $1 and strong returning 1",
        ada.person_id, shop.api_server.app.clock(),
    )  # fmt: skip
    assert ada.post("/security/authenticator/remove").status_code == 303
    assert ada.get("/security").status_code == 200
    assert visitor.get("/security").headers["location"].startswith("/login?")
    assert visitor.get(f"/dashboard/{shop.id}/").headers["location"].startswith("/login?")


def test_a_pending_login_is_labelled_and_is_no_use_of_the_account(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    start = shop.api_server.app.clock()
    ada = create_person(shop.api_server, shop.id, "owner")
    colleague = create_person(shop.api_server, None, staff_role="admin")
    shop.api_server.tx(
        lambda tx: queries.SET_STAFF.run(tx, person_id=ada.person_id, role="support", now=start)
    )
    _set_up_authenticator(ada)
    clock(start + 5 * _MINUTE_MS)
    assert Visitor(shop.api_server, ada.email).log_in().headers["location"] == "/login/factor"

    async def last_uses(tx: Tx) -> list[int | None]:
        member = await queries.MEMBER.one(tx, merchant_id=shop.id, person_id=ada.person_id)
        staff = await queries.COLLEAGUES.all(tx)
        return [
            member.used_at,
            *(person.used_at for person in staff if person.person_id == ada.person_id),
        ]

    uses = shop.api_server.tx(last_uses)
    assert len(uses) == 2
    assert all(use is not None and use < start + _MINUTE_MS for use in uses)
    for page in (
        ada.get("/security").text,
        colleague.get(f"/console/people/{ada.person_id}").text,
    ):
        (row,) = re.findall(
            r"<li>(?:(?!<li>).)*?Second factor not confirmed.*?</li>", page, re.DOTALL
        )
        assert "last used" not in row
        assert page.count("Second factor not confirmed") == 1


def test_a_login_from_before_the_first_factor_ends_when_the_factor_is_removed(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    visitor = Visitor(shop.api_server, ada.email)
    visitor.log_in()
    assert visitor.get("/security").status_code == 200
    _set_up_authenticator(ada)
    assert visitor.get("/security").headers["location"].startswith("/login/factor")
    ada.post("/security/authenticator/remove")
    assert visitor.get("/security").headers["location"].startswith("/login?")
    ada.post("/security/authenticator/remove")  # the form is sent again, and there is no factor
    assert ada.get("/security").status_code == 200


def test_pages_that_others_open_do_not_close_the_page_of_a_known_browser(shop: Shop) -> None:
    """Somebody who knows the password may open the page of the factor as often as they like."""
    ada = create_person(shop.api_server, shop.id, "owner")
    ada.log_in()  # since then the browser is known
    add_passkey(ada)
    stranger = Visitor(shop.api_server, ada.email)
    stranger.log_in()
    headers = localhost_headers(stranger)
    cookie = {"cookie": f"opentill={stranger.token}"}
    statuses = [
        stranger.get("/login/factor", headers=headers | cookie).status_code for _ in range(31)
    ]
    assert statuses == [200] * 30 + [429]
    ada.post("/logout")
    assert ada.log_in().headers["location"] == "/login/factor"
    assert ada.get("/login/factor").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/%2e%2e/docs",
        "/dashboard/.%2E/docs",
        "/dashboard/%2E./%2e%2e/another-application",
        "/dashboard/x/../../docs",
        "/dashboard/%2f%2fexample.com",
        "/dashboard/%5cexample.com",
        "//example.com/dashboard",
        "/dashboard\t/../x",
    ],
)
def test_a_login_opens_no_path_outside_of_its_pages(path: str) -> None:
    assert safe_next(path) == ""


@pytest.mark.parametrize(
    "path", ["/dashboard", "/dashboard/m/payments?status=PAID&text=50%25", "/security", "/invite/a"]
)
def test_a_login_opens_the_page_that_was_requested(path: str) -> None:
    assert safe_next(path) == path
