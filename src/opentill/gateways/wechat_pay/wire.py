"""WeChat Pay's API v3 on the wire: requests, responses and notifications, and their meaning.

Sources: pay.weixin.qq.com/doc/v3/merchant, with the error codes of each page: "Native下单"
(4012525171), "H5下单", "商户订单号查询订单" (4013070356), "关闭订单", "申请退款", "查询单笔退款"
(4012556562), "支付成功回调通知", "退款结果回调通知". Amounts are in fen.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar, get_args
from urllib.parse import quote

import msgspec

from opentill.core.ids import creation_time, is_id
from opentill.core.money import Money
from opentill.gateways.failures import MALFORMED
from opentill.gateways.model import (
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    PaymentOutcome,
    PaymentRequest,
    PaymentStatus,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
)

T = TypeVar("T")
CURRENCY: Final = "CNY"
Product = Literal["native", "h5"]
PRODUCTS: Final[tuple[Product, ...]] = get_args(Product)
MAX_AGE_MS: Final = 300_000  # of a signature; also how far its time may be in the future

# Times of requests are those of China, without daylight saving time.
_CHINA: Final = timezone(timedelta(hours=8))
# A code of Native can be scanned for two hours. The link of H5 opens for five minutes; the customer
# must then be able to start again soon.
_LIFETIMES_MS: Final[dict[Product, int]] = {"native": 2 * 3_600_000, "h5": 15 * 60_000}
_MIN_LIFETIME_MS: Final = 90_000  # one minute at WeChat Pay, and some time for the request
EXPIRY_MARGIN_MS: Final = 60_000  # clocks may differ by this much

# Error codes. Old documents write some of them without underscores.
NO_ORDER: Final = frozenset({"ORDER_NOT_EXIST", "ORDERNOTEXIST", "RESOURCE_NOT_EXISTS"})
NO_REFUND: Final = frozenset({"RESOURCE_NOT_EXISTS", "REFUNDNOTEXIST"})
# The order exists: its state decides.
ORDER_EXISTS: Final = frozenset(
    {"OUT_TRADE_NO_USED", "ORDERPAID", "ORDER_PAID", "ORDERCLOSED", "ORDER_CLOSED"}
)
# The request was not processed and may be repeated later.
NOT_PROCESSED: Final = frozenset(
    {"FREQUENCY_LIMITED", "FREQUENCY_LIMIT_EXCEED", "RATELIMIT_EXCEEDED", "RULE_LIMIT", "RULELIMIT"}
)
# Errors of WeChat Pay's or a bank's systems, after which the result is open.
SYSTEM_ERRORS: Final = frozenset({"SYSTEM_ERROR", "SYSTEMERROR", "BANKERROR", "BANK_ERROR"})
WRONG_SIGNATURE: Final = "SIGN_ERROR"
# The codes by which "申请退款" refuses a refund.
REFUND_REFUSALS: Final = frozenset(
    {
        "PARAM_ERROR",
        "INVALID_REQUEST",
        "NOT_ENOUGH",
        "NOTENOUGH",
        "USER_ACCOUNT_ABNORMAL",
        "NO_AUTH",
        "NOAUTH",
        "MCH_NOT_EXISTS",
        "RESOURCE_NOT_EXISTS",
        "REQUEST_BLOCKED",
        "TRADE_OVERDUE",
    }
)
ABNORMAL: Final = (
    "abnormal: the customer's bank did not accept the refund; complete it in WeChat Pay's merchant"
    " platform"
)
_MOST_DESCRIPTION: Final = 127  # bytes
_MOST_REASON: Final = 80  # bytes
_MOST_MESSAGE: Final = 200
_CODE: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
_REFERENCE: Final = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)

# trade_state → the outcome's status. REFUND: it was paid, and a part or all of it was refunded.
# USERPAYING, REVOKED and PAYERROR are documented for payment codes only.
_PAYMENT_STATUSES: Final[dict[str, PaymentStatus]] = {
    "SUCCESS": "SUCCEEDED",
    "REFUND": "SUCCEEDED",
    "NOTPAY": "ACTION_REQUIRED",
    "USERPAYING": "PENDING",
    "CLOSED": "DECLINED",
    "PAYERROR": "DECLINED",
    "REVOKED": "VOIDED",
}
# ABNORMAL is not final: the merchant completes the refund in WeChat Pay's merchant platform.
_REFUND_STATUSES: Final[dict[str, RefundStatus]] = {
    "SUCCESS": "SUCCEEDED",
    "CLOSED": "REFUSED",
    "PROCESSING": "PENDING",
    "ABNORMAL": "PENDING",
}
UNPAID: Final = "NOTPAY"


class Error(msgspec.Struct, frozen=True):
    """An error response."""

    code: str = ""
    message: str = ""

    @property
    def summary(self) -> str:
        """The code and the message, truncated."""
        return printable(f"{self.code}: {self.message}")[:_MOST_MESSAGE]


class Amount(msgspec.Struct, frozen=True):
    """An amount in fen; ``refund`` only in refunds. Notifications of refunds have no currency."""

    total: int = -1
    refund: int = -1
    currency: str = CURRENCY

    @property
    def paid(self) -> Money | None:
        """The amount of the payment, None if it is missing or not in yuan."""
        return self._money(self.total)

    @property
    def refunded(self) -> Money | None:
        """The amount of the refund, None if it is missing or not in yuan."""
        return self._money(self.refund)

    def _money(self, fen: int) -> Money | None:
        return Money(fen, CURRENCY) if fen >= 0 and self.currency == CURRENCY else None


class Account(msgspec.Struct, frozen=True):
    """Our account, which every order names."""

    mchid: str
    appid: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A payment in the response to a query and in notifications."""

    mchid: str
    appid: str
    out_trade_no: str
    trade_state: str
    transaction_id: str = ""
    amount: Amount = Amount()

    def is_of(self, account: Account) -> bool:
        """Whether it is a payment of our account."""
        return (self.mchid, self.appid) == (account.mchid, account.appid)

    @property
    def is_paid(self) -> bool:
        """Whether it was paid, and perhaps refunded since."""
        return _PAYMENT_STATUSES.get(self.trade_state) == "SUCCEEDED"

    @property
    def outcome(self) -> PaymentOutcome:
        """The outcome of the attempt."""
        status = _PAYMENT_STATUSES.get(self.trade_state, "UNKNOWN")
        reference = _reference(self.transaction_id)
        if status == "SUCCEEDED":
            paid = self.amount.paid
            if paid is None:
                return PaymentOutcome(status="UNKNOWN", reason="a payment without an amount in CNY")
            return PaymentOutcome(
                status="SUCCEEDED",
                provider_ref=reference,
                amount=paid,
                method="WECHAT_PAY",
                clearing_currency=CURRENCY,
            )
        reason = "" if status == "ACTION_REQUIRED" else _state(self.trade_state)
        return PaymentOutcome(status=status, provider_ref=reference, reason=reason)


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund in responses (``status``) and notifications (``refund_status`` and ``mchid``)."""

    out_trade_no: str
    out_refund_no: str
    refund_id: str = ""
    status: str = ""
    refund_status: str = ""
    mchid: str = ""
    amount: Amount = Amount()

    @property
    def state(self) -> str:
        """The state of the refund."""
        return self.status or self.refund_status

    @property
    def outcome(self) -> RefundOutcome:
        """The outcome of the refund."""
        status = _REFUND_STATUSES.get(self.state, "UNKNOWN")
        reason = "" if status == "SUCCEEDED" or self.state == "PROCESSING" else _state(self.state)
        if self.state == "ABNORMAL":
            reason = ABNORMAL
        return RefundOutcome(status=status, provider_ref=_reference(self.refund_id), reason=reason)

    @property
    def event(self) -> GatewayRefundEvent:
        """The report of the refund. One whose number is none of ours was made at WeChat Pay."""
        number = self.out_refund_no
        is_ours = number.startswith(("re_", "att_")) and is_id(number)
        return GatewayRefundEvent(
            attempt_id=self.out_trade_no,
            refund_id=number if is_ours else "",
            outcome=self.outcome,
            amount=self.amount.refunded,
        )


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """The encrypted part of a notification."""

    algorithm: str
    ciphertext: str
    nonce: str
    associated_data: str = ""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a notification."""

    event_type: str
    resource: Resource


class Prepaid(msgspec.Struct, frozen=True):
    """The response to a new order: ``code_url`` of Native, ``h5_url`` of H5."""

    code_url: str = ""
    h5_url: str = ""


class ListedCertificate(msgspec.Struct, frozen=True):
    """A platform certificate in the response of ``/v3/certificates``."""

    serial_no: str
    encrypt_certificate: Resource


class Certificates(msgspec.Struct, frozen=True):
    """The response of ``/v3/certificates``."""

    data: list[ListedCertificate]


def read(body: bytes, kind: type[T]) -> T | None:
    """Decode a body; None if it is not in WeChat Pay's format."""
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED:
        return None


def read_event(event_type: str, resource: bytes, account: Account) -> GatewayEvent | None:
    """Return the event of a notification; None if it is about no payment or refund.

    Raises ValueError if the resource is not in WeChat Pay's format, or of another account.
    """
    kind, _, _ = event_type.partition(".")
    if kind == "TRANSACTION":
        order = read(resource, Order)
        if order is None or not is_id(order.out_trade_no):
            msg = "the resource is no payment of ours"
            raise ValueError(msg)
        if not order.is_of(account):
            msg = "the payment is one of another mchid or appid"
            raise ValueError(msg)
        if order.is_paid and order.amount.paid is None:
            msg = "the payment has no amount in CNY"
            raise ValueError(msg)
        return GatewayPaymentEvent(attempt_id=order.out_trade_no, outcome=order.outcome)
    if kind == "REFUND":
        refund = read(resource, Refund)
        if refund is None or not is_id(refund.out_trade_no):
            msg = "the resource is no refund of ours"
            raise ValueError(msg)
        if refund.mchid != account.mchid:
            msg = "the refund is one of another mchid"
            raise ValueError(msg)
        return refund.event
    return None


def choose(products: Sequence[Product], *, on_phone: bool) -> Product:
    """Return the product for the customer's device: H5 opens WeChat on a phone."""
    preferred: tuple[Product, ...] = ("h5", "native") if on_phone else ("native", "h5")
    return next(product for product in preferred if product in products)


def end_of_order(attempt_id: str, products: Sequence[Product]) -> int:
    """Return until when an attempt can be paid at most (Unix ms). Raises ValueError for other ids.

    It follows from the id, so that a repeated request has the same content.
    """
    return creation_time(attempt_id) + min(_LIFETIMES_MS[product] for product in products)


def shortened(ends_at: int, request: PaymentRequest) -> int:
    """Return the end of an order, at the latest with its checkout session."""
    if request.expires_at is None:
        return ends_at
    earliest = creation_time(request.attempt_id) + _MIN_LIFETIME_MS
    return min(ends_at, max(request.expires_at, earliest))


def order(
    request: PaymentRequest, account: Account, product: Product, ends_at: int
) -> dict[str, Any]:
    """Return the body of a new order, which can be paid until ``ends_at`` (Unix ms).

    Sent again with the same content, it is the same order.
    """
    body: dict[str, Any] = {
        "appid": account.appid,
        "mchid": account.mchid,
        "description": _cut(request.description, _MOST_DESCRIPTION) or "-",
        "out_trade_no": request.attempt_id,
        "time_expire": china_time(ends_at),
        "notify_url": request.callback_url,
        "amount": {"total": request.amount.minor, "currency": CURRENCY},
    }
    if product == "h5":
        body["scene_info"] = {
            "payer_client_ip": request.payer_ip or "127.0.0.1",
            "h5_info": {"type": "Wap"},
        }
    return body


def h5_address(h5_url: str, return_url: str) -> str:
    """Return the address that opens WeChat, and afterwards leads the customer to ``return_url``."""
    separator = "&" if "?" in h5_url else "?"
    return f"{h5_url}{separator}redirect_url={quote(return_url, safe='')}"


def refund(request: RefundRequest, total: Money) -> dict[str, Any]:
    """Return the body of a refund; ``total`` is the amount of the payment."""
    body: dict[str, Any] = {
        "out_trade_no": request.attempt_id,
        "out_refund_no": request.refund_id,
        "notify_url": request.callback_url,
        "amount": {"refund": request.amount.minor, "total": total.minor, "currency": CURRENCY},
    }
    if reason := _cut(request.reason, _MOST_REASON):
        body["reason"] = reason
    return body


def china_time(ms: int) -> str:
    """Return Unix milliseconds as RFC 3339 in China's time zone, in whole seconds."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).astimezone(_CHINA)
    return moment.isoformat(timespec="seconds")


def is_success(status: int) -> bool:
    """Whether an HTTP status means that WeChat Pay processed the request."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def printable(text: str) -> str:
    """Replace characters that cannot be shown by spaces, and collapse spaces."""
    plain = text.encode(errors="replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


def _cut(text: str, most_bytes: int) -> str:
    return printable(text).encode()[:most_bytes].decode(errors="ignore").strip()


def _reference(text: str) -> str:
    return text if _REFERENCE.fullmatch(text) else ""


def _state(state: str) -> str:
    return state.lower() if _CODE.fullmatch(state) else "an unreadable state"
