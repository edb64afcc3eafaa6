"""Alipay's bill of trades, in GBK and in an archive, is compared with the ledger."""

import io
import zipfile
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest

from opentill import rates, reconciliation
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.orders import Order
from opentill.reconciliation import Report, ReportOfAnotherAccount, Result
from opentill.reconciliation.report import read
from opentill.refunds import Refund
from support import world
from support.payout_runs import ANN
from support.world import DAY, NOW

HEADER: Final = (
    "支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,门店编号,门店名称,操作员,终端号,"
    "对方账户,订单金额（元）,商家实收（元）,支付宝红包（元）,集分宝（元）,支付宝优惠（元）,商家优惠（元）,"
    "券核销金额（元）,券名称,商家红包消费金额（元）,卡消费金额（元）,退款批次号/请求号,服务费（元）,分润（元）,备注"
)
BEGIN: Final = (
    "#支付宝业务明细查询\r\n#账号：[20880000000000010156]\r\n"
    "#起始日期：[2026年11月27日 00:00:00]   终止日期：[2026年11月28日 00:00:00]\r\n"
    "#-----------------------------------------业务明细列表----------------------------------------\r\n"
)
END: Final = (
    "#-----------------------------------------业务明细列表结束------------------------------------\r\n"
    "#交易合计：1笔，商家实收共9.99元，商家优惠共0.00元\r\n"
    "#导出时间：[2026年11月28日 09:00:00]\r\n"
)


def line(kind: str, order: str, amount: str, request: str = "", **changes: str) -> str:
    """Return a line of the table; Alipay ends numbers with tabs."""
    cells = dict.fromkeys(HEADER.split(","), "")
    cells |= {
        "支付宝交易号": "2026112722001400000000000000\t",
        "商户订单号": f"{order}\t",
        "业务类型": f"{kind}     ",
        "商品名称": "茶",
        "创建时间": "2026-11-27 10:00:00",
        "完成时间": "2026-11-27 10:00:05",
        "订单金额（元）": amount,
        "退款批次号/请求号": f"{request}\t",
    }
    return ",".join((cells | changes).values())


def bill(*lines: str) -> str:
    """Return a bill with these lines."""
    return BEGIN + "".join(f"{text}\r\n" for text in (HEADER, *lines)) + END


def rows_of(text: str) -> list[tuple[str, str, int, str, int]]:
    return [
        (row.kind, row.reference, row.amount_minor, row.currency, row.line)
        for row in read(text.splitlines(keepends=True))
    ]


def test_payments_and_refunds_are_read() -> None:
    text = bill(
        line("交易", "att_1", "9.99"), line("退款", "att_1", "-2.00", "re_1"),
        line("退款", "att_1", "-1", ""), line("分账", "att_1", "0.01"),
    )  # fmt: skip
    assert rows_of(text) == [
        ("payment", "att_1", 999, "CNY", 6),
        ("refund", "re_1", 200, "CNY", 7),
        ("refund", "2026112722001400000000000000", 100, "CNY", 8),
        ("unknown", "分账 2026112722001400000000000000", 1, "CNY", 9),
    ]
    (row,) = read(bill(line("交易", "att_1", "9.99")).splitlines(keepends=True))
    assert row.settled_at == 1_795_744_805_000  # 2026-11-27 02:00:05 UTC


GOOD: Final = line("交易", "att_1", "9.99")
BAD: Final[list[tuple[str, str]]] = [
    (BEGIN + END, "file must be Alipay's bill of trades with the columns 支付宝交易号"),
    (BEGIN + HEADER.replace("完成时间", "时间") + "\r\n" + END, "with the columns"),
    ("#支付宝账务明细查询\r\n" + END, "line 1: each of the columns"),
    (bill(GOOD).removesuffix(END), "line 6: the bill is cut off"),
    (bill(f"{GOOD},"), "line 6: as many cells as the table's first line are needed: 25, not 26"),
    (bill(line("交易", "att_1", "9.999")), "line 6: must have a number and an amount"),
    (bill(line("交易", "att_1", "")), "line 6: must have a number and an amount"),
    (bill(line("交易", "", "1", 支付宝交易号="")), "line 6: must have a number and an amount"),
    (bill(line("交易", "a\x00", "1")), "line 6: must have a number and an amount"),
    (bill(line("交易", "a", "1", 完成时间="2026-13-01 00:00:00")), "line 6: 完成时间 must be"),
    (bill(line("交易", "a", "1", 完成时间="1999-01-01 00:00:00")), "line 6: 完成时间 must be"),
    (bill('"a"b,'), "line 6: must be CSV"),
    (BEGIN + "#\r\n" * 200 + HEADER, "file must be Alipay's bill"),
]


@pytest.mark.parametrize(("text", "error"), BAD)
def test_an_unusable_bill_is_refused_with_its_line(text: str, error: str) -> None:
    with pytest.raises(Invalid) as caught:
        rows_of(text)
    assert error in str(caught.value.reason)


def archive(*files: tuple[str, str]) -> bytes:
    """Return an archive with files in GBK, whose names are in GBK too."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        for name, text in files:
            # Python writes names that are not ASCII in UTF-8; a name of CP437 stands for GBK.
            info = zipfile.ZipInfo(name.encode("gbk").decode("cp437"))
            written.writestr(info, text.encode("gbk"))
    return target.getvalue()


@pytest.fixture
async def books(db: Db) -> tuple[Order, Refund]:
    """Create a paid order in yuan with a refund."""

    async def create(tx: Tx) -> tuple[Order, Refund]:
        await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW)
        order = await world.create_order(tx, "9.99", "CNY", settlement_currency="CNY")
        order = await world.pay_order(tx, order)
        refund = await world.create_refund(tx, order, "2.00", NOW + 1)
        await world.report_refund(tx, refund, "SUCCEEDED", NOW + 5)
        return order, refund

    return await db.run(create)


async def compare(db: Db, content: bytes) -> Result:
    report = Report(gateway="sandbox", file=io.BytesIO(content), name="bill.zip")
    return await reconciliation.reconcile_file(db, report, ANN, NOW)


async def test_a_bill_is_compared_as_it_was_downloaded(db: Db, books: tuple[Order, Refund]) -> None:
    order, refund = books
    text = bill(
        line("交易", order.paid_attempt_id or "", "9.99"),
        line("退款", order.paid_attempt_id or "", "-2.00", refund.id),
    )
    sums = BEGIN.replace("明细", "汇总") + END
    for content in (
        archive(("20880156_20261127_业务明细.csv", text), ("20880156_业务明细(汇总).csv", sums)),
        text.encode("gbk"),
        text.encode(),
    ):
        result = await compare(db, content)
        assert (result.matched, result.differences) == (2, []), result.differences
    missing = await compare(db, bill(line("交易", "att_x", "1.00")).encode("gbk"))
    assert [row.what for row in missing.differences] == ["missing in ledger"]


async def test_an_archive_with_two_bills_is_refused(db: Db) -> None:
    text = bill(GOOD)
    files: Any = (("业务明细1.csv", text), ("业务明细2.csv", text))
    with pytest.raises(Invalid, match="must hold exactly one file"):
        await compare(db, archive(*files))


async def test_a_bill_of_another_account_is_refused_with_both_accounts(db: Db) -> None:
    now = NOW + DAY
    file = io.BytesIO(archive(("业务明细.csv", bill(line("交易", "att_other", "9.99")))))
    report = Report(gateway="sandbox", file=file, name="b.zip", account="2088000000000099")
    with pytest.raises(ReportOfAnotherAccount) as caught:
        await reconciliation.reconcile_file(db, report, ANN, now)
    assert caught.value.reason == (
        "file is of the account 2088000000000001, but the configured one is 2088000000000099"
    )
    same = msgspec.structs.replace(report, account="2088000000000001")
    assert (await reconciliation.reconcile_file(db, same, ANN, now)).rows == 1
