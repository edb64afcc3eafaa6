"""WeChat Pay's bills: the trade bill (交易账单) in three types, and that of funds (资金账单)."""

import hashlib
import time
from collections.abc import Mapping
from datetime import date
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill.sandbox import amounts, bills, link_tokens
from opentill.sandbox.bills import Movement
from opentill.sandbox.model import FaultKind
from opentill.sandbox.storage import Tx
from opentill.sandbox.wechat_pay import keys, orders
from opentill.sandbox.wechat_pay.orders import NAME, OTHER_MCHID, china_time, refuse

_COMMON: Final = (
    "交易时间", "公众账号ID", "商户号", "特约商户号", "设备号", "微信订单号", "商户订单号",
    "用户标识", "交易类型", "交易状态", "付款银行", "货币种类", "应结订单金额", "代金券金额",
)  # fmt: skip
_REFUND: Final = (
    "微信退款单号", "商户退款单号", "退款金额", "充值券退款金额", "退款类型", "退款状态",
)  # fmt: skip
_ACCEPTED: Final = ("退款申请时间", "退款成功时间")
_LAST: Final = ("商品名称", "商户数据包", "手续费", "费率", "订单金额")
_COLUMNS: Final = {
    "ALL": (*_COMMON, *_REFUND, *_LAST, "申请退款金额", "费率备注"),
    "SUCCESS": (*_COMMON, *_LAST, "费率备注"),
    "REFUND": (*_COMMON, *_ACCEPTED, *_REFUND, *_LAST, "申请退款金额", "费率备注"),
}
_FUNDS: Final = (
    "记账时间", "微信支付业务单号", "资金流水单号", "业务名称", "业务类型", "收支类型",
    "收支金额（元）", "账户结余（元）", "资金变更提交申请人", "备注", "业务凭证号",
)  # fmt: skip
_STATES: Final = {"succeeded": "SUCCESS", "pending": "PROCESSING", "reversed": "CHANGE"}
_ACCOUNTS: Final = ("BASIC", "OPERATION", "FEES")


def trade_type(query: Mapping[str, str]) -> str:
    """Return the type of trade bill that a request wants, "" for an unknown one."""
    bill_type = query.get("bill_type", "ALL")
    return bill_type if bill_type in _COLUMNS else ""


def fund_type(query: Mapping[str, str]) -> str:
    """Return the account of funds that a request wants, "" for an unknown one."""
    account = query.get("account_type", "BASIC")
    return account if account in _ACCOUNTS else ""


def link(
    tx: Tx, bill_type: str, query: Mapping[str, str], base: str, secret: str,
    fault: FaultKind | None,
) -> dict[str, str]:  # fmt: skip
    """Return the link to a bill and its digest; ``base`` is the address of bills. Raises Error."""
    day = bills.read_day(query.get("bill_date", ""))
    tar_type = query.get("tar_type", "")
    if day is None or not bill_type or tar_type not in ("", "GZIP"):
        refuse(400, "INVALID_REQUEST", "bill_date, bill_type, tar_type")
    content = _content(tx, bill_type, day, fault or "")
    if fault == "not_ready":
        refuse(400, "STATEMENT_CREATING", "账单生成中")
    if content is None:
        refuse(400, "NO_STATEMENT_EXIST", "请求的账单文件不存在")
    token = link_tokens.token_of(secret, day.isoformat(), int(time.time()))
    parameters = {"token": token, "billtype": bill_type, "tartype": tar_type.lower()}
    if fault is not None:
        parameters["fault"] = fault
    return {
        "hash_type": "SHA1",
        "hash_value": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
        "download_url": f"{base}?{urlencode(parameters)}",
    }


def file(tx: Tx, query: Mapping[str, str], day: str, fault: FaultKind | None) -> Response:
    """Return the file of a bill; ``query`` is that of its link, which may have a fault."""
    if fault == "redirect":
        return Response(status_code=302, headers={"Location": "https://example.com/bill.gz"})
    bill_type = query.get("billtype", "")
    content = _content(tx, bill_type, date.fromisoformat(day), query.get("fault", "")) or b""
    if fault == "other_content":
        content = content.replace(b"SUCCESS", b"REVOKED", 1)
    if fault == "bomb":
        content = bills.bomb()
    packed = bills.gzipped(content) if query.get("tartype") == "gzip" else content
    return Response(packed, media_type="application/octet-stream")


def _content(tx: Tx, bill_type: str, day: date, fault: str) -> bytes | None:
    if bill_type in _ACCOUNTS:
        return _fund_bill(tx, bill_type, day)
    return _trade_bill(tx, bill_type, day, other_account=fault == "other_account")


def _trade_bill(tx: Tx, bill_type: str, day: date, *, other_account: bool) -> bytes | None:
    """Return the trade bill of a day; None if the day had no such movements."""
    kinds = {"ALL": ("payment", "refund"), "SUCCESS": ("payment",), "REFUND": ("refund",)}
    movements = [each for each in bills.movements(tx, NAME, day) if each.kind in kinds[bill_type]]
    if not movements:
        return None
    columns = _COLUMNS[bill_type]
    rows = [_trade_cells(tx, each, other_account=other_account) for each in movements]
    refunds = sum(each.amount_minor for each in movements if each.kind == "refund")
    paid = sum(each.amount_minor for each in movements if each.kind == "payment")
    sums = [_yuan(paid), _yuan(refunds)]
    return _text(
        columns,
        [[row.get(name, "") for name in columns] for row in rows],
        (
            "总交易单数", "应结订单总金额", "退款总金额", "充值券退款总金额", "手续费总金额",
            "订单总金额", "申请退款总金额",
        ),
        [str(len(rows)), *sums, "0.00", "0.00000", *sums],
    )  # fmt: skip


def _fund_bill(tx: Tx, account_type: str, day: date) -> bytes | None:
    """Return the bill of funds of an account and a day; None if the day had no movements."""
    movements = bills.movements(tx, NAME, day) if account_type == "BASIC" else []
    if not movements:
        return None
    rows = [_fund_cells(each) for each in movements]
    income = sum(each.amount_minor for each in movements if each.kind == "payment")
    expense = sum(each.amount_minor for each in movements if each.kind == "refund")
    payments = sum(each.kind == "payment" for each in movements)
    return _text(
        _FUNDS,
        rows,
        ("资金流水总笔数", "收入笔数", "收入金额", "支出笔数", "支出金额"),
        [str(len(rows)), str(payments), _yuan(income), str(len(rows) - payments), _yuan(expense)],
    )


def _trade_cells(tx: Tx, movement: Movement, *, other_account: bool) -> dict[str, str]:
    order = orders.find_order(tx, payment_id=movement.payment_id)
    amount = _yuan(movement.amount_minor)
    cells = {
        "交易时间": _time(movement.at),
        "公众账号ID": keys.APPID,
        "商户号": OTHER_MCHID if other_account else keys.MCHID,
        "特约商户号": "0",
        "微信订单号": order.transaction_id if order else "",
        "商户订单号": movement.payment_id,
        "用户标识": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o",
        "交易类型": "MWEB" if order and order.product == "h5" else "NATIVE",
        "交易状态": "SUCCESS",
        "付款银行": "OTHERS",
        "货币种类": "CNY",
        "应结订单金额": amount,
        "代金券金额": "0.00",
        "微信退款单号": "0",
        "商户退款单号": "0",
        "退款金额": "0.00",
        "充值券退款金额": "0.00",
        "商品名称": " ".join(movement.description.split()),
        "手续费": "0.00000",
        "费率": "0.60%",
        "订单金额": amount,
        "申请退款金额": "0.00",
    }
    if movement.kind == "refund":
        cells |= {
            "交易状态": "REFUND",
            "应结订单金额": "0.00",
            "订单金额": "0.00",
            "退款申请时间": _time(movement.at),
            "退款成功时间": _time(movement.at) if movement.status == "succeeded" else "",
            "微信退款单号": orders.refund_number_of(movement.refund_id),
            "商户退款单号": movement.refund_id,
            "退款金额": amount,
            "退款类型": "ORIGINAL",
            "退款状态": _STATES[movement.status],
            "申请退款金额": amount,
        }
    return cells


def _fund_cells(movement: Movement) -> list[str]:
    is_refund = movement.kind == "refund"
    return [
        _time(movement.at),
        orders.transaction_id_of(movement.payment_id),
        orders.transaction_id_of(movement.refund_id or movement.payment_id),
        "退款" if is_refund else "交易",
        "退款" if is_refund else "交易",
        "支出" if is_refund else "收入",
        _yuan(movement.amount_minor),
        "0.00",
        "system",
        "",
        movement.refund_id or movement.payment_id,
    ]


def _text(
    columns: tuple[str, ...],
    rows: list[list[str]],
    total_columns: tuple[str, ...],
    totals: list[str],
) -> bytes:
    lines = [
        ",".join(columns),
        *(",".join(f"`{cell}" for cell in row) for row in rows),
        ",".join(total_columns),
        ",".join(f"`{cell}" for cell in totals),
    ]
    return ("\ufeff" + "".join(f"{line}\r\n" for line in lines)).encode()


def _time(ms: int) -> str:
    return china_time(ms)[:19].replace("T", " ")


def _yuan(minor: int) -> str:
    return amounts.decimal(minor, "CNY")
