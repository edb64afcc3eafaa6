"""Pages show the operator's contact only if the operator has set one."""

import msgspec
import pytest

from console.console_pages import visible_text
from opentill import merchants
from opentill.merchants import Actor
from support.api_server import ApiServer, Shop
from support.people import create_person


@pytest.mark.parametrize(
    ("contact", "text"),
    [
        ("", "Ask the operator of this service for a new link. "),
        ("help@till.example", "for a new link: help@till.example "),
        ("+852 5555 0000", "for a new link: +852 5555 0000 "),
    ],
)
def test_the_login_page_shows_the_contact_that_the_operator_has_set(
    api_server: ApiServer, contact: str, text: str
) -> None:
    app, before = api_server.app, api_server.app.settings
    contacts = {"operator_contact": contact} if contact else {}
    app.settings = msgspec.structs.replace(before, smtp_url="", **contacts)
    page = api_server.http.get("/login").text
    app.settings = before
    assert text in visible_text(page)
    assert ("mailto:" in page) == ("@" in contact)
    assert "support@example.com" not in page


def test_a_suspended_merchant_is_shown_no_example_as_the_contact(shop: Shop) -> None:
    server = shop.api_server
    owner = create_person(server, shop.id, "owner")
    now, actor = server.app.clock(), Actor("ann", "review")
    server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", actor, now))
    page = owner.get(f"/dashboard/{shop.id}/").text
    assert "Contact the operator of this service." in page
    assert "support@example.com" not in page
