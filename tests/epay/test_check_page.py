"""The page Epay checks the server of a shop, and says what is wrong with it."""

from dashboard.pages import text_of
from support.epay_shop import EpayShop
from support.people import create_person


def test_the_page_epay_checks_a_server_and_explains_its_fault(epay_shop: EpayShop) -> None:
    owner = create_person(epay_shop.api_server, epay_shop.id, "owner")
    viewer = create_person(epay_shop.api_server, epay_shop.id, "viewer")
    path = f"/dashboard/{epay_shop.id}/developers/epay"
    placed = epay_shop.place_paid_order()
    form = {"order": epay_shop.order_id(placed)}
    server = epay_shop.inbox.url.removesuffix("/notify")
    assert f"Check {server}" in text_of(owner.get(path)).replace("\u2068", "").replace("\u2069", "")
    assert viewer.post(f"{path}/check", form).status_code == 403
    assert epay_shop.inbox.received == []
    epay_shop.inbox.answer = (302, b"success")
    page = owner.post(f"{path}/check", form)
    assert page.status_code == 200
    assert "are not accepted" in text_of(page)
    assert "Set the final URL, usually with https://" in text_of(page)
    epay_shop.inbox.answer = (200, b"success")
    assert "All that wait for it are sent now." in text_of(owner.post(f"{path}/check", form))
    assert owner.post(f"{path}/check", {"order": "order_x"}).status_code == 404
