"""Open pages at gateways are closed at once when their order is paid or closed."""

import pytest

from opentill import orders
from opentill.db.database import Tx
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments import queries as attempt_queries
from support.world import HOUR, NOW, create_order, read_attempts, report_payment, submit_attempt

LATER = NOW + HOUR


async def open_page(tx: Tx) -> tuple[Order, PaymentAttempt]:
    """Create an order with an open page that is not due for a query for a while."""
    order = await create_order(tx)
    attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    await attempt_queries.SCHEDULE_CHECK.run(
        tx,
        merchant_id=order.merchant_id,
        id=attempt.id,
        status=attempt.status,
        check_at=LATER + HOUR,
        claimed_until=attempt.check_at,
    )
    return order, attempt


async def pay_by_another_attempt(tx: Tx, order: Order) -> None:
    await report_payment(tx, await submit_attempt(tx, order, LATER), "SUCCEEDED", LATER)


async def refuse_another_attempt(tx: Tx, order: Order) -> None:
    await report_payment(tx, await submit_attempt(tx, order, LATER), "REFUSED", LATER)


async def expire(tx: Tx, order: Order) -> None:
    locked = await orders.lock(tx, order.merchant_id, order.id)
    await orders.transition(tx, orders.Change(locked, "expired", "24 hours are over"), LATER)


async def revoke(tx: Tx, order: Order) -> None:
    await orders.revoke_manually(tx, order.merchant_id, order.id, "ann", "fraud", LATER)


async def confirm(tx: Tx, order: Order) -> None:
    await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "seen", LATER)


async def submit_another_attempt(tx: Tx, order: Order) -> None:
    await submit_attempt(tx, order, LATER)


async def decline_another_attempt(tx: Tx, order: Order) -> None:
    await report_payment(tx, await submit_attempt(tx, order, LATER), "DECLINED", LATER)


@pytest.mark.parametrize(("change", "is_due"), [
    (pay_by_another_attempt, True),
    (refuse_another_attempt, True),
    (expire, True),
    (revoke, True),
    (confirm, True),
    (submit_another_attempt, False),
    (decline_another_attempt, False),
])  # fmt: skip
async def test_an_open_page_is_due_at_once_when_its_order_ends(tx: Tx, change, is_due) -> None:
    order, attempt = await open_page(tx)
    await change(tx, order)
    page_attempt = (await read_attempts(tx, order))[0]
    assert page_attempt.id == attempt.id
    assert page_attempt.status == "ACTION_REQUIRED"
    assert page_attempt.check_at == (LATER if is_due else LATER + HOUR)


async def test_an_attempt_that_becomes_due_during_its_query_stays_due(tx: Tx) -> None:
    order, _ = await open_page(tx)
    lease = LATER + 3 * HOUR
    (claimed,) = await attempt_queries.CLAIM_ATTEMPTS.all(
        tx, now=LATER + 2 * HOUR, lease_until=lease, limit=50, gateways=None, included=True
    )
    await expire(tx, order)  # the session expires while the gateway is queried
    await attempt_queries.SCHEDULE_CHECK.run(
        tx, merchant_id=order.merchant_id, id=claimed.id, status=claimed.status,
        check_at=LATER + 9 * HOUR, claimed_until=claimed.check_at,
    )  # fmt: skip
    (after,) = await read_attempts(tx, order)
    assert after.check_at == LATER
