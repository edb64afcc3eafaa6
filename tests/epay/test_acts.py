"""api.php: query, settle, order, orders, refund."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from api import Till
from epay.stall import Inbox, Stall, assert_chinese
from opentill import payouts
from opentill.epay import reports
from opentill.list_counts.jobs import roll_up

DAY_MS = 86_400_000


@pytest.mark.parametrize("way", ["get", "post", "signed", "act apart", "pid apart"])
def test_a_call_is_understood_however_its_parameters_come(stall: Stall, way: str) -> None:
    placed = stall.placed()
    asked = {"act": "order", "pid": stall.pid, "trade_no": placed["trade_no"]}
    keyed = asked | {"key": stall.key}
    http, url = stall.till.http, "/epay/api.php"
    match way:
        case "get":
            answer = http.get(url, params=keyed)
        case "post":
            answer = http.post(url, data=keyed)
        case "signed":
            answer = http.post(url, data=stall.signed(asked))
        case "act apart":
            del keyed["act"]
            answer = http.post(f"{url}?act=order", data=keyed)
        case _:
            del keyed["act"]
            answer = http.post(url, params=keyed, data={"act": "order"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["out_trade_no"] == placed["out_trade_no"]


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
def test_each_refusal_has_its_code(stall: Stall, changes: dict[str, Any], code: int) -> None:
    query = {"act": "query", "pid": stall.pid, "key": stall.key} | changes
    params = {name: text for name, text in query.items() if text is not None}
    for answer in (
        stall.till.http.get("/epay/api.php", params=params),
        stall.till.http.post("/epay/api.php", data=params),
    ):
        assert answer.status_code == 200
        assert set(answer.json()) == {"code", "msg"}
        assert answer.json()["code"] == code
        assert_chinese(answer.json()["msg"])


@pytest.mark.parametrize("act", ["order", "refund"])
def test_there_is_no_such_order_word_for_word(stall: Stall, act: str) -> None:
    other = Stall(stall.till, stall.inbox).placed()
    api = stall.shop.paid(stall.shop.product(currency="CNY")["id"])
    for number in ("x", other["trade_no"], api["id"], api["id"].replace("_", "")):
        body = stall.act(act, trade_no=number, money="1")
        assert body == {"code": -1, "msg": "订单不存在"}


def test_query_says_who_the_merchant_is(stall: Stall) -> None:
    now = stall.till.app.clock()
    stall.paid()
    stall.placed()
    stall.till.app.clock = lambda: now + DAY_MS
    stall.paid()
    body = stall.act("query")
    stall.till.app.clock = lambda: now
    assert body == {
        "code": 1,
        "msg": "success",
        "pid": int(stall.pid),
        "key": stall.key,
        "active": "1",
        "money": "0.00",
        "type": "4",
        "account": "",
        "username": "Harbour Books",
        "orders": "3",
        "order_today": "1",
        "order_lastday": "1",
        "orders_today": "1",
        "orders_lastday": "1",
    }


def test_query_counts_all_orders_of_the_door_and_no_others(stall: Stall) -> None:
    Stall(stall.till, stall.inbox).placed()
    stall.shop.paid(stall.shop.product(currency="CNY")["id"])
    assert stall.act("query")["orders"] == "0"
    for currency in ("CNY", "USD", "CNY"):
        stall.placed(money_type=currency)
    stall.paid()
    assert stall.act("query")["orders"] == "4"
    stall.till.run(roll_up(stall.till.app.db, at_least=1))  # and however the totals are kept
    stall.placed(money_type="USD")
    assert stall.act("query")["orders"] == "5"


def test_a_signed_query_that_anyone_could_repeat_does_not_give_the_key_away(stall: Stall) -> None:
    form = stall.signed({"act": "query", "pid": stall.pid})
    body = stall.post("api", form).json()
    assert body["code"] == 1
    assert body["key"] == ""
    assert stall.key not in str(body)


def test_settle_lists_payouts(stall: Stall) -> None:
    for amount in (100, 200, 300):
        stall.shop.payout(amount)
    body = stall.act("settle", limit="2", offset="1")
    assert (body["code"], [row["money"] for row in body["data"]]) == (1, ["2.00", "1.00"])
    assert all(type(row["status"]) is int for row in body["data"])
    assert all(type(row["id"]) is int and row["type"] == "4" for row in body["data"])
    numbers = [row["id"] for row in stall.act("settle")["data"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 3
    assert 0 < numbers[-1] < 2**53  # what JavaScript keeps of a number
    assert len(stall.act("settle", limit="1000", offset="x")["data"]) == 3


def test_an_order_is_shown_from_the_start_to_its_refund(stall: Stall) -> None:
    placed = stall.placed(param="uid=7")
    row = stall.act("order", out_trade_no=placed["out_trade_no"])
    assert row.pop("addtime")[:2] == "20"
    assert row == {
        "code": 1,
        "msg": "查询订单号成功！",
        "trade_no": placed["trade_no"],
        "out_trade_no": placed["out_trade_no"],
        "api_trade_no": "",
        "type": "alipay",
        "pid": int(stall.pid),
        "endtime": "",
        "name": "VIP会员",
        "money": "10.5",
        "param": "uid=7",
        "buyer": "",
        "status": 0,
        "trade_status": "WAIT_BUYER_PAY",
        "payurl": placed["payurl"],
    }
    stall.pay(placed)
    row = stall.act("order", out_trade_no="wrong", trade_no=placed["trade_no"])  # which wins
    assert (row["status"], row["trade_status"], row["payurl"]) == (1, "TRADE_SUCCESS", "")
    assert len(row["endtime"]) == len("2026-01-31 12:34:56")
    body = stall.act("refund", out_trade_no=placed["out_trade_no"], money="10.5")
    refund_no = body.pop("refund_no")
    assert refund_no.isalnum()
    assert body == {
        "code": 1,
        "msg": "退款成功",
        "trade_no": placed["trade_no"],
        "out_trade_no": placed["out_trade_no"],
        "money": "10.5",
    }
    stall.shop.end_refund("re_" + refund_no.removeprefix("re"))
    row = stall.act("order", trade_no=placed["trade_no"])
    assert (row["status"], row["trade_status"]) == (2, "TRADE_CLOSED")


def test_a_disputed_order_is_frozen_and_a_revoked_one_closed(stall: Stall) -> None:
    placed = stall.paid()
    stall.shop.dispute(stall.order_id(placed))
    row = stall.act("order", trade_no=placed["trade_no"])
    assert (row["status"], row["trade_status"]) == (3, "TRADE_CLOSED")
    gone = stall.placed()
    stall.shop.revoke(stall.order_id(gone))
    row = stall.act("order", trade_no=gone["trade_no"])
    assert (row["status"], row["trade_status"]) == (0, "TRADE_CLOSED")


def test_orders_are_listed_newest_first(stall: Stall) -> None:
    numbers = [stall.placed()["out_trade_no"] for _ in range(5)]
    paid = stall.paid()["out_trade_no"]
    everything = [paid, *reversed(numbers)]
    body = stall.act("orders")
    assert body["count"] == 6
    assert body["data"] == body["orders"]
    assert [row["out_trade_no"] for row in body["data"]] == everything

    def listed(**query: str) -> list[str]:
        return [row["out_trade_no"] for row in stall.act("orders", **query)["data"]]

    assert listed(limit="2") == everything[:2]
    assert listed(limit="2", page="2") == everything[2:4]
    assert listed(limit="2", offset="3") == everything[3:5]
    assert listed(status="1") == [paid]
    assert listed(status="0") == everything[1:]
    assert listed(status="2") == listed(status="x") == listed(page="99") == []
    assert stall.act("orders", status="1")["count"] == 1


@pytest.fixture
def zone(till: Till) -> Iterator[Callable[[str], None]]:
    """Set the time zone of the deployment for the rest of the test."""
    before = till.app.settings

    def put(name: str) -> None:
        till.app.settings = msgspec.structs.replace(before, epay_time_zone=name)

    yield put
    till.app.settings = before


# in 2026, in which Berlin's clocks go forward on 29 March and back on 25 October
MOMENTS = [
    ("Asia/Shanghai", 1_767_225_600_000, "2026-01-01 08:00:00"),
    ("UTC", 1_767_225_600_000, "2026-01-01 00:00:00"),
    ("America/New_York", 1_767_225_600_000, "2025-12-31 19:00:00"),
    ("Europe/Berlin", 1_780_272_000_000, "2026-06-01 02:00:00"),
]


@pytest.mark.parametrize(("name", "moment", "shown"), MOMENTS)
def test_times_are_those_of_the_deployments_zone(
    stall: Stall, zone: Callable[[str], None], name: str, moment: int, shown: str
) -> None:
    zone(name)
    number = stall.paid()["out_trade_no"]
    stall.till.sql(
        "update orders set created_at = $2, paid_at = $2 where merchant_id = $1", stall.id, moment
    )
    stall.till.sql(
        "update epay_orders set created_at = $2 where merchant_id = $1", stall.id, moment
    )
    row = stall.act("order", out_trade_no=number)
    assert (row["addtime"], row["endtime"]) == (shown, shown)
    payout = stall.shop.payout(100)
    stall.till.tx(lambda tx: payouts.pay(tx, payout.id, "B1", "sent", "tester", moment))
    stall.till.sql("update payouts set created_at = $2 where merchant_id = $1", stall.id, moment)
    settled = stall.act("settle")["data"][0]
    assert (settled["addtime"], settled["endtime"]) == (shown, shown)


def test_times_are_those_of_shanghai_unless_said_otherwise(stall: Stall) -> None:
    number = stall.placed()["out_trade_no"]
    moment = 1_767_225_600_000
    stall.till.sql(
        "update epay_orders set created_at = $2 where merchant_id = $1", stall.id, moment
    )
    assert stall.act("order", out_trade_no=number)["addtime"] == "2026-01-01 08:00:00"


@pytest.mark.parametrize(
    ("name", "now", "yesterday", "today"),
    [
        ("Asia/Shanghai", 1_767_225_600_000, 1_767_110_400_000, 1_767_196_800_000),
        # the day after one of 23 hours, and after one of 25
        ("Europe/Berlin", 1_774_864_800_000, 1_774_738_800_000, 1_774_821_600_000),
        ("Europe/Berlin", 1_793_012_400_000, 1_792_879_200_000, 1_792_969_200_000),
    ],
)
def test_days_begin_where_the_deployment_is(
    name: str, now: int, yesterday: int, today: int
) -> None:
    assert reports.days(now, name) == (yesterday, today)


@pytest.mark.parametrize("money", ["0", "-1", "x", "10.51", "1.001", "１"])
def test_a_refund_of_a_wrong_amount_is_refused(stall: Stall, money: str) -> None:
    placed = stall.paid()
    body = stall.act("refund", trade_no=placed["trade_no"], money=money)
    assert body["code"] == -1
    assert "退款金额" in body["msg"]


def test_refunds_never_exceed_the_order(stall: Stall) -> None:
    placed = stall.paid(money="1.00")
    unpaid = stall.placed()
    assert stall.act("refund", trade_no=unpaid["trade_no"], money="1")["code"] == -1
    asked = {"trade_no": placed["trade_no"], "money": "0.40"}
    answers = [stall.act("refund", **asked, refund_no=str(n)) for n in range(3)]
    assert [answer["code"] for answer in answers] == [1, 1, -1]
    assert "0.20 CNY" in answers[-1]["msg"]


def test_an_order_is_refunded_where_it_was_placed(stall: Stall) -> None:
    placed = stall.paid()
    answer = stall.shop.post(f"/v1/orders/{stall.order_id(placed)}/refunds", {})
    assert answer.status_code == 400
    error = answer.json()
    assert (error["code"], error["error"]["field"]) == (40001, "orderId")
    assert "/epay/api.php?act=refund" in error["error"]["reason"]


def test_what_a_customer_may_pay_by_is_what_was_asked_for(stall: Stall, inbox: Inbox) -> None:
    one = stall.till.http.get(stall.placed(type="creditcard")["payurl"]).text
    assert 'value="CREDIT_CARD"' in one
    assert 'value="ALIPAY"' not in one
    form = stall.signed(stall.form(type=None))
    page = stall.till.http.post("/epay/submit.php", data=form, follow_redirects=True).text
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
        ("fr", "en"),
    ],
)
def test_the_page_speaks_chinese_unless_the_browser_says_otherwise(
    stall: Stall, accepted: str | None, language: str
) -> None:
    headers = {} if accepted is None else {"accept-language": accepted}
    page = stall.till.http.get(stall.placed()["payurl"], headers=headers)
    assert f'<html lang="{language}"' in page.text
