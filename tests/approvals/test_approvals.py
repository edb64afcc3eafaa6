"""What staff do by hand is done by two persons above the limit, in sum over 24 hours."""

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
LIMIT: Final = Decimal(10)  # more than 9.99 and less than twice that
RULES: Final = Rules(LIMIT, True, frozenset())
ANN: Final = Actor("ann", "the bank says so")
BOB: Final = Approver("bob", lambda _account: False)


def asked(order: Order, action: Action, subject: str, actor: Actor = ANN) -> ActionRequest:
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


async def perform(tx: Tx, request: ActionRequest, above: str | None, now: int = NOW) -> Any:
    limit = None if above is None else Decimal(above)
    return await approvals.perform(tx, request, Rules(limit, True, frozenset()), now)


async def prepared(tx: Tx, action: Action) -> tuple[Order, str]:
    """Return an order and the subject of an action that can be done about it."""
    if action == "confirm":
        order = await world.opened(tx)
        return order, order.id
    if action in {"refund", "refund-recorded", "refund-failed", "refund-reversed"}:
        order = await world.in_status(tx, "PAID")
        if action in {"refund", "refund-recorded"}:
            return order, order.id
        refund = await world.refunded(tx, order)
        if action == "refund-reversed":
            await world.refund_said(tx, refund, "SUCCEEDED")
        return order, refund.id
    if action in {"dispute-won", "dispute-recovered"}:
        order = await world.in_status(tx, "PAID")
        ids = order.merchant_id, order.id
        dispute = await disputes.open_manually(
            tx, *ids, who="ann", reason="lost card", now=NOW, amount_minor=None
        )
        if action == "dispute-recovered":
            await disputes.decide(
                tx, order.merchant_id, dispute.id, "lost", who="ann", reason="late", now=NOW
            )
        return order, dispute.id
    order = await world.in_status(tx, "SETTLED")
    wanted = PayoutRequest(amount_minor=None, reference="W", reason="weekly", by="ann")
    payout = await payouts.create(tx, order.merchant_id, wanted, None, NOW)
    if action == "payout-returned":
        await payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW)
    return order, payout.id


async def state(tx: Tx, order: Order) -> tuple[Any, ...]:
    """Return what an action could change."""
    current = await orders.find(tx, order.merchant_id, order.id)
    entries = await world.entries(tx, order.merchant_id)
    sent = [one.status for one in await payouts.search(tx, order.merchant_id)]
    return current, entries, sent


@pytest.mark.parametrize("action", ACTIONS)
async def test_above_the_limit_it_waits_for_a_second_person(tx: Tx, action: Action) -> None:
    order, subject = await prepared(tx, action)
    before = await state(tx, order)
    request = asked(order, action, subject)
    held = await perform(tx, request, "5")
    assert isinstance(held, WaitingAction)
    assert (held.status, held.asked_by, held.action) == ("WAITING", "ann", action)
    assert held.currency == "USD"
    assert held.amount_minor > 500
    assert await state(tx, order) == before
    assert await perform(tx, request, "5") == held  # asked for again, it is the same request
    assert [one.id for one in await approvals.waiting(tx)] == [held.id]
    rules = Rules(Decimal(5), True, frozenset())
    for own in ("ann", "ANN"):
        with pytest.raises(Invalid) as refused:
            await approvals.approve(tx, held.id, Approver(own, lambda _: False), rules, NOW)
        assert refused.value.field == "by"
    await approvals.approve(tx, held.id, BOB, rules, NOW)
    assert await state(tx, order) != before
    assert await approvals.waiting(tx) == []
    with pytest.raises(Invalid):
        await approvals.approve(tx, held.id, BOB, rules, NOW)


@pytest.mark.parametrize("action", ACTIONS)
async def test_up_to_the_limit_and_without_one_it_is_done(tx: Tx, action: Action) -> None:
    for above in ("100", None):
        order, subject = await prepared(tx, action)
        before = await state(tx, order)
        done = await perform(tx, asked(order, action, subject), above)
        assert not isinstance(done, WaitingAction)
        assert await state(tx, order) != before


@pytest.mark.parametrize("action", ACTIONS)
async def test_what_is_rejected_is_not_done(tx: Tx, action: Action) -> None:
    order, subject = await prepared(tx, action)
    before = await state(tx, order)
    held = await perform(tx, asked(order, action, subject), "5")
    await approvals.reject(tx, held.id, Actor("ann", "a mistake"), NOW)
    assert await state(tx, order) == before
    with pytest.raises(Invalid):
        await approvals.approve(tx, held.id, BOB, RULES, NOW)
    again = await perform(tx, asked(order, action, subject), "5")
    assert again.id != held.id


# ── what somebody moves is added up ──


async def orders_of_one_merchant(tx: Tx, count: int) -> list[Order]:
    """Return unpaid orders over 9.99 of one merchant."""
    first = await world.opened(tx)
    found = [first]
    while len(found) < count:
        product = await world.product(tx, first.merchant_id)
        session = await world.session(tx, first.merchant_id, product.id)
        found.append(await orders.find(tx, first.merchant_id, session.order_id))
    return found


async def confirm(tx: Tx, order: Order, actor: Actor = ANN, now: int = NOW) -> bool:
    """Confirm an order; return whether it waits."""
    done = await perform(tx, asked(order, "confirm", order.id, actor), "10", now)
    return isinstance(done, WaitingAction)


async def test_splitting_does_not_help(tx: Tx) -> None:
    first, second, third = await orders_of_one_merchant(tx, 3)
    assert not await confirm(tx, first)
    assert await confirm(tx, second)
    recharge = AdjustmentRequest(
        kind="recharge", amount_minor=2, reference="R", reason="sent", by="Ann"
    )
    made = await adjustments.request(tx, first.merchant_id, recharge, LIMIT, NOW)
    assert made.status == "WAITING"  # 9.99 and 0.02, of whichever kind
    assert not await confirm(tx, third, Actor("bob", "of another person"))


async def test_of_another_merchant_or_after_a_day_it_does_not_count(tx: Tx) -> None:
    first, second = await orders_of_one_merchant(tx, 2)
    assert not await confirm(tx, first)
    assert not await confirm(tx, await world.opened(tx))
    assert await confirm(tx, second, now=NOW + 24 * HOUR - 1)
    (held,) = await approvals.waiting(tx)
    await approvals.reject(tx, held.id, ANN, NOW)
    assert not await confirm(tx, second, now=NOW + 24 * HOUR)


async def test_what_two_persons_did_does_not_count(tx: Tx) -> None:
    first, second, third = await orders_of_one_merchant(tx, 3)
    held = await perform(tx, asked(first, "confirm", first.id), "5")
    await approvals.approve(tx, held.id, BOB, RULES, NOW)
    assert not await confirm(tx, second)
    assert await confirm(tx, third)


async def test_payouts_count_with_their_fee(tx: Tx) -> None:
    order = await world.in_status(tx, "SETTLED")
    shop = order.merchant_id

    async def pay(minor: int, reference: str, now: int = NOW) -> bool:
        wanted = PayoutRequest(
            amount_minor=minor, fee_minor=1, reference=reference, reason="weekly", by="ann"
        )
        made = await payouts.request(tx, shop, wanted, Decimal(5), now)
        return isinstance(made, payouts.WaitingPayout)

    assert not await pay(399, "A")
    assert not await pay(99, "B")
    assert await pay(1, "C")
    assert not await pay(1, "D", NOW + 24 * HOUR)


async def test_whoever_is_the_machines_owner_is_one_person(tx: Tx) -> None:
    first, second = await orders_of_one_merchant(tx, 2)
    assert not await confirm(tx, first, Actor("root (ann)", "why"))
    assert await confirm(tx, second, Actor("root (bob)", "why"))


async def test_a_person_is_one_by_whichever_address(tx: Tx) -> None:
    first, second = await orders_of_one_merchant(tx, 2)
    person = "(per_01m7y0m0jzefzv5n8efcf1hqw1)"
    assert not await confirm(tx, first, Actor(f"ann@example.com {person}", "why"))
    assert await confirm(tx, second, Actor(f"anna@example.com {person}", "why"))


async def test_of_two_at_once_one_waits(db: Db, database_url: str) -> None:
    found = await db.run(lambda tx: orders_of_one_merchant(tx, 8))
    many = await Db.connect(database_url, 8, acquire_timeout_s=60)
    try:
        waits = await asyncio.gather(
            *(many.run(lambda tx, order=one: confirm(tx, order)) for one in found)
        )
    finally:
        await many.close()
    assert sorted(waits) == [False] + [True] * 7


# ── confirming ──


async def wait_for_transfer(tx: Tx, order: Order, gateway: str, minor: int | None = None) -> None:
    method: Method = "BANK_TRANSFER"
    payer = Payer(email="eve@example.com", name="", ip="192.0.2.1", locale="en")
    if minor is not None:
        await tx.execute("update orders set amount_minor = amount_minor where id = $1", order.id)
    await orders.start_attempt(tx, order, gateway, method, payer, NOW)


async def test_what_a_customer_says_to_have_sent_is_no_credit(tx: Tx) -> None:
    order = await world.opened(tx)
    await wait_for_transfer(tx, order, "manual")
    done = await perform(tx, asked(order, "confirm", order.id), "5")
    assert isinstance(done, Order)
    assert done.status == "PAID"


async def test_an_attempt_at_a_gateway_that_reports_by_itself_is_no_payment(tx: Tx) -> None:
    order = await world.opened(tx)
    await wait_for_transfer(tx, order, "sandbox")
    held = await perform(tx, asked(order, "confirm", order.id), "5")
    assert isinstance(held, WaitingAction)
    assert (held.amount_minor, held.currency) == (999, "USD")


async def test_an_order_that_was_paid_meanwhile_goes_on_waiting_until_it_is_rejected(
    tx: Tx,
) -> None:
    order = await world.opened(tx)
    held = await perform(tx, asked(order, "confirm", order.id), "5")
    await world.paid(tx, order)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await approvals.approve(tx, held.id, BOB, RULES, NOW)
    assert [one.id for one in await approvals.waiting(tx)] == [held.id]
    await approvals.reject(tx, held.id, Actor("bob", "paid by card"), NOW)
    assert await approvals.waiting(tx) == []


async def test_history_and_audit_log_name_both_persons(tx: Tx) -> None:
    order = await world.opened(tx)
    held = await perform(tx, asked(order, "confirm", order.id), "5")
    await approvals.approve(tx, held.id, BOB, RULES, NOW)
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
    causes = [line.cause for line in await world.history(tx, order)]
    assert "confirmed by ann and bob: the bank says so" in causes


async def test_only_one_refund_of_an_order_waits(tx: Tx) -> None:
    order = await world.in_status(tx, "PAID")
    await perform(tx, asked(order, "refund", order.id), "5")
    request = ActionRequest(
        action="refund",
        merchant_id=order.merchant_id,
        subject=order.id,
        actor=ANN,
        refund=RefundDetails(amount="9.00"),
    )
    with pytest.raises(Invalid, match="wait already"):
        await perform(tx, request, "5")
    assert await refunds.of_order(tx, order.merchant_id, order.id, 10) == []
