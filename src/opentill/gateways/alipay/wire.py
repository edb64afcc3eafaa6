"""Alipay's Open Platform on the wire: products, requests, responses and their meaning.

Sources: the documents of opendocs.alipay.com named below (``alipay.trade.page.pay``, ``wap.pay``,
``precreate``, ``query``, ``close``, ``refund``, ``fastpay.refund.query``, "公共错误码"), and the
models of alipay-sdk-java-all.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, Literal, get_args

import msgspec

from opentill.core.links import safe_url
from opentill.core.money import Money, parse
from opentill.gateways.model import (
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
)

CURRENCY: Final = "CNY"
Product = Literal["page", "wap", "precreate"]
PRODUCTS: Final[tuple[Product, ...]] = get_args(Product)
_METHODS: Final[dict[Product, str]] = {
    "page": "alipay.trade.page.pay",
    "wap": "alipay.trade.wap.pay",
    "precreate": "alipay.trade.precreate",
}
# The product codes of 电脑网站支付 and 手机网站支付. That of precreate, 当面付, is its default.
_PRODUCT_CODES: Final[dict[Product, str]] = {
    "page": "FAST_INSTANT_TRADE_PAY",
    "wap": "QUICK_WAP_WAY",
}
# Which products suit the customer's device, the best ones first.
_ON_PHONE: Final[tuple[Product, ...]] = ("wap", "page", "precreate")

# Alipay's times are those of China, without daylight saving time.
_CHINA: Final = timezone(timedelta(hours=8))
# A QR code can be scanned for two hours, whatever the request says (alipay.trade.precreate). We use
# the same time for pages, so that it is known when an attempt can no longer be paid.
LIFETIME_MS: Final = 2 * 3600 * 1000
# After the end of its lifetime, an attempt that Alipay does not know can no longer become known.
# The margin is for clocks that differ and for a page that is being opened.
GONE_AFTER_MS: Final = LIFETIME_MS + 900 * 1000
_MIN_LIFETIME_MS: Final = 60 * 1000

SUCCESS: Final = "10000"
BUSINESS_FAILED: Final = "40004"
# Codes of requests that Alipay refused before it processed them: missing or invalid parameters,
# signature, permission or authorization (公共错误码). 20000 means that the service failed, which
# leaves the result open, and 40004 that the business refused, for which ``sub_code`` counts.
UNPROCESSED: Final = frozenset({"20001", "40001", "40002", "40003", "40006"})
NO_TRADE: Final = "ACQ.TRADE_NOT_EXIST"
# Codes of precreate that mean that Alipay has the trade already: its state decides.
TRADE_EXISTS: Final = frozenset(
    {"ACQ.TRADE_HAS_SUCCESS", "ACQ.TRADE_HAS_CLOSE", "ACQ.CONTEXT_INCONSISTENT"}
)
# Codes of errors of Alipay's systems, after which the result is open. The second one is in Alipay's
# documents, with its spelling.
SYSTEM_ERRORS: Final = frozenset(
    {"ACQ.SYSTEM_ERROR", "AQC.SYSTEM_ERROR", "ACQ.UNKNOWN_ERROR", "SYSTEM_ERROR"}
)
# Codes by which alipay.trade.refund refuses a refund, according to its document. Other codes, such
# as ACQ.DISCORDANT_REPEAT_REQUEST, leave the result open.
REFUND_REFUSALS: Final = frozenset(
    {
        "ACQ.INVALID_PARAMETER",
        "ACQ.SELLER_BALANCE_NOT_ENOUGH",
        "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL",
        "ACQ.REASON_TRADE_BEEN_FREEZEN",
        "ACQ.REASON_TRADE_REFUND_FEE_ERR",
        "ACQ.REASON_TRADE_STATUS_INVALID",
        "ACQ.TRADE_NOT_EXIST",
        "ACQ.TRADE_HAS_FINISHED",
        "ACQ.TRADE_STATUS_ERROR",
        "ACQ.TRADE_HAS_CLOSE",
        "ACQ.TRADE_NOT_ALLOW_REFUND",
        "ACQ.REFUND_FEE_ERROR",
        "ACQ.NOT_ALLOW_PARTIAL_REFUND",
        "ACQ.ONLINE_TRADE_VOUCHER_NOT_ALLOW_REFUND",
        "ACQ.BUYER_ENABLE_STATUS_FORBID",
        "ACQ.BUYER_NOT_EXIST",
        "ACQ.USER_NOT_MATCH_ERR",
        "ACQ.OVERDRAFT_AGREEMENT_NOT_MATCH",
        "ACQ.OVERDRAFT_ASSIGN_ACCOUNT_INVALID",
        "ACQ.REFUND_ROYALTY_PAYEE_ACCOUNT_NOT_EXIST",
        "ACQ.REFUND_ACCOUNT_NOT_EXIST",
        "ACQ.REQUEST_AMOUNT_EXCEED",
    }
)
REFUND_SUCCESS: Final = "REFUND_SUCCESS"
CLOSED: Final = "trade_closed"  # the reason of an attempt whose trade was closed unpaid

_MOST_SUBJECT: Final = 128  # characters; Alipay accepts 256
_MOST_REASON: Final = 200
_MOST_SUMMARY: Final = 200
# Alipay asks not to use these in ``subject`` (alipay.trade.precreate).
_SPECIAL: Final = str.maketrans({"/": "-", "=": "-", "&": "+"})
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,2}))?", re.ASCII)
_TRADE_NO: Final = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
_CODE: Final = re.compile(r"[0-9A-Za-z._-]{1,64}", re.ASCII)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The node of a response: a common part, and fields of the methods that we call."""

    code: str
    msg: str = ""
    sub_code: str = ""
    sub_msg: str = ""
    out_trade_no: str = ""
    trade_no: str = ""
    # precreate
    qr_code: str = ""
    # query
    trade_status: str = ""
    total_amount: str = ""
    send_pay_date: str = ""  # when it was paid, "" unless it was
    # refund: Y if this request moved the money; N or nothing if a query decides
    fund_change: str = ""
    # refund query
    out_request_no: str = ""
    refund_amount: str = ""
    refund_status: str = ""  # REFUND_SUCCESS, or "" if there is no such refund or it failed

    # the link of a bill
    bill_download_url: str = ""

    @property
    def is_success(self) -> bool:
        """Whether Alipay processed the request, which does not mean that money moved."""
        return self.code == SUCCESS

    @property
    def summary(self) -> str:
        """The codes and Alipay's message, truncated.

        Messages about requests that were not processed (``isv.…``) are left out, because they may
        quote the request.
        """
        message = "" if self.code in UNPROCESSED else self.sub_msg or self.msg
        text = f"{self.code} {self.sub_code} {message}"
        return "".join(c for c in text if c.isprintable())[:_MOST_SUMMARY].strip()


class Envelope(msgspec.Struct, frozen=True):
    """A response whose signature is not verified yet; ``node`` has its exact bytes."""

    node: bytes
    sign: str
    cert_sn: str


def read_envelope(body: bytes, method: str) -> Envelope | None:
    """Return the node of a method's response, None if the body is not in Alipay's format."""
    try:
        parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        sign = _text(parts.get("sign"))
        cert_sn = _text(parts.get("alipay_cert_sn"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    node = parts.get(method.replace(".", "_") + "_response") or parts.get("error_response")
    return None if node is None else Envelope(bytes(node), sign, cert_sn)


def _text(raw: msgspec.Raw | None) -> str:
    return "" if raw is None else msgspec.json.decode(raw, type=str)


def read_reply(node: bytes) -> Reply | None:
    """Return a node as a reply, None if it is not in Alipay's format."""
    try:
        return msgspec.json.decode(node, type=Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def codes_of(node: bytes) -> str:
    """Return the codes of a node that nobody signed, for messages only; "" if it has none."""
    reply = read_reply(node)
    codes = () if reply is None else (reply.code, reply.sub_code)
    return " ".join(code for code in codes if _CODE.fullmatch(code))


def choose(products: Sequence[Product], *, on_phone: bool) -> Product:
    """Return the product for the customer's device.

    On a computer it is the first configured one that is not for phones only.
    """
    if on_phone:
        return next(product for product in _ON_PHONE if product in products)
    for_computers: list[Product] = [product for product in products if product != "wap"]
    return for_computers[0] if for_computers else products[0]


def method_of(product: Product) -> str:
    """Return the API of a product."""
    return _METHODS[product]


def order(request: PaymentRequest, product: Product, now_ms: int) -> dict[str, str]:
    """Return the content of a request that opens a trade.

    ``out_trade_no`` is the attempt's id: the same id with the same content is the same trade.
    """
    ends_at = now_ms + LIFETIME_MS
    if request.expires_at is not None:
        ends_at = min(ends_at, max(request.expires_at, now_ms + _MIN_LIFETIME_MS))
    content = {
        "out_trade_no": request.attempt_id,
        "total_amount": request.amount.text,
        "subject": subject(request.description),
        "time_expire": china_time(ends_at),
    }
    if product in _PRODUCT_CODES:
        content["product_code"] = _PRODUCT_CODES[product]
    if product == "wap":
        content["quit_url"] = request.return_url
    return content


def refund(request: RefundRequest) -> dict[str, str]:
    """Return the content of a refund. ``out_request_no`` is our id, which makes it idempotent."""
    content = {
        "out_trade_no": request.attempt_id,
        "refund_amount": request.amount.text,
        "out_request_no": request.refund_id,
    }
    if reason := _printable(request.reason)[:_MOST_REASON]:
        content["refund_reason"] = reason
    return content


def subject(description: str) -> str:
    """Return a description without characters that Alipay does not accept."""
    return _printable(description).translate(_SPECIAL)[:_MOST_SUBJECT].strip() or "-"


def _printable(text: str) -> str:
    plain = text.encode(errors="replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


def china_time(ms: int) -> str:
    """Return Unix milliseconds as Alipay writes times."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(_CHINA):%Y-%m-%d %H:%M:%S}"


def amount(text: str) -> Money | None:
    """Read an amount in yuan, None if it is not one."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    try:
        return Money(parse(f"{match[1]}.{match[2] or '0'}", CURRENCY), CURRENCY)
    except ValueError:
        return None


def payment(trade_status: str, total: str, trade_no: str, *, was_paid: bool) -> PaymentOutcome:
    """Return the outcome of a trade.

    WAIT_BUYER_PAY: the customer has opened it. TRADE_SUCCESS: it is paid and can be refunded.
    TRADE_FINISHED: it is paid, and the time for refunds is over. TRADE_CLOSED: it was never paid,
    or it was paid and all of it was refunded, which ``was_paid`` distinguishes.
    """
    reference = trade_no if _TRADE_NO.fullmatch(trade_no) else ""
    if trade_status in ("TRADE_SUCCESS", "TRADE_FINISHED") or (
        trade_status == "TRADE_CLOSED" and was_paid
    ):
        paid = amount(total)
        if paid is None:
            return PaymentOutcome(status="UNKNOWN", reason="a payment without a readable amount")
        return PaymentOutcome(
            status="SUCCEEDED",
            provider_ref=reference,
            amount=paid,
            method="ALIPAY",
            clearing_currency=CURRENCY,
        )
    if trade_status == "TRADE_CLOSED":
        return PaymentOutcome(status="DECLINED", provider_ref=reference, reason=CLOSED)
    if trade_status == "WAIT_BUYER_PAY":
        return PaymentOutcome(status="ACTION_REQUIRED", provider_ref=reference)
    status = trade_status if _CODE.fullmatch(trade_status) else "unreadable"
    return PaymentOutcome(status="UNKNOWN", reason=f"trade_status is {status}")


OTHER_PAYMENT: Final = PaymentOutcome(
    status="UNKNOWN", reason="the response is about another payment"
)


def precreated(reply: Reply, attempt_id: str) -> PaymentOutcome:
    """Return the outcome of precreate, after which Alipay has no such trade yet.

    Without a code nobody can pay, so that any refusal is DECLINED.
    """
    if reply.is_success:
        if reply.out_trade_no != attempt_id:
            return OTHER_PAYMENT
        code = safe_url(reply.qr_code)
        if not code:
            return PaymentOutcome(status="UNKNOWN", reason="a response without a QR code")
        return PaymentOutcome(status="ACTION_REQUIRED", qr_text=code)
    is_refusal = reply.code == BUSINESS_FAILED and reply.sub_code not in {"", *SYSTEM_ERRORS}
    if is_refusal or reply.code in UNPROCESSED:
        return PaymentOutcome(status="DECLINED", reason=reply.summary)
    return PaymentOutcome(status="UNKNOWN", reason=reply.summary)


def refunded(reply: Reply, attempt_id: str) -> RefundOutcome:
    """Return the outcome of a refund; a query must confirm PENDING and REFUSED.

    PENDING: this request did not move the money (``fund_change``), because an earlier one did, or
    because Alipay is still working on it.
    """
    if reply.is_success:
        if reply.out_trade_no not in ("", attempt_id):
            return RefundOutcome(status="UNKNOWN", reason=OTHER_PAYMENT.reason)
        return RefundOutcome(status="SUCCEEDED" if reply.fund_change == "Y" else "PENDING")
    status: RefundStatus = "UNKNOWN"
    if reply.code in UNPROCESSED:
        status = "UNREACHABLE"
    elif reply.sub_code in REFUND_REFUSALS:
        status = "REFUSED"
    return RefundOutcome(status=status, reason=reply.summary)


def notified_payment(params: Mapping[str, str]) -> PaymentOutcome:
    """Return the outcome in a notification; ``gmt_payment`` is set if the trade was paid."""
    return payment(
        params.get("trade_status", ""),
        params.get("total_amount", ""),
        params.get("trade_no", ""),
        was_paid=bool(params.get("gmt_payment")),
    )
