"""Orders of the epusdt servers, over the bank's payments.

The original server refuses an order number that it knows; the fork returns its order. Both ask for
an amount in USDT that no other open order of the wallet has, and both forget an order that is not
paid in time.
"""

import secrets
import string
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from opentill.sandbox import timers
from opentill.sandbox.bank import Bank
from opentill.sandbox.model import Payment, PaymentOrder, PaymentStatus
from opentill.sandbox.storage import Tx

NAME: Final = "epusdt"
CURRENCY: Final = "CNY"
_WALLET: Final = "TSandboxWalletOfOpenTill0000000001"
_TRADE_TYPE: Final = "usdt.trc20"
_TRADE_TYPES: Final = ("usdt.trc20", "usdt.bep20", "usdt.polygon", "usdc.bep20", "usdc.polygon")
_RATE: Final = Decimal("7.2")
_INCREMENT: Final = Decimal("0.01")
_MOST_INCREMENTS: Final = 100
_LIFETIME_MS: Final = 600_000
_LEAST_LIFETIME_MS: Final = 60_000
_MOST_LIFETIME_MS: Final = 86_400_000
_LONGEST_ID: Final = 32  # at the original server
_MESSAGES: Final = {
    401: "签名认证错误",
    10002: "支付交易已存在，请勿重复创建",
    10004: "支付金额有误, 无法满足最小支付单位",
    10005: "无可用金额通道",
    10008: "订单不存在",
}
_STATUSES: Final[dict[PaymentStatus, int]] = {"action_required": 1, "processing": 5, "succeeded": 2}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``epusdt_orders``. ``actual`` is the amount in tokens."""

    payment_id: str
    trade_id: str
    is_fork: bool
    trade_type: str
    actual: str
    address: str
    expires_at: int
    canceled: bool = False


class Error(Exception):
    """An error of the original server by its code, or of the fork by its message."""

    def __init__(self, code: int = 400, message: str = "") -> None:
        """The fork's code is always 400."""
        super().__init__(message or _MESSAGES[code])
        self.code = code


def find(tx: Tx, *, trade_id: str = "", payment_id: str = "") -> Order | None:
    """Return an order by either of its numbers."""
    sql = "select * from epusdt_orders where trade_id = :trade_id or payment_id = :payment_id"
    return tx.first(Order, sql, trade_id=trade_id, payment_id=payment_id)


def require(tx: Tx, trade_id: str, *, is_fork: bool) -> Order:
    """Return an order of a server. Raises Error."""
    order = find(tx, trade_id=trade_id)
    if order is None or order.is_fork is not is_fork:
        raise Error(400, _MESSAGES[10008]) if is_fork else Error(10008)
    return order


def status_of(order: Order, status: PaymentStatus) -> int:
    """Return the server's status of an order whose payment has a status."""
    return _STATUSES.get(status, 4 if order.canceled else 3)


def start(
    tx: Tx, bank: Bank, params: Mapping[str, Any], now: int, *, is_fork: bool
) -> tuple[Order, Payment]:
    """Create an order, or return the fork's existing one. Raises Error."""
    payment_id, minor = _read_id(params, is_fork=is_fork), _read_amount(params, is_fork=is_fork)
    trade_type = str(params.get("trade_type") or _TRADE_TYPE) if is_fork else _TRADE_TYPE
    if trade_type not in _TRADE_TYPES:
        raise Error(400, f"交易类型({trade_type})不支持")
    order = find(tx, payment_id=payment_id)
    if order is not None:
        payment = bank.find_payment(tx, payment_id)
        if not is_fork or not order.is_fork:
            raise Error(10002)
        if (payment.amount_minor, order.trade_type) != (minor, trade_type):
            raise Error(400, "订单创建失败：沙箱不修改订单")
        if payment.status not in ("action_required", "succeeded"):
            raise Error(400, "订单创建失败：沙箱不重建已结束的订单")
        return order, payment
    actual = _free_amount(tx, Decimal(minor) / 100 / _rate(params, is_fork=is_fork))
    payment = _start_payment(tx, bank, params, payment_id, minor, now)
    lifetime = _lifetime_ms(params) if is_fork else _LIFETIME_MS
    order = Order(
        payment_id=payment_id,
        trade_id=_new_trade_id(now, is_fork=is_fork),
        is_fork=is_fork,
        trade_type=trade_type,
        actual=actual,
        address=_WALLET,
        expires_at=now + lifetime,
    )
    tx.insert("epusdt_orders", msgspec.structs.asdict(order))
    timers.set_timer(tx, "expire", payment_id, order.expires_at)
    return order, payment


def cancel(tx: Tx, bank: Bank, trade_id: str, now: int) -> None:
    """Cancel an order of the fork that waits. Raises Error."""
    order = require(tx, trade_id, is_fork=True)
    if bank.find_payment(tx, order.payment_id).status != "action_required":
        raise Error(400, f"当前订单({trade_id})状态不允许取消")
    tx.run("update epusdt_orders set canceled = 1 where trade_id = :id", id=trade_id)
    bank.void(tx, order.payment_id, now)


def _read_id(params: Mapping[str, Any], *, is_fork: bool) -> str:
    names = ("order_id", "amount", "notify_url", "redirect_url")
    missing = [name for name in names if name not in params]
    if is_fork and missing:
        raise Error(400, f"参数 {missing[0]} 不存在")
    payment_id = params.get("order_id")
    if not isinstance(payment_id, str) or not payment_id:
        raise Error(400, "订单号 is required to not be empty")
    if not is_fork and len(payment_id) > _LONGEST_ID:
        raise Error(400, f"订单号 max length is {_LONGEST_ID}")
    if not params.get("notify_url"):
        raise Error(400, "异步回调网址 is required to not be empty")
    return payment_id


def _read_amount(params: Mapping[str, Any], *, is_fork: bool) -> int:
    value = params.get("amount")
    if isinstance(value, bool) or not isinstance(
        value, (int, float, str) if is_fork else (int, float)
    ):
        raise Error(400, "支付金额 value must be a float")
    try:
        amount = Decimal(str(value))
        minor = int((amount * 100).to_integral_value())
    except (InvalidOperation, OverflowError, ValueError):
        raise Error(400, "支付金额 value must be a float") from None
    if amount <= _INCREMENT and not is_fork:
        raise Error(400, "支付金额 value should be greater than 0.01")
    if not 0 < minor <= 10**15:
        raise Error(400, "订单创建失败：金额") if is_fork else Error(10004)
    return minor


def _rate(params: Mapping[str, Any], *, is_fork: bool) -> Decimal:
    """Return the rate of an order: a fixed one, or the bank's with the change that is asked for."""
    text = str(params.get("rate") or "") if is_fork else ""
    try:
        change = Decimal(text.lstrip("~+-") or "0")
    except InvalidOperation:
        change = Decimal(0)
    rates = {"~": _RATE * change, "+": _RATE + change, "-": _RATE - change}
    rate = rates.get(text[:1], change) if text else _RATE
    if not 0 < rate < 10**6:
        raise Error(400, "订单创建失败：汇率")
    return rate


def _free_amount(tx: Tx, tokens: Decimal) -> str:
    """Return the amount in tokens that no other open order has. Raises Error."""
    if tokens < _INCREMENT:
        raise Error(10004)
    amount = tokens.quantize(_INCREMENT)
    sql = """
        select o.actual from epusdt_orders o join payments p on p.id = o.payment_id
        where p.status = 'action_required'
    """
    taken = {row["actual"] for row in tx.all(dict[str, str], sql)}
    for _ in range(_MOST_INCREMENTS):
        if f"{amount:f}" not in taken:
            return f"{amount:f}"
        amount += _INCREMENT
    raise Error(10005)


def _start_payment(
    tx: Tx, bank: Bank, params: Mapping[str, Any], payment_id: str, minor: int, now: int
) -> Payment:
    try:
        order = msgspec.convert(
            {
                "id": payment_id,
                "amount_minor": minor,
                "currency": CURRENCY,
                "method": "CRYPTO",
                "return_url": params.get("redirect_url") or params["notify_url"],
                "callback_url": params["notify_url"],
            },
            PaymentOrder,
        )
    except msgspec.ValidationError as error:
        raise Error(400, str(error)) from None
    payment, is_new = bank.start_payment(tx, order, now, NAME)
    if not is_new:
        raise Error(10002)
    return payment


def _lifetime_ms(params: Mapping[str, Any]) -> int:
    value = params.get("timeout")
    seconds = int(value) if isinstance(value, (int, float)) and 0 <= value < 10**9 else 0
    asked_ms = seconds * 1000
    return min(asked_ms, _MOST_LIFETIME_MS) if asked_ms >= _LEAST_LIFETIME_MS else _LIFETIME_MS


def _new_trade_id(now: int, *, is_fork: bool) -> str:
    if is_fork:
        return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(18))
    return f"{now}{secrets.randbelow(10**12):012}"
