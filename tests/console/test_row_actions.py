"""Each action in a row of a list, and on a merchant's page, opens its form at once."""

import re
from functools import partial
from typing import Final

import pytest

from dashboard.pages import text_of
from opentill import refunds
from support import world
from support.api_server import Shop
from support.people import Visitor, create_person

_ACTIONS: Final = re.compile(
    r'<span class="row-actions small">(.*?)</span>\s*(?:</td>|</li>)', re.DOTALL
)
_LINK: Final = re.compile(r'<a href="([^"]+)">([^<]+)<')


def actions(page: str, object_id: str) -> dict[str, str]:
    """Return the addresses of the actions whose address names an object, by their texts."""
    links = (link for row in _ACTIONS.findall(page) for link in _LINK.findall(row))
    return {text: href for href, text in links if object_id in href}


def open_form(visitor: Visitor, href: str) -> str:
    """Return the title of the form that an address opens."""
    page = visitor.get(href)
    assert page.status_code == 200, href
    (sheet,) = re.findall(r"<dialog .*?</dialog>", page.text, re.DOTALL)
    title = re.search(r"<h2 [^>]*>(.*?)</h2>", sheet)
    assert title is not None
    return text_of(title[1])


@pytest.fixture
def admin(shop: Shop) -> Visitor:
    return create_person(shop.api_server, None, staff_role="admin")


def test_a_merchant_is_suspended_or_stopped_from_its_row_and_its_page(
    shop: Shop, admin: Visitor
) -> None:
    place = f"/console/merchants/{shop.id}"
    row = actions(admin.get("/console/merchants").text, shop.id)
    titles = {name: open_form(admin, row[name]) for name in list(row)[:4]}
    assert titles == {
        "Suspend": "Suspend",
        "Stop payouts": "Payouts: Switch off",
        "Stop refunds": "Refunds: Switch off",
        "Close": "Close for good",
    }
    assert row["Terms"] == f"{place}/terms"
    assert row["Adjust"] == f"{place}/adjustments"
    page = admin.get(place).text
    on_page = actions(page, shop.id)
    assert on_page["Suspend"] == row["Suspend"]
    assert on_page["Close for good"] == row["Close"]
    for capability in ("charge", "refund", "payout"):
        assert f'<a href="{place}/standing?sheet={capability}">Switch off<' in page
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert "row-actions" not in auditor.get("/console/merchants").text
    assert "?sheet=" not in auditor.get(place).text


def test_what_is_in_the_way_of_closing_a_merchant_leads_to_where_it_is_settled(
    shop: Shop, admin: Visitor
) -> None:
    shop.create_paid_order()
    page = admin.get(f"/console/merchants/{shop.id}/standing").text
    link = re.search(r"Pending balance: <a href=\"([^\"]+)\">\$", page)
    assert link is not None
    assert admin.get(link[1]).status_code == 200


def test_a_failed_refund_is_marked_from_its_row(shop: Shop, admin: Visitor) -> None:
    order, server = shop.create_paid_order()["id"], shop.api_server
    refund_id = shop.refund(order, amount="4.00")["id"]
    refund = server.tx(partial(refunds.find, merchant_id=shop.id, refund_id=refund_id))
    server.tx(lambda tx: world.report_refund(tx, refund, "REFUSED", server.app.clock()))
    row = actions(admin.get("/console/needs/failed_refunds").text, order)
    assert open_form(admin, row["Mark as handled"]).startswith("Mark as handled")
    viewer = create_person(shop.api_server, None, staff_role="auditor")
    assert "Mark as handled" not in viewer.get("/console/needs/failed_refunds").text
