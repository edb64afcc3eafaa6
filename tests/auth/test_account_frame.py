"""A person's own pages lead back to the merchants that the person works for."""

import re

from support.api_server import Shop
from support.people import create_person


def test_the_security_page_names_the_merchant_and_leads_back_to_it(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = viewer.get("/security").text
    menu = page.partition('<nav class="menu"')[2].partition("</nav>")[0]
    assert f'href="/dashboard/{shop.id}/"' in menu
    assert "Harbour Books" in page[: page.index('<nav class="menu"')]
    assert 'href="/security" aria-current="page"' in menu


def test_the_security_page_of_a_member_keeps_the_merchants_search_and_time_zone(
    shop: Shop,
) -> None:
    zone = "Asia/Tokyo"
    shop.api_server.sql("update merchants set time_zone = $2 where id = $1", shop.id, zone)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = viewer.get("/security").text
    assert f'action="/dashboard/{shop.id}/search"' in page
    assert f"Times are in {zone}." in page
    assert " UTC" not in page


def test_the_security_page_of_staff_keeps_the_header_and_the_counts_of_the_console(
    shop: Shop,
) -> None:
    shop.open_dispute(shop.create_paid_order()["id"])
    agent = create_person(shop.api_server, None, staff_role="admin")
    page, home = (agent.get(path).text for path in ("/security", "/console/"))
    assert 'action="/console/search"' in page
    for part in (r'create-menu">.*?</details>', r'<span class="waiting.*?</span>'):
        assert re.findall(part, page, re.DOTALL) == re.findall(part, home, re.DOTALL) != []
    assert " UTC" in page
    assert "Times are in" not in page
