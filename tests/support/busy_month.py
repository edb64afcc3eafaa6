"""A month of a merchant with payments, refunds, disputes and payouts, in one transaction."""

import random
from typing import Any

from opentill.db.database import Tx
from opentill.figures import jobs
from opentill.figures.model import Behind
from opentill.orders import Order
from support import world
from support.world import DAY, HOUR, NOW


async def count_figures(tx: Tx, order: Order, most: int = 5000) -> int:
    """Count a merchant's entries and attempts in a transaction."""
    key = Behind(order.merchant_id, order.settled_currency, 0)
    done = 0
    while moved := await jobs.count_entries(tx, key, most):
        done += moved
    while moved := await jobs.count_attempts(tx, order.merchant_id, most):
        done += moved
    return done


async def create_another_order(tx: Tx, like: Order, at: int) -> Order:
    """Create another order for the product of ``like``."""
    checkout = await world.create_session(tx, like.merchant_id, like.product_id, at)
    return await world.orders.find(tx, like.merchant_id, checkout.order_id)


async def create_busy_month(tx: Tx, chance: random.Random, **terms: Any) -> Order:
    """Create a merchant with a month of random payments, and return its first order."""
    first = await world.create_order(
        tx, "20.00", platform_fee_rate="0.04", reserve_rate="0.1", **terms
    )
    at = NOW - 29 * DAY
    while at < NOW - HOUR:
        order = await create_another_order(tx, first, at)
        what = chance.choice(["declined", "refused", "paid", "refund", "lost", "open", "settled"])
        if what in ("declined", "refused"):
            await world.report_payment(
                tx, await world.submit_attempt(tx, order, at), what.upper(), at
            )
        else:
            order = await world.pay_order(tx, order, at)
        if what == "refund":
            refund = await world.create_refund(tx, order, "3.50", at + 1)
            await world.report_refund(tx, refund, "SUCCEEDED", at + 2)
        elif what == "settled":
            await world.settle_order(tx, order, at + 3)
        elif what in ("lost", "open"):
            status = "LOST" if what == "lost" else "OPENED"
            await world.report_dispute(tx, order, status, at + 4, ref=f"d-{at}")
        at += chance.randrange(HOUR, 14 * HOUR)
    return first
