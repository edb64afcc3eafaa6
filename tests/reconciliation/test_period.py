"""Payments are missing in a report only if its period certainly contains them."""

import io
from datetime import UTC, datetime

import pytest

from opentill import reconciliation
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.reconciliation import Report, Result, inbox
from support import world
from support.payout_runs import ANN
from support.world import DAY, NOW

ALIPAY = """\
#支付宝业务明细查询
#起始日期：[2025年06月15日 00:00:00]   终止日期：[2025年06月16日 00:00:00]
支付宝交易号,商户订单号,业务类型,完成时间,订单金额（元）,退款批次号/请求号
#业务明细列表结束
#导出时间：[{exported}]
"""
HEAD = "kind,reference,amount,currency,settled_at"
WECHAT = "交易时间,微信订单号,商户订单号,交易状态,货币种类,订单金额"
SECOND = 1000
# NOW is 2025-06-15 15:06:40 UTC, and 23:06:40 in China.
MIDNIGHT = NOW // DAY * DAY
CHINA_MIDNIGHT = MIDNIGHT + 16 * 3600 * SECOND  # the end of the same day in China


async def _pay(db: Db, at: int) -> str:
    async def work(tx: Tx) -> str:
        order = await world.create_order(tx)
        paid = await world.pay_order(tx, order, now=at)
        return paid.paid_attempt_id or ""

    return await db.run(work)


async def _compare(db: Db, text: str, since: int | None = None, until: int | None = None) -> Result:
    report = Report(
        gateway="sandbox", file=io.BytesIO(text.encode()), name="r.csv", since=since, until=until
    )
    return await reconciliation.reconcile_file(db, report, ANN, NOW)


def _rows(*rows: tuple[str, object]) -> str:
    return "\n".join((HEAD, *(f"payment,{name},9.99,USD,{at}" for name, at in rows)))


def _wechat(*rows: tuple[str, str]) -> str:
    lines = [f"`{at},`42,`{name},`SUCCESS,`USD,`9.99" for name, at in rows]
    return "\n".join((WECHAT, *lines, "总交易单数,订单总金额", ""))


def _missing(result: Result) -> list[str]:
    assert {row.what for row in result.differences} <= {"missing in report"}
    return sorted(row.reference for row in result.differences)


async def test_a_report_of_one_line_lacks_no_other_payment_of_the_same_millisecond(db: Db) -> None:
    first, other = await _pay(db, NOW), await _pay(db, NOW)
    result = await _compare(db, _rows((first, NOW)))
    assert (result.items, result.matched, _missing(result)) == (1, 1, [])
    # A period that somebody states includes its ends.
    assert _missing(await _compare(db, _rows((first, NOW)), NOW, NOW)) == [other]


async def test_a_payment_between_the_first_and_the_last_moment_is_missing(db: Db) -> None:
    first, between, last = await _pay(db, NOW), await _pay(db, NOW + 1), await _pay(db, NOW + 2)
    for at_end in (NOW, NOW + 2):
        await _pay(db, at_end)
    result = await _compare(db, _rows((first, NOW), (last, NOW + 2)))
    assert (result.items, result.matched, _missing(result)) == (3, 2, [between])


async def test_times_in_seconds_bound_a_period_by_whole_seconds(db: Db) -> None:
    first, last = await _pay(db, NOW + 100), await _pay(db, NOW + 2 * SECOND + 100)
    await _pay(db, NOW + 900)  # in the first second, perhaps on the page before
    between = await _pay(db, NOW + SECOND)
    texts = ["2025-06-15T15:06:40Z", "2025-06-15T15:06:42Z"]
    result = await _compare(db, _rows((first, texts[0]), (last, texts[1])))
    assert _missing(result) == [between]


async def test_a_payment_of_the_last_second_is_not_remembered_for_later_reports(db: Db) -> None:
    in_last_second, later = await _pay(db, NOW + 900), await _pay(db, NOW + SECOND)
    text = _rows((in_last_second, "2025-06-15T15:06:40Z"), (later, "2025-06-15T15:06:40Z"))
    result = await _compare(db, text)
    assert (result.matched, result.differences) == (2, [])

    async def find_early(tx: Tx) -> set[str]:
        names = [("payment", in_last_second), ("payment", later)]
        return {name for _, name in await inbox.find_early(tx, "sandbox", names)}

    assert await db.read(find_early) == {later}


async def test_a_bill_of_one_kind_lacks_nothing_of_another_kind(db: Db) -> None:
    async def pay_and_refund(tx: Tx) -> tuple[str, str]:
        order = await world.create_order(tx)
        paid = await world.pay_order(tx, order, now=NOW)
        refund = await world.create_refund(tx, paid)
        await world.report_refund(tx, refund, "SUCCEEDED")
        return paid.paid_attempt_id or "", refund.id

    (paid, refunded), other = await db.run(pay_and_refund), await _pay(db, NOW)
    at = "2025-06-15 23:06:40"
    payments = _wechat((paid, at))
    assert _missing(await _compare(db, payments)) == [other]
    cells = (at, "42", paid, "REFUND", "USD", "9.99", at, "43", refunded, "9.99", "SUCCESS")
    refunds = (
        f"{WECHAT},退款申请时间,微信退款单号,商户退款单号,申请退款金额,退款状态\n"
        + ",".join(f"`{cell}" for cell in cells)
        + "\n总交易单数,订单总金额\n"
    )
    result = await _compare(db, refunds)
    assert (result.matched, result.differences) == (1, [])
    with_both = refunds.replace("退款申请时间", "商品名称")
    assert _missing(await _compare(db, with_both)) == sorted([paid, other])


async def test_a_report_of_dates_has_whole_days(db: Db) -> None:
    named = await _pay(db, NOW)
    at_ends = sorted([await _pay(db, MIDNIGHT), await _pay(db, MIDNIGHT + DAY - 1)])
    await _pay(db, MIDNIGHT - 1)
    await _pay(db, MIDNIGHT + DAY)
    result = await _compare(db, _rows((named, "2025-06-15")))
    assert _missing(result) == at_ends
    assert (result.since, result.until) == (MIDNIGHT, MIDNIGHT + DAY - 1)


async def test_a_bill_of_wechat_pay_has_whole_days_of_china(db: Db) -> None:
    named = await _pay(db, NOW)
    at_ends = sorted([await _pay(db, CHINA_MIDNIGHT - DAY), await _pay(db, CHINA_MIDNIGHT - 1)])
    await _pay(db, CHINA_MIDNIGHT - DAY - 1)
    await _pay(db, CHINA_MIDNIGHT)
    assert _missing(await _compare(db, _wechat((named, "2025-06-15 23:06:40")))) == at_ends


def _alipay(exported: str) -> str:
    return ALIPAY.format(exported=exported)


async def test_an_empty_bill_of_alipay_lacks_the_payments_of_its_period(db: Db) -> None:
    at_ends = sorted([await _pay(db, CHINA_MIDNIGHT - DAY), await _pay(db, CHINA_MIDNIGHT - 1)])
    await _pay(db, CHINA_MIDNIGHT - DAY - 1)
    await _pay(db, CHINA_MIDNIGHT)
    assert _missing(await _compare(db, _alipay("2025年06月16日 09:00:00"))) == at_ends


async def test_a_bill_that_was_exported_before_its_last_day_ended_ends_there(db: Db) -> None:
    before = await _pay(db, NOW)
    await _pay(db, NOW + SECOND)
    assert _missing(await _compare(db, _alipay("2025年06月15日 23:06:41"))) == [before]
    with pytest.raises(Invalid, match="must have a date and a time"):
        await _compare(db, _alipay("2025年06月31日 23:06:41"))


async def test_an_empty_report_needs_a_period(db: Db) -> None:
    paid = await _pay(db, NOW)
    for since, until in ((None, None), (NOW, None), (None, NOW)):
        with pytest.raises(Invalid, match="the report has no rows"):
            await _compare(db, HEAD, since, until)
    assert await db.read(reconciliation.count_open) == 0
    assert _missing(await _compare(db, HEAD, NOW, NOW)) == [paid]


async def test_a_payment_of_midnight_is_in_one_of_two_reports(db: Db) -> None:
    """The provider books it on the day before; the callback comes on the day after."""
    late, missing = await _pay(db, MIDNIGHT + 2 * SECOND), await _pay(db, MIDNIGHT + 3 * SECOND)
    named = await _pay(db, NOW)
    day_before = datetime.fromtimestamp(MIDNIGHT / 1000 - 1, UTC).date().isoformat()
    await _compare(db, _rows((late, day_before)))
    result = await _compare(db, _rows((named, "2025-06-15")))
    assert (result.items, _missing(result)) == (2, [missing])
    open_ones = await db.read(lambda tx: reconciliation.list_differences(tx, "sandbox"))
    assert [row.reference for row in open_ones] == [missing]
    # It is no difference, so nobody sees it among the resolved ones.
    assert await db.read(lambda tx: reconciliation.list_differences(tx, resolved=True)) == []
    assert await db.read(lambda tx: reconciliation.list_of_reference(tx, late, 9)) == []


async def test_reports_that_are_read_in_the_other_order_end_the_same(db: Db) -> None:
    late, named = await _pay(db, MIDNIGHT + 2 * SECOND), await _pay(db, NOW)
    assert _missing(await _compare(db, _rows((named, "2025-06-15")))) == [late]
    await _compare(db, _rows((late, "2025-06-14")))
    assert await db.read(reconciliation.count_open) == 0
