"""What a customer's page shows, as plain structs, and which page a payment is at.

Pages are made from these alone, so that each can be drawn and tested without a database. The tables
below say which page belongs to which status; a status that is not in them cannot be shown.
"""

from collections.abc import Mapping
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways.model import Method
from opentill.pages.labels import DECLINE_REASON
from opentill.web import declines

State = Literal[
    "open", "stopped", "waiting", "paid", "refunded", "expired", "closed", "failed", "revoked"
]
Trouble = Literal["missing", "refused", "busy", "unavailable"]

METHODS: Final[tuple[Method, ...]] = (
    "CREDIT_CARD",
    "ALIPAY",
    "WECHAT_PAY",
    "PAYNOW",
    "CRYPTO",
    "BANK_TRANSFER",
)


class Item(msgspec.Struct, frozen=True):
    """What is bought, as the merchant describes it; ``image`` is an http(s) address or None."""

    name: str
    description: str
    image: str | None


class Brand(msgspec.Struct, frozen=True):
    """How the merchant presents itself beside its name; what is not there is not shown."""

    logo: str | None = None  # a path of ours
    accent: str | None = None  # #rrggbb
    email: str | None = None
    url: str | None = None
    terms: str | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The last try to pay: where it stands and where the customer has to go for it."""

    id: str
    status: str
    method: Method | None = None
    action_url: str = ""
    qr_text: str = ""
    reason: str = ""


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """One checkout session with its order, as the customer may see it. Times are Unix ms."""

    session_id: str
    session_status: str
    expires_at: int
    merchant: str
    item: Item
    amount: Money
    order_id: str
    order_status: str
    success_url: str | None = None
    cancel_url: str | None = None
    email: str = ""
    email_optional: bool = False  # the customer came by Epay, whose shops ask for none
    name: str = ""
    paid_at: int | None = None
    method: Method | None = None
    refunded: Money | None = None
    livemode: bool = True  # whether its money is real
    stopped: bool = False  # its merchant may not take payments now
    methods: tuple[Method, ...] = ()
    attempt: Attempt | None = None
    brand: Brand = Brand()
    quantity: int = 1
    reference: str | None = None  # the shop's own number

    @property
    def price(self) -> Money:
        """What one costs."""
        return Money(self.amount.minor // self.quantity, self.amount.currency)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A payment link, as its customer may see it; the amounts are of one."""

    slug: str
    state: str  # ACTIVE, or why it cannot be used
    merchant: str
    item: Item
    least: Money
    most: Money  # equal to the least unless the customer enters the amount
    most_at_once: int = 1
    reference: str | None = None
    unfinished: str | None = None  # a session of it that this browser has opened
    livemode: bool = True
    brand: Brand = Brand()

    @property
    def is_open(self) -> bool:
        """Whether the customer enters the amount."""
        return self.least != self.most

    @property
    def amount(self) -> Money:
        """What one costs, the least where the customer enters it."""
        return self.least

    @property
    def quantity(self) -> int:
        """One: the customer has not said how many."""
        return 1


class LinkEntries(msgspec.Struct, frozen=True, kw_only=True):
    """What the customer has entered on a link's page."""

    quantity: str = "1"
    amount: str = ""
    form_id: str = ""


class Entries(msgspec.Struct, frozen=True):
    """What the customer has typed and chosen; shown again when something is wrong with it."""

    email: str = ""
    name: str = ""
    method: str = ""


class GivenBack(msgspec.Struct, frozen=True):
    """A refund that succeeded, as what it took off the payment; ``at`` is Unix ms."""

    amount: Money
    at: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A paid session: what was paid, what was given back, and the zones that its times are in."""

    payment: Payment
    refunds: list[GivenBack]  # oldest first
    shop_zone: ZoneInfo
    own_zone: ZoneInfo  # the customer's
    card: str = ""  # that it was paid with, as people know it

    @property
    def kept(self) -> Money:
        """What is left of the payment."""
        given_back = self.payment.refunded.minor if self.payment.refunded else 0
        return Money(self.payment.amount.minor - given_back, self.payment.amount.currency)


# order status → page, once a payment has left the open form behind
PAGES: Final[Mapping[str, State]] = {
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

# attempt statuses with which the bank, not the customer, has the next word
AT_THE_BANK: Final = frozenset({"SUBMITTED", "PENDING", "SUCCEEDED"})
DECLINED: Final = frozenset({"DECLINED", "REFUSED", "VOIDED"})


def state_of(payment: Payment, now: int) -> State:
    """Say which page the payment is at; ``now`` is Unix ms."""
    if payment.order_status == "PENDING":
        if payment.attempt is not None and payment.attempt.status in AT_THE_BANK:
            return "waiting"
        over = payment.session_status != "OPEN" or payment.expires_at <= now
        return "expired" if over else "stopped" if payment.stopped else "open"
    if payment.order_status == "CLOSED" and payment.session_status == "EXPIRED":
        return "expired"
    return PAGES[payment.order_status]


def decline_of(payment: Payment) -> str | None:
    """Return the text that says why the last attempt did not go through, or None."""
    attempt = payment.attempt
    if attempt is None or attempt.status not in DECLINED:
        return None
    return DECLINE_REASON[declines.reason_of(attempt.reason)]


def unfinished(payment: Payment) -> Attempt | None:
    """Return the attempt that the customer has started and can still go on with, or None."""
    attempt = payment.attempt
    if attempt is None or attempt.status != "ACTION_REQUIRED":
        return None
    return attempt if safe_url(attempt.action_url) or attempt.qr_text else None
