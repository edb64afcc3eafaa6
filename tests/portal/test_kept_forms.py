"""A form that is sent after its login has ended is kept until the same person has logged in."""

import re
from html import unescape

import pytest

from opentill.app import PORTALS
from opentill.people import MERCHANT_ROLES
from people.passkey_device import add_passkey
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, new_address

FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
KEPT_FORM_TITLE = "Please log in again"


def team_path(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/team"


def end_logins(shop: Shop, visitor: Visitor) -> None:
    """End a person's logins as if they had been idle for too long."""
    sql = "update logins set used_at = 0 where person_id = $1"
    shop.api_server.tx(lambda tx: tx.execute(sql, visitor.person_id))


def hidden_fields(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    (form,) = re.findall(rf'<form[^>]* action="[^"]*{action}">(.*?)</form>', page, re.DOTALL)
    return {name: unescape(value) for name, value in FIELD.findall(form)}


def open_invitations(shop: Shop) -> list[str]:
    sql = "select email from person_links where merchant_id = $1 and used_at is null"
    return [row["email"] for row in shop.api_server.sql(sql, shop.id)]


def test_a_kept_form_is_accepted_after_a_login_on_its_page(shop: Shop) -> None:
    ada, email = create_person(shop.api_server, shop.id, "owner"), new_address()
    form = hidden_fields(ada.get(team_path(shop)).text, "/team/invite")
    form |= {"email": email, "role": "finance", "note": '<b>\n"two" lines'}
    end_logins(shop, ada)
    login_page = ada.post(f"{team_path(shop)}/invite", form)
    assert (login_page.status_code, heading_of(login_page)) == (401, KEPT_FORM_TITLE)
    assert open_invitations(shop) == []
    assert "not kept" not in login_page.text
    kept_form = hidden_fields(login_page.text, "/team/invite")
    assert kept_form == form | {"login_from": ""}

    wrong_form = kept_form | {"login_email": ada.email, "login_password": "not my password at all"}
    refused = ada.post(f"{team_path(shop)}/invite", wrong_form)
    assert (refused.status_code, heading_of(refused)) == (401, KEPT_FORM_TITLE)
    assert "Email or password is wrong" in refused.text
    assert f'value="{ada.email}"' in refused.text
    assert "not my password" not in refused.text
    assert hidden_fields(refused.text, "/team/invite") == kept_form

    valid_form = kept_form | {"login_email": ada.email, "login_password": PASSWORD}
    accepted = ada.post(f"{team_path(shop)}/invite", valid_form)
    assert f"{email} is invited" in accepted.text  # the login is recent, so no step-up is needed
    assert open_invitations(shop) == [email]
    assert ada.get(team_path(shop)).status_code == 200


def test_a_kept_form_is_accepted_after_a_login_in_another_tab(shop: Shop) -> None:
    ada, email = create_person(shop.api_server, shop.id, "owner"), new_address()
    form = hidden_fields(ada.get(team_path(shop)).text, "/team/invite") | {
        "email": email,
        "role": "viewer",
    }
    ada.post("/logout")
    kept_form = hidden_fields(ada.post(f"{team_path(shop)}/invite", form).text, "/team/invite")
    without_login = kept_form | {"login_email": "", "login_password": "", "login_code": ""}
    refused = ada.post(f"{team_path(shop)}/invite", without_login)
    assert "You are not logged in yet" in refused.text
    ada.log_in()
    assert f"{email} is invited" in ada.post(f"{team_path(shop)}/invite", without_login).text
    assert open_invitations(shop) == [email]


def test_a_kept_form_asks_for_the_second_factor_after_the_password(shop: Shop) -> None:
    ada, email = create_person(shop.api_server, shop.id, "owner"), new_address()
    form = hidden_fields(ada.get(team_path(shop)).text, "/team/invite")
    form |= {"email": email, "role": "viewer"}
    add_passkey(ada)
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", ada.post("/security/codes").text)
    end_logins(shop, ada)
    path = f"{team_path(shop)}/invite"
    page = ada.post(path, form)
    assert 'name="login_code"' not in page.text
    kept_form = hidden_fields(page.text, "/team/invite")
    login = {"login_email": ada.email, "login_password": PASSWORD}
    page = ada.post(path, kept_form | login)
    assert (page.status_code, heading_of(page)) == (401, KEPT_FORM_TITLE)
    assert 'name="login_password"' not in page.text
    assert hidden_fields(page.text, "/team/invite") == kept_form
    for code, error in (
        ("", "Enter a code, or confirm your second factor in another tab"),
        ("aaaa bbbb cccc dddd", "This code is wrong or was already used"),
    ):
        page = ada.post(path, kept_form | {"login_code": code})
        assert (page.status_code, error in page.text) == (401, True)
        assert open_invitations(shop) == []
    pending_token = ada.token
    accepted = ada.post(path, kept_form | {"login_code": codes[0]})
    assert f"{email} is invited" in accepted.text
    assert ada.token != pending_token
    assert open_invitations(shop) == [email]


@pytest.mark.parametrize("logs_in_on_page", [True, False])
def test_another_person_gets_the_page_without_the_kept_input(
    shop: Shop, logs_in_on_page: bool
) -> None:
    ada, eve = (create_person(shop.api_server, shop.id, "owner") for _ in range(2))
    path = f"{team_path(shop)}?lang=en"
    form = hidden_fields(ada.get(path).text, "/team/invite") | {
        "email": new_address(),
        "role": "owner",
    }
    end_logins(shop, ada)
    referer = {"referer": f"{shop.api_server.url}{path}"}
    kept_form = hidden_fields(
        ada.post(f"{team_path(shop)}/invite", form, headers=referer).text, "/team/invite"
    )
    assert kept_form["login_from"] == path
    if logs_in_on_page:
        kept_form |= {"login_email": eve.email, "login_password": PASSWORD}
    else:  # Eve has logged in in another tab of the same browser
        ada.set_token(eve.token)
    response = ada.post(f"{team_path(shop)}/invite", kept_form)
    assert (response.status_code, response.headers["location"]) == (303, f"{path}&other_person=1")
    assert open_invitations(shop) == []
    page = ada.get(response.headers["location"])
    assert "Somebody else was logged in here" in page.text
    assert hidden_fields(page.text, "/team/invite")["form_person"] == eve.person_id


@pytest.mark.parametrize("page", ["https://evil.example/x", "//evil.example", "/static/x", "/\\e"])
def test_a_form_redirects_only_to_pages_of_the_portals(shop: Shop, page: str) -> None:
    ada, eve = (create_person(shop.api_server, shop.id, "owner") for _ in range(2))
    form = {
        "form_person": ada.person_id,
        "email": new_address(),
        "role": "owner",
        "login_from": page,
    }
    response = eve.post(f"{team_path(shop)}/invite", form)
    assert response.headers["location"] == "/dashboard?other_person=1"


def test_a_kept_form_needs_the_permission_of_its_page(shop: Shop) -> None:
    for role in MERCHANT_ROLES[1:]:
        member = create_person(shop.api_server, shop.id, role)
        end_logins(shop, member)
        form = {"form_person": member.person_id, "email": new_address(), "role": "owner"}
        form |= {"login_email": member.email, "login_password": PASSWORD}
        assert member.post(f"{team_path(shop)}/invite", form).status_code == 403
    assert open_invitations(shop) == []


def test_passwords_are_not_kept_and_the_page_says_so(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = hidden_fields(ada.get("/security").text, "/security/password")
    end_logins(shop, ada)
    secret = "seven green teapots whistle"
    login_page = ada.post("/security/password", form | {"current": PASSWORD, "password": secret})
    assert heading_of(login_page) == KEPT_FORM_TITLE
    assert secret not in login_page.text
    assert PASSWORD not in login_page.text
    assert "Files and passwords are not kept" in login_page.text


def test_a_form_from_another_origin_does_not_log_in(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    end_logins(shop, ada)
    form = {"email": new_address(), "role": "owner", "form_person": ada.person_id}
    form |= {"login_email": ada.email, "login_password": PASSWORD}
    foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    response = ada.post(f"{team_path(shop)}/invite", form, headers=foreign)
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


def test_every_form_has_a_field_with_the_person_to_whom_it_was_shown() -> None:
    for portal in PORTALS:
        environment = portal.environment
        assert environment.loader is not None
        for name in environment.list_templates(["html"]):
            source = environment.loader.get_source(environment, name)[0]
            forms = len(re.findall(r'\bmethod="post"', source))
            assert environment.preprocess(source).count('name="form_person"') == forms, name
