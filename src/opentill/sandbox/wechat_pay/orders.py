"""Orders and refunds as WeChat Pay's API shows them, over those of the bank."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

import msgspec

from opentill.sandbox import timers
from opentill.sandbox.bank import Bank
from opentill.sandbox.model import (
    FaultKind,
    Payment,
    PaymentOrder,
    PaymentView,
    Refund,
    RefundOrder,
    Refusal,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms
from opentill.sandbox.wechat_pay import keys

T = TypeVar("T")
NAME: Final = "wechat_pay"
OTHER_MCHID: Final = "1900000002"
_CURRENCY: Final = "CNY"
_CHINA: Final = timezone(timedelta(hours=8))
_LIFETIME_MS: Final = 7 * 86_400_000  # of an order whose request names no end
_STATES: Final = {
    "action_required": "NOTPAY",
    "processing": "USERPAYING",
    "succeeded": "SUCCESS",
    "declined": "PAYERROR",
    "refused": "REVOKED",
}


class Amount(msgspec.Struct, frozen=True):
    """The amount of a new order, in fen."""

    total: Annotated[int, msgspec.Meta(gt=0, le=10**12)]
    currency: Literal["CNY"] = "CNY"


class SceneInfo(msgspec.Struct, frozen=True):
    """The customer of an H5 order."""

    payer_client_ip: str
    h5_info: dict[str, str]


class NewOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body that places an order."""

    appid: str
    mchid: str
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=127)]
    out_trade_no: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{6,32}\Z")]
    notify_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^?#]+\Z", max_length=255)]
    amount: Amount
    time_expire: str = ""
    scene_info: SceneInfo | None = None


class Mchid(msgspec.Struct, frozen=True):
    """The body that closes an order."""

    mchid: str


class RefundAmount(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of a refund and of its payment, in fen."""

    refund: Annotated[int, msgspec.Meta(gt=0, le=10**12)]
    total: int
    currency: Literal["CNY"]


class NewRefund(msgspec.Struct, frozen=True, kw_only=True):
    """The body that starts a refund."""

    out_trade_no: str = ""
    transaction_id: str = ""
    out_refund_no: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
    notify_url: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=80)] = ""
    amount: RefundAmount


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``wechat_pay_orders``. ``by_public_key``: notifications are signed by that key."""

    payment_id: str
    transaction_id: str
    product: str
    by_public_key: bool
    expires_at: int
    closed: bool = False


class Error(Exception):
    """An error response: HTTP status and code of WeChat Pay's documents."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """``message`` is for people."""
        super().__init__(message)
        self.status, self.code = status, code


def refuse(status: int, code: str, message: str = "沙箱拒绝了请求") -> NoReturn:
    """Refuse a request as WeChat Pay does: with a code, and a message for people."""
    raise Error(status, code, message)


def start(tx: Tx, bank: Bank, new: NewOrder, product: str, *, by_public_key: bool) -> Order:
    """Place an order, or return the one that was placed before with the same content."""
    if (new.mchid, new.appid) != (keys.MCHID, keys.APPID):
        refuse(400, "APPID_MCHID_NOT_MATCH")
    if product == "h5" and (new.scene_info is None or not new.scene_info.h5_info.get("type")):
        refuse(400, "PARAM_ERROR", "scene_info.h5_info.type")
    now = now_ms()
    expires_at = _expiry(new.time_expire, now)
    existing = find_order(tx, payment_id=new.out_trade_no)
    if existing is not None:
        payment = bank.find_payment(tx, existing.payment_id)
        if payment.status == "succeeded":
            refuse(400, "ORDERPAID")
        if payment.status != "action_required":
            refuse(400, "ORDER_CLOSED")
        if payment.amount_minor != new.amount.total or existing.product != product:
            refuse(403, "OUT_TRADE_NO_USED")
        if new.time_expire and existing.expires_at != expires_at:
            refuse(400, "INVALID_REQUEST", "time_expire")
        return existing
    payment_order = PaymentOrder(
        id=new.out_trade_no,
        amount_minor=new.amount.total,
        currency=_CURRENCY,
        method="WECHAT_PAY",
        return_url=new.notify_url,
        callback_url=new.notify_url,
        description=new.description,
    )
    bank.start_payment(tx, payment_order, now, NAME)
    order = Order(
        payment_id=new.out_trade_no,
        transaction_id=transaction_id_of(new.out_trade_no),
        product=product,
        by_public_key=by_public_key,
        expires_at=expires_at,
    )
    tx.insert("wechat_pay_orders", msgspec.structs.asdict(order))
    timers.set_timer(tx, "expire", order.payment_id, expires_at)
    return order


def start_refund(tx: Tx, bank: Bank, new: NewRefund, fault: FaultKind | None) -> dict[str, Any]:
    """Refund an order; the response says PROCESSING."""
    order = find_order(tx, payment_id=new.out_trade_no, transaction_id=new.transaction_id)
    payment = None if order is None else bank.find_payment(tx, order.payment_id)
    if order is None or payment is None or payment.status != "succeeded":
        refuse(404, "RESOURCE_NOT_EXISTS", "订单不存在或未支付")
    if new.amount.total != payment.amount_minor:
        refuse(400, "INVALID_REQUEST", "订单金额不一致")
    now = now_ms()
    refund_order = RefundOrder(
        id=new.out_refund_no,
        payment_id=payment.id,
        amount_minor=new.amount.refund,
        currency=_CURRENCY,
        callback_url=new.notify_url or payment.callback_url,
    )
    if fault == "unconfirmed":  # the refund is accepted; it is done when it is sent again
        accepted = Refund(
            **msgspec.structs.asdict(refund_order),
            status="pending",
            error=None,
            created_at=now,
            updated_at=now,
        )
        return refund_fields(order, payment, accepted, "PROCESSING", fault)
    try:
        refund, is_new = bank.start_refund(tx, refund_order, now)
    except Refusal as refusal:
        refuse(400, "INVALID_REQUEST", refusal.message)
    if refund.status == "failed" and refund.reversed_at is None:
        # The bank remembers a refund that it has refused, WeChat Pay does not.
        tx.run("delete from refunds where id = :id", id=refund.id)
        refuse(403, "NOT_ENOUGH", refund.error or "")
    state = "PROCESSING" if is_new else refund_state(refund)
    return refund_fields(order, payment, refund, state, fault)


def order_fields(
    order: Order, payment: Payment | PaymentView, fault: FaultKind | None
) -> dict[str, Any]:
    """Return an order as WeChat Pay shows it; most fields are only in paid ones."""
    fields: dict[str, Any] = {
        "appid": keys.APPID,
        "mchid": OTHER_MCHID if fault == "other_account" else keys.MCHID,
        "out_trade_no": payment.id,
        "trade_state": _order_state(order, payment),
        "trade_state_desc": "沙箱",
    }
    if payment.status == "succeeded":
        total = payment.amount_minor + (fault == "wrong_amount")
        fields |= {
            "transaction_id": order.transaction_id,
            "trade_type": "MWEB" if order.product == "h5" else "NATIVE",
            "bank_type": "OTHERS",
            "success_time": china_time(payment.updated_at),
            "payer": {"openid": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"},
            "amount": {
                "total": total,
                "payer_total": total,
                "currency": _CURRENCY,
                "payer_currency": _CURRENCY,
            },
        }
    return fields


def _order_state(order: Order, payment: Payment | PaymentView) -> str:
    if payment.status == "voided":  # its time may also be over, which WeChat Pay does not report
        return "CLOSED" if order.closed else "NOTPAY"
    if payment.status == "succeeded" and payment.refunded_minor:
        return "REFUND"
    return _STATES[payment.status]


def refund_fields(
    order: Order,
    payment: Payment | PaymentView,
    refund: Refund,
    state: str,
    fault: FaultKind | None,
) -> dict[str, Any]:
    """Return a refund as WeChat Pay shows it, in a state."""
    is_other = fault == "other_account"
    amount = refund.amount_minor + (fault == "wrong_amount")
    fields: dict[str, Any] = {
        "refund_id": refund_number_of(refund.id),
        "out_refund_no": "re_of_another_account" if is_other else refund.id,
        "transaction_id": order.transaction_id,
        "out_trade_no": payment.id,
        "channel": "ORIGINAL",
        "user_received_account": "支付用户零钱",
        "create_time": china_time(refund.created_at),
        "status": state,
        "amount": {
            "total": payment.amount_minor,
            "refund": amount,
            "payer_total": payment.amount_minor,
            "payer_refund": amount,
            "currency": _CURRENCY,
        },
    }
    if state == "SUCCESS":
        fields["success_time"] = china_time(refund.updated_at)
    return fields


def refund_state(refund: Refund) -> str:
    """Return the refund's state in WeChat Pay's terms; ABNORMAL if the bank returned the money."""
    if refund.reversed_at is not None:
        return "ABNORMAL"
    return {"succeeded": "SUCCESS", "pending": "PROCESSING", "failed": "CLOSED"}[refund.status]


def find_order(tx: Tx, *, payment_id: str = "", transaction_id: str = "") -> Order | None:
    """Return an order by its payment's id or its number."""
    sql = "select * from wechat_pay_orders where payment_id = :id or transaction_id = :number"
    return tx.first(Order, sql, id=payment_id, number=transaction_id)


def find_existing(tx: Tx, bank: Bank, payment_id: str) -> tuple[Order, Payment]:
    """Return an order and its payment. Raises Error."""
    order = find_order(tx, payment_id=payment_id)
    if order is None:
        refuse(404, "ORDER_NOT_EXIST", "订单不存在")
    return order, bank.find_payment(tx, payment_id)


def check_mchid(mchid: str) -> None:
    """Raise Error unless it is the merchant's number."""
    if mchid != keys.MCHID:
        refuse(400, "PARAM_ERROR", "mchid")


def decode(body: bytes, kind: type[T]) -> T:
    """Decode the body of a request. Raises Error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        refuse(400, "PARAM_ERROR", str(error))


def _expiry(text: str, now: int) -> int:
    """Return when an order ends, at the earliest in a minute. Raises Error."""
    if not text:
        return now + _LIFETIME_MS
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        refuse(400, "PARAM_ERROR", "time_expire")
    return max(round(moment.timestamp() * 1000), now + 60_000)


def transaction_id_of(payment_id: str) -> str:
    """Return WeChat Pay's number of a payment, which follows from its id."""
    return _number("42", payment_id)


def refund_number_of(refund_id: str) -> str:
    """Return WeChat Pay's number of a refund, which follows from its id."""
    return _number("50", refund_id)


def _number(prefix: str, text: str) -> str:
    """Return a number of 28 digits that follows from an id."""
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:11])
    return f"{prefix}{digest % 10**26:026}"


def china_time(ms: float) -> str:
    """Return Unix milliseconds as WeChat Pay writes times."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).astimezone(_CHINA)
    return moment.isoformat(timespec="seconds")
