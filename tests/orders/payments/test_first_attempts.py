"""Intent and result in one statement each write the same as under the order's lock, or nothing."""

import re
from typing import Final

import pytest

from opentill import checkouts, orders
from opentill.db.database import Tx
from opentill.gateways.model import PaymentOutcome
from opentill.orders import Order, Payer, PaymentAttempt
from opentill.orders.payments import outcomes
from opentill.orders.payments import service as payments
from support.world import NOW, create_order, dump, report_payment, submit_attempt

PAYER: Final = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale="en")
OUTCOMES: Final = (
    PaymentOutcome(
        status="ACTION_REQUIRED", provider_ref="p-1", action_url="https://bank.example/1"
    ),
    PaymentOutcome(status="ACTION_REQUIRED", qr_text="wallet:1", reason="scan"),
    PaymentOutcome(status="PENDING"),
)
_ATTEMPT_IDS: Final = re.compile(r"att_[0-9a-z]+")


async def start(tx: Tx, order: Order) -> PaymentAttempt | None:
    """Record the intent to pay an order as it was read."""
    return await payments.start_first_attempt(tx, order, "sandbox", "CREDIT_CARD", PAYER, NOW + 5)


async def read_rows(tx: Tx) -> dict[str, list[str]]:
    """Return all rows, without the ids of attempts."""
    rows = await dump(tx)
    return {
        table: [_ATTEMPT_IDS.sub("id", line) for line in lines] for table, lines in rows.items()
    }


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_one_statement_each_writes_the_same_as_under_the_lock(
    tx: Tx, outcome: PaymentOutcome
) -> None:
    order = await create_order(tx)
    rows = []
    for in_one_statement in (True, False):
        savepoint = tx.transaction()
        await savepoint.start()
        if in_one_statement:
            attempt = await start(tx, order)
            assert attempt is not None
        else:
            attempt = await submit_attempt(tx, order, NOW + 5)
        started = await read_rows(tx)
        if in_one_statement:
            after = await payments.accept_sent(
                tx, payments.after_intent(order), attempt, outcome, NOW + 9
            )
        else:
            after = await outcomes.apply_to_attempt(tx, attempt, outcome, NOW + 9)
        assert after is not None
        assert after.status == outcome.status
        rows.append((started, await read_rows(tx)))
        await savepoint.rollback()
    assert rows[0] == rows[1]


async def test_an_order_that_changed_since_it_was_read_is_not_sent(tx: Tx) -> None:
    order = await create_order(tx)
    first = await submit_attempt(tx, order)
    assert await start(tx, order) is None
    await report_payment(tx, first, "DECLINED")  # it is PENDING again, and has an attempt
    before = await dump(tx)
    assert await start(tx, order) is None
    assert await dump(tx) == before


async def test_an_order_that_expired_since_it_was_read_is_not_sent(tx: Tx) -> None:
    order = await create_order(tx)
    await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", NOW)
    before = await dump(tx)
    assert await start(tx, order) is None
    assert await dump(tx) == before


@pytest.mark.parametrize("status", ["SUCCEEDED", "PENDING", "DECLINED", "REFUSED"])
async def test_a_callback_before_the_response_takes_precedence(tx: Tx, status: str) -> None:
    order = await create_order(tx)
    attempt = await start(tx, order)
    assert attempt is not None
    await report_payment(tx, attempt, status, NOW + 6)
    before = await dump(tx)
    late = PaymentOutcome(status="ACTION_REQUIRED", action_url="https://bank.example/1")
    assert (
        await payments.accept_sent(tx, payments.after_intent(order), attempt, late, NOW + 9) is None
    )
    assert await dump(tx) == before
    assert (await orders.find_attempt(tx, order.merchant_id, attempt.id)).status == status


async def test_an_outcome_that_ends_an_attempt_is_not_applied_without_the_lock(tx: Tx) -> None:
    order = await create_order(tx)
    attempt = await start(tx, order)
    assert attempt is not None
    for status in ("SUCCEEDED", "DECLINED", "UNKNOWN", "UNREACHABLE"):
        outcome = PaymentOutcome(status=status)
        sent = payments.after_intent(order)
        assert await payments.accept_sent(tx, sent, attempt, outcome, NOW) is None
    assert await orders.find_attempt(tx, order.merchant_id, attempt.id) == attempt
