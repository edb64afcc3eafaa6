"""Test each status with each event, by the tables of contract.md#transitions.

An event in the table leads to the status in its cell; any other is refused or ignored and changes
no row. ``tests/orders/test_transitions.py`` tests the transitions before an order is paid.
"""

import itertools
from typing import Any

import pytest

from opentill import adjustments, disputes, ledger, orders, payouts
from opentill.adjustments import AdjustmentRequest
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.ledger.postings import ACCOUNTS, BY_MOVE, Type
from opentill.orders import Order
from opentill.orders.model import STATUSES as ORDER
from opentill.orders.settlement import service as settlement
from opentill.payouts import PayoutRequest
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
FAR = NOW + 400 * DAY
RESERVE = {"price": "100.00", "reserve_rate": "0.1", "reserve_days": 3}
ORIGINS = ("PAID", "SETTLED")


async def read_order(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def order_in(tx: Tx, status: str, origin: str = "PAID") -> Order:
    """Return an order with this status; ``origin`` is the status before a refund or dispute."""
    if origin == "PAID" or status in {"PAID", "SETTLED"} or status not in EVENTS_TO:
        return await create_order_in(tx, status, **RESERVE)
    order = await create_order_in(tx, "SETTLED", **RESERVE)
    for word in EVENTS_TO[status]:
        if word == "refund":
            await report_refund(tx, await create_refund(tx, order), "SUCCEEDED")
        else:
            await report_dispute(tx, order, word)
    order = await read_order(tx, order)
    assert order.status == status
    return order


EVENTS_TO = {"REFUNDED": ["refund"], "DISPUTED": ["OPENED"], "CHARGEBACK": ["LOST"]}
ORDER_CASES = [(s, o) for s in ORDER for o in ORIGINS if o == "PAID" or s in EVENTS_TO]


async def assert_refused(tx: Tx, work: Any, field: str) -> None:
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await work
    assert refused.value.field == field
    assert await dump_rows(tx) == before


# ── Orders after payment ──


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_only_a_paid_or_settled_order_can_be_refunded(tx: Tx, status, origin) -> None:
    order = await order_in(tx, status, origin)
    if status in {"PAID", "SETTLED"}:
        assert (await create_refund(tx, order, "1.00")).status == "PROCESSING"
        place = "pending" if status == "PAID" else "available"
        assert (await read_entries(tx, order.merchant_id))[-1] == ("FREEZE", place, "frozen", 100)
    else:
        await assert_refused(tx, create_refund(tx, order, "1.00"), "orderId")


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
@pytest.mark.parametrize("how", ["one", "due", "early"])
async def test_only_an_unsettled_order_can_be_settled(tx: Tx, status, origin, how) -> None:
    order = await order_in(tx, status, origin)
    waits = origin == "PAID" and status in {"PAID", "REFUNDED", "CHARGEBACK"}
    before = await dump_rows(tx)
    ids = (order.merchant_id, order.id)
    if how == "one" and not waits:
        await assert_refused(tx, orders.settle_one(tx, *ids, FAR, "why"), "orderId")
        return
    if how == "one":
        await orders.settle_one(tx, *ids, FAR, "why")
    else:
        early = how == "early"
        now = LATER if early else FAR
        await settlement.settle_batch(tx, order.merchant_id, now, "why", early=early)
    after = await read_order(tx, order)
    if not waits:
        assert await dump_rows(tx) == before
        return
    assert after.status == ("SETTLED" if status == "PAID" else status)
    assert (after.settle_at, (await read_balances(tx, order))[0]) == (None, 0)
    assert after.reserve_status == ("HELD" if status == "PAID" else "NONE")


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_no_order_settles_before_it_is_due(tx: Tx, status, origin) -> None:
    order = await order_in(tx, status, origin)
    before = await dump_rows(tx)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY - 1) == []
    assert await dump_rows(tx) == before


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
@pytest.mark.parametrize("now", [NOW + 3 * DAY - 1, NOW + 3 * DAY])
async def test_a_due_reserve_is_released_once(tx: Tx, status, origin, now) -> None:
    order = await order_in(tx, status, origin)
    held = order.reserve_status == "HELD"
    assert held == ((status, origin) in {
        ("SETTLED", "PAID"), ("REFUNDED", "SETTLED"), ("DISPUTED", "SETTLED"),
    })  # fmt: skip
    before = await dump_rows(tx)
    await settlement.release_reserves(SingleTransactionDb(tx), now)
    if held and status != "DISPUTED" and now == NOW + 3 * DAY:
        assert (await read_order(tx, order)).reserve_status == "RELEASED"
        await settlement.release_reserves(
            SingleTransactionDb(tx), now
        )  # a repetition has no effect
        posted = [entry[0] for entry in await read_entries(tx, order.merchant_id)]
        assert posted.count("ROLLING_RESERVE_RELEASE") == 1
    else:
        assert await dump_rows(tx) == before


@pytest.mark.parametrize(("status", "origin"), ORDER_CASES)
async def test_only_a_paid_or_settled_order_can_be_disputed(tx: Tx, status, origin) -> None:
    order = await order_in(tx, status, origin)
    work = disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="why", now=LATER
    )
    if status not in {"PAID", "SETTLED"}:
        await assert_refused(tx, work, "orderId")
        return
    opened = await work
    assert (opened.status, opened.disputed_from) == ("OPEN", status)


# ── Refunds ──


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("status", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize(
    "word", ["SUCCEEDED", "REFUSED", "PENDING", "UNREACHABLE", "NOT_FOUND", "UNKNOWN"]
)
async def test_later_events_of_an_ended_refund_are_ignored(tx: Tx, origin, status, word) -> None:
    order = await create_order_in(tx, origin, **RESERVE)
    refund = await create_refund(tx, order, "40.00")
    await report_refund(tx, refund, status)
    before = await dump_rows(tx)
    await report_refund(tx, refund, word, LATER)
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("word", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize("held", ORIGINS)
@pytest.mark.parametrize(
    ("then", "place"),
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
    tx: Tx, word, held, then, place
) -> None:
    """The order's money may have moved to another account during the refund."""
    order = await create_order_in(tx, held, **RESERVE)
    refund = await create_refund(tx, order, "40.00")
    for step in then:
        if step != "settle":
            await report_dispute(tx, order, step)
        elif held == "PAID":
            await settle_order(tx, order)
    await report_refund(tx, refund, word, LATER)
    stands = "available" if held == "SETTLED" else place or "pending"
    last = (await read_entries(tx, order.merchant_id))[-1]
    if word == "SUCCEEDED":
        assert last == ("REFUND", "frozen", "gateway", 4_000)
    else:
        assert last == ("UNFREEZE", "frozen", stands, 4_000)


# ── Disputes ──

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
    work = disputes.decide(
        tx, order.merchant_id, dispute.id, event, who="ann", reason="why", now=LATER
    )
    if (initial, event) not in DECISIONS:
        await assert_refused(tx, work, "dispute")
        return
    assert (await work).status == event.upper()
    status = {"won": origin, "lost": "CHARGEBACK", "recovered": "SETTLED"}[event]
    assert (await read_order(tx, order)).status == status


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("initial", ["OPENED", "WON", "LOST", "RECOVERED"])
@pytest.mark.parametrize("word", ["OPENED", "WON", "LOST", "RECOVERED"])
async def test_events_of_a_dispute_have_the_effect_in_the_table(
    tx: Tx, origin, initial, word
) -> None:
    """A repeated, late or contradicting event moves no money."""
    order = await create_order_in(tx, origin, **RESERVE)
    await report_dispute(tx, order, initial)
    before, posted = await read_order(tx, order), await read_entries(tx, order.merchant_id)
    dispute = await report_dispute(tx, order, word, LATER)
    assert dispute is not None
    is_allowed = initial == "OPENED" or (initial, word) == ("LOST", "RECOVERED")
    if is_allowed and word != initial:
        assert dispute.status == word
        return
    after = await read_order(tx, order)
    assert dispute.status == {"OPENED": "OPEN"}.get(initial, initial)
    assert (after.status, await read_entries(tx, order.merchant_id)) == (before.status, posted)


# ── Payouts and adjustments ──


async def funded_merchant(tx: Tx) -> str:
    shop = await create_merchant(tx)
    recharge = AdjustmentRequest(
        kind="recharge", amount_minor=10_000, reference=new_reference(), reason="start", by="ann"
    )
    await adjustments.request(tx, shop.id, recharge, None, NOW)
    return shop.id


@pytest.mark.parametrize("status", ["PENDING", "PAID", "FAILED"])
@pytest.mark.parametrize("event", ["paid", "failed", "returned"])
async def test_a_payout_ends_only_as_the_table_says(tx: Tx, status, event) -> None:
    shop_id = await funded_merchant(tx)

    def apply(event: str) -> Any:
        if event == "paid":
            return payouts.pay(tx, payout.id, "TRN", "why", "ann", LATER)
        if event == "returned":
            return payouts.record_return(tx, payout.id, "why", "ann", LATER)
        return payouts.fail(tx, payout.id, "why", "ann", LATER)

    request = PayoutRequest(
        amount_minor=2_500, fee_minor=100, reference=new_reference(), reason="why", by="ann"
    )
    payout = await payouts.create(tx, shop_id, request, None, NOW)
    if status != "PENDING":
        await apply(status.lower())
    if (status, event) in (("PENDING", "paid"), ("PENDING", "failed"), ("PAID", "returned")):
        assert (await apply(event)).status == ("PAID" if event == "paid" else "FAILED")
        balance = await ledger.find_balance(tx, shop_id, "USD")
        assert balance is not None
        assert (balance.available, balance.bank) == (
            (7_400, -7_500) if event == "paid" else (10_000, -10_000)
        )
        return
    await assert_refused(tx, apply(event), "payout")


@pytest.mark.parametrize("kind", adjustments.KINDS)
@pytest.mark.parametrize("initial", ["WAITING", "DONE", "REJECTED"])
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_only_a_waiting_adjustment_can_be_decided(tx: Tx, kind, initial, decision) -> None:
    shop_id = await funded_merchant(tx)
    freeze = AdjustmentRequest(
        kind="freeze", amount_minor=700, reference=new_reference(), reason="why", by="ann"
    )
    await adjustments.request(tx, shop_id, freeze, None, NOW)
    order = await create_order_in(tx, "PENDING")
    about = None
    if kind == "correct":
        shop_id, about = order.merchant_id, order.id
    request = AdjustmentRequest(
        kind=kind,
        amount_minor=700,
        reference=new_reference(),
        reason="why",
        by="ann",
        order_id=about,
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
    posted = await read_entries(tx, shop_id)
    assert (await decide()).status == ("DONE" if decision == "approve" else "REJECTED")
    more = len(await read_entries(tx, shop_id)) - len(posted)
    assert more == (decision == "approve")


# ── Postings ──

TYPES = sorted({kind for kind, _, _ in BY_MOVE})


@pytest.mark.parametrize("kind", TYPES)
async def test_a_movement_outside_the_table_cannot_be_posted(tx: Tx, kind: Type) -> None:
    """The service refuses it; the check of the books would find it if written directly."""
    shop_id = await funded_merchant(tx)
    for source, target in itertools.permutations(ACCOUNTS, 2):
        if (kind, source, target) in BY_MOVE:
            continue
        move = ledger.Movement(kind, source, target, 1, "operator", "mov_x", "x")
        before = await read_entries(tx, shop_id)
        with pytest.raises((KeyError, ValueError)):
            await ledger.post(tx, shop_id, "USD", [move], NOW)
        assert await read_entries(tx, shop_id) == before


async def test_two_orders_of_one_merchant_are_independent(tx: Tx) -> None:
    first = await create_order_in(tx, "SETTLED", **RESERVE)
    opened = await create_session(tx, first.merchant_id, first.product_id)
    second = await pay_order(tx, await orders.find(tx, first.merchant_id, opened.order_id))
    before = await read_order(tx, second)
    await report_dispute(tx, first, "LOST")
    assert await read_order(tx, second) == before
    assert await read_balances(tx, first) == (9_600, -400 - 1_500, 0, 0)
