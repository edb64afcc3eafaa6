"""The menu "Create" in the header leads straight into the forms that a person may send."""

import re
from typing import Final

import pytest

from opentill.people import StaffRole
from support.api_server import Shop
from support.people import Visitor, create_person

_MENU: Final = re.compile(r'<details class="drop right create-menu">.*?</details>', re.DOTALL)
_LINK: Final = re.compile(r'<a href="([^"]+)">([^<]+)</a>')


def creations(visitor: Visitor, path: str) -> dict[str, str]:
    """Return the links of the menu on a page, by their texts."""
    response = visitor.get(path)
    assert response.status_code == 200, path
    menu = _MENU.search(response.text)
    return {} if menu is None else {text: href for href, text in _LINK.findall(menu[0])}


def check_forms(visitor: Visitor, links: dict[str, str]) -> None:
    """Each link opens its form: the sheet of its address, or the page itself."""
    for name, href in links.items():
        response = visitor.get(href)
        assert response.status_code == 200, name
        sheet = href.partition("?sheet=")[2]
        if sheet == "begin":  # runs need the operator's bank accounts, which these tests do not set
            assert "Set your bank accounts (OPENTILL_PAYOUT_ACCOUNTS)" in response.text
        elif sheet:
            assert re.search(rf'<dialog class="sheet" id="{sheet}" popover open ', response.text), (
                name
            )
            assert response.text.count(" popover open") == 1, name
        else:
            assert f'<form novalidate method="post" action="{href}"' in response.text, name


def test_members_create_what_their_role_may(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, role="owner")
    links = creations(owner, f"/dashboard/{shop.id}/")
    assert list(links) == [
        "Payment link", "Checkout session", "Product", "Invite a member", "API key",
        "Webhook endpoint",
    ]  # fmt: skip
    check_forms(owner, links)
    developer = create_person(shop.api_server, shop.id, role="developer")
    assert "Invite a member" not in creations(developer, f"/dashboard/{shop.id}/payments")
    viewer = create_person(shop.api_server, shop.id, role="viewer")
    assert creations(viewer, f"/dashboard/{shop.id}/payments") == {}


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (
            "admin",
            (
                "Merchant, Payout run, Upload a bank report, Compare a settlement report, "
                "Routing rule, Exchange rate, Invite a colleague"
            ),
        ),
        ("finance", "Payout run, Upload a bank report, Compare a settlement report, Exchange rate"),
        ("auditor", ""),
    ],
)
def test_staff_create_what_their_role_may(shop: Shop, role: StaffRole, names: str) -> None:
    person = create_person(shop.api_server, None, staff_role=role)
    links = creations(person, "/console")
    assert ", ".join(links) == names
    check_forms(person, links)
    if links:  # a merchant's pages show staff nothing that they could create there
        assert creations(person, f"/dashboard/{shop.id}/payments") == {}
