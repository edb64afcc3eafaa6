"""The table of transitions of disputes, from PAID and SETTLED orders, with refunds and reserves."""

import itertools

import pytest

from opentill import disputes, orders
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.disputes.model import STATUSES, TRANSITIONS, transitions_to
from opentill.orders import Order
from opentill.orders.settlement import service as settlement
from support.world import (
    DAY,
    NOW,
    create_order_in,
    create_refund,
    dump_rows,
    read_balances,
    read_entries,
    read_history,
    report_dispute,
    report_refund,
    settle_order,
)

FEE, LOSS_FEE = 400, 1500  # of an order of 100.00: 4 percent, and what a lost dispute costs
AMOUNT = 10_000
NET = AMOUNT - FEE
STATUS = {"open": "DISPUTED", "lost": "CHARGEBACK", "recovered": "SETTLED"}
LATER = NOW + 5_000


async def create_order(tx: Tx, origin: str, **terms: object) -> Order:
    return await create_order_in(tx, origin, price="100.00", **terms)


async def find(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


# origin and transition → postings: type, from, to, minor units
POSTS = {
    ("PAID", "open"): [],
    ("PAID", "won"): [],
    ("PAID", "lost"): [
        ("CHARGEBACK", "pending", "gateway", AMOUNT),
        ("CHARGEBACK_FEE", "pending", "platform", LOSS_FEE),
    ],
    ("PAID", "recovered"): [  # moves the order's money out of pending first
        ("FREEZE", "available", "frozen", FEE + LOSS_FEE),
        ("UNFREEZE", "frozen", "pending", FEE + LOSS_FEE),
        ("CHARGEBACK_RECOVERY", "gateway", "available", AMOUNT),
    ],
    ("SETTLED", "open"): [("FREEZE", "available", "frozen", AMOUNT)],
    ("SETTLED", "won"): [("UNFREEZE", "frozen", "available", AMOUNT)],
    ("SETTLED", "lost"): [
        ("UNFREEZE", "frozen", "available", AMOUNT),
        ("CHARGEBACK", "available", "gateway", AMOUNT),
        ("CHARGEBACK_FEE", "available", "platform", LOSS_FEE),
        ("ROLLING_RESERVE_OFFSET", "reserve", "available", 960),
    ],
    ("SETTLED", "recovered"): [
        ("CHARGEBACK_RECOVERY", "gateway", "available", AMOUNT),
        ("ROLLING_RESERVE_RECOVERY", "available", "reserve", 960),
    ],
}
REPORTS = {
    "open": ["OPENED"], "won": ["OPENED", "WON"], "lost": ["OPENED", "LOST"],
    "recovered": ["OPENED", "LOST", "RECOVERED"],
}  # fmt: skip


@pytest.mark.parametrize(("origin", "end"), POSTS, ids=" ".join)
async def test_the_postings_of_each_transition(tx: Tx, origin: str, end: str) -> None:
    order = await create_order(tx, origin, reserve_rate="0.1")
    *earlier, last = REPORTS[end]
    for reported in earlier:
        await report_dispute(tx, order, reported)
    before = await read_entries(tx, order.merchant_id)
    dispute = await report_dispute(tx, order, last, LATER)
    after = await find(tx, order)
    assert (await read_entries(tx, order.merchant_id))[len(before) :] == POSTS[origin, end]
    assert after.status == STATUS.get(end, origin)
    assert dispute is not None
    assert (dispute.status, dispute.disputed_from) == (end.upper(), origin)
    assert dispute.closed_at == {"open": None, "recovered": NOW}.get(end, LATER)
    assert (after.settle_at is None) == ((origin, end) not in {("PAID", "won"), ("PAID", "lost")})
    reserve = {"open": "HELD", "won": "HELD", "lost": "OFFSET", "recovered": "HELD"}[end]
    assert after.reserve_status == ("NONE" if origin == "PAID" else reserve)


CASES = list(
    itertools.product(
        ("PAID", "SETTLED"),
        (0, 2000),  # refunded before
        (None, "open", "SUCCEEDED", "REFUSED"),  # a refund in progress, and its end
        ("before", "after"),  # … before the dispute ends or after
        ("0", "0.1"),
        ("open", "won", "lost", "recovered"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
async def test_every_combination_adds_up_to_the_cent(tx: Tx, case: tuple) -> None:
    origin, before, flight, when, rate, end = case
    order = await create_order(tx, "PAID", reserve_rate=rate, platform_fee_rate="0.04")
    if before:
        await report_refund(tx, await create_refund(tx, order, "20.00"), "SUCCEEDED")
    if origin == "SETTLED":
        order = await settle_order(tx, order)
    held = (NET - before) // 10 if (origin, rate) == ("SETTLED", "0.1") else 0
    assert order.reserve_minor == held
    refund = await create_refund(tx, order, "30.00") if flight else None
    first, *later = REPORTS[end]
    await report_dispute(tx, order, first)
    if refund and flight != "open" and when == "before":
        await report_refund(tx, refund, flight)
    for reported in later:
        await report_dispute(tx, order, reported)
    if refund and flight != "open" and when == "after":
        await report_refund(tx, refund, flight)

    after = await find(tx, order)
    assert after.status == STATUS.get(end, origin)
    in_progress = 3000 if flight == "open" else 0
    refunded_minor = before + (3000 if flight in {"open", "SUCCEEDED"} else 0)
    debit = AMOUNT - before - (3000 if flight else 0)
    lost = {"lost": debit + LOSS_FEE, "recovered": LOSS_FEE}.get(end, 0)
    # All income less all expenses: no cent is anywhere else.
    own = NET - refunded_minor - lost + in_progress
    in_reserve = 0 if end == "lost" else held
    frozen = in_progress + (debit if (origin, end) == ("SETTLED", "open") else 0)
    in_pending = own - in_progress if origin == "PAID" and end != "recovered" else 0
    expected = (in_pending, own - in_pending - frozen - in_reserve, frozen, in_reserve)
    assert await read_balances(tx, order) == expected
    assert after.unsettled_minor == NET - refunded_minor - (lost if end == "lost" else 0)

    # When the order is due, its pending money settles, unless it is disputed.
    await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)
    pending, available, frozen_then, reserve = await read_balances(tx, order)
    waits = origin == "PAID" and end == "open"
    assert pending == (in_pending if waits else 0)
    assert pending + available + frozen_then + reserve == own
    if refund and flight == "open":  # it may still end
        await report_refund(tx, refund, "REFUSED")
        assert sum(await read_balances(tx, order)) == own


def test_the_table_in_code_is_this_one() -> None:
    assert [(row.source, row.event, row.target, row.order_event) for row in TRANSITIONS] == [
        (None, "opened", "OPEN", "disputed"),
        ("OPEN", "won", "WON", "dispute_won"),
        ("OPEN", "lost", "LOST", "dispute_lost"),
        ("LOST", "recovered", "RECOVERED", "recovered"),
    ]


# reported status, present status → transitions; None: the report contradicts an earlier one
EXPECTED = [
    ("OPEN", None, ["opened"]), ("WON", None, ["opened", "won"]),
    ("LOST", None, ["opened", "lost"]), ("RECOVERED", None, ["opened", "lost", "recovered"]),
    ("OPEN", "OPEN", []), ("WON", "OPEN", ["won"]), ("LOST", "OPEN", ["lost"]),
    ("RECOVERED", "OPEN", ["lost", "recovered"]), ("OPEN", "WON", []), ("WON", "WON", []),
    ("LOST", "WON", None), ("RECOVERED", "WON", None), ("OPEN", "LOST", []), ("WON", "LOST", None),
    ("LOST", "LOST", []), ("RECOVERED", "LOST", ["recovered"]), ("OPEN", "RECOVERED", []),
    ("WON", "RECOVERED", None), ("LOST", "RECOVERED", []), ("RECOVERED", "RECOVERED", []),
]  # fmt: skip


@pytest.mark.parametrize(("reported", "status", "events"), EXPECTED)
def test_a_report_that_overtook_others_takes_their_transitions(reported, status, events) -> None:
    rows = transitions_to(reported, status)
    assert (None if rows is None else [row.event for row in rows]) == events


def test_every_combination_of_statuses_is_tested() -> None:
    pairs = [(row[0], row[1]) for row in EXPECTED]
    assert set(pairs) == set(itertools.product(STATUSES, (None, *STATUSES)))


@pytest.mark.parametrize("status", ["OPEN", "WON", "LOST", "RECOVERED"])
@pytest.mark.parametrize("event", ["won", "lost", "recovered"])
async def test_the_operator_takes_only_transitions_of_the_table(tx: Tx, status, event) -> None:
    order = await create_order(tx, "SETTLED")
    dispute = await report_dispute(tx, order, "OPENED" if status == "OPEN" else status)
    assert dispute is not None
    key = (order.merchant_id, dispute.id)
    if (status, event) in {("OPEN", "won"), ("OPEN", "lost"), ("LOST", "recovered")}:
        after = await disputes.decide(tx, *key, event, who="ann", reason="letter", now=LATER)
        assert after.status == event.upper()
        line = (await read_history(tx, order))[-1]
        assert line.cause == f"{dispute.id} by ann: letter"
        return
    before = await dump_rows(tx)
    with pytest.raises(Invalid, match=f"a dispute that is {status} cannot be {event}"):
        async with tx.transaction():
            await disputes.decide(tx, *key, event, who="ann", reason="letter", now=LATER)
    assert await dump_rows(tx) == before
