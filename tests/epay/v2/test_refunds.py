"""Refunds by the Epay V2 API, and the query of one."""

from typing import Any

import pytest

from support.epay_v2_shop import EpayV2Shop


def refund(v2_shop: EpayV2Shop, placed: dict[str, Any], **fields: str) -> dict[str, Any]:
    return v2_shop.call(
        "pay/refund", **({"trade_no": placed["trade_no"], "money": "1.00"} | fields)
    )


def test_a_refund_is_accepted_queried_and_done(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    accepted = refund(v2_shop, placed, out_refund_no="R-000001", money="3")
    assert accepted["reducemoney"] == "0.42"  # USD, the merchant's currency
    assert accepted | {"refund_no": ""} == {
        "code": 0,
        "msg": "退款成功！退款金额¥3.00",
        "refund_no": "",
        "out_refund_no": "R-000001",
        "trade_no": placed["trade_no"],
        "out_trade_no": placed["out_trade_no"],
        "money": "3.00",
        "reducemoney": "0.42",
    }
    by_each = (
        {"refund_no": accepted["refund_no"]},
        {"out_refund_no": "R-000001"},
        {"refund_no": "R-000001"},  # a client that sends its own number as ours
        {"refund_no": accepted["refund_no"], "out_refund_no": "nothing"},  # ours wins
    )
    for fields in by_each:
        queried = v2_shop.call("pay/refundquery", **fields)
        assert queried.pop("addtime")
        assert queried | {"msg": accepted["msg"]} == accepted | {"status": 2}
    shown = v2_shop.call("pay/refundquery", out_refund_no="R-000001")
    assert (shown["status"], shown["money"], "endtime" in shown) == (2, "3.00", False)
    (row,) = v2_shop.refunds()
    v2_shop.shop.report_refund(row["id"])
    done = v2_shop.call("pay/refundquery", out_refund_no="R-000001")
    assert (done["status"], bool(done["endtime"])) == (1, True)
    order = v2_shop.call("pay/query", trade_no=placed["trade_no"])
    assert (order["status"], order["refundmoney"]) == (1, "3.00")


def test_a_failed_refund_has_status_0_and_needs_another_number(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    accepted = refund(v2_shop, placed, out_refund_no="R-000001")
    (row,) = v2_shop.refunds()
    v2_shop.shop.report_refund(row["id"], "REFUSED", "the card is closed")
    failed = v2_shop.call("pay/refundquery", refund_no=accepted["refund_no"])
    assert (failed["status"], bool(failed["endtime"])) == (0, True)
    again = refund(v2_shop, placed, out_refund_no="R-000001")
    assert again == {"code": -1, "msg": "这笔退款已失败，如需重新退款，请换一个 out_refund_no"}
    assert refund(v2_shop, placed, out_refund_no="R-000002")["code"] == 0


@pytest.mark.parametrize("number", [{"out_refund_no": "R-1"}, {}])
def test_a_repeated_refund_is_the_same_one(v2_shop: EpayV2Shop, number: dict[str, str]) -> None:
    """Also when it is signed again at another time: a client that lost the response does that."""
    placed = v2_shop.create_paid()
    fields = {"trade_no": placed["trade_no"], "money": "1.00"} | number
    signed = v2_shop.sign_v2(fields)
    later = v2_shop.sign_v2(fields, timestamp=int(signed["timestamp"]) + 7)
    first = v2_shop.send("pay/refund", signed)
    assert first["code"] == 0
    assert v2_shop.send("pay/refund", signed) == v2_shop.send("pay/refund", later) == first
    assert v2_shop.refunds()[0]["refund_no"] == number.get("out_refund_no")
    assert len(v2_shop.refunds()) == 1
    other = v2_shop.send("pay/refund", v2_shop.sign_v2(fields | {"money": "2.00"}))
    expected = {"code": -1, "msg": "out_refund_no 已用于另一笔退款，请换一个 out_refund_no"}
    assert (other == expected) if number else (other["code"] == 0)


def test_the_number_of_a_refund_by_v1_is_the_same_refund_by_v2(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    number = {"trade_no": placed["trade_no"], "money": "1.00"}
    assert v2_shop.call_api("refund", **number, refund_no="R-000001")["code"] == 0
    assert refund(v2_shop, placed, out_refund_no="R-000001")["code"] == 0
    assert len(v2_shop.refunds()) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"money": ""}, "金额输入错误"),
        ({"money": "x"}, "金额输入错误"),
        ({"money": "1,00"}, "金额输入错误"),
        ({"money": "-1"}, "金额输入错误"),
        ({"money": "1.001"}, "金额输入错误"),
        ({"money": "0"}, "退款金额不正确：须为从 0.01 到 10.50 CNY，最多两位小数"),
        ({"money": "10.51"}, "退款金额不正确：须为从 0.01 到 10.50 CNY，最多两位小数"),
        ({"trade_no": "a b"}, "订单号(trade_no)格式不正确"),
        ({"trade_no": "", "out_trade_no": "a&b"}, "订单号(out_trade_no)格式不正确"),
        ({"out_refund_no": "a" * 65}, "退款单号(out_refund_no)格式不正确"),
        ({"out_refund_no": "a&b"}, "退款单号(out_refund_no)格式不正确"),
        ({"refund_no": "R-1"}, "该接口不接受参数：refund_no"),
        ({"notify_url": "https://a.example"}, "该接口不接受参数：notify_url"),
        ({"reason": "x", "act": "refund"}, "该接口不接受参数：act, reason"),
    ],
)
def test_values_outside_their_form_are_refused(
    v2_shop: EpayV2Shop, changes: dict[str, str], message: str
) -> None:
    placed = v2_shop.create_paid()
    assert refund(v2_shop, placed, **changes) == {"code": -1, "msg": message}
    assert v2_shop.refunds() == []


def test_an_unpaid_order_and_one_that_is_refunded_in_full_are_refused(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create(device="jump")
    assert "未支付" in refund(v2_shop, placed)["msg"]
    v2_shop.pay(placed)
    assert refund(v2_shop, placed, money="10.50", out_refund_no="R-ALL")["code"] == 0
    refused = refund(v2_shop, placed, out_refund_no="R-MORE")
    assert (refused["code"], "全部退款" in refused["msg"]) == (-1, True)


def test_a_refund_of_an_order_of_the_api_is_unknown(v2_shop: EpayV2Shop) -> None:
    order = v2_shop.shop.create_paid_order()
    v2_shop.shop.refund(order["id"], amount="1.00", refundNo="API-1")
    unknown = {"code": -1, "msg": "退款记录不存在"}
    assert v2_shop.call("pay/refundquery", out_refund_no="API-1") == unknown
    number = order["id"].replace("_", "")
    refused = refund(v2_shop, {"trade_no": number})
    assert refused == {"code": -1, "msg": "当前订单不存在！"}
