"""The transitions of disputes of PAID and SETTLED orders, combined with refunds and reserves."""

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

FEE, LOSS_FEE = 400, 1500  # 4 percent of 100.00 USD, and the fee of a lost dispute
AMOUNT = 10_000
NET = AMOUNT - FEE
ORDER_STATUS = {"open": "DISPUTED", "lost": "CHARGEBACK", "recovered": "SETTLED"}
LATER = NOW + 5_000


async def create_order(tx: Tx, origin: str, **terms: object) -> Order:
    return await create_order_in(tx, origin, price="100.00", **terms)


async def find_order(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


# For each status of the order before the dispute and of the dispute, the postings: type, source,
# target, minor units.
POSTINGS = {
    ("PAID", "open"): [],
    ("PAID", "won"): [],
    ("PAID", "lost"): [
        ("CHARGEBACK", "pending", "gateway", AMOUNT),
        ("CHARGEBACK_FEE", "pending", "platform", LOSS_FEE),
    ],
    ("PAID", "recovered"): [  # the first two move available money to the negative pending balance
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


@pytest.mark.parametrize(("origin", "status"), POSTINGS, ids=" ".join)
async def test_each_transition_has_its_postings(tx: Tx, origin: str, status: str) -> None:
    order = await create_order(tx, origin, reserve_rate="0.1")
    *earlier_reports, last_report = REPORTS[status]
    for reported_status in earlier_reports:
        await report_dispute(tx, order, reported_status)
    before = await read_entries(tx, order.merchant_id)
    dispute = await report_dispute(tx, order, last_report, LATER)
    after = await find_order(tx, order)
    assert (await read_entries(tx, order.merchant_id))[len(before) :] == POSTINGS[origin, status]
    assert after.status == ORDER_STATUS.get(status, origin)
    assert dispute is not None
    assert (dispute.status, dispute.disputed_from) == (status.upper(), origin)
    assert dispute.closed_at == {"open": None, "recovered": NOW}.get(status, LATER)
    settles_later = (origin, status) in {("PAID", "won"), ("PAID", "lost")}
    assert (after.settle_at is not None) == settles_later
    reserve = {"open": "HELD", "won": "HELD", "lost": "OFFSET", "recovered": "HELD"}[status]
    assert after.reserve_status == ("NONE" if origin == "PAID" else reserve)


CASES = list(
    itertools.product(
        ("PAID", "SETTLED"),
        (0, 2000),  # the amount refunded before the dispute
        # The result of a further refund; None: there is no such refund.
        (None, "open", "SUCCEEDED", "REFUSED"),
        ("before", "after"),  # whether the further refund ends before or after the dispute
        ("0", "0.1"),  # the rate of the rolling reserve
        ("open", "won", "lost", "recovered"),  # the last status of the dispute
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
async def test_balances_add_up_to_the_cent_in_every_combination(tx: Tx, case: tuple) -> None:
    origin, refunded_before, refund_result, refund_ends, rate, status = case
    order = await create_order(tx, "PAID", reserve_rate=rate, platform_fee_rate="0.04")
    if refunded_before:
        await report_refund(tx, await create_refund(tx, order, "20.00"), "SUCCEEDED")
    if origin == "SETTLED":
        order = await settle_order(tx, order)
    reserve_minor = (NET - refunded_before) // 10 if (origin, rate) == ("SETTLED", "0.1") else 0
    assert order.reserve_minor == reserve_minor
    refund = await create_refund(tx, order, "30.00") if refund_result else None
    first_report, *later_reports = REPORTS[status]
    await report_dispute(tx, order, first_report)
    if refund and refund_result != "open" and refund_ends == "before":
        await report_refund(tx, refund, refund_result)
    for reported_status in later_reports:
        await report_dispute(tx, order, reported_status)
    if refund and refund_result != "open" and refund_ends == "after":
        await report_refund(tx, refund, refund_result)

    after = await find_order(tx, order)
    assert after.status == ORDER_STATUS.get(status, origin)
    in_progress = 3000 if refund_result == "open" else 0
    refunded = refunded_before + (3000 if refund_result in {"open", "SUCCEEDED"} else 0)
    debit = AMOUNT - refunded_before - (3000 if refund_result else 0)
    cost = {"lost": debit + LOSS_FEE, "recovered": LOSS_FEE}.get(status, 0)
    # The sum of the merchant's balances, which includes the frozen money of a refund in progress.
    total = NET - refunded - cost + in_progress
    reserve = 0 if status == "lost" else reserve_minor
    frozen = in_progress + (debit if (origin, status) == ("SETTLED", "open") else 0)
    pending = total - in_progress if origin == "PAID" and status != "recovered" else 0
    expected = (pending, total - pending - frozen - reserve, frozen, reserve)
    assert await read_balances(tx, order) == expected
    assert after.unsettled_minor == NET - refunded - (cost if status == "lost" else 0)

    # When the order is due, its pending money is settled, unless the order is disputed.
    await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)
    is_disputed = origin == "PAID" and status == "open"
    assert (await read_balances(tx, order))[0] == (pending if is_disputed else 0)
    assert sum(await read_balances(tx, order)) == total
    if refund and refund_result == "open":  # the refund may still fail
        await report_refund(tx, refund, "REFUSED")
        assert sum(await read_balances(tx, order)) == total


def test_disputes_have_exactly_these_transitions() -> None:
    assert [(row.source, row.event, row.target, row.order_event) for row in TRANSITIONS] == [
        (None, "opened", "OPEN", "disputed"),
        ("OPEN", "won", "WON", "dispute_won"),
        ("OPEN", "lost", "LOST", "dispute_lost"),
        ("LOST", "recovered", "RECOVERED", "recovered"),
    ]


# For each reported and current status, the transitions; None if the statuses contradict each other.
REPORTED_TRANSITIONS = [
    ("OPEN", None, ["opened"]), ("WON", None, ["opened", "won"]),
    ("LOST", None, ["opened", "lost"]), ("RECOVERED", None, ["opened", "lost", "recovered"]),
    ("OPEN", "OPEN", []), ("WON", "OPEN", ["won"]), ("LOST", "OPEN", ["lost"]),
    ("RECOVERED", "OPEN", ["lost", "recovered"]), ("OPEN", "WON", []), ("WON", "WON", []),
    ("LOST", "WON", None), ("RECOVERED", "WON", None), ("OPEN", "LOST", []), ("WON", "LOST", None),
    ("LOST", "LOST", []), ("RECOVERED", "LOST", ["recovered"]), ("OPEN", "RECOVERED", []),
    ("WON", "RECOVERED", None), ("LOST", "RECOVERED", []), ("RECOVERED", "RECOVERED", []),
]  # fmt: skip


@pytest.mark.parametrize(("reported_status", "status", "events"), REPORTED_TRANSITIONS)
def test_a_report_takes_the_transitions_that_are_missing_before_it(
    reported_status, status, events
) -> None:
    rows = transitions_to(reported_status, status)
    assert (None if rows is None else [row.event for row in rows]) == events


def test_every_pair_of_reported_and_current_status_is_tested() -> None:
    pairs = [(row[0], row[1]) for row in REPORTED_TRANSITIONS]
    assert set(pairs) == set(itertools.product(STATUSES, (None, *STATUSES)))


@pytest.mark.parametrize("status", ["OPEN", "WON", "LOST", "RECOVERED"])
@pytest.mark.parametrize("event", ["won", "lost", "recovered"])
async def test_staff_take_only_transitions_of_the_table(tx: Tx, status, event) -> None:
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
