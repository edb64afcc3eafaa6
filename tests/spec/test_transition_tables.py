"""Every status meets every event as the tables of contract.md#transitions say.

An event in the table leads to the status in its cell. Any other event is refused or ignored and
changes no row. ``tests/orders/test_transitions.py`` tests orders that are not yet paid, and
``tests/payouts/test_transitions.py`` payouts.
"""

import itertools
from typing import Any

import msgspec
import pytest

from opentill import adjustments, disputes, ledger, orders
from opentill.adjustments import AdjustmentRequest
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.ledger.postings import ACCOUNTS, BY_MOVE, Type
from opentill.orders import Order
from opentill.orders.model import STATUSES as ORDER_STATUSES
from opentill.orders.settlement import service as settlement
from support.list_connection import SingleTransactionDb
from support.world import (
    DAY,
    NOW,
    create_merchant,
    create_order_in,
    create_refund,
    create_session,
    dump_rows,
    new_reference,
    pay_order,
    read_balances,
    read_entries,
    report_dispute,
    report_refund,
    settle_order,
)

LATER = NOW + 5_000
MUCH_LATER = NOW + 400 * DAY
RESERVE = {"price": "100.00", "reserve_rate": "0.1", "reserve_days": 3}
ORIGINS = ("PAID", "SETTLED")


async def read_order(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def create_order_with_origin(tx: Tx, status: str, origin: str = "PAID") -> Order:
    """Create an order with ``status``; ``origin`` is its status before a refund or dispute."""
    if origin == "PAID" or status in {"PAID", "SETTLED"} or status not in EVENTS_BEFORE:
        return await create_order_in(tx, status, **RESERVE)
    order = await create_order_in(tx, "SETTLED", **RESERVE)
    for event in EVENTS_BEFORE[status]:
        if event == "refund":
            await report_refund(tx, await create_refund(tx, order), "SUCCEEDED")
        else:
            await report_dispute(tx, order, event)
    order = await read_order(tx, order)
    assert order.status == status
    return order


EVENTS_BEFORE = {"REFUNDED": ["refund"], "DISPUTED": ["OPENED"], "CHARGEBACK": ["LOST"]}
ORDER_CASES = [
    (status, origin)
    for status in ORDER_STATUSES
    for origin in ORIGINS
    if origin == "PAID" or status in EVENTS_BEFORE
]


async def assert_refused(tx: Tx, operation: Any, field: str) -> None:
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await operation
    assert refused.value.field == field
    assert await dump_rows(tx) == before


# ── orders after their payment ──


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_only_a_paid_or_settled_order_can_be_refunded(tx: Tx, status, origin) -> None:
    order = await create_order_with_origin(tx, status, origin)
    if status in {"PAID", "SETTLED"}:
        assert (await create_refund(tx, order, "1.00")).status == "PROCESSING"
        account = "pending" if status == "PAID" else "available"
        assert (await read_entries(tx, order.merchant_id))[-1] == ("FREEZE", account, "frozen", 100)
    else:
        await assert_refused(tx, create_refund(tx, order, "1.00"), "orderId")


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
@pytest.mark.parametrize("mode", ["one", "due", "early"])
async def test_only_an_unsettled_order_can_be_settled(tx: Tx, status, origin, mode) -> None:
    order = await create_order_with_origin(tx, status, origin)
    can_settle = origin == "PAID" and status in {"PAID", "REFUNDED", "CHARGEBACK"}
    before = await dump_rows(tx)
    ids = (order.merchant_id, order.id)
    if mode == "one" and not can_settle:
        await assert_refused(tx, orders.settle_one(tx, *ids, MUCH_LATER, "why"), "orderId")
        return
    if mode == "one":
        await orders.settle_one(tx, *ids, MUCH_LATER, "why")
    else:
        is_early = mode == "early"
        now = LATER if is_early else MUCH_LATER
        await settlement.settle_batch(tx, order.merchant_id, now, "why", early=is_early)
    after = await read_order(tx, order)
    if not can_settle:
        assert await dump_rows(tx) == before
        return
    assert after.status == ("SETTLED" if status == "PAID" else status)
    assert (after.settle_at, (await read_balances(tx, order))[0]) == (None, 0)
    assert after.reserve_status == ("HELD" if status == "PAID" else "NONE")


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_no_order_settles_before_it_is_due(tx: Tx, status, origin) -> None:
    order = await create_order_with_origin(tx, status, origin)
    before = await dump_rows(tx)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY - 1) == []
    assert await dump_rows(tx) == before


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
@pytest.mark.parametrize("now", [NOW + 3 * DAY - 1, NOW + 3 * DAY])
async def test_a_due_reserve_is_released_once(tx: Tx, status, origin, now) -> None:
    order = await create_order_with_origin(tx, status, origin)
    is_held = order.reserve_status == "HELD"
    assert is_held == ((status, origin) in {
        ("SETTLED", "PAID"), ("REFUNDED", "SETTLED"), ("DISPUTED", "SETTLED"),
    })  # fmt: skip
    before = await dump_rows(tx)
    await settlement.release_reserves(SingleTransactionDb(tx), now)
    if is_held and status != "DISPUTED" and now == NOW + 3 * DAY:
        assert (await read_order(tx, order)).reserve_status == "RELEASED"
        # The second release has no effect.
        await settlement.release_reserves(SingleTransactionDb(tx), now)
        posted_types = [entry[0] for entry in await read_entries(tx, order.merchant_id)]
        assert posted_types.count("ROLLING_RESERVE_RELEASE") == 1
    else:
        assert await dump_rows(tx) == before


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_only_a_paid_or_settled_order_can_be_disputed(tx: Tx, status, origin) -> None:
    order = await create_order_with_origin(tx, status, origin)
    operation = disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="why", now=LATER
    )
    if status not in {"PAID", "SETTLED"}:
        await assert_refused(tx, operation, "orderId")
        return
    dispute = await operation
    assert (dispute.status, dispute.disputed_from) == ("OPEN", status)


# ── refunds ──


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("status", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize(
    "outcome", ["SUCCEEDED", "REFUSED", "PENDING", "UNREACHABLE", "NOT_FOUND", "UNKNOWN"]
)
async def test_later_events_of_an_ended_refund_are_ignored(tx: Tx, origin, status, outcome) -> None:
    order = await create_order_in(tx, origin, **RESERVE)
    refund = await create_refund(tx, order, "40.00")
    await report_refund(tx, refund, status)
    before = await dump_rows(tx)
    await report_refund(tx, refund, outcome, LATER)
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize(
    ("events", "account"),
    [
        ([], None),
        (["settle"], "available"),
        (["OPENED"], None),
        (["LOST"], None),
        (["LOST", "settle"], "available"),
        (["WON"], None),
        (["RECOVERED"], "available"),
    ],
)
async def test_a_failed_refund_returns_to_the_order_s_account(
    tx: Tx, outcome, origin, events, account
) -> None:
    """A settlement or a dispute during the refund moves the order's money to another account."""
    order = await create_order_in(tx, origin, **RESERVE)
    refund = await create_refund(tx, order, "40.00")
    for event in events:
        if event != "settle":
            await report_dispute(tx, order, event)
        elif origin == "PAID":
            await settle_order(tx, order)
    await report_refund(tx, refund, outcome, LATER)
    expected_account = "available" if origin == "SETTLED" else account or "pending"
    last_entry = (await read_entries(tx, order.merchant_id))[-1]
    if outcome == "SUCCEEDED":
        assert last_entry == ("REFUND", "frozen", "gateway", 4_000)
    else:
        assert last_entry == ("UNFREEZE", "frozen", expected_account, 4_000)


# ── disputes ──

DECISIONS = {("OPENED", "won"), ("OPENED", "lost"), ("LOST", "recovered")}


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("initial", ["OPENED", "WON", "LOST", "RECOVERED"])
@pytest.mark.parametrize("event", ["won", "lost", "recovered"])
async def test_a_dispute_can_be_decided_only_as_the_table_says(
    tx: Tx, origin, initial, event
) -> None:
    order = await create_order_in(tx, origin, **RESERVE)
    dispute = await report_dispute(tx, order, initial)
    assert dispute is not None
    operation = disputes.decide(
        tx, order.merchant_id, dispute.id, event, who="ann", reason="why", now=LATER
    )
    if (initial, event) not in DECISIONS:
        await assert_refused(tx, operation, "dispute")
        return
    assert (await operation).status == event.upper()
    status = {"won": origin, "lost": "CHARGEBACK", "recovered": "SETTLED"}[event]
    assert (await read_order(tx, order)).status == status


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("initial", ["OPENED", "WON", "LOST", "RECOVERED"])
@pytest.mark.parametrize("event", ["OPENED", "WON", "LOST", "RECOVERED"])
async def test_events_of_a_dispute_have_the_effect_in_the_table(
    tx: Tx, origin, initial, event
) -> None:
    """A repeated, late or contradicting event moves no money."""
    order = await create_order_in(tx, origin, **RESERVE)
    await report_dispute(tx, order, initial)
    before, entries_before = await read_order(tx, order), await read_entries(tx, order.merchant_id)
    dispute = await report_dispute(tx, order, event, LATER)
    assert dispute is not None
    is_allowed = initial == "OPENED" or (initial, event) == ("LOST", "RECOVERED")
    if is_allowed and event != initial:
        assert dispute.status == event
        return
    after = await read_order(tx, order)
    assert dispute.status == {"OPENED": "OPEN"}.get(initial, initial)
    assert (after.status, await read_entries(tx, order.merchant_id)) == (
        before.status,
        entries_before,
    )


# ── adjustments ──


async def create_funded_merchant(tx: Tx) -> str:
    shop = await create_merchant(tx)
    recharge = AdjustmentRequest(
        kind="recharge", amount_minor=10_000, reference=new_reference(), reason="start", by="ann"
    )
    await adjustments.request(tx, shop.id, recharge, None, NOW)
    return shop.id


@pytest.mark.parametrize("kind", adjustments.KINDS)
@pytest.mark.parametrize("initial", ["WAITING", "DONE", "REJECTED"])
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_only_a_waiting_adjustment_can_be_decided(tx: Tx, kind, initial, decision) -> None:
    shop_id = await create_funded_merchant(tx)
    freeze = AdjustmentRequest(
        kind="freeze", amount_minor=700, reference=new_reference(), reason="why", by="ann"
    )
    await adjustments.request(tx, shop_id, freeze, None, NOW)
    await adjustments.request(
        tx,
        shop_id,
        msgspec.structs.replace(freeze, kind="topup", reference=new_reference()),
        None,
        NOW,
    )
    order = await create_order_in(tx, "PENDING")
    order_id = None
    if kind == "correct":
        shop_id, order_id = order.merchant_id, order.id
    request = AdjustmentRequest(
        kind=kind,
        amount_minor=700,
        reference=new_reference(),
        reason="why",
        by="ann",
        order_id=order_id,
    )
    adjustment = await adjustments.request(tx, shop_id, request, 0, NOW)
    assert adjustment.status == "WAITING"
    if initial == "DONE":
        await adjustments.approve(tx, adjustment.id, "bob", NOW)
    elif initial == "REJECTED":
        await adjustments.reject(tx, adjustment.id, "bob", "why", NOW)

    def decide() -> Any:
        if decision == "approve":
            return adjustments.approve(tx, adjustment.id, "bob", LATER)
        return adjustments.reject(tx, adjustment.id, "bob", "why", LATER)

    if initial != "WAITING":
        await assert_refused(tx, decide(), "movement")
        return
    entries_before = await read_entries(tx, shop_id)
    assert (await decide()).status == ("DONE" if decision == "approve" else "REJECTED")
    new_entries = len(await read_entries(tx, shop_id)) - len(entries_before)
    assert new_entries == (decision == "approve")


# ── postings ──

TYPES = sorted({kind for kind, _, _ in BY_MOVE})


@pytest.mark.parametrize("kind", TYPES)
async def test_a_movement_outside_the_table_cannot_be_posted(tx: Tx, kind: Type) -> None:
    """``ledger.post`` refuses every movement between two accounts that its table does not list."""
    shop_id = await create_funded_merchant(tx)
    for source, target in itertools.permutations(ACCOUNTS, 2):
        if (kind, source, target) in BY_MOVE:
            continue
        move = ledger.Movement(kind, source, target, 1, "operator", "mov_x", "x")
        before = await read_entries(tx, shop_id)
        with pytest.raises((KeyError, ValueError)):
            await ledger.post(tx, shop_id, "USD", [move], NOW)
        assert await read_entries(tx, shop_id) == before


async def test_two_orders_of_one_merchant_are_independent(tx: Tx) -> None:
    disputed_order = await create_order_in(tx, "SETTLED", **RESERVE)
    session = await create_session(tx, disputed_order.merchant_id, disputed_order.product_id)
    other_order = await pay_order(
        tx, await orders.find(tx, disputed_order.merchant_id, session.order_id)
    )
    unchanged_order = await read_order(tx, other_order)
    await report_dispute(tx, disputed_order, "LOST")
    assert await read_order(tx, other_order) == unchanged_order
    assert await read_balances(tx, disputed_order) == (9_600, -400 - 1_500, 0, 0)
