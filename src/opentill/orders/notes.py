"""What happens to an order that keeps its status: a line of its history, and the sums of refunds.

How much of an order refunds hold and have given back stands in the order's row, which only this
feature writes. Callers have locked the order.
"""

from typing import Any

from opentill.db.database import Tx
from opentill.db.query import Statement
from opentill.orders import history_lines, transition_queries
from opentill.orders.model import Order, ReserveStatus


async def note(tx: Tx, order: Order, event: str, cause: str, now: int) -> Order:
    """Write something that happened to an order into its history, and return the order."""
    return await _note(tx, order, event, cause, now)


async def hold_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Hold a refund's amount (minor units of the order) and its debit (of the settled currency)."""
    added = {"refund_held_minor": amount_minor, "refund_debit_minor": debit_minor}
    return await _note(tx, order, "refund_created", cause, now, **added)


async def release_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Undo ``hold_refund`` for a refund that failed."""
    added = {"refund_held_minor": -amount_minor, "refund_debit_minor": -debit_minor}
    return await _note(tx, order, "refund_failed", cause, now, **added)


async def count_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Count a refund that was made at the provider: it was never held here."""
    added = {"refund_held_minor": amount_minor, "refund_debit_minor": debit_minor}
    return await _note(
        tx, order, "refund_succeeded", cause, now, refunded_minor=amount_minor, **added
    )


async def uncount_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Undo what a refund counted that succeeded and was reversed, of an order not REFUNDED."""
    taken = {"refund_held_minor": -amount_minor, "refund_debit_minor": -debit_minor}
    return await _note(
        tx, order, "refund_reversed", cause, now, refunded_minor=-amount_minor, **taken
    )


async def complete_refund(tx: Tx, order: Order, amount_minor: int, cause: str, now: int) -> Order:
    """Count a refund that succeeded; ``amount_minor`` in minor units of the order."""
    return await _note(tx, order, "refund_succeeded", cause, now, refunded_minor=amount_minor)


async def release_reserve(tx: Tx, order: Order, now: int) -> Order:
    """Record that the order's rolling reserve is no longer held."""
    status: ReserveStatus = "RELEASED"
    return await _note(tx, order, "reserve_released", "due", now, reserve_status=status)


async def _note(tx: Tx, order: Order, event: str, cause: str, now: int, **changes: Any) -> Order:
    none = {
        "refund_held_minor": 0, "refund_debit_minor": 0, "refunded_minor": 0,
        "reserve_status": None,
    }  # fmt: skip
    after = await transition_queries.NOTE.one(
        tx,
        merchant_id=order.merchant_id,
        id=order.id,
        event=event,
        cause=cause,
        now=now,
        **{**none, **changes},
    )
    if Statement.distributes:
        line = history_lines.Noted(
            merchant_id=after.merchant_id,
            order_id=after.id,
            number=after.history_number,
            at=after.updated_at,
            event=event,
            from_status=after.status,
            to_status=after.status,
            cause=cause,
        )
        await history_lines.note(tx, [line])
    return after
