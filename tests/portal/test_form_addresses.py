"""The address of a form's action, which the address bar has after the form, leads to its page."""

import re
from typing import Final

import pytest

from opentill.auth.page_table import PORTAL as SECURITY
from opentill.console.page_table import PORTAL as CONSOLE
from opentill.dashboard.page_table import PORTAL as DASHBOARD
from support.api_server import Shop
from support.people import create_person

ID: Final = "0000000000000000000000000a"
PORTALS: Final = (DASHBOARD, CONSOLE, SECURITY)
# All paths that take a form and have no page of their own.
ACTIONS: Final = [
    path
    for portal in PORTALS
    for path in sorted({row.path for row in portal.pages})
    if {row.method for row in portal.pages if row.path == path} == {"POST"}
]
PAGES: Final = {
    row.path
    for portal in PORTALS
    for row in portal.pages
    if row.method == "GET" and not row.is_file
}


def fill(path: str, merchant_id: str) -> str:
    """Return a path with the merchant's id and other ids."""
    path = path.replace("{merchant:id}", merchant_id)
    return re.sub(r"{(\w+):id}", f"abc_{ID}", path)


def test_every_action_leads_to_a_page(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    pages = {fill(path, shop.id).rstrip("/") for path in PAGES}
    assert len(ACTIONS) > 80
    for action in ACTIONS:
        address = fill(action, shop.id)
        response = owner.get(address)
        page = response.headers["location"]
        assert (response.status_code, page in pages) == (303, True), action
        assert address.startswith(f"{page}/") or page == "/login", action
        assert owner.http.head(address).headers["location"] == page


@pytest.mark.parametrize(
    ("action", "page"),
    [
        ("developers/epay/enable", "developers/epay"),
        ("team/invite", "team"),
        ("settings/branding/logo/remove", "settings/branding"),
        ("settings/seller", "settings"),
        ("agreement/accept", "agreement"),
        ("mails/preferences", "mails"),
    ],
)
def test_an_action_opened_anew_shows_the_page_of_its_form(
    shop: Shop, action: str, page: str
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    home = f"/dashboard/{shop.id}"
    response = owner.get(f"{home}/{action}")
    assert response.headers["location"] == f"{home}/{page}"
    assert owner.get(response.headers["location"]).status_code == 200


def test_the_page_of_evidence_is_the_dispute_and_not_the_file(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    dispute = f"/dashboard/{shop.id}/disputes/dp_{ID}"
    response = owner.get(f"{dispute}/evidence/file_{ID}/remove")
    assert response.headers["location"] == dispute


def test_an_authenticator_that_is_set_up_leads_to_the_security_page(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    begin = owner.get("/security/authenticator/begin")
    assert begin.headers["location"] == "/security/authenticator"
    response = owner.get("/security/authenticator")
    assert (response.status_code, response.headers["location"]) == (303, "/security")


def test_a_form_for_a_page_without_forms_is_still_refused(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    assert owner.post(f"/dashboard/{shop.id}/balance", {}).status_code == 405
