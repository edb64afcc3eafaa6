"""WeChat Pay's trade bill is read, in each of its types, and errors name the line."""

import pytest

from opentill.core.errors import Invalid
from opentill.reconciliation.model import Period
from opentill.reconciliation.report import Row, read

ALL = (
    "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,"
    "货币种类,应结订单金额,代金券金额,微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,"
    "商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注\n"
)
TOTALS = (
    "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额\n"
    "`2,`9.99,`4.00,`0.00,`0.06000,`9.99,`4.00\n"
)
OURS, REFUND = "att_01m8eps2bsfj3ad6f5zdx438a1", "re_01m8eps2e8epaaxy7jh35wa22k"
LINE: dict[str, str] = {
    "交易时间": "2026-01-31 18:00:00",
    "公众账号ID": "wxd678efh567hg6787",
    "商户号": "1900000001",
    "微信订单号": "4200000008201712143733500001",
    "商户订单号": OURS,
    "交易类型": "NATIVE",
    "交易状态": "SUCCESS",
    "货币种类": "CNY",
    "应结订单金额": "9.50",
    "商品名称": '"茶", Tea, 100 g',
    "订单金额": "9.99",
    "微信退款单号": "0",
    "商户退款单号": "0",
    "退款金额": "0.00",
    "申请退款金额": "0.00",
}
REFUNDED = {
    "交易状态": "REFUND",
    "微信退款单号": "50000000382019052709732678859",
    "商户退款单号": REFUND,
    "退款金额": "3.80",
    "申请退款金额": "4.00",
    "退款状态": "SUCCESS",
}


def bill(*changes: dict[str, str], header: str = ALL, totals: str = TOTALS) -> str:
    """Return a bill with a line for each of ``changes``."""
    lines = header
    for change in changes:
        cells = LINE | change
        lines += ",".join(f"`{cells.get(name, '')}" for name in header.strip().split(",")) + "\n"
    return lines + totals


def rows_of(text: str) -> list[Row]:
    return list(read(text.splitlines(keepends=True)))


def test_payments_and_refunds_are_read() -> None:
    payment, refund = rows_of(bill({}, REFUNDED))
    assert (payment.kind, payment.reference, payment.amount_minor) == ("payment", OURS, 999)
    assert (payment.currency, payment.settled_at, payment.line) == ("CNY", 1769853600000, 2)
    assert (refund.kind, refund.reference, refund.amount_minor) == ("refund", REFUND, 400)


# Each row: changes of a line, kind and reference of the row; None if there is none
CASES = [
    (REFUNDED | {"退款状态": "PROCESSING"}, ("refund", REFUND)),
    (REFUNDED | {"退款状态": "CHANGE"}, ("refund", REFUND)),
    (REFUNDED | {"退款状态": "FAIL"}, None),
    (REFUNDED | {"商户退款单号": OURS}, ("refund", OURS)),  # that of a second payment
    (REFUNDED | {"商户退款单号": "desk-1"}, ("refund", REFUNDED["微信退款单号"])),
    ({"交易状态": "REVOKED"}, ("payment_failure", OURS)),
    ({"交易状态": "NEW"}, ("unknown", f"NEW {OURS}")),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_every_line_is_a_movement_or_left_out(
    changes: dict[str, str], expected: tuple[str, str] | None
) -> None:
    read_rows = [(row.kind, row.reference) for row in rows_of(bill(changes))]
    assert read_rows == ([] if expected is None else [expected])


def test_the_account_of_a_bill_is_the_same_in_each_line() -> None:
    period = Period()
    assert len(list(read(bill({}, REFUNDED).splitlines(keepends=True), period))) == 2
    assert period.account == "1900000001"
    reason = "line 3: 1900000002 is another account than 1900000001 in the lines before"
    with pytest.raises(Invalid, match=reason):
        rows_of(bill({}, {"商户号": "1900000002"}))


def test_bills_of_payments_only_and_old_ones_are_read() -> None:
    header = ALL.replace(
        "微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,", ""
    ).replace(",申请退款金额", "")
    assert [row.amount_minor for row in rows_of(bill({}, header=header))] == [999]
    old = header.replace("应结订单金额", "总金额").replace(",订单金额", "")
    assert [row.amount_minor for row in rows_of(bill({"总金额": "9.90"}, header=old))] == [990]
    assert rows_of(bill()) == []


def test_a_bill_of_refunds_only_has_the_times_at_which_they_were_accepted() -> None:
    header = ALL.replace("微信退款单号,", "退款申请时间,退款成功时间,微信退款单号,")
    accepted = {"退款申请时间": "2026-02-03 18:13:10", "退款成功时间": "2026-02-03 18:13:12"}
    text = bill(REFUNDED | accepted, header=header)
    (row,) = rows_of(text)
    assert (row.kind, row.reference, row.amount_minor) == ("refund", REFUND, 400)
    assert row.settled_at == 1770113590000
    with pytest.raises(Invalid, match="line 2: 退款申请时间 must be such as"):
        rows_of(bill(REFUNDED, header=header))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (bill(totals="`1,`2\n"), "line 2: as many cells as line 1 are needed: 27, not 2"),
        (bill({}, {"订单金额": "x"}), "line 3: amount and currency must be such as 9.99 and CNY"),
        (bill({"订单金额": "9.999"}), "line 2: amount and currency"),
        (bill({"货币种类": "yuan"}), "line 2: amount and currency"),
        (bill({"交易时间": "2026-01-31"}), "line 2: 交易时间 must be such as"),
        (bill({"交易时间": "1026-01-31 00:00:00"}), "line 2: 交易时间 must be such as"),
        (bill({"商户订单号": ""}), "line 2: must have a number"),
    ],
)
def test_a_wrong_line_is_named(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        rows_of(text)
