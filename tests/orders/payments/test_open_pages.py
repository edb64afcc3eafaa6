"""Pages that wait for a customer whose order is over: their gateways hear of it at once."""

import pytest

from opentill import orders
from opentill.db.database import Tx
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments import queries as attempt_queries
from support.world import HOUR, NOW, attempts, opened, said, submitted

LATER = NOW + HOUR


async def waiting(tx: Tx) -> tuple[Order, PaymentAttempt]:
    """Make an order with a page that waits, not to be asked about for a while."""
    order = await opened(tx)
    attempt = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    await attempt_queries.ASK_AGAIN.run(
        tx,
        merchant_id=order.merchant_id,
        id=attempt.id,
        status=attempt.status,
        check_at=LATER + HOUR,
        claimed_until=attempt.check_at,
    )
    return order, attempt


async def another_pays(tx: Tx, order: Order) -> None:
    await said(tx, await submitted(tx, order, LATER), "SUCCEEDED", LATER)


async def another_is_refused(tx: Tx, order: Order) -> None:
    await said(tx, await submitted(tx, order, LATER), "REFUSED", LATER)


async def time_is_over(tx: Tx, order: Order) -> None:
    locked = await orders.lock(tx, order.merchant_id, order.id)
    await orders.transition(tx, orders.Change(locked, "expired", "24 hours are over"), LATER)


async def the_operator_revokes(tx: Tx, order: Order) -> None:
    await orders.revoke_manually(tx, order.merchant_id, order.id, "ann", "fraud", LATER)


async def the_operator_confirms(tx: Tx, order: Order) -> None:
    await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "seen", LATER)


async def another_is_submitted(tx: Tx, order: Order) -> None:
    await submitted(tx, order, LATER)


async def another_is_declined(tx: Tx, order: Order) -> None:
    await said(tx, await submitted(tx, order, LATER), "DECLINED", LATER)


@pytest.mark.parametrize(("happens", "at_once"), [
    (another_pays, True),
    (another_is_refused, True),
    (time_is_over, True),
    (the_operator_revokes, True),
    (the_operator_confirms, True),
    (another_is_submitted, False),
    (another_is_declined, False),
])  # fmt: skip
async def test_a_page_is_seen_to_at_once_when_its_order_is_over(tx: Tx, happens, at_once) -> None:
    order, attempt = await waiting(tx)
    await happens(tx, order)
    first = (await attempts(tx, order))[0]
    assert first.id == attempt.id
    assert first.status == "ACTION_REQUIRED"
    assert first.check_at == (LATER if at_once else LATER + HOUR)


async def test_what_became_due_while_it_was_asked_about_stays_due(tx: Tx) -> None:
    order, _ = await waiting(tx)
    lease = LATER + 3 * HOUR
    (claimed,) = await attempt_queries.CLAIM_ATTEMPTS.all(
        tx, now=LATER + 2 * HOUR, lease_until=lease, limit=50, gateways=None, included=True
    )
    await time_is_over(tx, order)  # while the gateway is asked
    await attempt_queries.ASK_AGAIN.run(
        tx, merchant_id=order.merchant_id, id=claimed.id, status=claimed.status,
        check_at=LATER + 9 * HOUR, claimed_until=claimed.check_at,
    )  # fmt: skip
    (after,) = await attempts(tx, order)
    assert after.check_at == LATER
