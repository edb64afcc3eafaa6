"""The page about one's own account: the name that colleagues see, and the password."""

import re

from dashboard.pages import text_of
from support.api_server import ApiServer, Shop
from support.people import PASSWORD, Visitor, create_person

_NEW = "long-enough-otter-31"


def test_a_person_changes_the_name_that_colleagues_see(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    for name in ("", " ", "x" * 201):
        refused = ada.post("/security/name", {"name": name})
        assert (refused.status_code, 'id="name-error"' in refused.text) == (400, True)
    saved = ada.post("/security/name", {"name": " Ada Lovelace "})
    assert (saved.status_code, saved.headers["location"]) == (303, "/security?done=name")
    assert "Your name is changed." in ada.get(saved.headers["location"]).text
    assert ada.post("/security/name", {"name": "Ada Lovelace"}).status_code == 303
    assert "Ada Lovelace" in text_of(ada.get(f"/dashboard/{shop.id}/team"))
    rows = shop.api_server.sql(
        "select subject from audit_log where action = 'people rename' and subject like $1",
        "%→ Ada Lovelace",
    )
    assert len(rows) == 1  # the second form changed nothing


def test_the_errors_of_both_passwords_are_shown_at_once(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    refused = ada.post("/security/password", {"current": "no", "password": "short"})
    assert refused.status_code == 403
    assert re.findall(r'id="(\w+)-error"', refused.text) == ["current", "password"]
    refused = ada.post("/security/password", {"current": PASSWORD, "password": "short"})
    assert refused.status_code == 400
    assert re.findall(r'id="(\w+)-error"', refused.text) == ["password"]
    saved = ada.post("/security/password", {"current": PASSWORD, "password": _NEW})
    assert saved.headers["location"] == "/security?done=password"


def test_the_page_says_that_there_is_no_authenticator(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    assert "Off You log in with your password alone." in text_of(ada.get("/security"))


def test_an_empty_field_of_the_login_is_marked(api_server: ApiServer) -> None:
    for email, password, marked in (
        (" ", "", ["email", "password"]),
        ("", "x", ["email"]),
        ("ada@example.com", "", ["password"]),
    ):
        refused = Visitor(api_server).post("/login", {"email": email, "password": password})
        assert refused.status_code == 400
        assert re.findall(r'id="(\w+)-error"', refused.text) == marked
        assert f'value="{email.strip()}"' in refused.text
        assert "Email or password is wrong" not in refused.text
