"""Shops of an old server find, are notified of and refund their old orders, unchanged."""

import time
from decimal import Decimal
from pathlib import Path

import pytest

from opentill import refunds
from opentill.gateways.model import RefundOutcome
from support import old_epay
from support.api_server import ApiServer
from support.books import assert_books
from support.epay_shop import Inbox
from support.epay_v2_shop import VECTORS
from support.imported_shops import ImportedShop, import_dump


@pytest.mark.parametrize(("number", "status"), [(1, 1), (3, 2), (4, 1), (5, 2), (6, 0), (7, 1)])
def test_old_orders_are_found_by_both_numbers(
    shops: dict[int, ImportedShop], number: int, status: int
) -> None:
    old = old_epay.order(number)
    result = shops[1000].call_api("order", trade_no=old["trade_no"])
    assert (result["code"], result["status"]) == (1, status)
    for field in ("trade_no", "out_trade_no", "addtime", "param", "name"):
        assert result[field] == old[field], field
    assert Decimal(result["money"]) == Decimal(old["money"])
    if number != 6:  # S6 was submitted twice, and the newest order counts
        again = shops[1000].call_api("order", out_trade_no=old["out_trade_no"])
        assert again == result
        assert (result["api_trade_no"], result["endtime"]) == (old["api_trade_no"], old["addtime"])
    assert result["type"] == {6: "", 7: "qqpay"}.get(number, "alipay")


def test_a_key_of_another_merchant_does_not_find_them(shops: dict[int, ImportedShop]) -> None:
    assert shops[1001].call_api("order", trade_no=old_epay.order(1)["trade_no"])["code"] == -1
    assert shops[1000].call_api("orders")["count"] == 8


def test_v2_knows_the_same_platform_key_orders_and_refunds(
    shops: dict[int, ImportedShop],
) -> None:
    shop = shops[1001]
    assert shop.platform_key == VECTORS["platform_public_key"]
    old = old_epay.order(8)
    result = shop.send("pay/query", shop.sign_v2({"trade_no": old["trade_no"]}))
    assert (result["code"], result["status"], result["type"]) == (0, 1, "wxpay")
    assert result["out_trade_no"] == old["out_trade_no"]
    unknown = shop.send("pay/query", shop.sign_v2({"trade_no": old_epay.order(1)["trade_no"]}))
    assert unknown["code"] == -1
    info = shop.send("merchant/info", shop.sign_v2({}))
    assert (info["money"], info["order_num"]) == ("7.05", 1)


def test_balances_are_one_credit_of_the_operator(
    shops: dict[int, ImportedShop], api_server: ApiServer
) -> None:
    assert shops[1000].call_api("query")["money"] == "100.00"
    rows = api_server.sql(
        "select type, from_account, to_account, amount_minor from entries where merchant_id = $1"
        " and source_type = 'operator'",
        shops[1000].id,
    )
    assert [tuple(row.values()) for row in rows] == [("ADMIN_RECHARGE", "bank", "available", 10000)]
    api_server.tx(assert_books)


def test_fees_are_those_of_the_group_and_of_the_channel(
    shops: dict[int, ImportedShop], api_server: ApiServer
) -> None:
    (row,) = api_server.sql(
        "select fees, platform_fee_rate, settlement_currency from merchants where id = $1",
        shops[1000].id,
    )
    assert '"rate":"0.015"' in row["fees"].replace(" ", "")
    assert '"rate":"0.006"' in row["fees"].replace(" ", "")
    assert row["settlement_currency"] == "CNY"


def test_notices_that_the_old_server_still_tried_are_sent(
    shops: dict[int, ImportedShop], inbox: Inbox
) -> None:
    inbox.received.clear()
    while shops[1000].send_notices():
        pass
    by_number = {notice["trade_no"]: notice for notice in inbox.received}
    assert by_number.keys() == {old_epay.order(2)["trade_no"], old_epay.order(8)["trade_no"]}
    v1, v2 = (by_number[old_epay.order(number)["trade_no"]] for number in (2, 8))
    assert (v1["sign_type"], v1["pid"], v1["out_trade_no"]) == ("MD5", "1000", "S2")
    assert v1 == shops[1000].sign({k: t for k, t in v1.items() if not k.startswith("sign")})
    assert (v2["sign_type"], v2["pid"]) == ("RSA", "1001")
    assert abs(int(v2["timestamp"]) - time.time()) < 60


def test_an_old_order_is_refunded_from_the_balance(
    shops: dict[int, ImportedShop], api_server: ApiServer
) -> None:
    shop = shops[1000]
    before = Decimal(shop.call_api("query")["money"])
    old = old_epay.order(4)["trade_no"]
    assert shop.call_api("refund", trade_no=old, money="10.01", refund_no="N0")["code"] == -1
    answer = shop.call_api("refund", trade_no=old, money="10.00", refund_no="N1")
    assert (answer["code"], answer["trade_no"]) == (0, old)
    assert Decimal(shop.call_api("query")["money"]) == before - 10
    (row,) = api_server.sql("select id from refunds where refund_no = 'N1'")
    now = api_server.app.clock()
    outcome = RefundOutcome(status="SUCCEEDED")
    api_server.tx(
        lambda tx: refunds.end_manually(tx, shop.id, row["id"], outcome, now, reporting=())
    )
    assert shop.call_api("order", trade_no=old)["status"] == 2
    assert shop.call_api("refund", trade_no=old, money="0.01", refund_no="N2")["code"] == -1
    api_server.tx(assert_books)


def test_old_refunds_keep_their_numbers(shops: dict[int, ImportedShop]) -> None:
    old = old_epay.order(3)["trade_no"]
    repeated = shops[1000].call_api("refund", trade_no=old, money="2.30", refund_no="MINE-2")
    assert (repeated["code"], repeated["money"]) == (0, "2.30")
    assert shops[1000].call_api("refund", trade_no=old, money="1.00", refund_no="R9")["code"] == -1


def test_an_unpaid_number_can_be_submitted_again_and_a_paid_one_not(
    shops: dict[int, ImportedShop],
) -> None:
    shop = shops[1000]
    old = old_epay.order(9, name="VIP")
    same = {name: old[name] for name in ("name", "notify_url", "return_url", "param")}
    form = shop.sign(
        {"pid": shop.pid, "type": "alipay", "out_trade_no": "S6", "money": "99.00",
         "clientip": "203.0.113.7"} | same
    )  # fmt: skip
    placed = shop.post("mapi", form).json()
    assert placed["code"] == 1, placed
    assert placed["trade_no"].startswith("order")
    paid = {"out_trade_no": "S1", "money": "12.30", "notify_url": "https://shop.example/n?a=1"}
    refused = shop.post("mapi", shop.sign(form | paid | {"sign": "", "sign_type": ""})).json()
    assert refused["code"] == -1


def test_a_second_import_changes_nothing(
    shops: dict[int, ImportedShop], api_server: ApiServer, dump: Path
) -> None:
    tables = ("merchants", "orders", "epay_orders", "refunds", "entries", "adjustments",
              "checkouts", "payment_attempts", "order_history", "epay_notifications",
              "epay_credentials", "audit_log")  # fmt: skip
    counts = [f"select count(*) from {table}" for table in tables]
    before = [api_server.sql(count) for count in counts]
    done = import_dump(api_server, dump)
    assert (done.merchants, done.orders, done.refunds, done.finished) == (0, 0, 0, 0)
    assert [api_server.sql(count) for count in counts] == before
    assert shops
