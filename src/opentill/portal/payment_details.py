"""One payment with everything about it, read in one snapshot."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import (
    adjustments,
    checkouts,
    disputes,
    epay,
    ledger,
    mail,
    merchants,
    orders,
    refunds,
    webhooks,
)
from opentill.checkouts import Session
from opentill.context import App
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db import clock
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.epay import Notice
from opentill.gateways.model import Method
from opentill.ledger import Cause, Entry
from opentill.mail import Mail
from opentill.merchants import Merchant
from opentill.orders import HistoryRow, Order, OrderNote, PaymentAttempt, ShownStatus
from opentill.people import Access
from opentill.portal import member_names, unpaid
from opentill.portal.member_names import MemberNames
from opentill.portal.unpaid import Unpaid
from opentill.refunds import Refund
from opentill.web.language import Localizer
from opentill.webhooks import Endpoint, EventDelivery, OrderEvent

MOST_REFUNDS: Final = 100  # the page lists only this many refunds, the newest ones

# Status of an order and the event that changes it → how many webhook events the change emits.
_OF_DISPUTES: Final = Counter[str](row.order_event for row in disputes.TRANSITIONS)
_EMITTED: Final[dict[tuple[str | None, str], int]] = {
    (row.source, row.event): len(row.emits)
    + _OF_DISPUTES[row.event]
    + (row.event == "refund_reversed")
    for row in orders.TRANSITIONS
}
_REFUND_ENDS: Final = frozenset({"refund_succeeded", "refund_failed", "refund_reversed"})


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """An order with everything about it. A list is empty if the person lacks its permission.

    Attempts and history are oldest first, refunds and disputes newest first. ``more_refunds``:
    there are older refunds that are not listed.
    """

    merchant: Merchant
    order: Order  # ``livemode`` is never None here
    session: Session
    attempts: list[PaymentAttempt]
    refunds: list[Refund]
    more_refunds: bool
    disputes: list[Dispute]
    history: list[HistoryRow]
    entries: list[Entry]
    events: list[OrderEvent]
    deliveries: list[EventDelivery]
    endpoints: list[Endpoint]
    notes: list[OrderNote]
    mails: list[Mail]  # about the order, newest first; to customers and to members
    notice: Notice | None  # the notification of an Epay order; None for other orders
    names: MemberNames
    zone: ZoneInfo  # the time zone of the page

    @property
    def card(self) -> str:
        """The card that paid, or of the last attempt, as people know it; "" if unknown."""
        order = self.order
        attempt = next((one for one in self.attempts if one.id == order.paid_attempt_id), None)
        if order.paid_at is None and self.attempts:
            attempt = self.attempts[-1]
        card = attempt and orders.card_of_attempt(attempt)
        return orders.format_card(card) if card else ""

    @property
    def last_method(self) -> Method | None:
        """The payment method, of a payment that is not paid that of its last attempt."""
        last = self.attempts[-1] if self.attempts else None
        return self.order.payment_method or (last.method if last else None)

    @property
    def unpaid(self) -> Unpaid | None:
        """Why the payment is not paid; None if it was paid."""
        return unpaid.read(self.order, self.session, self.history, self.attempts)

    @property
    def shown_status(self) -> ShownStatus:
        """The status that pages show besides that of its refunds."""
        if self.order.paid_at is not None:
            return self.order.shown_besides_refunds
        return unpaid.shown_status(self.order, self.attempts[-1] if self.attempts else None)

    @property
    def left_minor(self) -> int:
        """The amount that can still be refunded, in minor units of the order's currency."""
        return refundable_minor(self.order)

    @property
    def open_dispute(self) -> Dispute | None:
        """The dispute that the bank has not decided; None also without the permission to see it."""
        return next((one for one in self.disputes if one.status == "OPEN"), None)

    @property
    def lost_dispute(self) -> Dispute | None:
        """The newest dispute if the bank decided it for the customer; None also without access."""
        newest = self.disputes[0] if self.disputes else None
        return newest if newest is not None and newest.status == "LOST" else None

    @property
    def held_for_dispute_minor(self) -> int | None:
        """The money that cannot be paid out before the dispute is decided, in settled currency.

        Settled money is frozen; an unsettled payment does not settle. None without an open dispute.
        """
        dispute = self.open_dispute
        return None if dispute is None else held_minor(dispute, self.order)

    @property
    def is_open(self) -> bool:
        """Whether the session is still open, so that it can be paid or expired."""
        return self.session.status == "OPEN" and self.order.status == "PENDING"


def held_minor(dispute: Dispute, order: Order) -> int:
    """Return the money that an open dispute holds, in minor units of the settled currency."""
    return dispute.debit_minor if dispute.disputed_from == "SETTLED" else order.unsettled_minor


def refundable_minor(order: Order) -> int:
    """Return the amount that can still be refunded, in minor units of the order's currency."""
    refundable = order.status in refunds.REFUNDABLE
    return order.amount_minor - order.refund_held_minor if refundable else 0


def amount_formatter(localizer: Localizer) -> Callable[[int, str], str]:
    """Return a function that formats minor units of a currency for the reader."""

    def format_amount(minor: int, currency: str) -> str:
        return localizer.amount(Money(minor, currency))

    return format_amount


async def read(app: App, access: Access, order_id: str, zone: ZoneInfo | None = None) -> Payment:
    """Read the parts of a payment that the person may see. Raises NotFound.

    ``zone`` is the time zone of the page; None: the merchant's.
    """
    merchant_id, settings = access.merchant_id, app.settings
    async with app.db.snapshot() as tx:
        order = await orders.find(tx, merchant_id, order_id)
        newest_refunds = await refunds.list_for_order(tx, merchant_id, order_id, MOST_REFUNDS + 1)
        listed_refunds = newest_refunds[:MOST_REFUNDS]
        history = await orders.history(tx, merchant_id, order_id)
        order_disputes = await disputes.list_for_order(tx, merchant_id, order_id)
        events, deliveries, endpoints = await _events(tx, settings, access, order_id, history)
        merchant = await merchants.find(tx, merchant_id)
        return Payment(
            merchant=merchant,
            order=await orders.with_livemode(tx, order, deployment=settings.livemode),
            session=await checkouts.find(tx, merchant_id, order.checkout_id),
            attempts=await orders.attempts(tx, merchant_id, order_id),
            refunds=listed_refunds,
            more_refunds=len(newest_refunds) > MOST_REFUNDS,
            disputes=order_disputes if access.may("disputes.read") else [],
            history=history,
            entries=await _entries(tx, access, order_id, listed_refunds, order_disputes),
            events=events,
            deliveries=deliveries,
            endpoints=endpoints,
            notes=await orders.notes_of(tx, order),
            mails=await mail.list_of_order(tx, merchant_id, order_id),
            notice=await _notice(tx, access, order),
            names=await member_names.read(tx, merchant_id),
            zone=zone or ZoneInfo(merchant.time_zone),
        )


async def _notice(tx: Tx, access: Access, order: Order) -> Notice | None:
    """Return the notification about an order of the Epay API."""
    if order.source != "EPAY" or not access.may("events.read"):
        return None
    return await epay.find_notice(tx, order.merchant_id, order.id)


async def _entries(
    tx: Tx,
    access: Access,
    order_id: str,
    order_refunds: list[Refund],
    order_disputes: list[Dispute],
) -> list[Entry]:
    """Return the ledger entries of the order, its refunds, disputes and corrections."""
    if not access.may("balance.read"):
        return []
    merchant_id = access.merchant_id
    corrections = await adjustments.list_of_order(tx, merchant_id, order_id)
    causes: list[tuple[Cause, str]] = [
        ("order", order_id),
        *(("refund", one.id) for one in order_refunds),
        *(("dispute", one.id) for one in order_disputes),
        *(("operator", one.id) for one in corrections),
    ]
    return await ledger.find_entries(tx, merchant_id, causes)


async def _events(
    tx: Tx, settings: Settings, access: Access, order_id: str, history: list[HistoryRow]
) -> tuple[list[OrderEvent], list[EventDelivery], list[Endpoint]]:
    if not access.may("events.read"):
        return [], [], []
    merchant_id = access.merchant_id
    events = await webhooks.find_order_events(
        tx,
        merchant_id,
        order_id,
        event_times(history),
        movable=clock.movable(settings.gateways),
    )
    deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [one.id for one in events])
    return events, deliveries, await webhooks.search(tx, merchant_id)


def event_times(history: list[HistoryRow]) -> Iterator[int]:
    """Yield the time of each event that the history's changes have emitted."""
    for row in history:
        # A change that is not in ``_EMITTED`` keeps the status, and emits at most one event.
        default = int(row.event in _REFUND_ENDS or row.event in _OF_DISPUTES)
        yield from [row.at] * _EMITTED.get((row.from_status, row.event), default)
