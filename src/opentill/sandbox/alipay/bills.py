"""Alipay's bills, which are archives with a file of details and one of sums, in GBK.

``trade`` (业务明细) has payments and refunds, ``signcustomer`` (账务明细) the account's movements.
"""

import time
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill.sandbox import bills, link_tokens
from opentill.sandbox.alipay import keys
from opentill.sandbox.alipay.trades import (
    NAME,
    Content,
    Node,
    china_time,
    find_trade,
    refuse,
    success,
    text_of,
    yuan,
)
from opentill.sandbox.bills import Movement
from opentill.sandbox.model import FaultKind
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

METHOD: Final = "alipay.data.dataservice.bill.downloadurl.query"
_TYPES: Final = ("trade", "signcustomer")
OTHER_SELLER: Final = "2088000000000002"
_TRADES: Final = (
    "支付宝交易号", "商户订单号", "业务类型", "商品名称", "创建时间", "完成时间", "门店编号",
    "门店名称", "操作员", "终端号", "对方账户", "订单金额（元）", "商家实收（元）",
    "支付宝红包（元）", "集分宝（元）", "支付宝优惠（元）", "商家优惠（元）", "券核销金额（元）",
    "券名称", "商家红包消费金额（元）", "卡消费金额（元）", "退款批次号/请求号", "服务费（元）",
    "分润（元）", "备注",
)  # fmt: skip
_FUNDS: Final = (
    "账务流水号", "业务流水号", "商户订单号", "商品名称", "发生时间", "对方账号", "收入金额（+元）",
    "支出金额（-元）", "账户余额（元）", "交易渠道", "业务类型", "备注",
)  # fmt: skip


def query_link(tx: Tx, content: Content, base: str, secret: str, fault: FaultKind | None) -> Node:
    """Return the link to the bill of a day; ``base`` is the address of bills. Raises Error."""
    bill_type, text = text_of(content, "bill_type"), text_of(content, "bill_date")
    day = bills.read_day(text)
    if bill_type not in _TYPES or day is None:
        refuse("isv.invalid_arguments")
    if fault == "not_ready" or not bills.movements(tx, NAME, day):
        refuse("isp.bill_not_exist")
    query = {
        "bizType": bill_type,
        "userId": f"{keys.SELLER_ID}0156",
        "fileType": "csv.zip",
        "bizDates": text.replace("-", ""),
        "fileId": fault or "1",
        "token": link_tokens.token_of(secret, text, int(time.time())),
    }
    return success(bill_download_url=f"{base}?{urlencode(query)}")


def file(
    tx: Tx, bill_type: str, day: str, query: Mapping[str, str], fault: FaultKind | None
) -> Response:
    """Return the archive of a bill; ``query`` is that of its link, which may have a fault."""
    if fault == "redirect":
        return Response(status_code=302, headers={"Location": "https://example.com/bill.zip"})
    if fault == "bomb":
        content = bills.zipped((f"{day}.csv", bills.bomb()))
    else:
        content = _archive(tx, bill_type, date.fromisoformat(day), query.get("fileId", ""))
    if fault == "other_content":
        content = content[: len(content) // 2]
    return Response(content, media_type="application/zip")


def _archive(tx: Tx, bill_type: str, day: date, fault: str) -> bytes:
    movements = bills.movements(tx, NAME, day)
    account = OTHER_SELLER if fault == "other_account" else keys.SELLER_ID
    if fault == "other_day":
        day -= timedelta(days=1)
    is_trade = bill_type == "trade"
    name = "业务明细" if is_trade else "账务明细"
    columns = _TRADES if is_trade else _FUNDS
    cells = _trade_cells if is_trade else _fund_cells
    lines = [
        f"#支付宝{name}查询",
        f"#账号：[{account}0156]",
        f"#起始日期：[{_midnight(day)}]   终止日期：[{_midnight(day + timedelta(days=1))}]",
        f"#{'-' * 41}{name}列表{'-' * 40}",
        ",".join(columns),
        *(",".join(cells(tx, movement)) for movement in movements),
        f"#{'-' * 41}{name}列表结束{'-' * 36}",
        f"#导出时间：[{_stamp(now_ms())}]",
    ]
    payments = [each for each in movements if each.kind == "payment"]
    sums = [
        f"#支付宝{name}汇总查询",
        f"#账号：[{account}0156]",
        "门店编号,门店名称,交易订单总笔数,退款订单总笔数",
        f"合计,,{len(payments)},{len(movements) - len(payments)}",
    ]
    prefix = f"{account}0156_{day:%Y%m%d}_{name}"
    return bills.zipped((f"{prefix}.csv", _gbk(lines)), (f"{prefix}(汇总).csv", _gbk(sums)))


def _trade_cells(tx: Tx, movement: Movement) -> list[str]:
    trade = find_trade(tx, payment_id=movement.payment_id)
    is_refund = movement.kind == "refund"
    amount = ("-" if is_refund else "") + yuan(movement.amount_minor)
    cells = dict.fromkeys(_TRADES, "")
    cells |= {
        "支付宝交易号": f"{trade.trade_no if trade else ''}\t",
        "商户订单号": f"{movement.payment_id}\t",
        "业务类型": f"{'退款' if is_refund else '交易'}     ",
        "商品名称": _quoted(movement.description),
        "创建时间": china_time(movement.at),
        "完成时间": china_time(movement.at),
        "对方账户": "(**)138****0000",
        "订单金额（元）": amount,
        "商家实收（元）": amount,
        "退款批次号/请求号": f"{movement.refund_id}\t",
        "服务费（元）": "0.00",
        "分润（元）": "0.00",
    }
    return list(cells.values())


def _fund_cells(tx: Tx, movement: Movement) -> list[str]:
    trade = find_trade(tx, payment_id=movement.payment_id)
    is_refund = movement.kind == "refund"
    number = trade.trade_no if trade else ""
    cells = dict.fromkeys(_FUNDS, "")
    cells |= {
        "账务流水号": f"{number[::-1]}\t",
        "业务流水号": f"{number}\t",
        "商户订单号": f"{movement.refund_id or movement.payment_id}\t",
        "商品名称": _quoted(movement.description),
        "发生时间": china_time(movement.at),
        "收入金额（+元）": "0.00" if is_refund else yuan(movement.amount_minor),
        "支出金额（-元）": f"-{yuan(movement.amount_minor)}" if is_refund else "0.00",
        "账户余额（元）": "0.00",
        "交易渠道": "支付宝",
        "业务类型": "退款" if is_refund else "在线支付",
    }
    return list(cells.values())


def _quoted(text: str) -> str:
    plain = " ".join(text.replace('"', '""').split())
    return f'"{plain}"' if {",", '"'} & set(plain) else plain


def _midnight(day: date) -> str:
    return f"{day.year}年{day.month:02}月{day.day:02}日 00:00:00"


def _stamp(ms: int) -> str:
    day, time = china_time(ms).split(" ")
    year, month, number = day.split("-")
    return f"{year}年{month}月{number}日 {time}"


def _gbk(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode("gb18030")
