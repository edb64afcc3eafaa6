"""All that there is about one payment, as one moment has it."""

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
from opentill.ledger import Cause, Entry
from opentill.merchants import Merchant
from opentill.orders import HistoryRow, Order, OrderNote, PaymentAttempt
from opentill.people import Access
from opentill.refunds import Refund
from opentill.web.language import Localizer
from opentill.webhooks import Endpoint, EventDelivery, OrderEvent

MOST_REFUNDS: Final = 100  # that the page shows, the newest

# How many events what happened to an order has emitted, by its row of the history.
_OF_DISPUTES: Final = Counter[str](row.order_event for row in disputes.TRANSITIONS)
_EMITTED: Final[dict[tuple[str | None, str], int]] = {
    (row.source, row.event): len(row.emits)
    + _OF_DISPUTES[row.event]
    + (row.event == "refund_reversed")
    for row in orders.TRANSITIONS
}
_END_REFUNDS: Final = frozenset({"refund_succeeded", "refund_failed", "refund_reversed"})


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """An order with everything about it. What somebody may not see is empty.

    Attempts and history are oldest first, refunds and disputes newest first; ``more_refunds``:
    there are older ones that are left out.
    """

    merchant: Merchant
    order: Order  # whose livemode is known
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
    notice: Notice | None  # of an Epay shop

    @property
    def card(self) -> str:
        """The card that it was paid with, as people know it, "" if that is not known."""
        paid = (one for one in self.attempts if one.id == self.order.paid_attempt_id)
        attempt = next(paid, None)
        card = attempt and orders.card_of_attempt(attempt)
        return orders.format_card(card) if card else ""

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the page's days and times."""
        return ZoneInfo(self.merchant.time_zone)

    @property
    def left_minor(self) -> int:
        """What can still be refunded: minor units of the order, 0 if it cannot be."""
        order = self.order
        refundable = order.status in refunds.REFUNDABLE
        return order.amount_minor - order.refund_held_minor if refundable else 0

    @property
    def is_open(self) -> bool:
        """Whether it can still be paid, and closed."""
        return self.session.status == "OPEN" and self.order.status == "PENDING"


def amounts(localizer: Localizer) -> Callable[[int, str], str]:
    """Return what writes minor units of a currency as the reader knows it."""

    def write(minor: int, currency: str) -> str:
        return localizer.amount(Money(minor, currency))

    return write


async def read(app: App, access: Access, order_id: str) -> Payment:
    """Read a payment, as far as a person may see it at its merchant. Raises NotFound."""
    merchant_id, settings = access.merchant_id, app.settings
    async with app.db.snapshot() as tx:
        order = await orders.find(tx, merchant_id, order_id)
        found = await refunds.list_for_order(tx, merchant_id, order_id, MOST_REFUNDS + 1)
        history = await orders.history(tx, merchant_id, order_id)
        disputed = await disputes.list_for_order(tx, merchant_id, order_id)
        events, deliveries, endpoints = await _events(tx, settings, access, order_id, history)
        return Payment(
            merchant=await merchants.find(tx, merchant_id),
            order=await orders.with_livemode(tx, order, deployment=settings.livemode),
            session=await checkouts.find(tx, merchant_id, order.checkout_id),
            attempts=await orders.attempts(tx, merchant_id, order_id),
            refunds=found[:MOST_REFUNDS],
            more_refunds=len(found) > MOST_REFUNDS,
            disputes=disputed if access.may("disputes.read") else [],
            history=history,
            entries=await _entries(tx, access, order_id, found[:MOST_REFUNDS], disputed),
            events=events,
            deliveries=deliveries,
            endpoints=endpoints,
            notes=await orders.notes_of(tx, order),
            notice=await _notice(tx, access, order),
        )


async def _notice(tx: Tx, access: Access, order: Order) -> Notice | None:
    """Return the notification of the shop that placed the order through the Epay API."""
    if order.source != "EPAY" or not access.may("events.read"):
        return None
    return await epay.find_notice(tx, order.merchant_id, order.id)


async def _entries(
    tx: Tx, access: Access, order_id: str, found: list[Refund], disputed: list[Dispute]
) -> list[Entry]:
    """Return the movements that the order, its refunds, disputes and corrections have caused."""
    if not access.may("balance.read"):
        return []
    merchant_id = access.merchant_id
    corrections = await adjustments.list_of_order(tx, merchant_id, order_id)
    causes: list[tuple[Cause, str]] = [
        ("order", order_id),
        *(("refund", one.id) for one in found),
        *(("dispute", one.id) for one in disputed),
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
        _emitted(history),
        movable=clock.movable(settings.gateways),
    )
    deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [one.id for one in events])
    return events, deliveries, await webhooks.search(tx, merchant_id)


def _emitted(history: list[HistoryRow]) -> Iterator[int]:
    """Yield when events were emitted, each time as often as there were some."""
    for row in history:
        # Of a note, which keeps the status, at most one.
        noted = int(row.event in _END_REFUNDS or row.event in _OF_DISPUTES)
        yield from [row.at] * _EMITTED.get((row.from_status, row.event), noted)
