"""Events of Epay orders, and finding one by the number that its shop knows."""

from typing import Any

import pytest

from epay.stall import Stall


def _events(stall: Stall) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = stall.shop.data("GET", "/v1/events?size=100")["items"]
    return items


@pytest.mark.parametrize("param", [None, "", "uid=7"])
def test_events_carry_the_numbers_of_the_shop_and_param_only_when_set(
    stall: Stall, param: str | None
) -> None:
    placed = stall.paid(param=param, out_trade_no="A-1")
    answer = stall.act("refund", trade_no=placed["trade_no"], money="1.00")
    assert answer["code"] == 1, answer
    (refund,) = stall.shop.data("GET", f"/v1/orders/{stall.order_id(placed)}/refunds")["items"]
    stall.shop.end_refund(refund["id"])
    numbers = {"out_trade_no": "A-1", "trade_no": placed["trade_no"]}
    wanted = numbers | {"param": param} if param else numbers
    told = _events(stall)
    assert [event["type"] for event in told] == [
        "order.paid", "checkout.completed", "order.refunded",
    ]  # fmt: skip
    for event in told:
        assert event["data"]["metadata"] == wanted
    order = stall.shop.read_order(stall.order_id(placed))
    assert order["metadata"] == wanted


def test_an_order_is_found_by_its_trade_no_and_only_by_its_merchant(stall: Stall) -> None:
    placed = stall.placed()
    number = placed["trade_no"]
    order = stall.shop.read_order(number)
    assert order == stall.shop.read_order(stall.order_id(placed))
    assert order["id"] == stall.order_id(placed)
    by_api = stall.shop.order()
    assert stall.shop.read_order(by_api["id"].replace("_", "")) == by_api
    other = stall.till.shop()
    for shop, path in (
        (other, number),
        (stall.shop, number[:-1]),
        (stall.shop, number.removeprefix("order")),
        (stall.shop, number.replace("order", "prod")),
        (stall.shop, "order"),
    ):
        assert shop.get(f"/v1/orders/{path}").status_code == 404
