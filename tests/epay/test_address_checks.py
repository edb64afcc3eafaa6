"""Checks of a shop's server: with the notification of a paid order, or with a probe."""

import pytest

from opentill import epay
from opentill.core.errors import NotFound
from opentill.gateways.epay import signature
from support.epay_shop import EpayShop


def _check(shop: EpayShop, order_id: str) -> epay.AddressCheck:
    app = shop.api_server.app
    work = epay.check_address(app.db, app.outgoing, app.settings, shop.id, order_id, app.clock())
    return shop.api_server.run(work)


def _addresses(shop: EpayShop) -> list[epay.AddressToCheck]:
    return shop.api_server.run(epay.list_addresses(shop.api_server.app.db, shop.id))


def test_a_check_of_a_paid_order_repeats_its_notification_and_releases_the_others(
    epay_shop: EpayShop,
) -> None:
    epay_shop.inbox.answer = (503, b"")
    waiting = [epay_shop.place_paid_order() for _ in range(3)]
    epay_shop.send_notices()
    (address,) = _addresses(epay_shop)
    assert address.server == epay_shop.inbox.url.removesuffix("/notify")
    assert address.order_id == epay_shop.order_id(waiting[-1])
    result = _check(epay_shop, address.order_id)
    assert (result.works, result.was_real, result.fault) == (False, True, "server_error")
    assert epay_shop.send_notices() == 0
    epay_shop.inbox.answer = (200, b"success")
    epay_shop.inbox.received.clear()
    result = _check(epay_shop, address.order_id)
    assert (result.works, result.was_real, result.fault) == (True, True, None)
    epay_shop.send_notices()
    numbers = [one["out_trade_no"] for one in epay_shop.inbox.received]
    assert numbers[1:] == [one["out_trade_no"] for one in waiting]
    assert {epay_shop.notice(one)["state"] for one in waiting} == {"DELIVERED"}


@pytest.mark.parametrize(
    ("status", "body", "works", "fault"),
    [
        (200, "fail", True, None),
        (200, "签名错误", True, None),
        (200, "\ufefffail", True, "bom"),
        (200, "<!doctype html><html><body>Shop</body></html>", False, "html_page"),
        (403, "", False, "forbidden"),
    ],
)
def test_a_check_before_the_first_payment_sends_what_a_shop_must_refuse(
    epay_shop: EpayShop, status: int, body: str, works: bool, fault: str | None
) -> None:
    epay_order = epay_shop.place_order()
    epay_shop.inbox.answer = (status, body.encode())
    result = _check(epay_shop, epay_shop.order_id(epay_order))
    assert (result.works, result.was_real, result.fault) == (works, False, fault)
    (probe,) = epay_shop.inbox.received
    assert probe["out_trade_no"] != epay_order["out_trade_no"]
    assert probe["trade_status"] != "TRADE_SUCCESS"
    assert not signature.verify(probe, epay_shop.key)


def test_only_addresses_of_own_orders_are_checked(epay_shop: EpayShop) -> None:
    other = EpayShop(epay_shop.api_server, epay_shop.inbox)
    order_id = other.order_id(other.place_order())
    with pytest.raises(NotFound):
        _check(epay_shop, order_id)
    assert epay_shop.inbox.received == []
    forbidden = other.place_order(notify_url="http://169.254.169.254/latest")
    result = _check(other, other.order_id(forbidden))
    assert (result.works, result.fault) == (False, "address_not_allowed")
