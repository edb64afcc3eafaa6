"""The one place that changes an order's status.

A transition is a row of ``model.TRANSITIONS``. A statement of ``transition_queries`` takes it, for
one order or a batch, in one transaction with the history, the session, the attempt that paid, the
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
    BY_EVENT,
    TRANSITIONS_BACK,
    Event,
    NewAttempt,
    Order,
    PaymentAttempt,
    Transition,
    Transitioned,
)
from opentill.orders.statuses import Status

_UNPAID: Final = ("CREATING", "PENDING")
_NEVER_SETTLES: Final = ("settled", "carried_over", "disputed")


class NotLocked(AssertionError):
    """A defect of ours: an order, or its attempt, changed although its lock should be held."""

    def __init__(self, order: Order) -> None:
        """Name the order."""
        super().__init__(f"{order.id} is not locked, or was read before it changed last")


class Payment(msgspec.Struct, frozen=True):
    """The attempt that pays an order, its status before, and its gateway's report.

    The card is None if the gateway reported none (decision 0081).
    """

    attempt_id: str | None = None
    attempt_before: str | None = None
    provider_ref: str | None = None
    reason: str | None = None
    card_brand: str | None = None
    card_last4: str | None = None


class Change(msgspec.Struct, frozen=True):
    """A transition that a locked order is to take.

    ``order`` has the new values of the columns ``transition_queries.WRITTEN_COLUMNS``. ``cause`` is
    for the history. ``posted`` are the postings, each of a type that the table's row allows.
    ``reason`` is the reason in the ``order.closed`` event; None: the cause. ``back_to`` is the
    status to which a won dispute or a reversed refund sets the order back. ``payment`` is the
    attempt that pays the order and becomes SUCCEEDED by the same statement; in other transitions,
    its fields are None.
    """

    order: Order
    event: Event
    cause: str
    posted: Sequence[Movement] = ()
    reason: str | None = None
    back_to: Status | None = None
    payment: Payment = Payment()


class _Plan(NamedTuple):
    """A change, its row of the table, and the order as the transition leaves it."""

    change: Change
    row: Transition
    after: Order

    @property
    def key(self) -> tuple[str, str]:
        return self.after.merchant_id, self.after.id


def _plan(change: Change, now: int) -> _Plan:
    """Look up the transition. Raises Invalid on ``orderId`` if the table has none."""
    order, event = change.order, change.event
    row = BY_EVENT.get((order.status, event))
    if change.back_to is not None:
        row = TRANSITIONS_BACK.get((event, change.back_to))
    if row is None or (row.source, row.event) != (order.status, event):
        raise Invalid("orderId", f"an order that is {order.status} cannot be {event}")
    if any(movement.type not in row.postings for movement in change.posted):
        msg = f"{event} cannot post {[movement.type for movement in change.posted]}"
        raise ValueError(msg)
    settle_at, settled_at = order.settle_at, order.settled_at
    if event in _NEVER_SETTLES:
        settle_at = None
    elif row.target in ("PAID", "CHARGEBACK") and settled_at is None:
        # An order whose dispute is decided before it was settled becomes due again.
        settle_at = order.due_at
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
    return _Plan(change, row, after)


# Parameter of the statements → the path of attributes from a ``_Plan`` to its value.
_PATHS: Final = {
    "merchant_id": "after.merchant_id",
    "order_id": "after.id",
    "history_number": "change.order.history_number",
    "settled_currency": "after.settled_currency",
    "source": "row.source",
    "target": "row.target",
    "event": "row.event",
    "cause": "change.cause",
    "session": "row.session",
    **{name: f"change.payment.{name}" for name in Payment.__struct_fields__},
    **{name: f"after.{name}" for name in transition_queries.WRITTEN_COLUMNS},
}
_VALUES: Final = {name: attrgetter(path) for name, path in _PATHS.items()}


async def take(tx: Tx, changes: Sequence[Change], now: int) -> list[Order]:
    """Take the transitions of locked orders; return the orders that took theirs, as they are now.

    A batch of several orders contains only confirmations, or only settlements. An order is left out
    if it, or the attempt that pays it, changed since ``Change.order`` was read. Raises Invalid on
    ``orderId`` for a transition that is not in the table.
    """
    plans = {plan.key: plan for plan in (_plan(change, now) for change in changes)}
    rows = await _write(tx, list(plans.values()), now)
    moved = [plans[row.merchant_id, row.id] for row in rows]
    await _emit(tx, moved, now)
    await _post(tx, moved, now)
    return [plan.after for plan in moved]


async def _write(tx: Tx, plans: Sequence[_Plan], now: int) -> list[Transitioned]:
    """Write one transition, or a batch. Raises ValueError for a mixed batch."""
    if not plans:
        return []
    if len(plans) == 1:
        (plan,) = plans
        is_unpaid = plan.row.target in _UNPAID
        single = transition_queries.UNPAID if is_unpaid else transition_queries.TRANSITION
        return await single.all(tx, **_values(plan, single), now=now)
    names = {plan.row.event for plan in plans}
    statements = {transition_queries.MANY.get(name) for name in names}
    statement = statements.pop()
    if statement is None or statements:
        msg = f"{sorted(names)} are not taken together"
        raise ValueError(msg)
    columns = {
        name: [value(plan) for plan in plans]
        for name, value in _VALUES.items()
        if name in statement.names
    }
    return await statement.all(tx, **columns, now=now)


async def _emit(tx: Tx, moved: Sequence[_Plan], now: int) -> None:
    emitting = [plan for plan in moved if plan.row.emits]
    emitting_orders = await livemode.all_with_paid_livemode(
        lambda work: work(tx), [plan.after for plan in emitting]
    )
    emitted = [
        events.event_of(order, type_, change.cause if change.reason is None else change.reason, now)
        for (change, row, _), order in zip(emitting, emitting_orders, strict=True)
        for type_ in row.emits
        # `order.settled` is emitted only once per order.
        if type_ != "order.settled" or change.order.settled_at is None
    ]
    await webhooks.emit(tx, emitted)


async def _post(tx: Tx, moved: Sequence[_Plan], now: int) -> None:
    books: dict[tuple[str, str], list[Movement]] = {}
    for change, _, order in moved:
        if change.posted:
            key = (order.merchant_id, order.settled_currency)
            books.setdefault(key, []).extend(change.posted)
    if len(moved) > 1:
        await ledger.post_many(tx, books, now)
        return
    for (merchant_id, currency), posted in books.items():
        await ledger.post(tx, merchant_id, currency, posted, now)


async def transition(tx: Tx, change: Change, now: int) -> Order:
    """Take one order's transition and return the order.

    Raises Invalid on ``orderId`` for a transition that is not in the table.
    """
    orders = await take(tx, [change], now)
    if not orders:
        raise NotLocked(change.order)
    return orders[0]


async def submit(
    tx: Tx, order: Order, attempt: NewAttempt, cause: str, now: int
) -> PaymentAttempt | None:
    """Take the transition ``submitted`` with the attempt, in one statement; return the attempt.

    Writes nothing and returns None if the order changed since it was read, if the attempt has a
    ``limit_day`` and its account has reached its limit of that day, or if it has a fee in
    ``prepaid_minor`` and the prepaid balance is too low.
    """
    statement = transition_queries.SUBMISSIONS[
        attempt.limit_day is not None, bool(attempt.prepaid_minor)
    ]
    values = _values_with_attempt(Change(order, "submitted", cause), attempt, statement, now)
    return await statement.first(tx, **values, now=now)


async def accept(tx: Tx, order: Order, attempt: PaymentAttempt, now: int) -> PaymentAttempt | None:
    """Take the transition ``accepted`` and write its attempt's new values, as ``submit`` does."""
    statement = transition_queries.ACCEPTED
    values = _values_with_attempt(Change(order, "accepted", attempt.id), attempt, statement, now)
    return await statement.first(tx, **values, now=now)


def _values(plan: _Plan, statement: Statement) -> dict[str, Any]:
    return {name: value(plan) for name, value in _VALUES.items() if name in statement.names}


def _values_with_attempt(
    change: Change, attempt: NewAttempt | PaymentAttempt, statement: Statement, now: int
) -> dict[str, Any]:
    """Return a statement's values: from the attempt's fields, and otherwise from the change."""
    fields = [name for name in attempt.__struct_fields__ if name in statement.names]
    of_attempt = {name: getattr(attempt, name) for name in fields} | {"attempt_id": attempt.id}
    return _values(_plan(change, now), statement) | of_attempt


def can(order: Order, event: Event) -> bool:
    """Whether the table has a transition by this event from the order's status."""
    return (order.status, event) in BY_EVENT


async def reverse_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Reverse a refund that had succeeded, and return the order, which the caller has locked.

    ``amount_minor`` is in the order's currency, ``debit_minor`` in the settled currency. A REFUNDED
    order becomes PAID again while its money is in pending, else SETTLED.
    """
    if order.status != "REFUNDED":
        return await order_history.uncount_refund(tx, order, amount_minor, debit_minor, cause, now)
    paid_again = msgspec.structs.replace(
        order,
        refunded_minor=order.refunded_minor - amount_minor,
        refund_held_minor=order.refund_held_minor - amount_minor,
        refund_debit_minor=order.refund_debit_minor - debit_minor,
    )
    back_to: Status = "PAID" if order.account == "pending" else "SETTLED"
    return await transition(tx, Change(paid_again, "refund_reversed", cause, back_to=back_to), now)
