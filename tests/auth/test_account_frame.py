"""A person's own pages lead back to the merchants that the person works for."""

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
    auditor = create_person(shop.api_server, None, staff_role="auditor").get("/security").text
    assert 'class="search-box"' not in auditor
    assert " UTC" in auditor
    assert "Times are in" not in auditor
