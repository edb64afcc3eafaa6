"""Rules of disputes that the table of transitions does not have (decision 0012)."""

import asyncio
from decimal import Decimal
from functools import partial

import pytest

from opentill import disputes, orders, rates
from opentill.core.errors import Invalid, NotFound
from opentill.core.notes import MOST_NOTES, NotesFull
from opentill.db.database import Db, Tx
from opentill.disputes import DisputeOut
from opentill.orders import Order
from opentill.orders.settlement import service as settlement
from support import world
from support.world import (
    DAY,
    NOW,
    create_order,
    create_order_in,
    create_refund,
    dump_rows,
    pay_order,
    read_balances,
    read_entries,
    read_history,
    report_dispute,
    report_payment,
    report_refund,
    settle_order,
    submit_attempt,
)

LATER = NOW + 5_000
UNDISPUTABLE = ("DISPUTED", "CHARGEBACK", "REFUNDED")


async def find_order(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def list_events(tx: Tx, order: Order) -> list[str]:
    return [line.event for line in await read_history(tx, order)]


async def open_manually(tx: Tx, order: Order, **options: object) -> disputes.Dispute:
    return await disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="a letter", now=LATER, **options
    )


@pytest.mark.parametrize("status", UNDISPUTABLE)
async def test_an_event_that_cannot_be_applied_is_recorded_once_in_the_history(
    tx: Tx, status
) -> None:
    order = await create_order_in(tx, status)
    before = await read_entries(tx, order.merchant_id)
    for _ in range(3):
        assert await report_dispute(tx, order, "OPENED", LATER, ref="another", minor=999) is None
    after = await find_order(tx, order)
    assert (after.status, await read_entries(tx, order.merchant_id)) == (status, before)
    assert (await list_events(tx, order)).count("dispute_open_unmatched") == 1
    assert f"this one is {status}" in (await read_history(tx, order))[-1].cause


@pytest.mark.parametrize("status", ["PENDING", "CREATING", "FAILED", "CLOSED", *UNDISPUTABLE])
async def test_staff_cannot_open_a_dispute_of_an_order_that_is_not_paid_or_is_disputed(
    tx: Tx, status
) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    with pytest.raises(Invalid, match=f"this one is {status}") as refusal:
        async with tx.transaction():
            await open_manually(tx, order)
    assert refusal.value.field == "orderId"
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("reported_status", ["OPENED", "WON", "LOST", "RECOVERED"])
async def test_a_dispute_of_an_unpaid_order_posts_nothing_until_the_payment_is_known(
    tx: Tx, reported_status
) -> None:
    order = await create_order(tx)
    attempt = await submit_attempt(tx, order)
    assert (
        await report_dispute(tx, order, reported_status, attempt_id=attempt.id, minor=999) is None
    )
    assert (await find_order(tx, order)).status == "CREATING"
    assert await read_entries(tx, order.merchant_id) == []
    # A dispute that is reported after the payment is applied, unless it is already won or
    # recovered.
    await report_payment(tx, attempt, "SUCCEEDED")
    dispute = await report_dispute(tx, order, reported_status)
    assert (dispute and dispute.status) == {"OPENED": "OPEN", "LOST": "LOST"}.get(reported_status)


async def test_a_dispute_of_a_duplicate_payment_does_not_affect_the_order(tx: Tx) -> None:
    order = await create_order(tx)
    attempt = await submit_attempt(tx, order)
    await report_payment(tx, attempt, "DECLINED")
    await pay_order(tx, order)
    # The order is paid already, so this duplicate payment will be sent back.
    await report_payment(tx, attempt, "SUCCEEDED")
    assert await report_dispute(tx, order, "OPENED", attempt_id=attempt.id) is None
    assert (await find_order(tx, order)).status == "PAID"
    assert "must be paid by the disputed attempt" in (await read_history(tx, order))[-1].cause


async def test_after_a_won_dispute_another_one_may_open(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED")
    for ref, reported_status in (("a", "WON"), ("b", "WON"), ("c", "LOST"), ("d", "OPENED")):
        await report_dispute(tx, order, reported_status, ref=ref)
    assert (await find_order(tx, order)).status == "CHARGEBACK"
    rows = await disputes.search(tx, order.merchant_id, None)
    assert sorted((row.gateway_ref, row.status) for row in rows) == [
        ("a", "WON"), ("b", "WON"), ("c", "LOST"),
    ]  # fmt: skip
    assert await read_balances(tx, order) == (0, 959 - 999 - 1500, 0, 0)


async def test_after_a_recovery_another_dispute_may_open(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID", reserve_rate="0.1")
    await report_dispute(tx, order, "RECOVERED", ref="a")
    await report_dispute(tx, order, "LOST", ref="b")
    after = await find_order(tx, order)
    assert (after.status, after.charged_back_minor) == ("CHARGEBACK", 999 + 1500)
    assert await read_balances(tx, order) == (0, 959 - 999 - 3000, 0, 0)


async def test_a_contradicting_event_is_recorded_and_not_applied(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED")
    lost = await report_dispute(tx, order, "LOST")
    assert lost is not None
    before = await read_balances(tx, order)
    for _ in range(2):
        assert await report_dispute(tx, order, "WON") == lost
    assert (await find_order(tx, order)).status == "CHARGEBACK"
    assert await read_balances(tx, order) == before
    assert (await list_events(tx, order)).count("dispute_won_unmatched") == 1


@pytest.mark.parametrize("reports", [
    ["LOST", "OPENED"], ["OPENED", "OPENED", "LOST", "LOST", "OPENED"],
    ["RECOVERED", "LOST", "OPENED"], ["LOST", "RECOVERED", "LOST"], ["WON", "OPENED", "WON"],
])  # fmt: skip
@pytest.mark.parametrize("origin", ["PAID", "SETTLED"])
async def test_repeated_and_late_events_change_nothing(tx: Tx, origin, reports) -> None:
    order = await create_order_in(tx, origin)
    for reported_status in reports:
        await report_dispute(tx, order, reported_status)
    (dispute,) = await disputes.search(tx, order.merchant_id, None)
    status = next(status for status in ("RECOVERED", "LOST", "WON") if status in reports)
    assert dispute.status == status
    transitions = [event for event in await list_events(tx, order) if event.startswith("dispute")]
    assert transitions == ["disputed", "dispute_won" if status == "WON" else "dispute_lost"]


async def test_a_reference_of_another_orders_dispute_is_refused(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    shop = order.merchant_id
    await report_dispute(tx, order, "OPENED", ref="mine")
    mug = await world.create_product(tx, shop)
    session = await world.create_session(tx, shop, mug.id)
    other_order = await pay_order(tx, await orders.find(tx, shop, session.order_id))
    await report_dispute(tx, other_order, "LOST", ref="mine")
    assert (await find_order(tx, other_order)).status == "PAID"
    assert (await find_order(tx, order)).status == "DISPUTED"
    assert "of another order" in (await read_history(tx, other_order))[-1].cause


# Each row: reported amount, disputed amount, debit in HKD, all in minor units. Of the order's
# 100.00 USD, 60.00 are refunded.
AMOUNTS = [(4000, 4000, 31200), (1000, 1000, 7800), (1, 1, 8), (9999, 4000, 31200), (0, 0, 0)]


@pytest.mark.parametrize(("minor", "amount", "debit"), AMOUNTS)
async def test_the_debit_is_the_reported_amount_in_the_settlement_currency(
    tx: Tx, minor, amount, debit
) -> None:
    await rates.put(tx, "USD", "HKD", Decimal("7.8"), NOW)
    await rates.put(tx, "HKD", "USD", Decimal("0.128"), NOW)
    order = await create_order_in(tx, "PAID", price="100.00", settlement_currency="HKD")
    await report_refund(tx, await create_refund(tx, order, "60.00"), "SUCCEEDED")
    order = await settle_order(tx, order)
    dispute = await report_dispute(tx, order, "OPENED", minor=minor)
    assert dispute is not None
    assert (dispute.amount_minor, dispute.debit_minor) == (amount, debit)
    is_recorded = "dispute_amount_differs" in await list_events(tx, order)
    assert is_recorded == (minor != amount)


async def test_a_partial_loss_leaves_the_remaining_amount_settled(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED", price="100.00", reserve_rate="0.5")
    assert await read_balances(tx, order) == (0, 4800, 0, 4800)
    await report_dispute(tx, order, "LOST", minor=1000)
    assert (await read_entries(tx, order.merchant_id))[-3:] == [
        ("CHARGEBACK_FEE", "available", "platform", 1500),
        ("ROLLING_RESERVE_OFFSET", "reserve", "available", 2500),
        ("ROLLING_RESERVE_RELEASE", "reserve", "available", 2300),
    ]
    assert await read_balances(tx, order) == (0, 9600 - 2500, 0, 0)
    await report_dispute(tx, order, "RECOVERED")
    after = await find_order(tx, order)
    assert (after.reserve_minor, after.reserve_status) == (2500, "HELD")
    assert after.reserve_release_at == order.reserve_release_at
    assert await read_balances(tx, order) == (0, 9600 - 1500 - 2500, 0, 2500)


@pytest.mark.parametrize("policy", ["KEPT", "RETURNED"])
async def test_a_fee_that_a_refund_returned_is_not_charged_again_by_a_loss(tx: Tx, policy) -> None:
    order = await create_order_in(tx, "SETTLED", price="100.00", refund_fee_policy=policy)
    await report_refund(tx, await create_refund(tx, order, "50.00"), "SUCCEEDED")
    dispute = await report_dispute(tx, order, "LOST")
    assert dispute is not None
    assert dispute.debit_minor == 5000
    fee_kept = 400 if policy == "KEPT" else 200
    assert await read_balances(tx, order) == (0, -fee_kept - 1500, 0, 0)


@pytest.mark.parametrize("origin", ["PAID", "SETTLED"])
@pytest.mark.parametrize(("decision", "status"), [("WON", "REFUNDED"), ("LOST", "CHARGEBACK")])
async def test_a_dispute_that_opens_during_a_full_refund_debits_nothing(
    tx: Tx, origin, decision, status
) -> None:
    order = await create_order_in(tx, origin)
    refund = await create_refund(tx, order)
    dispute = await report_dispute(tx, order, "OPENED")
    assert dispute is not None
    assert (dispute.amount_minor, dispute.debit_minor) == (0, 0)
    await report_refund(tx, refund, "SUCCEEDED")
    assert (await find_order(tx, order)).status == "DISPUTED"
    await report_dispute(tx, order, decision)
    after = await find_order(tx, order)
    assert (after.status, after.refund_status) == (status, "FULL")
    await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)
    fee = 1500 if decision == "LOST" else 0
    assert await read_balances(tx, order) == (0, -40 - fee, 0, 0)
    if decision == "LOST":
        await report_dispute(tx, order, "RECOVERED")
        assert (await find_order(tx, order)).status == "REFUNDED"


async def test_notes_do_not_change_the_time_of_a_recovery(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    for number, ref in enumerate("ab"):
        for reported_status, day in (("LOST", 1), ("RECOVERED", 2)):
            await report_dispute(
                tx, order, reported_status, NOW + (10 * number + day) * DAY, ref=ref
            )
    rows = await disputes.list_for_order(tx, order.merchant_id, order.id)
    for row in rows:
        await disputes.add_note(tx, row.merchant_id, row.id, "It is over.", "ann", NOW + 30 * DAY)
    lines = await read_history(tx, order)
    times = [disputes.recovered_at(row, lines) - NOW for row in rows]
    assert times == [12 * DAY, 2 * DAY]


@pytest.mark.parametrize("is_due", [True, False])
async def test_a_loss_before_settlement_is_settled_once(tx: Tx, is_due) -> None:
    order = await create_order_in(tx, "PAID", price="100.00", reserve_rate="0.1")
    await report_dispute(tx, order, "LOST")
    assert await read_balances(tx, order) == (9600 - 11500, 0, 0, 0)
    if is_due:
        assert len(await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)) == 1
        assert await read_balances(tx, order) == (0, 9600 - 11500, 0, 0)
        assert (await find_order(tx, order)).status == "CHARGEBACK"
    await report_dispute(tx, order, "RECOVERED", LATER)
    after = await find_order(tx, order)
    assert (after.status, after.settled_at, after.settle_at) == ("SETTLED", LATER, None)
    assert (after.reserve_status, after.charged_back_minor) == ("NONE", 0)
    assert await read_balances(tx, order) == (0, 9600 - 1500, 0, 0)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 9 * DAY) == []


async def test_a_disputed_order_is_neither_refunded_nor_settled(tx: Tx) -> None:
    order = await create_order_in(tx, "DISPUTED")
    with pytest.raises(Invalid, match="this one is DISPUTED"):
        await create_refund(tx, order)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 99 * DAY) == []
    with pytest.raises(Invalid, match="not settled yet"):
        await settlement.settle_one(tx, order.merchant_id, order.id, NOW, "test")


async def test_a_chargeback_may_overdraw_the_balance_without_limit(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED", overdraft_minor=0, dispute_fee_minor=10**9)
    await report_dispute(tx, order, "LOST")
    assert await read_balances(tx, order) == (0, 959 - 999 - 10**9, 0, 0)


async def test_a_lost_dispute_costs_no_fee_if_the_terms_have_none(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED", dispute_fee_minor=0)
    await report_dispute(tx, order, "LOST")
    assert "CHARGEBACK_FEE" not in [entry[0] for entry in await read_entries(tx, order.merchant_id)]


async def test_staff_open_a_partial_dispute(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED", price="100.00")
    for invalid in (0, -1, 10_001):
        with pytest.raises(Invalid, match=r"from 0.01 to 100.00"):
            await open_manually(tx, order, amount_minor=invalid)
    dispute = await open_manually(tx, order, amount_minor=2500)
    assert (dispute.debit_minor, dispute.gateway_ref, dispute.gateway) == (2500, None, "sandbox")
    assert (await read_history(tx, order))[-1].cause == f"{dispute.id} by ann: a letter"
    await report_dispute(tx, order, "LOST", ref="mail")  # the gateway reports another dispute
    assert (await find_order(tx, order)).status == "DISPUTED"


async def test_notes_are_appended_and_numbered(tx: Tx) -> None:
    order = await create_order_in(tx, "DISPUTED")
    (dispute,) = await disputes.search(tx, order.merchant_id, "OPEN")
    key = (order.merchant_id, dispute.id)
    for text in ("Proof of delivery", " Signed receipt "):
        await disputes.add_note(tx, *key, text, "ann", LATER)
    notes = await disputes.list_notes(tx, dispute)
    assert [(note.number, note.who, note.note) for note in notes] == [
        (1, "ann", "Proof of delivery"), (2, "ann", "Signed receipt"),
    ]  # fmt: skip
    for text in ("", "  ", "x" * 5_001):
        with pytest.raises(Invalid):
            await disputes.add_note(tx, *key, text, "ann", LATER)
    with pytest.raises(NotFound):
        await disputes.add_note(tx, "mer_other", dispute.id, "hello", "ann", LATER)
    for _ in range(MOST_NOTES - 2):
        await disputes.add_note(tx, *key, "more", "ann", LATER)
    with pytest.raises(NotesFull):
        await disputes.add_note(tx, *key, "too much", "ann", LATER)


async def test_another_merchants_dispute_is_not_found(tx: Tx) -> None:
    order, other_order = await create_order_in(tx, "DISPUTED"), await create_order_in(tx, "PAID")
    (dispute,) = await disputes.search(tx, order.merchant_id, "OPEN")
    with pytest.raises(NotFound):
        await disputes.find(tx, other_order.merchant_id, dispute.id)
    with pytest.raises(NotFound):
        await disputes.decide(
            tx, other_order.merchant_id, dispute.id, "won", who="ann", reason="x", now=LATER
        )
    with pytest.raises(NotFound, match="there is no dispute dp_nowhere"):
        await disputes.find_anywhere(tx, "dp_nowhere")
    assert await disputes.search(tx, other_order.merchant_id, None) == []


async def test_concurrent_events_have_the_effect_of_sequential_ones(db: Db) -> None:
    async with db.transaction() as tx:
        order = await create_order_in(tx, "PAID", price="100.00", reserve_rate="0.1")
        refund = await create_refund(tx, order, "30.00")
    statuses = ["OPENED", "LOST", "OPENED", "LOST", "RECOVERED", "RECOVERED"]
    work = [db.run(partial(report_dispute, order=order, status=status)) for status in statuses]
    work += [db.run(lambda tx: report_refund(tx, refund, "REFUSED")) for _ in range(3)]
    work += [settlement.settle_due(db, NOW + 30 * DAY, order.merchant_id) for _ in range(3)]
    await asyncio.gather(*work)
    async with db.transaction() as tx:
        await settlement.settle_batch(tx, order.merchant_id, NOW + 30 * DAY)
        after = await find_order(tx, order)
        (dispute,) = await disputes.search(tx, order.merchant_id, None)
        assert (after.status, dispute.status) == ("SETTLED", "RECOVERED")
        assert sum(await read_balances(tx, order)) == 9600 - 1500


async def test_a_disputed_amount_is_rounded_to_the_decimals_that_are_shown(tx: Tx) -> None:
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    order = await pay_order(tx, await create_order(tx, "9.99", "KWD", settlement_currency="KWD"))
    dispute = await report_dispute(tx, order, "OPENED", minor=1004)
    assert dispute is not None
    assert DisputeOut.from_dispute(dispute).amount == "1.00"
    assert "dispute_amount_differs" in [line.event for line in await read_history(tx, order)]
