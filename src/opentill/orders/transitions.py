"""The one place that changes an order's status.

A transition is a row of ``model.TRANSITIONS``. One order or many take theirs by a statement of
``transition_queries``, in one transaction with the history, the session, the attempt that paid, the
events for the merchant and the postings.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from opentill import ledger, webhooks
from opentill.core import structs
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.db.query import columns_for
from opentill.gateways.model import Method
from opentill.ledger import Movement
from opentill.orders import events, livemode, transition_queries
from opentill.orders.model import (
    BACK,
    BY_EVENT,
    Event,
    Order,
    ReserveStatus,
    SessionStatus,
    Status,
    Transition,
    Transitioned,
)

_NEVER_SETTLES: Final = ("settled", "carried_over", "disputed")


class Payment(msgspec.Struct, frozen=True):
    """The attempt that pays an order, its status before, and what its gateway reported."""

    attempt_id: str
    attempt_before: str
    provider_ref: str
    reason: str


class Change(msgspec.Struct, frozen=True):
    """A transition that a locked order is to take.

    ``order`` holds what becomes known by the transition as well: the fields of ``Written`` are
    written as they are there. ``cause`` is for the history. ``posted`` are the postings, each of a
    type that the table's row allows. ``reason`` is what events report of an order's end, if not the
    cause. ``back_to`` is where a won dispute puts the order. ``payment`` is the attempt that pays
    the order, where that has to become SUCCEEDED by the same statement.
    """

    order: Order
    event: Event
    cause: str
    posted: Sequence[Movement] = ()
    reason: str | None = None
    back_to: Status | None = None
    payment: Payment | None = None


class _Taken(NamedTuple):
    """A change, its row of the table, and the order as the transition leaves it."""

    change: Change
    row: Transition
    after: Order

    @property
    def key(self) -> tuple[str, str]:
        return self.after.merchant_id, self.after.id


def _take(change: Change, now: int) -> _Taken:
    """Look the transition up. Raises Invalid on ``orderId`` where the table has none."""
    order, event = change.order, change.event
    row = BACK.get(change.back_to) if change.back_to else BY_EVENT.get((order.status, event))
    if row is None or (row.source, row.event) != (order.status, event):
        raise Invalid("orderId", f"an order that is {order.status} cannot be {event}")
    if any(movement.type not in row.postings for movement in change.posted):
        msg = f"{event} cannot post {[movement.type for movement in change.posted]}"
        raise ValueError(msg)
    settle_at, settled_at = order.settle_at, order.settled_at
    if event in _NEVER_SETTLES:
        settle_at = None
    elif row.target in ("PAID", "CHARGEBACK") and settled_at is None:
        settle_at = order.due_at  # as from a won dispute, or a loss of what had not settled yet
    if row.target == "SETTLED" and settled_at is None:
        settled_at = now
    after = msgspec.structs.replace(
        order,
        status=row.target,
        history_number=order.history_number + 1,
        updated_at=max(order.updated_at, now),
        settle_at=settle_at,
        settled_at=settled_at,
    )
    return _Taken(change, row, after)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of an order, beside its status, that a transition writes."""

    customer_email: str
    customer_name: str | None
    payer_ip: str
    payment_method: Method | None
    paid_attempt_id: str | None
    paid_at: int | None
    due_at: int | None
    settle_at: int | None
    settled_at: int | None
    platform_fee_rate: Decimal
    platform_fee_minor: int
    net_settled_minor: int
    hkd_exchange_rate: Decimal | None
    livemode: bool | None
    charged_back_minor: int
    reserve_minor: int
    reserve_status: ReserveStatus
    reserve_release_at: int | None


class Row(Written, frozen=True, kw_only=True):
    """A change as ``transition_queries`` takes it; without a payment its four fields are None."""

    merchant_id: str
    order_id: str
    history_number: int
    source: Status
    target: Status
    event: Event
    cause: str
    session: SessionStatus | None  # the new status of an open session; None: it stays as it is
    attempt_id: str | None
    attempt_before: str | None
    provider_ref: str | None
    reason: str | None


_NO_PAYMENT: Final = dict.fromkeys(Payment.__struct_fields__)


def _row(taken: _Taken) -> Row:
    change, row, after = taken
    order = change.order
    payment = msgspec.structs.asdict(change.payment) if change.payment else _NO_PAYMENT
    return structs.convert(
        after,
        Row,
        order_id=order.id,
        history_number=order.history_number,
        source=order.status,
        target=after.status,
        event=change.event,
        cause=change.cause,
        session=row.session,
        **payment,
    )


async def take(tx: Tx, changes: Sequence[Change], now: int) -> list[Order]:
    """Take the transitions of locked orders; return those that took theirs, as they are now.

    Several at once are confirmations or settlements. Left out is an order that changed since
    ``Change.order`` was read, or whose attempt did. Raises Invalid on ``orderId`` for a transition
    that is not in the table.
    """
    planned = {taken.key: taken for taken in (_take(change, now) for change in changes)}
    rows = [_row(taken) for taken in planned.values()]
    if len(rows) == 1:
        done = await transition_queries.TRANSITION.all(tx, rows[0], now=now)
    else:
        done = await _take_many(tx, rows, now)
    moved = [planned[one.merchant_id, one.id] for one in done]
    await _emit(tx, moved, now)
    await _post(tx, moved, now)
    return [taken.after for taken in moved]


async def _take_many(tx: Tx, rows: Sequence[Row], now: int) -> list[Transitioned]:
    """Take transitions that are all of one statement. Raises ValueError for others."""
    if not rows:
        return []
    statements = {transition_queries.MANY.get(row.event) for row in rows}
    statement = statements.pop()
    if statement is None or statements:
        msg = f"{sorted({row.event for row in rows})} are not taken together"
        raise ValueError(msg)
    return await statement.all(tx, **columns_for(statement, rows), now=now)


async def _emit(tx: Tx, moved: Sequence[_Taken], now: int) -> None:
    emitting = [taken for taken in moved if taken.row.emits]
    shown = await livemode.noted(lambda work: work(tx), [taken.after for taken in emitting])
    emitted = [
        events.event_of(order, type_, change.cause if change.reason is None else change.reason, now)
        for (change, row, _), order in zip(emitting, shown, strict=True)
        for type_ in row.emits
        if type_ != "order.settled" or change.order.settled_at is None  # once
    ]
    await webhooks.emit(tx, emitted)


async def _post(tx: Tx, moved: Sequence[_Taken], now: int) -> None:
    books: dict[tuple[str, str], list[Movement]] = {}
    for change, _, order in moved:
        if change.posted:
            key = (order.merchant_id, order.settled_currency)
            books.setdefault(key, []).extend(change.posted)
    if len(moved) > 1:
        await ledger.post_many(tx, books, now)
        return
    for (merchant_id, currency), posted in books.items():  # whose row the posting itself locks
        await ledger.post(tx, merchant_id, currency, posted, now)


async def transition(tx: Tx, change: Change, now: int) -> Order:
    """Take one order's transition and return the order.

    Raises Invalid on ``orderId`` for a transition that is not in the table.
    """
    moved = await take(tx, [change], now)
    if not moved:
        msg = f"{change.order.id} is not locked, or was read before it changed last"
        raise AssertionError(msg)
    return moved[0]


def can(order: Order, event: Event) -> bool:
    """Return whether the table has a transition by this event from the order's status."""
    return (order.status, event) in BY_EVENT
