"""Events of Epay orders, and finding an order by its trade_no."""

from typing import Any

import pytest

from support.epay_shop import EpayShop


def _list_events(epay_shop: EpayShop) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = epay_shop.shop.data("GET", "/v1/events?size=100")["items"]
    return events


@pytest.mark.parametrize("param", [None, "", "uid=7"])
def test_events_carry_the_numbers_of_the_shop_and_param_only_when_set(
    epay_shop: EpayShop, param: str | None
) -> None:
    epay_order = epay_shop.place_paid_order(param=param, out_trade_no="A-1")
    response = epay_shop.call_api("refund", trade_no=epay_order["trade_no"], money="1.00")
    assert response["code"] == 1, response
    (refund,) = epay_shop.shop.data("GET", f"/v1/orders/{epay_shop.order_id(epay_order)}/refunds")[
        "items"
    ]
    epay_shop.shop.report_refund(refund["id"])
    numbers = {"out_trade_no": "A-1", "trade_no": epay_order["trade_no"]}
    metadata = numbers | {"param": param} if param else numbers
    events = _list_events(epay_shop)
    assert [event["type"] for event in events] == [
        "order.paid", "checkout.completed", "order.refunded",
    ]  # fmt: skip
    for event in events:
        assert event["data"]["metadata"] == metadata
    order = epay_shop.shop.read_order(epay_shop.order_id(epay_order))
    assert order["metadata"] == metadata


def test_an_order_is_found_by_its_trade_no_and_only_by_its_merchant(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order()
    number = epay_order["trade_no"]
    order = epay_shop.shop.read_order(number)
    assert order == epay_shop.shop.read_order(epay_shop.order_id(epay_order))
    assert order["id"] == epay_shop.order_id(epay_order)
    api_order = epay_shop.shop.create_order()
    assert epay_shop.shop.read_order(api_order["id"].replace("_", "")) == api_order
    other_shop = epay_shop.api_server.create_shop()
    for shop, path in (
        (other_shop, number),
        (epay_shop.shop, number[:-1]),
        (epay_shop.shop, number.removeprefix("order")),
        (epay_shop.shop, number.replace("order", "prod")),
        (epay_shop.shop, "order"),
    ):
        assert shop.get(f"/v1/orders/{path}").status_code == 404
