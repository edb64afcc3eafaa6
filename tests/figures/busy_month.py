"""A month of a merchant with payments, refunds, disputes and payouts, in one transaction."""

import random
from typing import Any

from opentill.db.database import Tx
from opentill.figures import jobs
from opentill.figures.model import Behind
from opentill.orders import Order
from support import world
from support.world import DAY, HOUR, NOW


async def count_figures(tx: Tx, order: Order, batch: int = 5000) -> int:
    """Count the merchant's entries and attempts in its figures; return the number of both."""
    key = Behind(order.merchant_id, order.settled_currency, 0)
    total = 0
    while count := await jobs.count_entries(tx, key, batch):
        total += count
    while count := await jobs.count_attempts(tx, order.merchant_id, batch):
        total += count
    return total


async def create_another_order(tx: Tx, order: Order, now: int) -> Order:
    """Create another order for an order's product."""
    checkout = await world.create_session(tx, order.merchant_id, order.product_id, now)
    return await world.orders.find(tx, order.merchant_id, checkout.order_id)


async def create_busy_month(tx: Tx, rng: random.Random, **terms: Any) -> Order:
    """Create a merchant with 29 days of random payments, and return its first order."""
    first = await world.create_order(
        tx, "20.00", platform_fee_rate="0.04", reserve_rate="0.1", **terms
    )
    now = NOW - 29 * DAY
    while now < NOW - HOUR:
        order = await create_another_order(tx, first, now)
        case = rng.choice(["declined", "refused", "paid", "refund", "lost", "open", "settled"])
        if case in ("declined", "refused"):
            await world.report_payment(
                tx, await world.submit_attempt(tx, order, now), case.upper(), now
            )
        else:
            order = await world.pay_order(tx, order, now)
        if case == "refund":
            refund = await world.create_refund(tx, order, "3.50", now + 1)
            await world.report_refund(tx, refund, "SUCCEEDED", now + 2)
        elif case == "settled":
            await world.settle_order(tx, order, now + 3)
        elif case in ("lost", "open"):
            status = "LOST" if case == "lost" else "OPENED"
            await world.report_dispute(tx, order, status, now + 4, ref=f"d-{now}")
        now += rng.randrange(HOUR, 14 * HOUR)
    return first
