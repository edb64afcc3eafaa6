"""The history of orders, and the sums of refunds in an order's row.

An event that keeps the status of an order, such as a partial refund, is recorded here. The order's
row has sums of its refunds: ``refund_held_minor`` and ``refund_debit_minor`` of all that have not
failed, ``refunded_minor`` of those that succeeded. The caller must hold the order's lock.
"""

from typing import Any

from opentill.db.database import Tx
from opentill.orders import transition_queries
from opentill.orders.model import Order, ReserveStatus


async def note(tx: Tx, order: Order, event: str, cause: str, now: int) -> Order:
    """Record an event in an order's history, and return the order."""
    return await _note(tx, order, event, cause, now)


async def hold_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Add a new refund's amount (order's currency) and debit (settled currency) to the sums."""
    sums = {"refund_held_minor": amount_minor, "refund_debit_minor": debit_minor}
    return await _note(tx, order, "refund_created", cause, now, **sums)


async def release_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Undo ``hold_refund`` for a refund that failed."""
    sums = {"refund_held_minor": -amount_minor, "refund_debit_minor": -debit_minor}
    return await _note(tx, order, "refund_failed", cause, now, **sums)


async def count_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Add a refund that was made at the provider, for which no amount was held before."""
    sums = {"refund_held_minor": amount_minor, "refund_debit_minor": debit_minor}
    return await _note(
        tx, order, "refund_succeeded", cause, now, refunded_minor=amount_minor, **sums
    )


async def uncount_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Subtract a reversed refund from the sums of an order that is not refunded in full."""
    sums = {"refund_held_minor": -amount_minor, "refund_debit_minor": -debit_minor}
    return await _note(
        tx, order, "refund_reversed", cause, now, refunded_minor=-amount_minor, **sums
    )


async def complete_refund(tx: Tx, order: Order, amount_minor: int, cause: str, now: int) -> Order:
    """Count a refund that succeeded; ``amount_minor`` is in the order's currency."""
    return await _note(tx, order, "refund_succeeded", cause, now, refunded_minor=amount_minor)


async def release_reserve(tx: Tx, order: Order, now: int) -> Order:
    """Record that the order's rolling reserve is no longer held."""
    status: ReserveStatus = "RELEASED"
    return await _note(tx, order, "reserve_released", "due", now, reserve_status=status)


async def _note(tx: Tx, order: Order, event: str, cause: str, now: int, **changes: Any) -> Order:
    unchanged = {
        "refund_held_minor": 0, "refund_debit_minor": 0, "refunded_minor": 0,
        "reserve_status": None,
    }  # fmt: skip
    return await transition_queries.NOTE.one(
        tx,
        merchant_id=order.merchant_id,
        id=order.id,
        event=event,
        cause=cause,
        now=now,
        **{**unchanged, **changes},
    )
