"""``api.php`` of the Epay API: query, settle, order, orders and refund."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from opentill import payouts
from opentill.epay import reports
from opentill.list_counts.jobs import roll_up
from support.api_server import ApiServer
from support.epay_shop import EpayShop, Inbox, assert_chinese

DAY_MS = 86_400_000


@pytest.mark.parametrize("transport", ["get", "post", "signed", "act apart", "pid apart"])
def test_api_php_reads_parameters_from_query_or_body(epay_shop: EpayShop, transport: str) -> None:
    epay_order = epay_shop.place_order()
    params = {"act": "order", "pid": epay_shop.pid, "trade_no": epay_order["trade_no"]}
    params_with_key = params | {"key": epay_shop.key}
    http, url = epay_shop.api_server.http, "/epay/api.php"
    match transport:
        case "get":
            response = http.get(url, params=params_with_key)
        case "post":
            response = http.post(url, data=params_with_key)
        case "signed":
            response = http.post(url, data=epay_shop.sign(params))
        case "act apart":
            del params_with_key["act"]
            response = http.post(f"{url}?act=order", data=params_with_key)
        case _:
            del params_with_key["act"]
            response = http.post(url, params=params_with_key, data={"act": "order"})
    assert response.headers["content-type"] == "application/json"
    assert response.json()["out_trade_no"] == epay_order["out_trade_no"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"act": None}, -5),
        ({"act": ""}, -5),
        ({"act": "change"}, -5),
        ({"pid": None}, -4),
        ({"key": None}, -4),
        ({"key": ""}, -4),
        ({"key": "x"}, -3),
        ({"key": None, "sign": "0" * 32}, -3),
        ({"pid": "000000001"}, -3),
        ({"act": "order"}, -4),
        ({"act": "order", "trade_no": "order0"}, -1),
        ({"act": "order", "out_trade_no": "nothing"}, -1),
        ({"act": "refund", "out_trade_no": "nothing"}, -4),
        ({"act": "refund", "money": "1"}, -4),
        ({"act": "refund", "money": "1", "out_trade_no": "nothing"}, -1),
        ({"act": "order", "out_trade_no": "a&pid=1"}, -1),
    ],
    ids=str,
)
def test_each_refusal_of_api_php_has_its_code(
    epay_shop: EpayShop, changes: dict[str, Any], code: int
) -> None:
    query = {"act": "query", "pid": epay_shop.pid, "key": epay_shop.key} | changes
    params = {name: text for name, text in query.items() if text is not None}
    for response in (
        epay_shop.api_server.http.get("/epay/api.php", params=params),
        epay_shop.api_server.http.post("/epay/api.php", data=params),
    ):
        assert response.status_code == 200
        assert set(response.json()) == {"code", "msg"}
        assert response.json()["code"] == code
        assert_chinese(response.json()["msg"])


@pytest.mark.parametrize("act", ["order", "refund"])
def test_an_unknown_order_has_the_exact_message_of_other_epay_servers(
    epay_shop: EpayShop, act: str
) -> None:
    other_shops_order = EpayShop(epay_shop.api_server, epay_shop.inbox).place_order()
    api_order = epay_shop.shop.create_paid_order(
        epay_shop.shop.create_product(currency="CNY")["id"]
    )
    own_numbers = (api_order["id"], api_order["id"].replace("_", ""))
    for number in ("x", other_shops_order["trade_no"], *own_numbers):
        body = epay_shop.call_api(act, trade_no=number, money="1")
        assert body == {"code": -1, "msg": "订单不存在"}


def test_query_returns_the_merchant(epay_shop: EpayShop, clock: Callable[[int], None]) -> None:
    now = epay_shop.api_server.app.clock()
    clock(now)
    epay_shop.place_paid_order()
    epay_shop.place_order()
    clock(now + DAY_MS)
    epay_shop.place_paid_order()
    body = epay_shop.call_api("query")
    assert body == {
        "code": 1,
        "msg": "success",
        "pid": int(epay_shop.pid),
        "key": epay_shop.key,
        "active": 1,
        "money": "0.00",
        "type": 4,
        "account": "",
        "username": "Harbour Books",
        "orders": 3,
        "order_today": "1",
        "order_lastday": "1",
        "orders_today": "1",
        "orders_lastday": "1",
    }


def test_query_counts_epay_orders_only(epay_shop: EpayShop) -> None:
    EpayShop(epay_shop.api_server, epay_shop.inbox).place_order()
    epay_shop.shop.create_paid_order(epay_shop.shop.create_product(currency="CNY")["id"])
    assert epay_shop.call_api("query")["orders"] == 0
    for currency in ("CNY", "USD", "CNY"):
        epay_shop.place_order(money_type=currency)
    epay_shop.place_paid_order()
    assert epay_shop.call_api("query")["orders"] == 4
    epay_shop.api_server.run(
        roll_up(epay_shop.api_server.app.db, at_least=1)
    )  # the number stays exact when the worker has counted a part of the orders
    epay_shop.place_order(money_type="USD")
    assert epay_shop.call_api("query")["orders"] == 5


def test_a_signed_query_does_not_return_the_key(
    epay_shop: EpayShop,
) -> None:
    form = epay_shop.sign({"act": "query", "pid": epay_shop.pid})
    body = epay_shop.post("api", form).json()
    assert body["code"] == 1
    assert body["key"] == ""
    assert epay_shop.key not in str(body)


def test_settle_lists_payouts(epay_shop: EpayShop) -> None:
    for amount in (100, 200, 300):
        epay_shop.shop.create_payout(amount)
    body = epay_shop.call_api("settle", limit="2", offset="1")
    assert (body["code"], [row["money"] for row in body["data"]]) == (1, ["2.00", "1.00"])
    assert all(type(row["status"]) is int for row in body["data"])
    assert all(type(row["id"]) is int and row["type"] == "4" for row in body["data"])
    numbers = [row["id"] for row in epay_shop.call_api("settle")["data"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 3
    assert 0 < numbers[-1] < 2**53  # JavaScript represents these numbers exactly
    assert len(epay_shop.call_api("settle", limit="1000", offset="x")["data"]) == 3


def test_an_order_is_shown_from_its_submission_to_its_refund(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order(param="uid=7")
    row = epay_shop.call_api("order", out_trade_no=epay_order["out_trade_no"])
    assert row.pop("addtime")[:2] == "20"
    assert row == {
        "code": 1,
        "msg": "查询订单号成功！",
        "trade_no": epay_order["trade_no"],
        "out_trade_no": epay_order["out_trade_no"],
        "api_trade_no": "",
        "type": "alipay",
        "pid": int(epay_shop.pid),
        "endtime": "",
        "name": "VIP会员",
        "money": "10.5",
        "param": "uid=7",
        "buyer": "",
        "status": 0,
        "trade_status": "WAIT_BUYER_PAY",
        "payurl": epay_order["payurl"],
    }
    epay_shop.pay(epay_order)
    # An order is found by trade_no, even if out_trade_no is wrong.
    row = epay_shop.call_api("order", out_trade_no="wrong", trade_no=epay_order["trade_no"])
    assert (row["status"], row["trade_status"], row["payurl"]) == (1, "TRADE_SUCCESS", "")
    assert len(row["endtime"]) == len("2026-01-31 12:34:56")
    body = epay_shop.call_api("refund", out_trade_no=epay_order["out_trade_no"], money="10.5")
    refund_no = body.pop("refund_no")
    assert refund_no.isalnum()
    assert body == {
        "code": 1,
        "msg": "退款成功",
        "trade_no": epay_order["trade_no"],
        "out_trade_no": epay_order["out_trade_no"],
        "money": "10.5",
    }
    epay_shop.shop.report_refund("re_" + refund_no.removeprefix("re"))
    row = epay_shop.call_api("order", trade_no=epay_order["trade_no"])
    assert (row["status"], row["trade_status"]) == (2, "TRADE_CLOSED")


def test_a_disputed_order_is_frozen_and_a_revoked_one_closed(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order()
    epay_shop.shop.open_dispute(epay_shop.order_id(epay_order))
    row = epay_shop.call_api("order", trade_no=epay_order["trade_no"])
    assert (row["status"], row["trade_status"]) == (3, "TRADE_CLOSED")
    revoked = epay_shop.place_order()
    epay_shop.shop.revoke(epay_shop.order_id(revoked))
    row = epay_shop.call_api("order", trade_no=revoked["trade_no"])
    assert (row["status"], row["trade_status"]) == (0, "TRADE_CLOSED")


def test_orders_are_listed_newest_first(epay_shop: EpayShop) -> None:
    numbers = [epay_shop.place_order()["out_trade_no"] for _ in range(5)]
    paid_number = epay_shop.place_paid_order()["out_trade_no"]
    all_numbers = [paid_number, *reversed(numbers)]
    body = epay_shop.call_api("orders")
    assert body["count"] == 6
    assert body["data"] == body["orders"]
    assert [row["out_trade_no"] for row in body["data"]] == all_numbers

    def list_numbers(**query: str) -> list[str]:
        return [row["out_trade_no"] for row in epay_shop.call_api("orders", **query)["data"]]

    assert list_numbers(limit="2") == all_numbers[:2]
    assert list_numbers(limit="2", page="2") == all_numbers[2:4]
    assert list_numbers(limit="2", offset="3") == all_numbers[3:5]
    assert list_numbers(status="1") == [paid_number]
    assert list_numbers(status="0") == all_numbers[1:]
    assert list_numbers(status="2") == list_numbers(status="x") == list_numbers(page="99") == []
    assert epay_shop.call_api("orders", status="1")["count"] == 1


@pytest.fixture
def set_zone(api_server: ApiServer) -> Iterator[Callable[[str], None]]:
    """A function that sets the time zone of the Epay API for the rest of the test."""
    before = api_server.app.settings

    def set_zone(name: str) -> None:
        api_server.app.settings = msgspec.structs.replace(before, epay_time_zone=name)

    yield set_zone
    api_server.app.settings = before


# Each row: time zone, a time in Unix ms, the same time in that zone.
MOMENTS = [
    ("Asia/Shanghai", 1_767_225_600_000, "2026-01-01 08:00:00"),
    ("UTC", 1_767_225_600_000, "2026-01-01 00:00:00"),
    ("America/New_York", 1_767_225_600_000, "2025-12-31 19:00:00"),
    ("Europe/Berlin", 1_780_272_000_000, "2026-06-01 02:00:00"),
]


@pytest.mark.parametrize(("name", "moment", "local_time"), MOMENTS)
def test_times_are_in_the_deployments_time_zone(
    epay_shop: EpayShop, set_zone: Callable[[str], None], name: str, moment: int, local_time: str
) -> None:
    set_zone(name)
    number = epay_shop.place_paid_order()["out_trade_no"]
    epay_shop.api_server.sql(
        "update orders set created_at = $2, paid_at = $2 where merchant_id = $1",
        epay_shop.id,
        moment,
    )
    epay_shop.api_server.sql(
        "update epay_orders set created_at = $2 where merchant_id = $1", epay_shop.id, moment
    )
    row = epay_shop.call_api("order", out_trade_no=number)
    assert (row["addtime"], row["endtime"]) == (local_time, local_time)
    payout = epay_shop.shop.create_payout(100)
    epay_shop.api_server.tx(lambda tx: payouts.pay(tx, payout.id, "B1", "sent", "tester", moment))
    epay_shop.api_server.sql(
        "update payouts set created_at = $2 where merchant_id = $1", epay_shop.id, moment
    )
    settled = epay_shop.call_api("settle")["data"][0]
    assert (settled["addtime"], settled["endtime"]) == (local_time, local_time)


def test_times_are_in_the_zone_of_shanghai_by_default(epay_shop: EpayShop) -> None:
    number = epay_shop.place_order()["out_trade_no"]
    moment = 1_767_225_600_000
    epay_shop.api_server.sql(
        "update epay_orders set created_at = $2 where merchant_id = $1", epay_shop.id, moment
    )
    assert epay_shop.call_api("order", out_trade_no=number)["addtime"] == "2026-01-01 08:00:00"


@pytest.mark.parametrize(
    ("name", "now", "yesterday", "today"),
    [
        ("Asia/Shanghai", 1_767_225_600_000, 1_767_110_400_000, 1_767_196_800_000),
        # In this row, yesterday has 23 hours; in the next row, it has 25.
        ("Europe/Berlin", 1_774_864_800_000, 1_774_738_800_000, 1_774_821_600_000),
        ("Europe/Berlin", 1_793_012_400_000, 1_792_879_200_000, 1_792_969_200_000),
    ],
)
def test_days_begin_at_midnight_of_the_deployments_time_zone(
    name: str, now: int, yesterday: int, today: int
) -> None:
    assert reports.day_starts(now, name) == (yesterday, today)


@pytest.mark.parametrize("money", ["0", "-1", "x", "10.51", "1.001", "１"])
def test_a_refund_of_an_invalid_amount_is_refused(epay_shop: EpayShop, money: str) -> None:
    epay_order = epay_shop.place_paid_order()
    body = epay_shop.call_api("refund", trade_no=epay_order["trade_no"], money=money)
    assert body["code"] == -1
    assert "退款金额" in body["msg"]


def test_refunds_never_exceed_the_order(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order(money="1.00")
    unpaid = epay_shop.place_order()
    assert epay_shop.call_api("refund", trade_no=unpaid["trade_no"], money="1")["code"] == -1
    params = {"trade_no": epay_order["trade_no"], "money": "0.40"}
    responses = [
        epay_shop.call_api("refund", **params, refund_no=str(number)) for number in range(3)
    ]
    assert [response["code"] for response in responses] == [0, 0, -1]
    assert "0.20 CNY" in responses[-1]["msg"]


def test_an_epay_order_cannot_be_refunded_through_the_api(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order()
    response = epay_shop.shop.post(f"/v1/orders/{epay_shop.order_id(epay_order)}/refunds", {})
    assert response.status_code == 400
    error = response.json()
    assert (error["code"], error["error"]["field"]) == (40001, "orderId")
    assert "/epay/api.php?act=refund" in error["error"]["reason"]


def test_the_payment_page_offers_only_the_submitted_payment_type(
    epay_shop: EpayShop, inbox: Inbox
) -> None:
    card_page = epay_shop.api_server.http.get(
        epay_shop.place_order(type="creditcard")["payurl"]
    ).text
    assert 'value="CREDIT_CARD"' in card_page
    assert 'value="ALIPAY"' not in card_page
    form = epay_shop.sign(epay_shop.form(type=None))
    page = epay_shop.api_server.http.post("/epay/submit.php", data=form, follow_redirects=True).text
    assert 'value="CREDIT_CARD"' in page
    assert 'value="ALIPAY"' in page


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        (None, "zh-Hans"),
        ("*", "zh-Hans"),
        ("*/*", "zh-Hans"),
        ("zh-CN,zh;q=0.9", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("en-GB,en;q=0.8", "en"),
        ("fr", "fr"),
        ("it", "en"),
    ],
)
def test_the_payment_page_is_chinese_unless_the_browser_prefers_another_language(
    epay_shop: EpayShop, accepted: str | None, language: str
) -> None:
    headers = {} if accepted is None else {"accept-language": accepted}
    page = epay_shop.api_server.http.get(epay_shop.place_order()["payurl"], headers=headers)
    assert f'<html lang="{language}"' in page.text
