"""What a payment reserves before it starts: a place within a day limit, and its prepaid fee.

The statement that records the attempt reserves both, or writes nothing.
"""

from collections.abc import Mapping
from functools import partial

from opentill.db.database import Db, Tx
from opentill.gateways.choice import Obstacle, RouteReason
from opentill.gateways.model import Gateway, Method
from opentill.orders import service
from opentill.orders.model import Order, PaymentAttempt
from opentill.orders.payments import day_limits, prepaid
from opentill.orders.payments.intents import Chosen


def choose(
    gateways: Mapping[str, Gateway],
    name: str,
    order: Order,
    method: Method,
    reason: RouteReason,
    now: int,
) -> Chosen:
    """Return how an account was chosen, with what a payment through it must reserve."""
    return Chosen(
        day_limits.find_day(gateways, name, order, now),
        reason,
        prepaid.fee_to_reserve(gateways, name, order, method),
    )


async def find_obstacle(
    tx: Tx, *, gateways: Mapping[str, Gateway], name: str, order: Order, chosen: Chosen
) -> Obstacle | None:
    """Return why an account could not take a payment; None: the order has changed."""
    if await prepaid.is_too_low(tx, gateways, order, chosen.prepaid_minor):
        return "PREPAID"
    day = chosen.limit_day
    if day is not None and await day_limits.is_exhausted(
        tx, gateways=gateways, name=name, order=order, day=day
    ):
        return "DAY_LIMIT"
    return None


async def release_unpaid(db: Db, attempt: PaymentAttempt) -> None:
    """Give back what an attempt that its gateway reports as unpaid has reserved.

    That is its place within the limit of its day, and its fee. Only if its session has ended: the
    provider's page or code may stay open for longer.
    """
    is_counted = attempt.limit_day is not None and not attempt.limit_released
    if not is_counted and not attempt.prepaid_held:
        return
    async with db.connection() as tx:
        order = await service.find(tx, attempt.merchant_id, attempt.order_id)
    if order.is_over:
        await db.run(partial(_release, attempt=attempt))


async def _release(tx: Tx, attempt: PaymentAttempt) -> None:
    order = await service.lock(tx, attempt.merchant_id, attempt.order_id)
    await prepaid.release(tx, order, attempt)
    await day_limits.release(tx, attempt)
