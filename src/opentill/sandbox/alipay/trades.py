"""The requests about trades, over the bank's payments and refunds.

Each function returns the node of a response, or raises Error with the code that Alipay's documents
name for the case.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, NoReturn

import msgspec

from opentill.sandbox import amounts, timers
from opentill.sandbox.bank import Bank
from opentill.sandbox.model import Payment, PaymentOrder, RefundOrder
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

NAME: Final = "alipay"
CURRENCY: Final = "CNY"
_CHINA: Final = timezone(timedelta(hours=8))
_LIFETIME_MS: Final = 15 * 86_400_000  # of a trade whose request names no end
_CODE_LIFETIME_MS: Final = 2 * 3_600_000  # a code cannot be scanned later
_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
FAILED: Final = "40004"


class Trade(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``alipay_trades``. ``opened``: whether the customer has opened it."""

    payment_id: str
    trade_no: str
    product: str
    opened: bool
    expires_at: int


class Error(Exception):
    """An error response: ``code`` and ``sub_code`` of Alipay's documents."""

    def __init__(self, sub_code: str, code: str) -> None:
        """Errors of the business have code 40004."""
        super().__init__(sub_code)
        self.code, self.sub_code = code, sub_code


def refuse(sub_code: str, code: str = FAILED) -> NoReturn:
    """Refuse a request as Alipay does: with ``sub_code``, and ``code`` of its class."""
    raise Error(sub_code, code)


Content = Mapping[str, Any]
Node = dict[str, str]


def start(
    tx: Tx,
    bank: Bank,
    content: Content,
    params: Mapping[str, str],
    product: str,
    *,
    opened: bool,
) -> Payment:
    """Open a trade, or return the one that was opened before with the same content."""
    payment_id, now = text_of(content, "out_trade_no"), now_ms()
    minor = amounts.minor(text_of(content, "total_amount"), CURRENCY)
    if not _ID.fullmatch(payment_id) or not minor or not text_of(content, "subject"):
        refuse("ACQ.INVALID_PARAMETER")
    trade = find_trade(tx, payment_id=payment_id)
    if trade is not None:
        payment = bank.find_payment(tx, payment_id)
        if payment.status == "succeeded":
            refuse("ACQ.TRADE_HAS_SUCCESS")
        if payment.status != "action_required":
            refuse("ACQ.TRADE_HAS_CLOSE")
        if payment.amount_minor != minor:
            refuse("ACQ.CONTEXT_INCONSISTENT")
        return payment
    try:
        order = msgspec.convert(
            {
                "id": payment_id,
                "amount_minor": minor,
                "currency": CURRENCY,
                "method": "ALIPAY",
                "return_url": params.get("return_url") or params.get("notify_url", ""),
                "callback_url": params.get("notify_url", ""),
                "description": text_of(content, "subject"),
            },
            PaymentOrder,
        )
    except msgspec.ValidationError:
        refuse("ACQ.INVALID_PARAMETER")
    payment, _ = bank.start_payment(tx, order, now, NAME)
    expires_at = _expiry(content, now)
    if product == "precreate":
        expires_at = min(expires_at, now + _CODE_LIFETIME_MS)
    row = Trade(
        payment_id=payment_id,
        trade_no=_new_trade_no(tx, now),
        product=product,
        opened=opened,
        expires_at=expires_at,
    )
    tx.insert("alipay_trades", msgspec.structs.asdict(row))
    timers.set_timer(tx, "expire", payment_id, expires_at)
    return payment


def precreate(tx: Tx, bank: Bank, content: Content, params: Mapping[str, str]) -> Node:
    """Return the text of a QR code."""
    payment = start(tx, bank, content, params, "precreate", opened=False)
    trade = find_trade(tx, payment_id=payment.id)
    code = f"{bank.public_url}/alipay/qr/{trade.trade_no if trade else ''}"
    return success(out_trade_no=payment.id, qr_code=code)


def query(tx: Tx, bank: Bank, content: Content, _params: Mapping[str, str]) -> Node:
    """Return the state of a trade."""
    trade = _existing_trade(tx, content)
    payment = bank.find_payment(tx, trade.payment_id)
    node = success(
        trade_no=trade.trade_no,
        out_trade_no=payment.id,
        trade_status=status_of(payment.status, payment.amount_minor - payment.refunded_minor),
        total_amount=yuan(payment.amount_minor),
    )
    if payment.status == "succeeded":
        node["send_pay_date"] = china_time(payment.updated_at)
    return node


def close(tx: Tx, bank: Bank, content: Content, _params: Mapping[str, str]) -> Node:
    """Close an unpaid trade."""
    trade = _existing_trade(tx, content)
    if bank.find_payment(tx, trade.payment_id).status != "action_required":
        refuse("ACQ.TRADE_STATUS_ERROR")
    bank.void(tx, trade.payment_id, now_ms())
    return success(trade_no=trade.trade_no, out_trade_no=trade.payment_id)


def refund(tx: Tx, bank: Bank, content: Content, _params: Mapping[str, str]) -> Node:
    """Refund a trade; a repeated request has ``fund_change`` N."""
    trade = _existing_trade(tx, content)
    payment = bank.find_payment(tx, trade.payment_id)
    minor = amounts.minor(text_of(content, "refund_amount"), CURRENCY)
    refund_id = text_of(content, "out_request_no") or payment.id
    if not minor or not _ID.fullmatch(refund_id):
        refuse("ACQ.INVALID_PARAMETER")
    if payment.status != "succeeded":
        refuse("ACQ.TRADE_STATUS_ERROR")
    order = RefundOrder(
        id=refund_id,
        payment_id=payment.id,
        amount_minor=minor,
        currency=CURRENCY,
        callback_url=payment.callback_url,
    )
    refund, is_new = bank.start_refund(tx, order, now_ms())
    if refund.status == "failed":
        _forget_refund(tx, refund_id)
        refuse("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL")
    after = bank.find_payment(tx, payment.id)
    return success(
        trade_no=trade.trade_no,
        out_trade_no=payment.id,
        fund_change="Y" if is_new else "N",
        refund_fee=yuan(after.refunded_minor),
    )


def query_refund(tx: Tx, bank: Bank, content: Content, _params: Mapping[str, str]) -> Node:
    """Return a refund; the response has no data if there is none."""
    trade = _existing_trade(tx, content)
    refund_id = text_of(content, "out_request_no")
    refund = next((one for one in bank.refunds(tx, trade.payment_id) if one.id == refund_id), None)
    if refund is None or refund.status != "succeeded":
        return success()
    payment = bank.find_payment(tx, trade.payment_id)
    return success(
        trade_no=trade.trade_no,
        out_trade_no=payment.id,
        out_request_no=refund.id,
        total_amount=yuan(payment.amount_minor),
        refund_amount=yuan(refund.amount_minor),
        refund_status="REFUND_SUCCESS",
        gmt_refund_pay=china_time(refund.updated_at),
    )


def text_of(content: Content, name: str) -> str:
    """Return a text of a request, "" if it is missing."""
    value = content.get(name, "")
    return value if isinstance(value, str) else ""


def find_trade(tx: Tx, *, payment_id: str = "", trade_no: str = "") -> Trade | None:
    """Return a trade by either of its numbers, whether or not it has been opened."""
    sql = "select * from alipay_trades where payment_id = :id or trade_no = :trade_no"
    return tx.first(Trade, sql, id=payment_id, trade_no=trade_no)


def _existing_trade(tx: Tx, content: Content) -> Trade:
    """Return the trade that a request names. Raises Error unless the customer has opened it."""
    trade_no = text_of(content, "trade_no")
    payment_id = "" if trade_no else text_of(content, "out_trade_no")
    trade = find_trade(tx, payment_id=payment_id, trade_no=trade_no)
    if trade is None or not trade.opened:
        refuse("ACQ.TRADE_NOT_EXIST")
    return trade


def _forget_refund(tx: Tx, refund_id: str) -> None:
    """Delete a refund that was refused: the bank remembers it, Alipay does not."""
    tx.run("delete from refunds where id = :id and status = 'failed'", id=refund_id)


def _new_trade_no(tx: Tx, now: int) -> str:
    """Return a new number of 28 digits, which begins with the day, as Alipay's do."""
    counted = tx.first(dict[str, int], "select count(*) as n from alipay_trades")
    number = (counted or {"n": 0})["n"] % 10_000
    return f"{china_time(now)[:10].replace('-', '')}22{now:014}{number:04}"


def status_of(status: str, left_minor: int) -> str:
    """Return Alipay's status of a payment, of which ``left_minor`` is not refunded."""
    if status == "succeeded":
        return "TRADE_SUCCESS" if left_minor else "TRADE_CLOSED"
    return "WAIT_BUYER_PAY" if status == "action_required" else "TRADE_CLOSED"


def success(**fields: str) -> Node:
    """Return the node of a successful request."""
    return {"code": "10000", "msg": "Success", **fields}


def yuan(minor: int) -> str:
    """Return an amount as Alipay writes it."""
    return amounts.decimal(minor, CURRENCY)


def china_time(ms: int) -> str:
    """Return Unix milliseconds as Alipay writes times."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(_CHINA):%Y-%m-%d %H:%M:%S}"


def _expiry(content: Content, now: int) -> int:
    """Return when a trade ends. Raises Error if the request names no credible time."""
    text = text_of(content, "time_expire")
    if not text:
        return now + _LIFETIME_MS
    try:
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=_CHINA)
    except ValueError:
        refuse("ACQ.INVALID_PARAMETER")
    return round(moment.timestamp() * 1000)
