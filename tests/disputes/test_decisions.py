"""What the table leaves open: see docs/decisions/0012-disputes-and-refunds.md."""

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
    balances,
    dispute_said,
    dump,
    entries,
    history,
    in_status,
    opened,
    paid,
    refund_said,
    refunded,
    said,
    settled,
    submitted,
)

LATER = NOW + 5_000
UNDISPUTABLE = ("DISPUTED", "CHARGEBACK", "REFUNDED")


async def found(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def events(tx: Tx, order: Order) -> list[str]:
    return [line.event for line in await history(tx, order)]


async def sum_frozen_manually(tx: Tx, order: Order, **what: object) -> disputes.Dispute:
    return await disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="a letter", now=LATER, **what
    )


@pytest.mark.parametrize("status", UNDISPUTABLE)
async def test_an_order_that_cannot_be_disputed_notes_it_once(tx: Tx, status) -> None:
    order = await in_status(tx, status)
    before = await entries(tx, order.merchant_id)
    for _ in range(3):
        assert await dispute_said(tx, order, "OPENED", LATER, ref="another", minor=999) is None
    after = await found(tx, order)
    assert (after.status, await entries(tx, order.merchant_id)) == (status, before)
    assert (await events(tx, order)).count("dispute_open_unmatched") == 1
    assert f"this one is {status}" in (await history(tx, order))[-1].cause


@pytest.mark.parametrize("status", ["PENDING", "CREATING", "FAILED", "CLOSED", *UNDISPUTABLE])
async def test_the_operator_is_told_what_cannot_be_disputed(tx: Tx, status) -> None:
    order = await in_status(tx, status)
    before = await dump(tx)
    with pytest.raises(Invalid, match=f"this one is {status}") as refused:
        async with tx.transaction():
            await sum_frozen_manually(tx, order)
    assert refused.value.field == "orderId"
    assert await dump(tx) == before


@pytest.mark.parametrize("word", ["OPENED", "WON", "LOST", "RECOVERED"])
async def test_a_dispute_of_an_unpaid_order_moves_nothing(tx: Tx, word) -> None:
    order = await opened(tx)
    attempt = await submitted(tx, order)
    said_of = {"attempt_id": attempt.id, "minor": 999}
    assert await dispute_said(tx, order, word, **said_of) is None
    assert (await found(tx, order)).status == "CREATING"
    assert await entries(tx, order.merchant_id) == []
    await said(tx, attempt, "SUCCEEDED")  # the news had overtaken the payment's: what is said
    dispute = await dispute_said(tx, order, word)  # later is taken in, unless it is over
    opened_as = {"OPENED": "OPEN", "LOST": "LOST"}.get(word)
    assert (dispute and dispute.status) == opened_as


async def test_a_dispute_of_a_duplicate_payment_is_not_the_orders(tx: Tx) -> None:
    order = await opened(tx)
    first = await submitted(tx, order)
    await said(tx, first, "DECLINED")
    await paid(tx, order)
    await said(tx, first, "SUCCEEDED")  # pays a second time, and is given back
    assert await dispute_said(tx, order, "OPENED", attempt_id=first.id) is None
    assert (await found(tx, order)).status == "PAID"
    assert "must be paid by the disputed attempt" in (await history(tx, order))[-1].cause


async def test_after_one_that_is_won_a_new_one_may_open(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED")
    for ref, word in (("a", "WON"), ("b", "WON"), ("c", "LOST"), ("d", "OPENED")):
        await dispute_said(tx, order, word, ref=ref)
    assert (await found(tx, order)).status == "CHARGEBACK"
    known = await disputes.search(tx, order.merchant_id, None)
    assert sorted((d.gateway_ref, d.status) for d in known) == [
        ("a", "WON"), ("b", "WON"), ("c", "LOST"),
    ]  # fmt: skip
    assert await balances(tx, order) == (0, 959 - 999 - 1500, 0, 0)


async def test_one_that_was_recovered_may_be_disputed_again(tx: Tx) -> None:
    order = await in_status(tx, "PAID", reserve_rate="0.1")
    await dispute_said(tx, order, "RECOVERED", ref="a")
    await dispute_said(tx, order, "LOST", ref="b")
    after = await found(tx, order)
    assert (after.status, after.charged_back_minor) == ("CHARGEBACK", 999 + 1500)
    assert await balances(tx, order) == (0, 959 - 999 - 3000, 0, 0)


async def test_news_against_what_was_heard_is_noted_and_ignored(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED")
    lost = await dispute_said(tx, order, "LOST")
    assert lost is not None
    before = await balances(tx, order)
    for _ in range(2):
        assert await dispute_said(tx, order, "WON") == lost
    assert (await found(tx, order)).status == "CHARGEBACK"
    assert await balances(tx, order) == before
    assert (await events(tx, order)).count("dispute_won_unmatched") == 1


@pytest.mark.parametrize("words", [
    ["LOST", "OPENED"], ["OPENED", "OPENED", "LOST", "LOST", "OPENED"],
    ["RECOVERED", "LOST", "OPENED"], ["LOST", "RECOVERED", "LOST"], ["WON", "OPENED", "WON"],
])  # fmt: skip
@pytest.mark.parametrize("origin", ["PAID", "SETTLED"])
async def test_repeated_late_and_overtaken_news_are_harmless(tx: Tx, origin, words) -> None:
    order = await in_status(tx, origin)
    for word in words:
        await dispute_said(tx, order, word)
    (dispute,) = await disputes.search(tx, order.merchant_id, None)
    ends = next(word for word in ("RECOVERED", "LOST", "WON") if word in words)
    assert dispute.status == ends
    taken = [event for event in await events(tx, order) if event.startswith("dispute")]
    assert taken == ["disputed", *{"WON": ["dispute_won"]}.get(ends, ["dispute_lost"])]


async def test_a_name_of_another_orders_dispute_is_refused(tx: Tx) -> None:
    order = await in_status(tx, "PAID")
    shop = order.merchant_id
    await dispute_said(tx, order, "OPENED", ref="mine")
    mug = await world.product(tx, shop)
    session = await world.session(tx, shop, mug.id)
    other = await paid(tx, await orders.find(tx, shop, session.order_id))
    await dispute_said(tx, other, "LOST", ref="mine")
    assert (await found(tx, other)).status == "PAID"
    assert (await found(tx, order)).status == "DISPUTED"
    assert "of another order" in (await history(tx, other))[-1].cause


# the gateway names, in minor units, of 40.00 left of 100.00 → disputed, debit in HKD
NAMED = [(4000, 4000, 31200), (1000, 1000, 7800), (1, 1, 8), (9999, 4000, 31200), (0, 0, 0)]


@pytest.mark.parametrize(("minor", "amount", "debit"), NAMED)
async def test_the_debit_is_the_part_that_the_gateway_names(tx: Tx, minor, amount, debit) -> None:
    await rates.put(tx, "USD", "HKD", Decimal("7.8"), NOW)
    await rates.put(tx, "HKD", "USD", Decimal("0.128"), NOW)
    order = await in_status(tx, "PAID", price="100.00", settlement_currency="HKD")
    await refund_said(tx, await refunded(tx, order, "60.00"), "SUCCEEDED")
    order = await settled(tx, order)
    dispute = await dispute_said(tx, order, "OPENED", minor=minor)
    assert dispute is not None
    assert (dispute.amount_minor, dispute.debit_minor) == (amount, debit)
    differs = "dispute_amount_differs" in await events(tx, order)
    assert differs == (minor != amount)


async def test_a_part_that_is_lost_leaves_the_rest_settled(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED", price="100.00", reserve_rate="0.5")
    assert await balances(tx, order) == (0, 4800, 0, 4800)
    await dispute_said(tx, order, "LOST", minor=1000)
    assert (await entries(tx, order.merchant_id))[-3:] == [
        ("CHARGEBACK_FEE", "available", "platform", 1500),
        ("ROLLING_RESERVE_OFFSET", "reserve", "available", 2500),
        ("ROLLING_RESERVE_RELEASE", "reserve", "available", 2300),
    ]
    assert await balances(tx, order) == (0, 9600 - 2500, 0, 0)
    await dispute_said(tx, order, "RECOVERED")
    after = await found(tx, order)
    assert (after.reserve_minor, after.reserve_status) == (2500, "HELD")
    assert after.reserve_release_at == order.reserve_release_at
    assert await balances(tx, order) == (0, 9600 - 1500 - 2500, 0, 2500)


@pytest.mark.parametrize("policy", ["KEPT", "RETURNED"])
async def test_a_returned_fee_is_not_taken_again(tx: Tx, policy) -> None:
    order = await in_status(tx, "SETTLED", price="100.00", refund_fee_policy=policy)
    await refund_said(tx, await refunded(tx, order, "50.00"), "SUCCEEDED")
    dispute = await dispute_said(tx, order, "LOST")
    assert dispute is not None
    assert dispute.debit_minor == 5000
    fee_kept = 400 if policy == "KEPT" else 200
    assert await balances(tx, order) == (0, -fee_kept - 1500, 0, 0)


@pytest.mark.parametrize("origin", ["PAID", "SETTLED"])
@pytest.mark.parametrize(("word", "status"), [("WON", "REFUNDED"), ("LOST", "CHARGEBACK")])
async def test_all_was_on_its_way_back_when_it_was_disputed(tx: Tx, origin, word, status) -> None:
    order = await in_status(tx, origin)
    refund = await refunded(tx, order)
    dispute = await dispute_said(tx, order, "OPENED")
    assert dispute is not None
    assert (dispute.amount_minor, dispute.debit_minor) == (0, 0)
    await refund_said(tx, refund, "SUCCEEDED")
    assert (await found(tx, order)).status == "DISPUTED"
    await dispute_said(tx, order, word)
    after = await found(tx, order)
    assert (after.status, after.refund_status) == (status, "FULL")
    await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)
    fee = 1500 if word == "LOST" else 0
    assert await balances(tx, order) == (0, -40 - fee, 0, 0)
    if word == "LOST":
        await dispute_said(tx, order, "RECOVERED")
        assert (await found(tx, order)).status == "REFUNDED"


async def test_each_recovery_of_an_order_has_its_own_time_whatever_is_noted_later(tx: Tx) -> None:
    order = await in_status(tx, "PAID")
    for number, ref in enumerate("ab"):
        for word, day in (("LOST", 1), ("RECOVERED", 2)):
            await dispute_said(tx, order, word, NOW + (10 * number + day) * DAY, ref=ref)
    known = await disputes.list_for_order(tx, order.merchant_id, order.id)
    for one in known:
        await disputes.add_note(tx, one.merchant_id, one.id, "It is over.", "ann", NOW + 30 * DAY)
    lines = await history(tx, order)
    times = [disputes.recovered_at(one, lines) - NOW for one in known]
    assert times == [12 * DAY, 2 * DAY]


@pytest.mark.parametrize("when", ["due", "not due"])
async def test_a_loss_before_settlement_is_carried_over_once(tx: Tx, when) -> None:
    order = await in_status(tx, "PAID", price="100.00", reserve_rate="0.1")
    await dispute_said(tx, order, "LOST")
    assert await balances(tx, order) == (9600 - 11500, 0, 0, 0)
    if when == "due":
        assert len(await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)) == 1
        assert await balances(tx, order) == (0, 9600 - 11500, 0, 0)
        assert (await found(tx, order)).status == "CHARGEBACK"
    await dispute_said(tx, order, "RECOVERED", LATER)
    after = await found(tx, order)
    assert (after.status, after.settled_at, after.settle_at) == ("SETTLED", LATER, None)
    assert (after.reserve_status, after.charged_back_minor) == ("NONE", 0)
    assert await balances(tx, order) == (0, 9600 - 1500, 0, 0)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 9 * DAY) == []


async def test_a_disputed_order_is_neither_refunded_nor_settled(tx: Tx) -> None:
    order = await in_status(tx, "DISPUTED")
    with pytest.raises(Invalid, match="this one is DISPUTED"):
        await refunded(tx, order)
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 99 * DAY) == []
    with pytest.raises(Invalid, match="not settled yet"):
        await settlement.settle_one(tx, order.merchant_id, order.id, NOW, "test")


async def test_a_chargeback_goes_below_zero_without_limit(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED", overdraft_minor=0, dispute_fee_minor=10**9)
    await dispute_said(tx, order, "LOST")
    assert await balances(tx, order) == (0, 959 - 999 - 10**9, 0, 0)


async def test_a_merchant_without_a_dispute_fee_pays_none(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED", dispute_fee_minor=0)
    await dispute_said(tx, order, "LOST")
    assert "CHARGEBACK_FEE" not in [entry[0] for entry in await entries(tx, order.merchant_id)]


async def test_the_operator_opens_one_of_part_of_an_order(tx: Tx) -> None:
    order = await in_status(tx, "SETTLED", price="100.00")
    for wrong in (0, -1, 10_001):
        with pytest.raises(Invalid, match=r"from 0.01 to 100.00"):
            await sum_frozen_manually(tx, order, amount_minor=wrong)
    dispute = await sum_frozen_manually(tx, order, amount_minor=2500)
    assert (dispute.debit_minor, dispute.gateway_ref, dispute.gateway) == (2500, None, "sandbox")
    assert (await history(tx, order))[-1].cause == f"{dispute.id} by ann: a letter"
    await dispute_said(tx, order, "LOST", ref="mail")  # the gateway's own name is another dispute
    assert (await found(tx, order)).status == "DISPUTED"


async def test_notes_are_appended_and_numbered(tx: Tx) -> None:
    order = await in_status(tx, "DISPUTED")
    (dispute,) = await disputes.search(tx, order.merchant_id, "OPEN")
    key = (order.merchant_id, dispute.id)
    for text in ("Proof of delivery", " Signed receipt "):
        await disputes.add_note(tx, *key, text, "ann", LATER)
    notes = await disputes.list_notes(tx, dispute)
    assert [(n.number, n.who, n.note) for n in notes] == [
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


async def test_another_merchants_dispute_is_not_there(tx: Tx) -> None:
    order, other = await in_status(tx, "DISPUTED"), await in_status(tx, "PAID")
    (dispute,) = await disputes.search(tx, order.merchant_id, "OPEN")
    with pytest.raises(NotFound):
        await disputes.find(tx, other.merchant_id, dispute.id)
    with pytest.raises(NotFound):
        await disputes.decide(
            tx, other.merchant_id, dispute.id, "won", who="ann", reason="x", now=LATER
        )
    with pytest.raises(NotFound, match="there is no dispute dp_nowhere"):
        await disputes.find_anywhere(tx, "dp_nowhere")
    assert await disputes.search(tx, other.merchant_id, None) == []


async def test_everything_at_once_is_one_thing_after_the_other(db: Db) -> None:
    async with db.transaction() as tx:
        order = await in_status(tx, "PAID", price="100.00", reserve_rate="0.1")
        refund = await refunded(tx, order, "30.00")
    words = ["OPENED", "LOST", "OPENED", "LOST", "RECOVERED", "RECOVERED"]
    work = [db.run(partial(dispute_said, order=order, status=word)) for word in words]
    work += [db.run(lambda tx: refund_said(tx, refund, "REFUSED")) for _ in range(3)]
    work += [settlement.settle_due(db, NOW + 30 * DAY, order.merchant_id) for _ in range(3)]
    await asyncio.gather(*work)
    async with db.transaction() as tx:
        await settlement.settle_batch(tx, order.merchant_id, NOW + 30 * DAY)
        after = await found(tx, order)
        known = {d.status for d in await disputes.search(tx, order.merchant_id, None)}
        assert (after.status, known) == ("SETTLED", {"RECOVERED"})
        assert sum(await balances(tx, order)) == 9600 - 1500


async def test_a_disputed_amount_can_be_shown_whatever_the_gateway_names(tx: Tx) -> None:
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    order = await paid(tx, await opened(tx, "9.99", "KWD", settlement_currency="KWD"))
    dispute = await dispute_said(tx, order, "OPENED", minor=1004)
    assert dispute is not None
    assert DisputeOut.from_dispute(dispute).amount == "1.00"
    assert "dispute_amount_differs" in [line.event for line in await history(tx, order)]
