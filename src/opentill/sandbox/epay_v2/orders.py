"""Orders and refunds of the Epay V2 server, over the bank's payments.

As at the reference server, the same values are the same order, changed ones are refused, a refund
number is honored, and an order of which anything was refunded has the status of refunded ones.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NoReturn

import msgspec

from opentill.sandbox import amounts
from opentill.sandbox.bank import Bank
from opentill.sandbox.epay_v2.keys import PID
from opentill.sandbox.model import (
    Method,
    Payment,
    PaymentOrder,
    PaymentView,
    Refund,
    RefundOrder,
    Refusal,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

NAME: Final = "epay_v2"
CURRENCY: Final = "CNY"
_CHINA: Final = timezone(timedelta(hours=8))
_TYPES: Final[dict[str, Method]] = {
    "alipay": "ALIPAY",
    "wxpay": "WECHAT_PAY",
    "creditcard": "CREDIT_CARD",
    "crypto": "CRYPTO",
    "paynow": "PAYNOW",
    "bank": "BANK_TRANSFER",
}
_NUMBER: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
_REFUND_STATUSES: Final = {"pending": "2", "succeeded": "1", "failed": "0"}
Values = dict[str, str | int]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``epay_v2_orders``."""

    payment_id: str
    trade_no: str
    type: str
    name: str
    notify_url: str
    return_url: str
    param: str


class Error(Exception):
    """A refusal with its code."""

    def __init__(self, message: str, code: int = -1) -> None:
        """Refusals of the business have code -1."""
        super().__init__(message)
        self.code = code


def refuse(message: str, code: int = -1) -> NoReturn:
    """Refuse a request."""
    raise Error(message, code)


def find(tx: Tx, *, trade_no: str = "", payment_id: str = "") -> Order | None:
    """Return an order by either of its numbers."""
    sql = "select * from epay_v2_orders where trade_no = :trade_no or payment_id = :payment_id"
    return tx.first(Order, sql, trade_no=trade_no, payment_id=payment_id)


def start(tx: Tx, bank: Bank, values: Mapping[str, str]) -> tuple[Order, Payment]:
    """Place an order, or return the one that was placed before with the same values."""
    placed, payment_order = _read(values)
    order = find(tx, payment_id=placed.payment_id)
    if order is not None:
        payment = bank.find_payment(tx, placed.payment_id)
        if payment.status == "succeeded":
            refuse(f"该订单({payment.id})已完成支付，请勿重复发起支付")
        is_same = msgspec.structs.replace(order, trade_no="") == placed
        is_open = payment.status == "action_required"
        if not is_same or not is_open or payment.amount_minor != payment_order.amount_minor:
            refuse(f"该订单({payment.id})支付参数有变化，请更换订单号重新发起支付")
        return order, payment
    now = now_ms()
    payment, is_new = bank.start_payment(tx, payment_order, now, NAME)
    if not is_new:
        refuse("订单号已被使用")
    order = msgspec.structs.replace(placed, trade_no=_new_trade_no(tx, now))
    tx.insert("epay_v2_orders", msgspec.structs.asdict(order))
    return order, payment


def _read(values: Mapping[str, str]) -> tuple[Order, PaymentOrder]:
    """Return a new order without a number, and the bank's payment. Raises Error."""
    for name in ("out_trade_no", "notify_url", "name", "money", "type", "clientip"):
        if not values.get(name):
            refuse(f"{name}不能为空")
    payment_id, method = values["out_trade_no"], _TYPES.get(values["type"])
    minor = amounts.minor(values["money"], CURRENCY)
    if not minor:
        refuse("金额不合法")
    if _NUMBER.fullmatch(payment_id) is None:
        refuse("订单号(out_trade_no)格式不正确")
    if method is None:
        refuse("没有可用的支付通道")
    order = Order(
        payment_id=payment_id,
        trade_no="",
        type=values["type"],
        name=values["name"],
        notify_url=values["notify_url"],
        return_url=values.get("return_url", ""),
        param=values.get("param", ""),
    )
    try:
        return order, msgspec.convert(
            {
                "id": payment_id,
                "amount_minor": minor,
                "currency": CURRENCY,
                "method": method,
                "return_url": order.return_url or order.notify_url,
                "callback_url": order.notify_url,
                "description": order.name,
            },
            PaymentOrder,
        )
    except msgspec.ValidationError as error:
        refuse(str(error))


def require(tx: Tx, values: Mapping[str, str], message: str) -> Order:
    """Return the order that a request names by either of its numbers. Raises Error."""
    trade_no = values.get("trade_no", "")
    number = "" if trade_no else values.get("out_trade_no", "")
    if not trade_no and not number:
        refuse("订单号不能为空")
    order = find(tx, trade_no=trade_no, payment_id=number)
    if order is None:
        refuse(message)
    return order


def query(tx: Tx, bank: Bank, values: Mapping[str, str]) -> Values:
    """Return an order; empty values are left out."""
    order = require(tx, values, "订单号不存在")
    payment = bank.find_payment(tx, order.payment_id)
    is_paid = payment.status == "succeeded"
    shown = fields(order, payment) | {
        "addtime": _time(payment.created_at),
        "endtime": _time(payment.updated_at) if is_paid else "",
        "status": 0 if not is_paid else 2 if payment.refunded_minor else 1,
        "refundmoney": _yuan(payment.refunded_minor) if payment.refunded_minor else "",
    }
    return {name: value for name, value in shown.items() if value != ""}


def fields(order: Order, payment: Payment | PaymentView) -> Values:
    """Return what a query and a notification have in common."""
    return {
        "pid": int(PID),
        "trade_no": order.trade_no,
        "out_trade_no": payment.id,
        "type": order.type,
        "name": order.name,
        "money": _yuan(payment.amount_minor),
        "param": order.param,
    }


def close(tx: Tx, bank: Bank, values: Mapping[str, str]) -> Values:
    """Close an unpaid order."""
    order = require(tx, values, "当前订单不存在！")
    if bank.find_payment(tx, order.payment_id).status not in ("action_required", "voided"):
        refuse("该订单状态不支持关闭！")
    bank.void(tx, order.payment_id, now_ms())
    return {"msg": "订单关闭成功"}


def refund(tx: Tx, bank: Bank, values: Mapping[str, str]) -> Values:
    """Refund an order; the same number is the same refund."""
    order = require(tx, values, "当前订单不存在！")
    payment, now = bank.find_payment(tx, order.payment_id), now_ms()
    minor = amounts.minor(values.get("money", ""), CURRENCY)
    if not minor:
        refuse("金额输入错误")
    if payment.status != "succeeded":
        refuse("该订单状态不支持退款！")
    number = values.get("out_refund_no") or f"{now}"
    existing = tx.first(Refund, "select * from refunds where id = :id", id=number)
    try:
        new_refund, is_new = bank.start_refund(
            tx,
            RefundOrder(
                id=number,
                payment_id=payment.id,
                amount_minor=minor if existing is None else existing.amount_minor,
                currency=CURRENCY,
                callback_url=payment.callback_url,
            ),
            now,
        )
    except Refusal as refusal:
        refuse(f"退款失败：{refusal.message}")
    if new_refund.status == "failed" and new_refund.reversed_at is None:
        # The bank remembers a refund that it has refused, such servers do not.
        tx.run("delete from refunds where id = :id", id=number)
        refuse("退款金额不能超过该订单剩余可退款金额！")
    money = _yuan(new_refund.amount_minor)
    message = f"退款成功！退款金额¥{money}" if is_new else f"已存在相同退款单号！退款金额¥{money}"
    return {"msg": message, **_refund_fields(order, new_refund)}


def query_refund(tx: Tx, _bank: Bank, values: Mapping[str, str]) -> Values:
    """Return a refund."""
    number = values.get("refund_no", "").removeprefix("R") or values.get("out_refund_no", "")
    if not number:
        refuse("商户退款单号不能为空")
    refund = tx.first(Refund, "select * from refunds where id = :id", id=number)
    order = None if refund is None else find(tx, payment_id=refund.payment_id)
    if refund is None or order is None:
        refuse("退款记录不存在")
    return _refund_fields(order, refund) | {
        "status": _REFUND_STATUSES[refund.status],
        "addtime": _time(refund.created_at),
        "endtime": _time(refund.updated_at),
    }


def info(tx: Tx, _bank: Bank, _values: Mapping[str, str]) -> Values:
    """Return the account, with the number of its orders."""
    counted = tx.first(dict[str, int], "select count(*) as n from epay_v2_orders")
    return {
        "pid": int(PID),
        "status": 1,
        "pay_status": 1,
        "settle_status": 1,
        "money": "0.00",
        "order_num": (counted or {"n": 0})["n"],
    }


def _refund_fields(order: Order, refund: Refund) -> Values:
    money = _yuan(refund.amount_minor)
    return {
        "refund_no": f"R{refund.id}",
        "out_refund_no": refund.id,
        "trade_no": order.trade_no,
        "out_trade_no": order.payment_id,
        "money": money,
        "reducemoney": money,
    }


def _yuan(minor: int) -> str:
    return amounts.decimal(minor, CURRENCY)


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(_CHINA):%Y-%m-%d %H:%M:%S}"


def _new_trade_no(tx: Tx, now: int) -> str:
    """Return a new number: the time, and how many orders there are."""
    counted = tx.first(dict[str, int], "select count(*) as n from epay_v2_orders")
    digits = re.sub(r"\D", "", _time(now))
    return f"{digits}{(counted or {'n': 0})['n']:05}"
