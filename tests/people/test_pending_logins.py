"""A login that lacks its second factor opens nothing, and never becomes a login without it."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from opentill.db.clock import now_ms
from opentill.people import totp
from opentill.portal.request import safe_next
from people.passkey_device import add_passkey, localhost_headers
from support.api_server import Shop
from support.people import Visitor, create_person

_MINUTE_MS: Final = 60_000


def _set_up_authenticator(ada: Visitor) -> str:
    """Set up an authenticator and return its secret."""
    ada.post("/security/authenticator/begin")
    match = re.search(r"<code>([A-Z2-7 ]+)</code>", ada.get("/security/authenticator").text)
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
