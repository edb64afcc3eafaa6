"""Settlement: paid orders that are due move from pending to available, a batch at a time.

An order that was refunded or charged back before it settled can leave a remainder in pending, such
as a fee that is not returned. The remainder is carried over on the day on which the order would
have settled, so that pending holds only the money of orders that are yet to settle.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import msgspec

from opentill import ledger
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.orders import order_history
from opentill.orders.model import DAY_MS, DueMerchant, Event, Order
from opentill.orders.queries import LOCKED
from opentill.orders.settlement import queries
from opentill.orders.settlement.movements import reserve_release, settlement
from opentill.orders.statuses import Status
from opentill.orders.transitions import Change, take

# Orders in a batch. A payment of the same merchant waits until the batch is committed, some 0.1 s.
BATCH: Final = 1000
# A merchant's batches run two at a time: one is prepared while the other waits for the balance's
# lock or for its commit.
_AT_ONCE: Final = 2
_EVER: Final = 2**62


class Settled(msgspec.Struct, frozen=True, rename="camel"):
    """The effect of a settlement on one order; amounts in minor units of the settled currency."""

    merchant_id: str
    order_id: str
    status: Status
    settled_minor: int  # below zero if refunds and losses took more than the payment's net
    reserve_minor: int
    currency: str


async def settle_due(db: Db, now: int, merchant_id: str | None = None) -> int:
    """Settle every order that is due; return their number. Safe to run in several workers."""
    async with db.connection() as tx:
        due = await queries.DUE_MERCHANTS.all(tx, now=now, merchant_id=merchant_id)
    settled = 0

    async def settle_batches(merchant_id: str) -> None:
        nonlocal settled
        batch = BATCH
        while batch == BATCH:
            batch = len(await db.run(partial(settle_batch, merchant_id=merchant_id, now=now)))
            settled += batch

    async def settle(merchant: DueMerchant) -> None:
        at_once = min(_AT_ONCE, -(-merchant.orders // BATCH))
        await jobs.run_all(*(settle_batches(merchant.merchant_id) for _ in range(at_once)))

    await jobs.each(due, settle, lambda merchant: merchant.merchant_id)
    return settled


async def settle_batch(
    tx: Tx, merchant_id: str, now: int, cause: str = "due", *, early: bool = False
) -> list[Settled]:
    """Settle a batch of a merchant's orders: due ones or, if ``early``, also those not due yet."""
    due = await queries.LOCK_DUE.all(
        tx, merchant_id=merchant_id, until=_EVER if early else now, limit=BATCH
    )
    return await _settle(tx, due, now, cause)


async def list_due_merchants(
    tx: Tx, now: int, merchant_id: str | None, *, early: bool
) -> list[DueMerchant]:
    """Return the merchants with orders that are due to settle or, if ``early``, will be later."""
    until = _EVER if early else now
    return await queries.DUE_MERCHANTS.all(tx, now=until, merchant_id=merchant_id)


async def preview_settlements(
    tx: Tx, now: int, merchant_id: str | None, order_id: str | None, *, early: bool
) -> AsyncIterator[Settled]:
    """Yield the settlements that are due, without settling; if ``early``, also those to come.

    Needs constant memory; ``tx`` must be inside a transaction.
    """
    until = _EVER if early else now
    orders = queries.SETTLEABLE.each(tx, until=until, merchant_id=merchant_id, order_id=order_id)
    async for order in orders:
        yield plan(order)


async def settle_one(
    tx: Tx, merchant_id: str, order_id: str, now: int, cause: str
) -> list[Settled]:
    """Settle one order, even before it is due. Raises Invalid if it cannot settle."""
    orders = await queries.LOCK_SETTLEABLE.all(tx, merchant_id=merchant_id, id=order_id)
    if not orders:
        reason = "orderId must be an order that is PAID and not settled yet"
        raise Invalid("orderId", reason)
    return await _settle(tx, orders, now, cause)


def plan(order: Order) -> Settled:
    """Return the effect of settling an order."""
    remainder = order.unsettled_minor
    currency = order.settled_currency
    reserve = 0
    if order.status == "PAID" and remainder > 0:
        reserve = money.times(remainder, order.reserve_rate, currency, currency)
    status: Status = "SETTLED" if order.status == "PAID" else order.status
    return Settled(order.merchant_id, order.id, status, remainder, reserve, currency)


def _change(order: Order, planned: Settled, now: int, cause: str) -> Change:
    posted = settlement(order, planned.reserve_minor)
    event: Event = "settled" if order.status == "PAID" else "carried_over"
    if planned.reserve_minor:
        order = msgspec.structs.replace(
            order,
            reserve_minor=planned.reserve_minor,
            reserve_status="HELD",
            reserve_release_at=now + order.reserve_days * DAY_MS,
        )
    return Change(order=order, event=event, cause=cause, posted=posted)


async def _settle(tx: Tx, orders: list[Order], now: int, cause: str) -> list[Settled]:
    plans = [plan(order) for order in orders]
    changes = [
        _change(order, planned, now, cause) for order, planned in zip(orders, plans, strict=True)
    ]
    moved = await take(tx, changes, now)
    if len(moved) != len(orders):
        msg = f"only {len(moved)} of {len(orders)} locked orders of {orders[0].merchant_id} settled"
        raise AssertionError(msg)
    return plans


async def release_reserves(db: Db, now: int, batch: int = 200) -> int:
    """Release the reserves that are due, each in its own transaction; return how many."""
    async with db.connection() as tx:
        due = await queries.RESERVES_DUE.all(tx, now=now, limit=batch)

    async def release(tx: Tx, due_order: Order) -> None:
        order = await LOCKED.first(tx, merchant_id=due_order.merchant_id, id=due_order.id)
        is_due = order is not None and order.reserve_status == "HELD" and order.status != "DISPUTED"
        if order is None or not is_due:
            return
        await order_history.release_reserve(tx, order, now)
        await ledger.post(
            tx, order.merchant_id, order.settled_currency, reserve_release(order), now
        )

    async def release_one(order: Order) -> None:
        await db.run(partial(release, due_order=order))

    return await jobs.each(due, release_one, lambda order: order.id)
