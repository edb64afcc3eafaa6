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
