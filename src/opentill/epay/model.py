"""Codes, payment types, statuses and stored rows of the Epay API.

The convention is Epay V1 (the "rainbow" servers); docs/decisions/0022-epay-api.md decides what it
leaves open.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from opentill import merchants
from opentill.core.payment_methods import Method
from opentill.orders import Status
from opentill.orders.model import order_id_of as order_id_of  # noqa: PLC0414 - the Epay name of an order is part of this interface
from opentill.orders.model import trade_no as trade_no  # noqa: PLC0414 - the Epay name of an order is part of this interface
from opentill.outgoing.faults import Fault

# The supported types; "" lets the customer choose.
Type = Literal["", "alipay", "wxpay", "creditcard", "crypto", "paynow", "bank"]
Result = dict[str, Any] | str  # a JSON object, or the address that the browser is sent to
State = Literal["ENABLED", "DISABLED"]
Versions = Literal["V1", "V2", "BOTH"]  # the versions of the Epay API that a merchant accepts
NoticeState = Literal["WAITING", "DELIVERED", "FAILED"]
TradeStatus = Literal["TRADE_SUCCESS", "WAIT_BUYER_PAY", "TRADE_CLOSED"]

VERSION_2: Final = 2
# Response codes.
SUCCESS: Final = 1
# The code of a successful act=refund. A rainbow server that is our client treats 1 as a failure.
REFUNDED: Final = 0
BUSINESS: Final = -1  # a business rule refused the request, or an internal error occurred
NOT_ENABLED: Final = -2
WRONG_KEY: Final = -3  # unknown pid, wrong key or wrong signature: the caller does not learn which
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
# Payment types for which mapi.php starts an attempt at once, because their gateways return a QR
# code.
SCANNED: Final = frozenset({"alipay", "wxpay", "paynow", "crypto"})


class EpayStatus(msgspec.Struct, frozen=True):
    """An order status in the Epay API: its number and its name."""

    number: Literal[0, 1, 2, 3]
    trade_status: TradeStatus


_UNPAID: Final = EpayStatus(0, "WAIT_BUYER_PAY")
_CLOSED: Final = EpayStatus(0, "TRADE_CLOSED")
_PAID: Final = EpayStatus(1, "TRADE_SUCCESS")
_REFUNDED: Final = EpayStatus(2, "TRADE_CLOSED")
_FROZEN: Final = EpayStatus(3, "TRADE_CLOSED")
STATUSES: Final[Mapping[Status, EpayStatus]] = {
    "PENDING": _UNPAID,
    "CREATING": _UNPAID,
    "FAILED": _CLOSED,
    "CLOSED": _CLOSED,
    "REVOKED": _CLOSED,
    "PAID": _PAID,
    "SETTLED": _PAID,
    "REFUNDED": _REFUNDED,
    "CHARGEBACK": _REFUNDED,
    "DISPUTED": _FROZEN,
}


class Refused(Exception):
    """A request is refused with one of the codes above and a message for the developer."""

    def __init__(self, code: int, message: str) -> None:
        """``message`` is in Chinese, the language of Epay integrators."""
        super().__init__(message)
        self.code = code
        self.message = message


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's stored Epay credentials; the key is encrypted."""

    merchant_id: str
    pid: int
    sealed_key: bytes
    state: State
    created_at: int
    rotated_at: int | None
    updated_at: int
    versions: Versions
    public_key: str | None  # the merchant's key for V2: SPKI in Base64, without PEM armour
    public_key_at: int | None


class PlatformKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key with which the platform signs for V2; the private half is encrypted."""

    number: int
    public_key: str
    sealed_key: bytes
    created_at: int


class NewKeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's new key pair for V2, in Base64 without PEM armour, with the platform's key."""

    merchant_id: str
    pid: int
    private_key: str
    public_key: str
    platform_public_key: str


class NewMerchantKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The pid and keys of a merchant of an old server."""

    merchant_id: str
    pid: int
    key: str
    versions: Versions
    public_key: str | None

    def __repr__(self) -> str:
        """Omit the key."""
        return f"NewMerchantKeys({self.pid})"


class EpayMerchant(Credentials, frozen=True, kw_only=True):
    """The merchant of a pid, with its Epay credentials."""

    name: str
    settlement_currency: str
    ip_allowlist: list[str]
    status: merchants.Status
    charge_off: str | None  # why the merchant may not take payments; None while it may


class NewCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials with the plain key and the base URL for the client's configuration."""

    merchant_id: str
    pid: int
    key: str
    state: State
    url: str


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A validated order submission of submit.php or mapi.php."""

    out_trade_no: str
    type: str  # as submitted, even if unsupported; "" lets the customer choose
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
    version: int = 1  # the version of the Epay API that it came by

    @property
    def method(self) -> Method | None:
        """The only payment method allowed; None: the customer chooses."""
        return METHODS.get(self.type)

    @property
    def supported_type(self) -> str:
        """The type if it is supported, otherwise ""."""
        return self.type if self.type in METHODS else ""

    @property
    def unsupported_type(self) -> str | None:
        """The type if it is not supported, otherwise None."""
        return None if self.type in METHODS else self.type or None


class PlacedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order of a submission, new or existing."""

    order_id: str
    checkout_id: str
    merchant_name: str


class EpayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An Epay order as it was submitted, with the present state of the order it placed."""

    merchant_id: str
    out_trade_no: str
    submission: int  # position among the merchant's orders with this out_trade_no, from 1
    version: int  # the version of the Epay API that placed it, and notifies its shop
    order_id: str
    checkout_id: str
    type: Type
    requested_type: str | None  # the submitted type if it is unsupported, otherwise None
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
    refunded_minor: int
    provider_ref: str  # the provider's id of the payment, "" before there is one
    old_trade_no: str | None = None  # the number that an old server gave it; None: not imported

    @property
    def trade_no(self) -> str:
        """The order's number in the Epay API: letters and digits only."""
        return self.old_trade_no or trade_no(self.order_id)

    @property
    def submitted_type(self) -> str:
        """The type as submitted, "" if none was."""
        return self.requested_type or self.type

    @property
    def reported_type(self) -> str:
        """The submitted type; if none was submitted, the type of the customer's payment method."""
        return self.submitted_type or (TYPES[self.payment_method] if self.payment_method else "")


class NumberedOrder(msgspec.Struct, frozen=True):
    """An order under an out_trade_no, and its checkout session."""

    order_id: str
    checkout_id: str


class PaidTwice(msgspec.Struct, frozen=True, kw_only=True):
    """An out_trade_no with two paid orders: the newer order, and the id of the older one."""

    merchant_id: str
    out_trade_no: str
    order_id: str
    amount_minor: int
    currency: str
    paid_at: int  # time of the later payment, Unix ms
    order_before: str


class EpayProduct(msgspec.Struct, frozen=True):
    """The product of a merchant's Epay orders in one currency; no other orders have it."""

    product_id: str


class PaidCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of paid orders placed today and yesterday, in the deployment's Epay time zone."""

    paid_today: int
    paid_yesterday: int


class PaidSums(PaidCounts, frozen=True, kw_only=True):
    """The same numbers with the sums of the orders in one currency, in minor units."""

    money_today: int
    money_yesterday: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The notification of a paid order, and the result of its last try."""

    merchant_id: str
    order_id: str
    state: NoticeState
    due_at: int | None
    tries: int
    result: str = msgspec.field(name="answer")  # the result of the last try, such as "HTTP 200"
    fault: Fault | None  # why the shop did not take it, or what is odd about its response
    created_at: int
    updated_at: int


class AddressToCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A server that notifications go to, and an order by which it can be checked."""

    server: str
    order_id: str


class EarlyNotice(Notice, frozen=True, kw_only=True):
    """A notification that is sent before its time, and when its next try was due."""

    due_before: int


class NoticeOfOrder(Notice, frozen=True, kw_only=True):
    """A notification, with the shop's number of its order."""

    out_trade_no: str
