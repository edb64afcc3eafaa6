"""The one place that changes an order's status.

A transition is a row of ``model.TRANSITIONS``. One order or many take theirs by a statement of
``transition_queries``, in one transaction with the history, the session, the attempt that paid, the
events for the merchant and the postings.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from opentill import ledger, webhooks
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.db.query import Statement
from opentill.ledger import Movement
from opentill.orders import events, livemode, order_history, transition_queries
from opentill.orders.model import (
    BACK,
    BY_EVENT,
    Event,
    NewAttempt,
    Order,
    PaymentAttempt,
    Status,
    Transition,
    Transitioned,
)

_UNPAID: Final = ("CREATING", "PENDING")
_NEVER_SETTLES: Final = ("settled", "carried_over", "disputed")


class Payment(msgspec.Struct, frozen=True):
    """The attempt that pays an order, its status before, and what its gateway reported.

    The card is None where the gateway reported none (decision 0081).
    """

    attempt_id: str | None = None
    attempt_before: str | None = None
    provider_ref: str | None = None
    reason: str | None = None
    card_brand: str | None = None
    card_last4: str | None = None


class Change(msgspec.Struct, frozen=True):
    """A transition that a locked order is to take.

    ``order`` holds what becomes known by the transition as well: the columns ``WRITTEN`` of
    ``transition_queries`` are written as they are there. ``cause`` is for the history. ``posted``
    are the postings, each of a type that the table's row allows. ``reason`` is what events report
    of an order's end, if not the cause. ``back_to`` is where a won dispute or a reversed refund
    puts the order.
    ``payment`` is the attempt that pays the order, where that has to become SUCCEEDED by the same
    statement; without one its fields are None.
    """

    order: Order
    event: Event
    cause: str
    posted: Sequence[Movement] = ()
    reason: str | None = None
    back_to: Status | None = None
    payment: Payment = Payment()


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
    row = BY_EVENT.get((order.status, event))
    if change.back_to is not None:
        row = BACK.get((event, change.back_to))
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


# Where a value of the statements comes from: the path of attributes from ``_Taken``, by name.
_PATHS: Final = {
    "merchant_id": "after.merchant_id",
    "order_id": "after.id",
    "history_number": "change.order.history_number",
    "source": "row.source",
    "target": "row.target",
    "event": "row.event",
    "cause": "change.cause",
    "session": "row.session",
    **{name: f"change.payment.{name}" for name in Payment.__struct_fields__},
    **{name: f"after.{name}" for name in transition_queries.WRITTEN},
}
_VALUES: Final = {name: attrgetter(path) for name, path in _PATHS.items()}


async def take(tx: Tx, changes: Sequence[Change], now: int) -> list[Order]:
    """Take the transitions of locked orders; return those that took theirs, as they are now.

    Several at once are confirmations or settlements. Left out is an order that changed since
    ``Change.order`` was read, or whose attempt did. Raises Invalid on ``orderId`` for a transition
    that is not in the table.
    """
    planned = {taken.key: taken for taken in (_take(change, now) for change in changes)}
    done = await _write(tx, list(planned.values()), now)
    moved = [planned[one.merchant_id, one.id] for one in done]
    await _emit(tx, moved, now)
    await _post(tx, moved, now)
    return [taken.after for taken in moved]


async def _write(tx: Tx, planned: Sequence[_Taken], now: int) -> list[Transitioned]:
    """Write one transition, or several of one statement. Raises ValueError for others."""
    if not planned:
        return []
    if len(planned) == 1:
        (taken,) = planned
        unpaid = taken.row.target in _UNPAID
        one = transition_queries.UNPAID if unpaid else transition_queries.TRANSITION
        return await one.all(tx, **_values(taken, one), now=now)
    events_ = {taken.row.event for taken in planned}
    statements = {transition_queries.MANY.get(event) for event in events_}
    statement = statements.pop()
    if statement is None or statements:
        msg = f"{sorted(events_)} are not taken together"
        raise ValueError(msg)
    lists = {
        name: [value(taken) for taken in planned]
        for name, value in _VALUES.items()
        if name in statement.names
    }
    return await statement.all(tx, **lists, now=now)


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


async def submit(
    tx: Tx, order: Order, attempt: NewAttempt, cause: str, now: int
) -> PaymentAttempt | None:
    """Take the transition ``submitted`` with the attempt, in one statement; return the attempt.

    None, and nothing is written, where the order changed since it was read.
    """
    taken = _take(Change(order, "submitted", cause), now)
    values = _values(taken, transition_queries.SUBMITTED)
    made = msgspec.structs.asdict(attempt)
    given = {name: made[name] for name in ("gateway", "method", "amount_minor", "currency")}
    given |= {"locale": attempt.locale, "check_at": attempt.check_at, "attempt_id": attempt.id}
    return await transition_queries.SUBMITTED.first(tx, **values | given, now=now)


async def accept(tx: Tx, order: Order, attempt: PaymentAttempt, now: int) -> PaymentAttempt | None:
    """Take the transition ``accepted`` with what its SUBMITTED attempt becomes, as ``submit``."""
    taken = _take(Change(order, "accepted", attempt.id), now)
    values = _values(taken, transition_queries.ACCEPTED)
    made = msgspec.structs.asdict(attempt)
    names = ("status", "provider_ref", "action_url", "qr_text", "reason", "check_at")
    given = {name: made[name] for name in names}
    given = values | given | {"attempt_id": attempt.id}
    return await transition_queries.ACCEPTED.first(tx, **given, now=now)


def _values(taken: _Taken, statement: Statement) -> dict[str, Any]:
    return {name: value(taken) for name, value in _VALUES.items() if name in statement.names}


def can(order: Order, event: Event) -> bool:
    """Return whether the table has a transition by this event from the order's status."""
    return (order.status, event) in BY_EVENT


async def reverse_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Reverse a refund that had succeeded, and return the order, which the caller has locked.

    ``amount_minor`` is in minor units of the order, ``debit_minor`` of the settled currency. A
    REFUNDED order is PAID again as long as its money is in pending, else SETTLED.
    """
    if order.status != "REFUNDED":
        return await order_history.uncount_refund(tx, order, amount_minor, debit_minor, cause, now)
    paid_again = msgspec.structs.replace(
        order,
        refunded_minor=order.refunded_minor - amount_minor,
        refund_held_minor=order.refund_held_minor - amount_minor,
        refund_debit_minor=order.refund_debit_minor - debit_minor,
    )
    back_to: Status = "PAID" if order.stands_in == "pending" else "SETTLED"
    return await transition(tx, Change(paid_again, "refund_reversed", cause, back_to=back_to), now)
