"""Links and filters work on pages that respond to a form; secret fields have their attributes."""

import re
from pathlib import Path
from typing import Final

import opentill
from opentill.app import PORTALS
from support.api_server import Shop
from support.people import Visitor, create_person

_INPUT: Final = re.compile(r"<input\b[^>]*>")


def language_links(html: str) -> list[str]:
    """Return the targets of the links to other languages."""
    return [href.replace("&amp;", "&") for href in re.findall(r'<a href="([^"]*lang=[^"]*)"', html)]


def test_language_links_after_a_post_lead_to_the_page_with_the_form(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    home = f"/dashboard/{shop.id}"
    order = shop.create_order()["id"]
    for form_path, page in (
        (f"payments/{order}/notes", f"payments/{order}"),
        (f"developers/keys/{shop.key_id}/rename", f"developers/keys/{shop.key_id}"),
        ("settings/time-zone", "settings"),
        ("developers/keys", "developers/keys"),
    ):
        refused = ada.post(f"{home}/{form_path}", {"time_zone": "nowhere"})
        assert refused.status_code == 400, form_path
        links = language_links(refused.text)
        assert [link.partition("?")[0] for link in links] == [f"{home}/{page}"] * 3
        assert ada.get(links[1]).status_code == 200
    refused = ada.post("/security/password", {"current": "no", "password": "no"})
    assert [link.partition("?")[0] for link in language_links(refused.text)] == ["/security"] * 3


def test_language_links_keep_the_query_of_a_list(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    payments = ada.get(f"/dashboard/{shop.id}/payments?status=PAID")
    links = language_links(payments.text)
    assert links
    assert all("status=PAID" in link for link in links)


def test_filters_on_the_page_of_a_refused_form_lead_to_the_list(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="finance")
    for path, form, query in (
        ("/console/reconciliation", "compare", "which=open"),
        ("/console/rates", "set", "currency=EUR"),
    ):
        refused = staff.post(f"{path}/{form}", {"gateway": "nobody"})
        assert refused.status_code == 400, path
        assert f'<form class="filters" method="get" action="{path}"' in refused.text
        assert staff.get(f"{path}?{query}").status_code == 200


def test_language_and_messages_in_the_query_are_no_filters(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/disputes?lang=en"
    unfiltered = ada.get(f"{path}&done=note").text
    assert "No disputes" in unfiltered
    assert "Clear" not in unfiltered
    assert "There are no disputes with this status." in ada.get(f"{path}&status=WON").text
    filtered = ada.get(f"{path}&from=2020-01-01").text
    assert "No disputes match these filters." in filtered
    assert "Clear" in filtered


def test_forms_with_a_password_name_the_person_for_password_managers(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")

    def username_fields(visitor: Visitor, path: str) -> list[str]:
        fields = _INPUT.findall(visitor.get(path).text)
        return [field for field in fields if 'autocomplete="username"' in field]

    (field,) = username_fields(ada, "/security")
    assert f'value="{ada.email}"' in field
    assert 'class="hidden"' in field
    assert 'type="hidden"' not in field  # password managers ignore fields of the type hidden
    assert 'tabindex="-1" aria-hidden="true"' in field


def test_every_secret_field_has_the_autocomplete_token_of_secrets() -> None:
    auth_portal = PORTALS[0]
    assert auth_portal.environment.loader is not None
    source = "".join(
        auth_portal.environment.loader.get_source(auth_portal.environment, name)[0]
        for name in auth_portal.environment.list_templates(["html"])
    )
    field = r'parts\.field\(_, "(\w+)", _\("[^"]*"\), '
    passwords = re.findall(field + '"password"', source)
    codes = re.findall(field + '"text", "one-time-code"', source)
    assert {"password", "current", "proof_password", "login_password"} <= set(passwords)
    assert {"code", "proof_code", "login_code"} <= set(codes)
    assert {*passwords, *codes, "credential", "proof_credential"} == auth_portal.secret_fields


def test_no_template_binds_the_name_of_gettext() -> None:
    for template in Path(str(opentill.__file__)).parent.rglob("templates/*.html"):
        bindings = re.findall(
            r"{%-?\s*(?:for|set|with)\s+([^%]*?)(?:\bin\b|=)", template.read_text()
        )
        names = {name.strip(" ()") for binding in bindings for name in binding.split(",")}
        assert "_" not in names, template.name
