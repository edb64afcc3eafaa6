"""Intent and result take one statement each, which writes nothing if the order has changed."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from opentill import checkouts, orders
from opentill.db.database import Db, Tx
from opentill.gateways.model import Method, PaymentOutcome, PaymentRequest, PaymentStatus
from opentill.orders import Order, Payer, PaymentAttempt, PaymentIntent
from opentill.orders.payments import intents, outcomes
from opentill.orders.payments import service as payments
from support.world import NOW, create_order, dump_rows, read_history, report_payment, submit_attempt

PAYER: Final = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale="en")
OUTCOMES: Final = (
    PaymentOutcome(
        status="ACTION_REQUIRED", provider_ref="p-1", action_url="https://bank.example/1"
    ),
    PaymentOutcome(status="ACTION_REQUIRED", qr_text="wallet:1", reason="scan"),
    PaymentOutcome(status="PENDING"),
)


async def start(tx: Tx, order: Order) -> PaymentAttempt | None:
    """Record the intent to pay an order as it was read."""
    return await intents.start_unlocked(tx, order, "sandbox", "CREDIT_CARD", PAYER, NOW + 5)


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_an_intent_and_its_acceptance_need_no_lock(tx: Tx, outcome: PaymentOutcome) -> None:
    order = await create_order(tx)
    attempt = await start(tx, order)
    assert attempt is not None
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "CREATING"
    accepted = await outcomes.accept(tx, intents.after_intent(order), attempt, outcome, NOW + 9)
    assert accepted is not None
    assert (accepted.status, accepted.provider_ref) == (outcome.status, outcome.provider_ref)
    assert (accepted.action_url, accepted.qr_text) == (outcome.action_url, outcome.qr_text)
    assert accepted == await orders.find_attempt(tx, order.merchant_id, attempt.id)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PENDING"
    events = [line.event for line in await read_history(tx, order)]
    assert events == ["opened", "submitted", "accepted"]


async def test_an_order_that_changed_since_it_was_read_starts_no_attempt(tx: Tx) -> None:
    order = await create_order(tx)
    first = await submit_attempt(tx, order)
    assert await start(tx, order) is None
    # The order is PENDING again, but already has an attempt.
    await report_payment(tx, first, "DECLINED")
    before = await dump_rows(tx)
    assert await start(tx, order) is None
    assert await dump_rows(tx) == before


async def test_an_order_that_expired_since_it_was_read_starts_no_attempt(tx: Tx) -> None:
    order = await create_order(tx)
    await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", NOW)
    before = await dump_rows(tx)
    assert await start(tx, order) is None
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("status", ["SUCCEEDED", "PENDING", "DECLINED", "REFUSED"])
async def test_a_callback_before_the_response_takes_precedence(tx: Tx, status: str) -> None:
    order = await create_order(tx)
    attempt = await start(tx, order)
    assert attempt is not None
    await report_payment(tx, attempt, status, NOW + 6)
    before = await dump_rows(tx)
    late = PaymentOutcome(status="ACTION_REQUIRED", action_url="https://bank.example/1")
    assert await outcomes.accept(tx, intents.after_intent(order), attempt, late, NOW + 9) is None
    assert await dump_rows(tx) == before
    assert (await orders.find_attempt(tx, order.merchant_id, attempt.id)).status == status


async def test_an_outcome_that_ends_an_attempt_is_not_applied_without_the_lock(tx: Tx) -> None:
    order = await create_order(tx)
    attempt = await start(tx, order)
    assert attempt is not None
    for status in ("SUCCEEDED", "DECLINED", "UNKNOWN", "UNREACHABLE"):
        outcome = PaymentOutcome(status=status)
        sent = intents.after_intent(order)
        assert await outcomes.accept(tx, sent, attempt, outcome, NOW) is None
    assert await orders.find_attempt(tx, order.merchant_id, attempt.id) == attempt


class _Gateway:
    """A gateway that gives every payment the same status."""

    def __init__(self, status: PaymentStatus) -> None:
        self._status: PaymentStatus = status

    def methods(self, currency: str) -> tuple[Method, ...]:
        return ("ALIPAY",)

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        return PaymentOutcome(status=self._status, action_url="https://bank.example/1")


def gateway_with(status: PaymentStatus) -> Mapping[str, Any]:
    """Return the one gateway of a deployment, which gives every payment this status."""
    return {"sandbox": _Gateway(status)}


async def submit(
    db: Db,
    order: Order,
    gateways: Mapping[str, Any],
    seen: payments.OrderState | None,
    payer: Payer = PAYER,
) -> PaymentAttempt | None:
    """Submit the payment form of an order; ``seen`` is the state that the page has read."""
    intent = PaymentIntent(
        merchant_id=order.merchant_id,
        order_id=order.id,
        payer=payer,
        method="ALIPAY",
        merchant_name="Shop",
    )
    return await payments.submit(db, gateways, intent, "http://127.0.0.1:9", NOW, seen=seen)


async def test_many_forms_that_saw_the_same_order_start_one_attempt(db: Db) -> None:
    order = await db.run(create_order)
    gateways = gateway_with("ACTION_REQUIRED")
    seen = payments.OrderState(order, None)
    attempts = await asyncio.gather(*(submit(db, order, gateways, seen) for _ in range(8)))
    assert len({attempt.id for attempt in attempts if attempt is not None}) == 1
    assert None not in attempts


async def test_a_form_that_saw_the_order_before_a_decline_starts_another_attempt(db: Db) -> None:
    order = await db.run(create_order)
    seen = payments.OrderState(order, None)
    declined = await submit(db, order, gateway_with("DECLINED"), seen)
    assert declined is not None
    assert declined.status == "DECLINED"
    second_attempt = await submit(db, order, gateway_with("ACTION_REQUIRED"), seen)
    assert second_attempt is not None
    assert (second_attempt.status, second_attempt.id == declined.id) == ("ACTION_REQUIRED", False)


async def test_a_form_that_saw_the_order_before_it_was_paid_starts_no_attempt(db: Db) -> None:
    order = await db.run(create_order)
    seen = payments.OrderState(order, None)
    paid = await submit(db, order, gateway_with("SUCCEEDED"), seen)
    assert paid == await submit(db, order, gateway_with("ACTION_REQUIRED"), seen)


async def test_a_form_for_an_attempt_under_way_changes_the_payer_of_an_unpaid_order_only(
    db: Db,
) -> None:
    order = await db.run(create_order)
    gateways = gateway_with("ACTION_REQUIRED")
    waiting = await submit(db, order, gateways, None)
    assert waiting is not None
    async with db.connection() as tx:
        seen = payments.OrderState(await orders.find(tx, order.merchant_id, order.id), waiting)
    await db.run(lambda tx: report_payment(tx, waiting, "SUCCEEDED", NOW + 6))
    async with db.connection() as tx:
        before = await dump_rows(tx)
    renamed = msgspec.structs.replace(PAYER, email="bob@example.com", name="Bob")
    assert await submit(db, order, gateways, seen, renamed) == waiting
    async with db.connection() as tx:
        assert await dump_rows(tx) == before
