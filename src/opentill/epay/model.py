"""The words of the Epay API: codes, payment types, statuses, and what is stored of an order.

The convention is Epay V1 (the "rainbow" servers); what it leaves open is decided in
docs/decisions/0022-epay-api.md.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from opentill import merchants
from opentill.core.payment_methods import Method
from opentill.orders import Status
from opentill.orders.model import order_id_of as order_id_of  # noqa: PLC0414 - the convention's
from opentill.orders.model import trade_no as trade_no  # noqa: PLC0414 - the convention's

Type = Literal["", "alipay", "wxpay", "creditcard", "crypto", "paynow", "bank"]  # that are ours
Result = dict[str, Any] | str  # a JSON object, or the address that the browser is sent to
State = Literal["ENABLED", "DISABLED"]
NoticeState = Literal["WAITING", "DELIVERED", "FAILED"]
TradeStatus = Literal["TRADE_SUCCESS", "WAIT_BUYER_PAY", "TRADE_CLOSED"]

# Response codes.
SUCCESS: Final = 1
REFUNDED: Final = 0  # to the usual server as a client, which takes 1 for a failed refund
BUSINESS: Final = -1  # a business rule, and whatever goes wrong with us
NOT_ENABLED: Final = -2
WRONG_KEY: Final = -3  # unknown pid, wrong key, wrong sign: one code for all
MISSING: Final = -4
UNKNOWN_ACT: Final = -5

METHODS: Final[Mapping[str, Method]] = {
    "alipay": "ALIPAY",
    "wxpay": "WECHAT_PAY",
    "creditcard": "CREDIT_CARD",
    "crypto": "CRYPTO",
    "paynow": "PAYNOW",
    "bank": "BANK_TRANSFER",
}
TYPES: Final[Mapping[Method, str]] = {method: name for name, method in METHODS.items()}
# Payment types that an attempt is started for at once by mapi.php: their gateways give a QR text.
SCANNED: Final = frozenset({"alipay", "wxpay", "paynow", "crypto"})


class Standing(msgspec.Struct, frozen=True):
    """What an order's status is called here."""

    number: Literal[0, 1, 2, 3]
    trade_status: TradeStatus


_WAITS: Final = Standing(0, "WAIT_BUYER_PAY")
_OVER: Final = Standing(0, "TRADE_CLOSED")
_PAID: Final = Standing(1, "TRADE_SUCCESS")
_GIVEN_BACK: Final = Standing(2, "TRADE_CLOSED")
_FROZEN: Final = Standing(3, "TRADE_CLOSED")
STANDINGS: Final[Mapping[Status, Standing]] = {
    "PENDING": _WAITS,
    "CREATING": _WAITS,
    "FAILED": _OVER,
    "CLOSED": _OVER,
    "REVOKED": _OVER,
    "PAID": _PAID,
    "SETTLED": _PAID,
    "REFUNDED": _GIVEN_BACK,
    "CHARGEBACK": _GIVEN_BACK,
    "DISPUTED": _FROZEN,
}
PAYABLE: Final[tuple[Status, ...]] = ("PENDING", "CREATING")
PAID: Final[tuple[Status, ...]] = ("PAID", "SETTLED")


class Refused(Exception):
    """A request is refused with one of the codes above and a sentence for whoever reads it."""

    def __init__(self, code: int, message: str) -> None:
        """``message`` is in Chinese, which is what people who build Epay integrations read."""
        super().__init__(message)
        self.code = code
        self.message = message


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's Epay credentials as they are stored; the key is encrypted."""

    merchant_id: str
    pid: int
    sealed_key: bytes
    state: State
    created_at: int
    rotated_at: int | None
    updated_at: int


class EpayMerchant(Credentials, frozen=True, kw_only=True):
    """The merchant that a pid belongs to, with its Epay credentials."""

    name: str
    settlement_currency: str
    ip_allowlist: list[str]
    status: merchants.Status
    charge_off: str | None  # why it may not charge, None while it may


class NewCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials with the key, and where a client is pointed at: what its owner sets up."""

    merchant_id: str
    pid: int
    key: str
    state: State
    url: str


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What submit.php and mapi.php are asked for, checked."""

    out_trade_no: str
    type: str  # as it was requested, ours or not
    name: str
    money: str
    amount_minor: int
    money_type: str
    notify_url: str
    return_url: str
    param: str
    shown_name: str | None
    payer_ip: str
    device: str

    @property
    def method(self) -> Method | None:
        """The only payment method it may be paid by; None: the customer chooses."""
        return METHODS.get(self.type)

    @property
    def known_type(self) -> str:
        """The type if it is one of ours, otherwise ""."""
        return self.type if self.type in METHODS else ""

    @property
    def other_type(self) -> str | None:
        """The type if it is none of ours."""
        return None if self.type in METHODS else self.type or None


class PlacedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order that a submission came to."""

    order_id: str
    checkout_id: str
    merchant_name: str


class EpayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An Epay order as it was submitted, with what became of its order since."""

    merchant_id: str
    out_trade_no: str
    submission: int  # which order under its number it is, from 1
    order_id: str
    checkout_id: str
    type: Type
    requested_type: str | None  # one that is none of ours
    name: str
    money: str
    money_type: str
    notify_url: str
    return_url: str
    param: str
    created_at: int
    status: Status
    amount_minor: int
    paid_at: int | None
    payment_method: Method | None
    customer_email: str
    provider_ref: str  # the gateway's own name of the payment, "" while there is none

    @property
    def trade_no(self) -> str:
        """Our number of it: letters and digits only."""
        return trade_no(self.order_id)

    @property
    def asked_type(self) -> str:
        """The type as it was requested, "" if none was."""
        return self.requested_type or self.type

    @property
    def reported_type(self) -> str:
        """The type as it was requested or, if none was, by what the customer chose to pay."""
        return self.asked_type or (TYPES[self.payment_method] if self.payment_method else "")


class NumberedOrder(msgspec.Struct, frozen=True):
    """One of the orders under a number, and the session that it is paid in."""

    order_id: str
    checkout_id: str


class PaidTwice(msgspec.Struct, frozen=True, kw_only=True):
    """A number of which two orders are paid: the newer one, and the id of the one before."""

    merchant_id: str
    out_trade_no: str
    order_id: str
    amount_minor: int
    currency: str
    paid_at: int  # when the later of both payments came, Unix ms
    order_before: str


class EpayProduct(msgspec.Struct, frozen=True):
    """A product that a merchant's Epay orders in one currency stand on, and no others."""

    product_id: str


class PaidCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many orders there are that were placed on two UTC days and are paid."""

    paid_today: int
    paid_yesterday: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The notification that an order was paid, and what came of its last try."""

    merchant_id: str
    order_id: str
    state: NoticeState
    due_at: int | None
    tries: int
    result: str = msgspec.field(name="answer")  # of the last try, in a few words
    created_at: int
    updated_at: int


class NoticeOfOrder(Notice, frozen=True, kw_only=True):
    """A notification with the number that the shop gave its order."""

    out_trade_no: str
