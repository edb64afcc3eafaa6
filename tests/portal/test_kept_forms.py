"""A form that comes after its login has ended: nothing is lost, and no other person sends it."""

import re
from html import unescape

import pytest

from opentill.app import PORTALS
from opentill.people import MERCHANT_ROLES
from support.api_server import Shop
from support.people import PASSWORD, Visitor, address, person, title

FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
KEPT = "Please log in again"


def team(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/team"


def end_logins(shop: Shop, visitor: Visitor) -> None:
    """Let all of a person's logins end, by being left unused."""
    sql = "update logins set used_at = 0 where person_id = $1"
    shop.api_server.tx(lambda tx: tx.execute(sql, visitor.person_id))


def form_of(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    (form,) = re.findall(rf'<form[^>]* action="[^"]*{action}">(.*?)</form>', page, re.DOTALL)
    return {name: unescape(value) for name, value in FIELD.findall(form)}


def invited(shop: Shop) -> list[str]:
    sql = "select email from person_links where merchant_id = $1 and used_at is null"
    return [row["email"] for row in shop.api_server.sql(sql, shop.id)]


def test_a_form_goes_on_after_the_login_of_the_person_whom_it_was_shown_to(shop: Shop) -> None:
    ada, email = person(shop.api_server, shop.id, "owner"), address()
    form = form_of(ada.get(team(shop)).text, "/team/invite")
    form |= {"email": email, "role": "finance", "note": '<b>\n"two" lines'}
    end_logins(shop, ada)
    asked = ada.post(f"{team(shop)}/invite", form)
    assert (asked.status_code, title(asked)) == (401, KEPT)
    assert invited(shop) == []
    assert "not kept" not in asked.text
    kept = form_of(asked.text, "/team/invite")
    assert kept == form | {"login_from": ""}

    wrong = kept | {"login_email": ada.email, "login_password": "not my password at all"}
    again = ada.post(f"{team(shop)}/invite", wrong)
    assert (again.status_code, title(again)) == (401, KEPT)
    assert "E-mail, password or code is wrong" in again.text
    assert f'value="{ada.email}"' in again.text
    assert "not my password" not in again.text
    assert form_of(again.text, "/team/invite") == kept

    right = kept | {"login_email": ada.email, "login_password": PASSWORD}
    done = ada.post(f"{team(shop)}/invite", right)
    assert f"{email} is invited" in done.text  # at once: the password was just proved
    assert invited(shop) == [email]
    assert ada.get(team(shop)).status_code == 200


def test_it_goes_on_too_after_a_login_in_another_tab(shop: Shop) -> None:
    ada, email = person(shop.api_server, shop.id, "owner"), address()
    form = form_of(ada.get(team(shop)).text, "/team/invite") | {"email": email, "role": "viewer"}
    ada.post("/logout")
    kept = form_of(ada.post(f"{team(shop)}/invite", form).text, "/team/invite")
    nothing_typed = kept | {"login_email": "", "login_password": "", "login_code": ""}
    early = ada.post(f"{team(shop)}/invite", nothing_typed)
    assert "You are not logged in yet" in early.text
    ada.log_in()
    assert f"{email} is invited" in ada.post(f"{team(shop)}/invite", nothing_typed).text
    assert invited(shop) == [email]


@pytest.mark.parametrize("on_the_page", [True, False])
def test_another_person_gets_the_page_of_the_form_afresh(shop: Shop, on_the_page: bool) -> None:
    ada, eve = (person(shop.api_server, shop.id, "owner") for _ in range(2))
    path = f"{team(shop)}?lang=en"
    form = form_of(ada.get(path).text, "/team/invite") | {"email": address(), "role": "owner"}
    end_logins(shop, ada)
    referer = {"referer": f"{shop.api_server.url}{path}"}
    kept = form_of(ada.post(f"{team(shop)}/invite", form, headers=referer).text, "/team/invite")
    assert kept["login_from"] == path
    if on_the_page:
        kept |= {"login_email": eve.email, "login_password": PASSWORD}
    else:  # in another tab of the same browser
        ada.keep(eve.token)
    answer = ada.post(f"{team(shop)}/invite", kept)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}&other_person=1")
    assert invited(shop) == []
    page = ada.get(answer.headers["location"])
    assert "Somebody else was logged in here" in page.text
    assert form_of(page.text, "/team/invite")["form_person"] == eve.person_id


@pytest.mark.parametrize("page", ["https://evil.example/x", "//evil.example", "/static/x", "/\\e"])
def test_the_page_of_a_form_is_one_of_ours(shop: Shop, page: str) -> None:
    ada, eve = (person(shop.api_server, shop.id, "owner") for _ in range(2))
    form = {"form_person": ada.person_id, "email": address(), "role": "owner", "login_from": page}
    answer = eve.post(f"{team(shop)}/invite", form)
    assert answer.headers["location"] == "/dashboard?other_person=1"


def test_what_the_role_forbids_stays_forbidden(shop: Shop) -> None:
    for role in MERCHANT_ROLES[1:]:
        member = person(shop.api_server, shop.id, role)
        end_logins(shop, member)
        form = {"form_person": member.person_id, "email": address(), "role": "owner"}
        form |= {"login_email": member.email, "login_password": PASSWORD}
        assert member.post(f"{team(shop)}/invite", form).status_code == 403
    assert invited(shop) == []


def test_secrets_are_not_shown_again_and_the_page_says_so(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    form = form_of(ada.get("/security").text, "/security/password")
    end_logins(shop, ada)
    secret = "seven green teapots whistle"
    asked = ada.post("/security/password", form | {"current": PASSWORD, "password": secret})
    assert title(asked) == KEPT
    assert secret not in asked.text
    assert PASSWORD not in asked.text
    assert "Files and passwords are not kept" in asked.text


def test_a_form_from_elsewhere_is_refused_before_anything_else(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    end_logins(shop, ada)
    form = {"email": address(), "role": "owner", "form_person": ada.person_id}
    form |= {"login_email": ada.email, "login_password": PASSWORD}
    foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    answer = ada.post(f"{team(shop)}/invite", form, headers=foreign)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_every_form_of_every_template_says_whom_it_was_shown_to() -> None:
    for portal in PORTALS:
        environment = portal.environment
        assert environment.loader is not None
        for name in environment.list_templates(["html"]):
            source = environment.loader.get_source(environment, name)[0]
            forms = len(re.findall(r'<form[^{]*?method="post"', source))
            assert environment.preprocess(source).count('name="form_person"') == forms, name
