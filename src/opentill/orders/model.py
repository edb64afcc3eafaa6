"""Orders, payment attempts, and the table of an order's transitions."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, Literal, get_args

import msgspec

from opentill import webhooks
from opentill.core.links import safe_url
from opentill.gateways.model import Method
from opentill.ledger import Type as PostingType
from opentill.orders.statuses import (
    ClosedAs,
    RefundProgress,
    ShownStatus,
    Status,
    refund_progress,
    shown_status,
)

SessionStatus = Literal["OPEN", "COMPLETE", "EXPIRED"]
Source = Literal["API", "EPAY"]
RefundState = Literal["NONE", "PARTIAL", "FULL"]
Calendar = Literal["EVERY_DAY", "WEEKDAYS"]
ReserveStatus = Literal["NONE", "HELD", "OFFSET", "RELEASED"]
AttemptStatus = Literal[
    "SUBMITTED",
    "ACTION_REQUIRED",
    "PENDING",
    "SUCCEEDED",
    "DECLINED",
    "REFUSED",
    "VOIDED",
    "DUPLICATE",
    "GIVEN_BACK",
]
Event = Literal[
    "submitted",
    "accepted",
    "declined",
    "refused",
    "confirmed",
    "voided",
    "expired",
    "refunded_in_full",
    "refund_reversed",
    "settled",
    "carried_over",
    "disputed",
    "dispute_won",
    "dispute_lost",
    "recovered",
]
DAY_MS: Final = 86_400_000
OPERATOR: Final = "manual"  # the name of the gateway whose payments an operator confirms
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
PAYABLE: Final[tuple[Status, ...]] = ("PENDING", "CREATING")
EVENTS: Final[tuple[Event, ...]] = get_args(Event)


class Transition(msgspec.Struct, frozen=True):
    """One allowed transition of an order. ``emits`` are the events for the merchant.

    ``postings`` are the types that it may post; which of them it posts depends on the order: no FEE
    without a fee, no UNFREEZE if nothing was frozen. ``session`` is the new status of the order's
    session if that is OPEN; None: unchanged.
    """

    source: Status
    event: Event
    target: Status
    postings: tuple[PostingType, ...] = ()
    session: SessionStatus | None = None
    emits: tuple[webhooks.Type, ...] = ()


_RECEIVED: Final = ("PAYMENT", "FEE")
# FREEZE and UNFREEZE are needed if the remainder to carry over is below zero
# (``settlement.movements``).
_CARRIED: Final = ("SETTLEMENT", "FREEZE", "UNFREEZE")
_SETTLED: Final = (*_CARRIED, "ROLLING_RESERVE")
_RECOVERED: Final = ("CHARGEBACK_RECOVERY", "ROLLING_RESERVE_RECOVERY")
_LOST: Final = (
    "UNFREEZE",
    "CHARGEBACK",
    "CHARGEBACK_FEE",
    "ROLLING_RESERVE_OFFSET",
    # Releases what is left of the reserve after the loss was charged to it.
    "ROLLING_RESERVE_RELEASE",
)

_CLOSED: Final = ("order.closed", "checkout.expired")
_PAID: Final = ("order.paid", "checkout.completed")

# All transitions that can happen (contract.md#order-transitions, contract.md#event-emitted).
TRANSITIONS: Final = (
    #    source      event               target      postings   session     emits
    Transition("PENDING", "submitted", "CREATING"),
    Transition("CREATING", "accepted", "PENDING"),
    Transition("CREATING", "declined", "PENDING"),
    Transition("CREATING", "refused", "FAILED", (), "EXPIRED", _CLOSED),
    Transition("PENDING", "refused", "FAILED", (), "EXPIRED", _CLOSED),
    Transition("CREATING", "confirmed", "PAID", _RECEIVED, "COMPLETE", _PAID),
    Transition("PENDING", "confirmed", "PAID", _RECEIVED, "COMPLETE", _PAID),
    Transition("CREATING", "voided", "REVOKED", (), "EXPIRED", _CLOSED),
    Transition("PENDING", "voided", "REVOKED", (), "EXPIRED", _CLOSED),
    Transition("PENDING", "expired", "CLOSED", (), "EXPIRED", _CLOSED),
    Transition("CLOSED", "confirmed", "PAID", _RECEIVED, emits=("order.paid",)),
    Transition("FAILED", "confirmed", "PAID", _RECEIVED, emits=("order.paid",)),
    Transition("PAID", "settled", "SETTLED", _SETTLED, emits=("order.settled",)),
    Transition("REFUNDED", "carried_over", "REFUNDED", _CARRIED),
    Transition("CHARGEBACK", "carried_over", "CHARGEBACK", _CARRIED),
    Transition("PAID", "refunded_in_full", "REFUNDED"),
    Transition("SETTLED", "refunded_in_full", "REFUNDED"),
    # To SETTLED if the order had settled or its remainder was carried over before, else to PAID.
    Transition("REFUNDED", "refund_reversed", "SETTLED", emits=("order.settled",)),
    Transition("REFUNDED", "refund_reversed", "PAID"),
    Transition("PAID", "disputed", "DISPUTED"),
    Transition("SETTLED", "disputed", "DISPUTED", ("FREEZE",)),
    Transition("DISPUTED", "dispute_won", "PAID"),
    Transition("DISPUTED", "dispute_won", "SETTLED", ("UNFREEZE",)),
    Transition("DISPUTED", "dispute_lost", "CHARGEBACK", _LOST),
    # This transition and the reversal to SETTLED emit `order.settled` only if the order has never
    # been settled before.
    Transition("CHARGEBACK", "recovered", "SETTLED", _RECOVERED, emits=("order.settled",)),
    # Of an order that was paid to the merchant directly, and never settles.
    Transition("CHARGEBACK", "recovered", "PAID"),
)
# Of several rows of a status and event, the first counts unless ``Change.back_to`` names another.
BY_EVENT: Final = {(row.source, row.event): row for row in reversed(TRANSITIONS)}
# By event and target: transitions that set an order back to its earlier status, PAID or SETTLED.
TRANSITIONS_BACK: Final[dict[tuple[Event, Status], Transition]] = {
    (row.event, row.target): row
    for row in TRANSITIONS
    if row.event in ("dispute_won", "refund_reversed", "recovered")
}

# Gateways report in responses, callbacks and results of queries. A report that money was received
# is applied unless the attempt is FINAL, any other report only while the attempt is UNDECIDED.
UNDECIDED: Final[tuple[AttemptStatus, ...]] = ("SUBMITTED", "ACTION_REQUIRED", "PENDING")
FINAL: Final[tuple[AttemptStatus, ...]] = ("SUCCEEDED", "DUPLICATE", "GIVEN_BACK")


class PlacedOrder(msgspec.Struct, frozen=True):
    """The fields that an order has when it is placed; amounts in minor units."""

    merchant_id: str
    id: str
    product_id: str
    product_name: str
    product_description: str
    product_image: str | None
    source: Source
    currency: str
    amount_minor: int
    platform_fee_rate: Decimal
    platform_fee_minor: int
    settled_currency: str
    exchange_rate: Decimal
    usd_exchange_rate: Decimal | None  # None: unknown, so that a refund uses the newest rate
    gross_settled_minor: int
    net_settled_minor: int
    refund_fee_policy: Literal["KEPT", "RETURNED"]
    customer_email: str
    customer_name: str | None
    reserve_rate: Decimal
    reserve_days: int
    metadata: str
    terms_version: int
    fees: str
    settlement_delay_days: int
    settlement_calendar: Calendar
    dispute_fee_minor: int
    quantity: int | None  # None stands for 1
    client_reference: str | None  # the shop's own number of the order; None if it has none


class Order(PlacedOrder, frozen=True):
    """An order as it is stored; amounts in minor units."""

    checkout_id: str
    status: Status
    history_number: int
    hkd_exchange_rate: Decimal | None
    payment_method: Method | None
    paid_attempt_id: str | None
    payer_ip: str
    paid_at: int | None
    settled_at: int | None
    refunded_minor: int
    refund_held_minor: int
    refund_debit_minor: int
    reserve_minor: int
    reserve_status: ReserveStatus
    reserve_release_at: int | None
    created_at: int
    updated_at: int
    charged_back_minor: int
    due_at: int | None
    settle_at: int | None
    livemode: bool | None  # whether the payment is real money; None: see orders/livemode.py
    payment_link_id: str | None  # the link that opened the session; None if no link did
    refund_failed: bool = False  # whether a refund has failed and nobody has handled it
    closed_as: ClosedAs | None = None  # None: its time ended, or it is not CLOSED
    attempt_failed: bool = False  # whether the last attempt failed; False once it cannot be paid
    # Whether the provider paid the merchant, so it never settles. False before the payment.
    paid_directly: bool = False
    imported: bool = False  # from another server: the opening balance contains its payment

    @property
    def is_over(self) -> bool:
        """Whether no further payment is expected: the order is paid, closed or revoked."""
        return self.status not in ("CREATING", "PENDING")

    @property
    def unsettled_minor(self) -> int:
        """How much of an unsettled order's payment is in pending, in the settled currency.

        The amount is below zero if refunds and losses took more than the payment less its fee.
        """
        if self.paid_directly:
            return 0
        return self.net_settled_minor - self.refund_debit_minor - self.charged_back_minor

    @property
    def account(self) -> Literal["pending", "available"]:
        """The account with the order's money: refunds debit it, and failed refunds credit it."""
        if self.paid_directly:  # in none; its refunds debit nothing
            return "pending"
        is_carried = self.status in ("REFUNDED", "CHARGEBACK") and self.settle_at is None
        return "pending" if self.settled_at is None and not is_carried else "available"

    @property
    def refund_status(self) -> RefundState:
        """How much of the order is refunded, counting refunds that succeeded."""
        if not self.refunded_minor:
            return "NONE"
        return "FULL" if self.refunded_minor == self.amount_minor else "PARTIAL"

    @property
    def refund_progress(self) -> RefundProgress | None:
        """What matters most about the order's refunds; None: it has none, or they are complete."""
        return refund_progress(
            self.amount_minor,
            self.refunded_minor,
            self.refund_held_minor,
            has_failed=self.refund_failed,
        )

    @property
    def shown_status(self) -> ShownStatus:
        """The status that pages show in lists, filters and counts."""
        return shown_status(
            self.status,
            self.refund_progress,
            self.closed_as,
            attempt_failed=self.attempt_failed,
        )

    @property
    def shown_besides_refunds(self) -> ShownStatus:
        """The status that pages show, whatever the order's refunds did."""
        return shown_status(self.status, None, self.closed_as, attempt_failed=self.attempt_failed)


class NewOrder(PlacedOrder, frozen=True, kw_only=True):
    """A new order, whose id is ``order_id``, and its session, whose id is ``id``."""

    order_id: str
    success_url: str | None
    cancel_url: str | None
    display_merchant_name: str
    expires_at: int
    method: Method | None
    methods: Sequence[Method] | None  # the allowed payment methods; None: all offered methods
    locale: str | None


class PaymentAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try to pay an order through one gateway with one payment method."""

    merchant_id: str
    id: str
    order_id: str
    gateway: str
    method: Method
    status: AttemptStatus
    amount_minor: int
    currency: str
    provider_ref: str
    action_url: str
    qr_text: str
    reason: str
    locale: str
    payer_ip: str
    check_at: int | None
    checks: int
    created_at: int
    updated_at: int
    asked_at: int | None = None  # when the gateway was last queried, Unix ms; None: never
    # Start of the quarter hour that counts its failure (Unix ms). None: not counted; 0: not to be
    # counted, because the customer canceled it.
    counted_at: int | None = None
    card_brand: str | None = None  # of the card that paid; None: the gateway did not report it
    card_last4: str | None = None
    # The day (its beginning, Unix ms) to whose total at the account the attempt was added; None:
    # the account had no day limit.
    limit_day: int | None = None
    limit_released: bool = False  # whether it was removed from the total again
    # The fee that it takes from its merchant's prepaid balance if it is paid, in the settled
    # currency; None: the money goes to the operator. ``prepaid_held``: whether it is reserved.
    prepaid_minor: int | None = None
    prepaid_held: bool = False
    direct_counted_at: int | None = None  # like ``counted_at``, of a direct payment
    # Why it went to its gateway: JSON of a ``gateways.choice.RouteReason``; None: nobody chose.
    route: str | None = None

    def waits_for_customer(self, method: str) -> bool:
        """Whether a customer who chooses this method continues with this attempt.

        They cannot without a page to open or a code to scan, as when the gateway's response was
        lost. If such an attempt is paid after all, it pays the order or its money is sent back.
        """
        has_action = bool(safe_url(self.action_url) or self.qr_text)
        return self.status == "ACTION_REQUIRED" and self.method == method and has_action


class NewAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A payment attempt to be stored; ``check_at`` is when it is first queried, Unix ms."""

    merchant_id: str
    id: str
    order_id: str
    gateway: str
    method: Method
    status: AttemptStatus
    amount_minor: int
    currency: str
    locale: str
    payer_ip: str
    check_at: int | None
    limit_day: int | None = None  # only if the account has a day limit
    route: str | None = None  # as in PaymentAttempt
    prepaid_minor: int | None = None  # as in PaymentAttempt


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of an order's history."""

    number: int
    at: int
    event: str
    from_status: Status | None
    to_status: Status
    cause: str


def due_at(paid_at: int, delay_days: int, calendar: Calendar) -> int:
    """Return when an order settles (Unix ms): ``delay_days`` days or weekdays (UTC) later."""
    if calendar == "EVERY_DAY":
        return paid_at + delay_days * DAY_MS
    due, days = paid_at, delay_days
    while days or _is_weekend(due):
        due += DAY_MS
        days -= days > 0 and not _is_weekend(due)
    return due


def _is_weekend(millis: int) -> bool:
    return (millis // DAY_MS + 3) % 7 >= 5  # noqa: PLR2004 - 1970-01-01 was a Thursday


_PREFIX: Final = "order"


def trade_no(order_id: str) -> str:
    """Return an order's id in letters and digits only, as Epay shops know it."""
    return order_id.replace("_", "")


def order_id_of(number: str) -> str:
    """Return the order id of a ``trade_no``, "" for text that is no ``trade_no``."""
    suffix = number.removeprefix(_PREFIX)
    return f"{_PREFIX}_{suffix}" if suffix != number else ""


def parse_order_id(text: str) -> str:
    """Return the id of an order from its id or its ``trade_no``."""
    return text if "_" in text else order_id_of(text)


class PaidThrough(msgspec.Struct, frozen=True):
    """A payment attempt's id and its gateway."""

    id: str
    gateway: str


class Transitioned(msgspec.Struct, frozen=True):
    """An order that has taken a transition."""

    merchant_id: str
    id: str


class DueMerchant(msgspec.Struct, frozen=True):
    """A merchant with orders that are due to settle, and how many."""

    merchant_id: str
    orders: int


class Forgotten(msgspec.Struct, frozen=True):
    """An order that is CREATING though none of its attempts is to be queried."""

    merchant_id: str
    id: str


class HistoryPart(msgspec.Struct, frozen=True):
    """A part of a merchant's history: its number of rows, the last order in it, and old orders.

    ``old`` are the ids of orders whose last change is old enough, so that they may have rows to
    delete.
    """

    rows: int
    last: str
    old: list[str]


class OrderNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note about an order, written at ``at`` (Unix ms)."""

    merchant_id: str
    order_id: str
    number: int
    at: int
    who: str
    note: str
    by_merchant: bool  # whether a member of the merchant wrote it; False: the operator did


class ProductSum(msgspec.Struct, frozen=True):
    """The paid orders of a product in one currency."""

    currency: str
    orders: int
    amount_minor: int
