"""A month of a merchant with payments, refunds, disputes and payouts, in one transaction."""

import random
from typing import Any

from opentill.db.database import Tx
from opentill.figures import jobs
from opentill.figures.model import Behind
from opentill.orders import Order
from support import world
from support.world import DAY, HOUR, NOW


async def count(tx: Tx, order: Order, most: int = 5000) -> int:
    """Count a merchant's entries and attempts in a transaction."""
    key = Behind(order.merchant_id, order.settled_currency, 0)
    done = 0
    while moved := await jobs.count_entries(tx, key, most):
        done += moved
    while moved := await jobs.count_attempts(tx, order.merchant_id, most):
        done += moved
    return done


async def sell(tx: Tx, like: Order, at: int) -> Order:
    """Create another order for the product of ``like``."""
    checkout = await world.session(tx, like.merchant_id, like.product_id, at)
    return await world.orders.find(tx, like.merchant_id, checkout.order_id)


async def a_month(tx: Tx, chance: random.Random, **terms: Any) -> Order:
    """Create a merchant with a month of random payments, and return its first order."""
    first = await world.opened(tx, "20.00", platform_fee_rate="0.04", reserve_rate="0.1", **terms)
    at = NOW - 29 * DAY
    while at < NOW - HOUR:
        order = await sell(tx, first, at)
        what = chance.choice(["declined", "refused", "paid", "refund", "lost", "open", "settled"])
        if what in ("declined", "refused"):
            await world.said(tx, await world.submitted(tx, order, at), what.upper(), at)
        else:
            order = await world.paid(tx, order, at)
        if what == "refund":
            refund = await world.refunded(tx, order, "3.50", at + 1)
            await world.refund_said(tx, refund, "SUCCEEDED", at + 2)
        elif what == "settled":
            await world.settled(tx, order, at + 3)
        elif what in ("lost", "open"):
            status = "LOST" if what == "lost" else "OPENED"
            await world.dispute_said(tx, order, status, at + 4, ref=f"d-{at}")
        at += chance.randrange(HOUR, 14 * HOUR)
    return first
