"""The data of customers' pages as plain structs, and the page of each status of a payment.

Pages are rendered from these alone, so that tests can render each without a database. A status that
is missing in the tables below cannot be shown.
"""

from collections.abc import Mapping
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways.model import Method
from opentill.orders.model import AttemptStatus, SessionStatus
from opentill.orders.statuses import Status
from opentill.pages.labels import DECLINE_REASON
from opentill.receipts import model as receipts
from opentill.web import declines

State = Literal[
    "open", "stopped", "waiting", "paid", "refunded", "expired", "closed", "failed", "revoked"
]

_LONG_MS: Final = 20 * 3_600_000

METHODS: Final[tuple[Method, ...]] = (
    "CREDIT_CARD",
    "ALIPAY",
    "WECHAT_PAY",
    "PAYNOW",
    "CRYPTO",
    "BANK_TRANSFER",
)


class Item(msgspec.Struct, frozen=True):
    """The product, as the merchant describes it; ``image`` is an http(s) address or None."""

    name: str
    description: str
    image: str | None


class Brand(msgspec.Struct, frozen=True):
    """The merchant's branding; the page leaves out fields that are None."""

    logo: str | None = None  # the logo's path on this server
    accent: str | None = None  # the accent color, as #rrggbb
    email: str | None = None
    url: str | None = None
    terms: str | None = None


class Operator(msgspec.Struct, frozen=True):
    """The company that runs the deployment; ``contact_url`` is "" if the contact has no URL."""

    name: str
    address: str
    contact: str
    contact_url: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The last payment attempt: its status, and where the customer has to continue."""

    id: str
    status: AttemptStatus
    method: Method | None = None
    action_url: str = ""
    qr_text: str = ""
    reason: str = ""


class TokenAmount(msgspec.Struct, frozen=True):
    """How much of a token pays what is still due."""

    symbol: str
    text: str  # the amount, as wallets write it
    uri: str  # the text of the QR code


class Deposit(msgspec.Struct, frozen=True, kw_only=True):
    """The address to which the customer sends tokens, and what arrived there."""

    network: str
    address: str
    tokens: tuple[TokenAmount, ...]
    received: Money | None  # None: nothing so far


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """One checkout session with its order, as the customer may see it. Times are Unix ms."""

    session_id: str
    session_status: SessionStatus
    expires_at: int
    merchant: str
    item: Item
    amount: Money
    order_id: str
    order_status: Status
    success_url: str | None = None
    cancel_url: str | None = None
    email: str = ""
    email_optional: bool = False  # whether the customer may leave the email out, as in Epay orders
    name: str = ""
    paid_at: int | None = None
    zone: ZoneInfo = ZoneInfo("UTC")  # the customer's time zone if it is known, else the shop's
    method: Method | None = None
    card: str = ""  # brand and last four digits of the card that paid, "" if unknown
    refunded: Money | None = None
    livemode: bool = True  # whether the customer pays real money
    stopped: bool = False  # whether the merchant's capability ``charge`` is off
    methods: tuple[Method, ...] = ()
    wallet: str = ""  # the wallet that the page for cards takes too, "" if there is none
    attempt: Attempt | None = None
    brand: Brand = Brand()
    quantity: int = 1
    reference: str | None = None  # the shop's own number of the order, None if it has none

    def shows_time_left(self, now: int) -> bool:
        """Whether the page says how long it can be used, because that is less than 20 hours.

        WCAG 2.2 (2.2.1) does not count longer limits.
        """
        return self.expires_at - now < _LONG_MS

    @property
    def price(self) -> Money:
        """The price of a single item."""
        return Money(self.amount.minor // self.quantity, self.amount.currency)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A payment link, as the customer may see it. Amounts are for a single item."""

    slug: str
    state: str  # ACTIVE, or the reason why the link cannot be used
    merchant: str
    item: Item
    least: Money
    most: Money  # equal to ``least`` unless the customer enters the amount
    most_at_once: int = 1
    quantity: int = 1  # how many the customer has chosen so far
    reference: str | None = None
    # Id of an open session that this browser opened by the link; None: none.
    unfinished: str | None = None
    livemode: bool = True
    brand: Brand = Brand()
    # Methods of the payment form, if the link's page has it: only if the amount is certain.
    methods: tuple[Method, ...] = ()
    wallet: str = ""  # as in ``Payment``
    email_optional: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the customer enters the amount."""
        return self.least != self.most

    @property
    def price(self) -> Money:
        """The price of a single item, or the least that the customer may enter."""
        return self.least

    @property
    def amount(self) -> Money:
        """The price of the chosen quantity."""
        return Money(self.least.minor * self.quantity, self.least.currency)


class LinkEntries(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the form on a link's page."""

    quantity: str = "1"
    amount: str = ""
    form_id: str = ""
    email: str = ""
    name: str = ""
    method: str = ""


class Entries(msgspec.Struct, frozen=True):
    """The input of the payment form, which is shown again if it has errors."""

    email: str = ""
    name: str = ""
    method: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A paid session, its receipt, and the customer's time zone."""

    payment: Payment
    receipt: receipts.Receipt
    own_zone: ZoneInfo


# Order status → the state that the page shows once there is no payment form any more.
STATE_OF: Final[Mapping[Status, State]] = {
    "CREATING": "waiting",
    "PAID": "paid",
    "SETTLED": "paid",
    "DISPUTED": "paid",
    "REFUNDED": "refunded",
    "CHARGEBACK": "refunded",
    "CLOSED": "closed",
    "FAILED": "failed",
    "REVOKED": "revoked",
}

# In these statuses of an attempt, the customer waits for the bank.
AT_THE_BANK: Final = frozenset({"SUBMITTED", "PENDING", "SUCCEEDED"})
DECLINED: Final = frozenset({"DECLINED", "REFUSED", "VOIDED"})


def state_of(payment: Payment, now: int) -> State:
    """Return which page shows the payment; ``now`` is Unix ms."""
    if payment.order_status == "PENDING":
        if payment.attempt is not None and payment.attempt.status in AT_THE_BANK:
            return "waiting"
        has_ended = payment.session_status != "OPEN" or payment.expires_at <= now
        return "expired" if has_ended else "stopped" if payment.stopped else "open"
    if payment.order_status == "CLOSED" and payment.session_status == "EXPIRED":
        return "expired"
    return STATE_OF[payment.order_status]


def preselected(payment: Payment) -> str:
    """Return the method that the form selects: the last one chosen, else the first one offered."""
    chosen = payment.attempt.method if payment.attempt is not None else None
    if chosen in payment.methods:
        return chosen or ""
    return payment.methods[0] if payment.methods else ""


def decline_of(payment: Payment) -> str | None:
    """Return a text that says why the last attempt was declined, None if it was not."""
    attempt = payment.attempt
    if attempt is None or attempt.status not in DECLINED:
        return None
    return DECLINE_REASON[declines.reason_of(attempt.reason)]


def final_reason(payment: Payment) -> str | None:
    """Return why an order failed for good; None if the text would advise to try again."""
    reason = decline_of(payment)
    return None if reason == DECLINE_REASON["declined"] else reason


def unfinished(payment: Payment) -> Attempt | None:
    """Return the started attempt that the customer can still continue, None if there is none."""
    attempt = payment.attempt
    if attempt is None or attempt.status != "ACTION_REQUIRED":
        return None
    return attempt if safe_url(attempt.action_url) or attempt.qr_text else None
