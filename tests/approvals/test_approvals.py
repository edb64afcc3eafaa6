"""Manual actions need a second person if the actor's sum in 24 hours exceeds the limit."""

import asyncio
from decimal import Decimal
from typing import Any, Final

import pytest

from opentill import adjustments, approvals, disputes, orders, payouts, refunds
from opentill.adjustments import AdjustmentRequest
from opentill.approvals import ActionRequest, RefundDetails, Rules, WaitingAction
from opentill.approvals.model import ACTIONS, Action
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.gateways.model import Method
from opentill.merchants import Actor
from opentill.orders import Order, Payer
from opentill.payouts import PayoutRequest
from opentill.people import Approver
from support import world
from support.world import NOW

HOUR: Final = 3_600_000
LIMIT: Final = Decimal(10)  # above the price of one order (9.99 USD), below the price of two
RULES: Final = Rules(LIMIT, True, frozenset())
ANN: Final = Actor("ann", "the bank says so")
BOB: Final = Approver("bob", lambda _account: False)


def build_request(order: Order, action: Action, subject: str, actor: Actor = ANN) -> ActionRequest:
    details = None
    if action in {"refund", "refund-recorded"}:
        reference = "B-1" if action == "refund-recorded" else None
        details = RefundDetails(amount="9.99", reference=reference)
    return ActionRequest(
        action=action,
        merchant_id=order.merchant_id,
        subject=subject,
        actor=actor,
        refund=details,
    )


async def perform(tx: Tx, request: ActionRequest, limit: str | None, now: int = NOW) -> Any:
    """Request an action: it is performed, or waits for a second person if it exceeds the limit."""
    rules = Rules(None if limit is None else Decimal(limit), True, frozenset())
    return await approvals.perform(tx, request, rules, now)


async def create_subject(tx: Tx, action: Action) -> tuple[Order, str]:
    """Create an order that allows the action; return it and the id of the action's subject."""
    if action == "confirm":
        order = await world.create_order(tx)
        return order, order.id
    if action in {"refund", "refund-recorded", "refund-failed", "refund-reversed"}:
        order = await world.create_order_in(tx, "PAID")
        if action in {"refund", "refund-recorded"}:
            return order, order.id
        refund = await world.create_refund(tx, order)
        if action == "refund-reversed":
            await world.report_refund(tx, refund, "SUCCEEDED")
        return order, refund.id
    if action in {"dispute-won", "dispute-recovered"}:
        order = await world.create_order_in(tx, "PAID")
        ids = order.merchant_id, order.id
        dispute = await disputes.open_manually(
            tx, *ids, who="ann", reason="lost card", now=NOW, amount_minor=None
        )
        if action == "dispute-recovered":
            await disputes.decide(
                tx, order.merchant_id, dispute.id, "lost", who="ann", reason="late", now=NOW
            )
        return order, dispute.id
    order = await world.create_order_in(tx, "SETTLED")
    request = PayoutRequest(amount_minor=None, reference="W", reason="weekly", by="ann")
    payout = await payouts.create(tx, order.merchant_id, request, None, NOW)
    if action == "payout-returned":
        await payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW)
    return order, payout.id


async def read_state(tx: Tx, order: Order) -> tuple[Any, ...]:
    """Return the rows that an action could change."""
    current = await orders.find(tx, order.merchant_id, order.id)
    entries = await world.read_entries(tx, order.merchant_id)
    payout_statuses = [payout.status for payout in await payouts.search(tx, order.merchant_id)]
    return current, entries, payout_statuses


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_above_the_limit_waits_for_a_second_person(tx: Tx, action: Action) -> None:
    order, subject = await create_subject(tx, action)
    before = await read_state(tx, order)
    request = build_request(order, action, subject)
    waiting_action = await perform(tx, request, "5")
    assert isinstance(waiting_action, WaitingAction)
    assert (waiting_action.status, waiting_action.asked_by, waiting_action.action) == (
        "WAITING",
        "ann",
        action,
    )
    assert waiting_action.currency == "USD"
    assert waiting_action.amount_minor > 500
    assert await read_state(tx, order) == before
    assert (
        await perform(tx, request, "5") == waiting_action
    )  # a repeated request creates no second action
    assert [row.id for row in await approvals.list_waiting(tx)] == [waiting_action.id]
    rules = Rules(Decimal(5), True, frozenset())
    for name in ("ann", "ANN"):
        with pytest.raises(Invalid) as refusal:
            await approvals.approve(
                tx, waiting_action.id, Approver(name, lambda _: False), rules, NOW
            )
        assert refusal.value.field == "by"
    await approvals.approve(tx, waiting_action.id, BOB, rules, NOW)
    assert await read_state(tx, order) != before
    assert await approvals.list_waiting(tx) == []
    with pytest.raises(Invalid):
        await approvals.approve(tx, waiting_action.id, BOB, rules, NOW)


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_up_to_the_limit_or_without_a_limit_is_performed(
    tx: Tx, action: Action
) -> None:
    for limit in ("100", None):
        order, subject = await create_subject(tx, action)
        before = await read_state(tx, order)
        result = await perform(tx, build_request(order, action, subject), limit)
        assert not isinstance(result, WaitingAction)
        assert await read_state(tx, order) != before


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_rejected_action_is_not_performed(tx: Tx, action: Action) -> None:
    order, subject = await create_subject(tx, action)
    before = await read_state(tx, order)
    waiting_action = await perform(tx, build_request(order, action, subject), "5")
    await approvals.reject(tx, waiting_action.id, Actor("ann", "a mistake"), NOW)
    assert await read_state(tx, order) == before
    with pytest.raises(Invalid):
        await approvals.approve(tx, waiting_action.id, BOB, RULES, NOW)
    new_request = await perform(tx, build_request(order, action, subject), "5")
    assert new_request.id != waiting_action.id


# ── the limit applies to the sum of a person's movements ──


async def create_orders(tx: Tx, count: int) -> list[Order]:
    """Create ``count`` unpaid orders of one merchant. The amount of each is 9.99."""
    created_orders = [await world.create_order(tx)]
    shop = created_orders[0].merchant_id
    while len(created_orders) < count:
        product = await world.create_product(tx, shop)
        session = await world.create_session(tx, shop, product.id)
        created_orders.append(await orders.find(tx, shop, session.order_id))
    return created_orders


async def confirm_waits(tx: Tx, order: Order, actor: Actor = ANN, now: int = NOW) -> bool:
    """Request that an order is confirmed; return whether the action waits for a second person."""
    result = await perform(tx, build_request(order, "confirm", order.id, actor), "10", now)
    return isinstance(result, WaitingAction)


async def test_splitting_an_amount_does_not_avoid_the_limit(tx: Tx) -> None:
    first_order, second_order, third_order = await create_orders(tx, 3)
    assert not await confirm_waits(tx, first_order)
    assert await confirm_waits(tx, second_order)
    recharge = AdjustmentRequest(
        kind="recharge", amount_minor=2, reference="R", reason="sent", by="Ann"
    )
    adjustment = await adjustments.request(tx, first_order.merchant_id, recharge, LIMIT, NOW)
    # The adjustment counts with the first order: 9.99 + 0.02 > 10.
    assert adjustment.status == "WAITING"
    assert not await confirm_waits(tx, third_order, Actor("bob", "another person"))


async def test_movements_of_another_merchant_or_of_yesterday_do_not_count(tx: Tx) -> None:
    first_order, second_order = await create_orders(tx, 2)
    assert not await confirm_waits(tx, first_order)
    assert not await confirm_waits(tx, await world.create_order(tx))
    assert await confirm_waits(tx, second_order, now=NOW + 24 * HOUR - 1)
    (waiting_action,) = await approvals.list_waiting(tx)
    await approvals.reject(tx, waiting_action.id, ANN, NOW)
    assert not await confirm_waits(tx, second_order, now=NOW + 24 * HOUR)


async def test_movements_that_a_second_person_approved_do_not_count(tx: Tx) -> None:
    first_order, second_order, third_order = await create_orders(tx, 3)
    waiting_action = await perform(tx, build_request(first_order, "confirm", first_order.id), "5")
    await approvals.approve(tx, waiting_action.id, BOB, RULES, NOW)
    assert not await confirm_waits(tx, second_order)
    assert await confirm_waits(tx, third_order)


async def test_payouts_count_with_their_fee(tx: Tx) -> None:
    order = await world.create_order_in(tx, "SETTLED")
    shop = order.merchant_id

    async def payout_waits(minor: int, reference: str, now: int = NOW) -> bool:
        request = PayoutRequest(
            amount_minor=minor, fee_minor=1, reference=reference, reason="weekly", by="ann"
        )
        payout = await payouts.request(tx, shop, request, Decimal(5), now)
        return isinstance(payout, payouts.WaitingPayout)

    assert not await payout_waits(399, "A")
    assert not await payout_waits(99, "B")
    assert await payout_waits(1, "C")
    assert not await payout_waits(1, "D", NOW + 24 * HOUR)


async def test_everybody_who_acts_as_root_counts_as_one_person(tx: Tx) -> None:
    first_order, second_order = await create_orders(tx, 2)
    assert not await confirm_waits(tx, first_order, Actor("root (ann)", "why"))
    assert await confirm_waits(tx, second_order, Actor("root (bob)", "why"))


async def test_a_person_who_changes_their_address_stays_the_same_person(tx: Tx) -> None:
    first_order, second_order = await create_orders(tx, 2)
    person = "(per_01m7y0m0jzefzv5n8efcf1hqw1)"
    assert not await confirm_waits(tx, first_order, Actor(f"ann@example.com {person}", "why"))
    assert await confirm_waits(tx, second_order, Actor(f"anna@example.com {person}", "why"))


async def test_only_one_of_concurrent_confirmations_stays_below_the_limit(
    db: Db, database_url: str
) -> None:
    pending = await db.run(lambda tx: create_orders(tx, 8))
    pool = await Db.connect(database_url, 8, acquire_timeout_s=60)
    try:
        waits = await asyncio.gather(
            *(pool.run(lambda tx, order=order: confirm_waits(tx, order)) for order in pending)
        )
    finally:
        await pool.close()
    assert sorted(waits) == [False] + [True] * 7


# ── confirming ──


async def start_transfer(tx: Tx, order: Order, gateway: str) -> None:
    method: Method = "BANK_TRANSFER"
    payer = Payer(email="eve@example.com", name="", ip="192.0.2.1", locale="en")
    await orders.start_attempt(tx, order, gateway, method, payer, NOW)


async def test_confirming_a_transfer_that_the_customer_announced_needs_one_person(tx: Tx) -> None:
    order = await world.create_order(tx)
    await start_transfer(tx, order, "manual")
    result = await perform(tx, build_request(order, "confirm", order.id), "5")
    assert isinstance(result, Order)
    assert result.status == "PAID"


async def test_confirming_despite_a_gateway_that_reports_needs_two_persons(tx: Tx) -> None:
    order = await world.create_order(tx)
    await start_transfer(tx, order, "sandbox")
    waiting_action = await perform(tx, build_request(order, "confirm", order.id), "5")
    assert isinstance(waiting_action, WaitingAction)
    assert (waiting_action.amount_minor, waiting_action.currency) == (999, "USD")


async def test_a_request_for_an_order_that_was_paid_meanwhile_can_only_be_rejected(tx: Tx) -> None:
    order = await world.create_order(tx)
    waiting_action = await perform(tx, build_request(order, "confirm", order.id), "5")
    await world.pay_order(tx, order)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await approvals.approve(tx, waiting_action.id, BOB, RULES, NOW)
    assert [row.id for row in await approvals.list_waiting(tx)] == [waiting_action.id]
    await approvals.reject(tx, waiting_action.id, Actor("bob", "paid by card"), NOW)
    assert await approvals.list_waiting(tx) == []


async def test_history_and_audit_log_name_both_persons(tx: Tx) -> None:
    order = await world.create_order(tx)
    waiting_action = await perform(tx, build_request(order, "confirm", order.id), "5")
    await approvals.approve(tx, waiting_action.id, BOB, RULES, NOW)
    rows = await tx.fetch(
        "select who, action from audit_log where merchant_id = $1 and action not like 'merchants%'"
        " order by number",
        order.merchant_id,
    )
    assert [tuple(row) for row in rows][-3:] == [
        ("ann", "approvals request"),
        ("bob", "approvals approve"),
        ("ann and bob", "orders confirm"),
    ]
    causes = [line.cause for line in await world.read_history(tx, order)]
    assert "confirmed by ann and bob: the bank says so" in causes


async def test_only_one_refund_of_an_order_can_wait(tx: Tx) -> None:
    order = await world.create_order_in(tx, "PAID")
    await perform(tx, build_request(order, "refund", order.id), "5")
    request = ActionRequest(
        action="refund",
        merchant_id=order.merchant_id,
        subject=order.id,
        actor=ANN,
        refund=RefundDetails(amount="9.00"),
    )
    with pytest.raises(Invalid, match="wait already"):
        await perform(tx, request, "5")
    assert await refunds.list_for_order(tx, order.merchant_id, order.id, 10) == []
