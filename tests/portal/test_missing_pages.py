"""Pages that do not exist, for people who have logged in: the menu and the search stay."""

import re

import httpx2
import pytest

from opentill.core.errors import Unavailable
from opentill.core.ids import new_id
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of

ID = "0000000000000000000000000a"


def button_of(response: httpx2.Response) -> tuple[str, str] | None:
    """Return the text and the address of the page's button, None if it has none."""
    match = re.search(r'<a class="button" href="([^"]*)">(.*?)</a>', response.text)
    return (match[2], match[1]) if match else None


def has_frame(response: httpx2.Response) -> bool:
    """Return whether the page has the menu with links, and the search."""
    menu = re.search(r'<nav class="menu".*?</nav>', response.text, re.DOTALL)
    return bool(menu and "menu-group" in menu[0]) and '<form class="search-box"' in response.text


@pytest.mark.parametrize(
    ("path", "heading", "page", "list_path"),
    [
        (f"payments/order_{ID}", "Payment not found", "Payments", "payments"),
        (f"payments/order_{ID}/receipt", "Payment not found", "Payments", "payments"),
        ("payments/order_short", "Payment not found", "Payments", "payments"),
        (f"disputes/dp_{ID}", "Dispute not found", "Disputes", "disputes"),
        (f"products/prod_{ID}", "Product not found", "Products", "products"),
        (f"links/plink_{ID}", "Payment link not found", "Payment links", "links"),
        (f"payouts/po_{ID}", "Payout not found", "Payouts", "payouts"),
        (f"developers/keys/key_{ID}", "API key not found", "API keys", "developers/keys"),
        (
            f"developers/webhooks/whe_{ID}",
            "Webhook endpoint not found",
            "Webhooks",
            "developers/webhooks",
        ),
        (f"developers/events/evt_{ID}", "Event not found", "Events", "developers/events"),
        (
            f"developers/requests/req_{ID}",
            "Request not found",
            "API errors",
            "developers/requests",
        ),
        ("payments/nothing", "We cannot find this page", "Payments", "payments"),
        ("nothing/at/all", "We cannot find this page", "Home", ""),
    ],
)
def test_a_missing_page_of_the_dashboard_keeps_the_menu_and_offers_its_list(
    shop: Shop, path: str, heading: str, page: str, list_path: str
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    response = owner.get(f"/dashboard/{shop.id}/{path}")
    assert (response.status_code, heading_of(response)) == (404, heading)
    assert has_frame(response)
    assert button_of(response) == (f"Go to {page}", f"/dashboard/{shop.id}/{list_path}")
    if heading != "We cannot find this page":
        missing = next(part for part in path.split("/") if "_" in part)
        assert f"Nothing here has the ID \u2068{missing}\u2069." in response.text


@pytest.mark.parametrize(
    ("path", "heading", "page", "list_path"),
    [
        (f"merchants/mer_{ID}", "Merchant not found", "Merchants", "merchants"),
        (f"payments/order_{ID}", "Payment not found", "Payments", "payments"),
        (f"disputes/dp_{ID}", "Dispute not found", "Disputes", "disputes"),
        (f"people/per_{ID}", "Person not found", "People", "people"),
        (
            f"reconciliation/dif_{ID}",
            "Difference not found",
            "Reconciliation",
            "reconciliation",
        ),
        ("nothing", "We cannot find this page", "Home", ""),
    ],
)
def test_a_missing_page_of_the_console_keeps_the_menu_and_offers_its_list(
    shop: Shop, path: str, heading: str, page: str, list_path: str
) -> None:
    response = create_person(shop.api_server, None, staff_role="admin").get(f"/console/{path}")
    assert (response.status_code, heading_of(response)) == (404, heading)
    assert has_frame(response)
    assert button_of(response) == (f"Go to {page}", f"/console/{list_path}")


def test_a_forbidden_page_keeps_the_menu(shop: Shop) -> None:
    finance = create_person(shop.api_server, shop.id, "finance")
    create_person(shop.api_server, shop.id, "owner")
    response = finance.get(f"/dashboard/{shop.id}/developers/events")
    assert (response.status_code, heading_of(response)) == (403, "You do not have access")
    assert has_frame(response)
    assert "An owner can change your role." in response.text
    assert "You can ask: \u2068Ada Example\u2069" in response.text


def test_the_list_is_one_that_the_person_may_open(shop: Shop) -> None:
    finance = create_person(shop.api_server, shop.id, "finance")
    response = finance.get(f"/dashboard/{shop.id}/developers/events/{new_id('evt')}")
    assert response.status_code == 403
    button = button_of(response)
    assert button is not None
    assert finance.get(button[1]).status_code == 200


def test_strangers_and_members_of_other_merchants_get_no_menu(shop: Shop) -> None:
    other = create_person(shop.api_server, shop.api_server.create_shop().id, "owner")
    for path in (f"/dashboard/{shop.id}/nothing", "/console/nothing"):
        for visitor in (other, Visitor(shop.api_server)):
            response = visitor.get(path)
            assert response.status_code == 404
            assert "menu-group" not in response.text
            assert shop.id not in re.sub(r"\?lang=|href=\"[^\"]*\"", "", response.text)


def test_a_missing_page_needs_no_database_that_responds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")

    async def fail(*_: object, **__: object) -> None:
        raise Unavailable

    monkeypatch.setattr("opentill.people.find", fail)
    response = owner.get(f"/dashboard/{shop.id}/nothing")
    assert response.status_code == 503
    assert response.headers["content-type"].startswith("text/html")
    assert "menu-group" not in response.text
