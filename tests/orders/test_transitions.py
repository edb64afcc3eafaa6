"""The table of an order's transitions: each row works, and no other transition does."""

from decimal import Decimal

import pytest

from opentill import checkouts, orders, rates
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.orders.model import EVENTS, STATUSES, TRANSITIONS
from support.world import (
    NOW,
    create_merchant,
    create_order,
    create_order_in,
    create_product,
    create_refund,
    create_session,
    dump_rows,
    read_entries,
    read_history,
    report_payment,
    report_refund,
    submit_attempt,
)

LATER = NOW + 5_000
PAID = [("PAYMENT", "gateway", "pending", 999), ("FEE", "pending", "platform", 40)]

# The transitions of an order up to its payment (contract.md#order-transitions), and the status of
# its session afterwards.
TABLE = (
    # from        event               to          postings  session
    ("PENDING", "submitted", "CREATING", [], "OPEN"),
    ("CREATING", "accepted", "PENDING", [], "OPEN"),
    ("CREATING", "declined", "PENDING", [], "OPEN"),
    ("CREATING", "refused", "FAILED", [], "EXPIRED"),
    ("PENDING", "refused", "FAILED", [], "EXPIRED"),
    ("CREATING", "confirmed", "PAID", PAID, "COMPLETE"),
    ("PENDING", "confirmed", "PAID", PAID, "COMPLETE"),
    ("CREATING", "voided", "REVOKED", [], "EXPIRED"),
    ("PENDING", "voided", "REVOKED", [], "EXPIRED"),
    ("PENDING", "expired", "CLOSED", [], "EXPIRED"),
    ("CLOSED", "confirmed", "PAID", PAID, "EXPIRED"),
    ("FAILED", "confirmed", "PAID", PAID, "EXPIRED"),
)
# The transitions of paid orders, which tests/refunds, test_settlement.py and tests/disputes test.
AFTER_PAYMENT = {
    ("PAID", "settled"): {"SETTLED"},
    ("REFUNDED", "carried_over"): {"REFUNDED"},
    ("CHARGEBACK", "carried_over"): {"CHARGEBACK"},
    ("PAID", "refunded_in_full"): {"REFUNDED"},
    ("SETTLED", "refunded_in_full"): {"REFUNDED"},
    ("REFUNDED", "refund_reversed"): {"PAID", "SETTLED"},
    ("PAID", "disputed"): {"DISPUTED"},
    ("SETTLED", "disputed"): {"DISPUTED"},
    ("DISPUTED", "dispute_won"): {"PAID", "SETTLED"},
    ("DISPUTED", "dispute_lost"): {"CHARGEBACK"},
    ("CHARGEBACK", "recovered"): {"PAID", "SETTLED"},
}
REACHABLE_STATUSES = (
    "CREATING", "PENDING", "PAID", "SETTLED", "REFUNDED", "DISPUTED", "CHARGEBACK", "FAILED",
    "CLOSED", "REVOKED",
)  # fmt: skip
REFUSED = [
    (status, event)
    for status in REACHABLE_STATUSES
    for event in EVENTS
    if (status, event) not in {(row[0], row[1]) for row in TABLE} | set(AFTER_PAYMENT)
]


async def cause(tx: Tx, order: orders.Order, event: str) -> None:
    """Cause a transition as the product does: by an attempt, expiry, or a gateway's report."""
    if event == "submitted":
        await submit_attempt(tx, order, LATER)
    elif event == "expired":
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", LATER)
    else:
        last_attempt = await orders.last_attempt(tx, order.merchant_id, order.id)
        outcome = {"accepted": "ACTION_REQUIRED", "confirmed": "SUCCEEDED"}.get(
            event, event.upper()
        )
        assert last_attempt is not None
        await report_payment(tx, last_attempt, outcome, LATER)


@pytest.mark.parametrize(("source", "event", "target", "postings", "session_status"), TABLE)
async def test_each_transition_of_the_table_writes_status_history_and_entries(
    tx: Tx, source, event, target, postings, session_status
) -> None:
    order = await create_order_in(tx, source)
    if source == "PENDING" and event in {"refused", "confirmed", "voided"}:
        await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    elif source == "CLOSED":
        order = await create_order(tx)
        await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", NOW)
    before = await read_history(tx, order)
    await cause(tx, order, event)
    after = await orders.find(tx, order.merchant_id, order.id)
    line, *further = (await read_history(tx, order))[len(before) :]
    assert (after.status, further) == (target, [])
    assert (line.number, line.event, line.at) == (len(before) + 1, event, LATER)
    assert (line.from_status, line.to_status) == (source, target)
    assert await read_entries(tx, order.merchant_id) == postings
    checkout = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    assert checkout.status == session_status
    paid_at = LATER if target == "PAID" else None
    assert (after.paid_at, after.updated_at) == (paid_at, LATER)
    assert (after.payment_method is None) == (paid_at is None)


def test_the_code_has_exactly_the_transitions_of_this_table() -> None:
    table = {(source, event): {target} for source, event, target, _, _ in TABLE} | AFTER_PAYMENT
    in_code: dict[tuple[str, str], set[str]] = {}
    for row in TRANSITIONS:
        in_code.setdefault((row.source, row.event), set()).add(row.target)
    assert in_code == table
    assert len(TRANSITIONS) == sum(map(len, table.values()))
    assert set(STATUSES) == set(REACHABLE_STATUSES)


@pytest.mark.parametrize(("status", "event"), REFUSED)
async def test_any_other_transition_is_refused_and_changes_nothing(tx: Tx, status, event) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            if event == "submitted":
                await submit_attempt(tx, order, LATER)
            else:
                await orders.transition(tx, orders.Change(order, event, "because"), LATER)
    assert refused.value.field == "orderId"
    assert status in (refused.value.reason or "")
    assert await dump_rows(tx) == before


async def test_an_order_is_refunded_in_full_by_its_last_refund(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    first_refund = await create_refund(tx, order, "4.00")
    last_attempt = await create_refund(tx, order)
    await report_refund(tx, last_attempt, "SUCCEEDED", LATER)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"
    await report_refund(tx, first_refund, "SUCCEEDED", LATER)
    after = await orders.find(tx, order.merchant_id, order.id)
    assert (after.status, after.refund_status) == ("REFUNDED", "FULL")
    assert [line.event for line in await read_history(tx, order)] == [
        "opened", "submitted", "confirmed", "refund_created", "refund_created",
        "refund_succeeded", "refund_succeeded", "refunded_in_full",
    ]  # fmt: skip
    checkout = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    assert checkout.status == "COMPLETE"


async def test_an_order_is_placed_with_its_session(tx: Tx) -> None:
    order = await create_order(tx)
    (line,) = await read_history(tx, order)
    assert (order.status, order.history_number) == ("PENDING", 1)
    assert (line.event, line.from_status, line.to_status) == ("opened", None, "PENDING")
    assert await read_entries(tx, order.merchant_id) == []


@pytest.mark.parametrize("status", ["CREATING", "PENDING", "CLOSED", "FAILED"])
async def test_the_operator_confirms_an_unpaid_order(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    after = await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "bank", LATER)
    assert (after.status, after.payment_method, after.paid_at) == ("PAID", "BANK_TRANSFER", LATER)
    assert await read_entries(tx, order.merchant_id) == PAID
    assert (await read_history(tx, order))[-1].cause == "confirmed by ann: bank"


@pytest.mark.parametrize(
    "status", ["PAID", "SETTLED", "DISPUTED", "CHARGEBACK", "REFUNDED", "REVOKED"]
)
async def test_the_operator_confirms_no_order_that_was_paid_or_revoked(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "bank", LATER)
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("status", REACHABLE_STATUSES)
async def test_the_operator_revokes_only_unpaid_orders(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    if status in {"CREATING", "PENDING"}:
        after = await orders.revoke_manually(tx, order.merchant_id, order.id, "ann", "fraud", LATER)
        assert after.status == "REVOKED"
        return
    with pytest.raises(Invalid):
        async with tx.transaction():
            await orders.revoke_manually(tx, order.merchant_id, order.id, "ann", "fraud", LATER)
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("status", REACHABLE_STATUSES)
async def test_a_session_expires_only_without_a_payment_under_way(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    key = (order.merchant_id, order.checkout_id)
    if status in {"CREATING", "PAID", "SETTLED", "DISPUTED", "CHARGEBACK", "REFUNDED"}:
        with pytest.raises(Invalid) as refused:
            async with tx.transaction():
                await checkouts.expire(tx, *key, "time is over", LATER)
        assert refused.value.field == "id"
        assert await dump_rows(tx) == before
        return
    ended = await checkouts.expire(tx, *key, "time is over", LATER)
    assert ended.status == "EXPIRED"
    if status == "PENDING":
        assert ended.expires_at == LATER
    else:
        assert await dump_rows(tx) == before


async def test_the_history_stays_sorted_if_the_clock_is_set_back(tx: Tx) -> None:
    order = await create_order(tx)
    attempt = await submit_attempt(tx, order, NOW + 9_000)
    await report_payment(tx, attempt, "ACTION_REQUIRED", NOW + 4_000)
    await report_payment(tx, attempt, "SUCCEEDED", NOW - 4_000)
    lines = await read_history(tx, order)
    assert [line.at for line in lines] == sorted(line.at for line in lines)


async def test_fee_and_net_equal_those_of_the_documented_example(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID", price="9.99", platform_fee_rate="0.04")
    detail = orders.OrderDetail.from_order(order)
    assert (detail.platform_fee, detail.net_amount, detail.settled_amount) == (
        "0.40",
        "9.59",
        "9.59",
    )


@pytest.mark.parametrize(
    ("price", "fee", "net"), [("0.50", "0.01", "0.49"), ("1.50", "0.02", "1.48")]
)
async def test_a_fee_in_dinars_is_rounded_half_up_to_ten_fils(
    tx: Tx, price: str, fee: str, net: str
) -> None:
    terms = {"settlement_currency": "KWD", "platform_fee_rate": "0.01"}
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    order = await create_order_in(tx, "PAID", price=price, currency="KWD", **terms)
    detail = orders.OrderDetail.from_order(order)
    assert (detail.platform_fee, detail.net_amount, detail.settled_amount) == (fee, net, net)
    posted = [amount for _, _, _, amount in await read_entries(tx, order.merchant_id)]
    assert posted == [order.amount_minor, int(fee.replace("0.0", "")) * 10]


async def test_an_order_without_a_fee_has_no_entry_of_a_fee(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID", platform_fee_rate="0")
    assert await read_entries(tx, order.merchant_id) == PAID[:1]


async def test_a_product_changed_later_does_not_change_the_order(tx: Tx) -> None:
    shop = await create_merchant(tx)
    mug = await create_product(tx, shop.id)
    checkout = await create_session(tx, shop.id, mug.id)
    await tx.execute("update merchants set platform_fee_rate = 0.5")
    order = await orders.find(tx, shop.id, checkout.order_id)
    await orders.confirm_manually(tx, shop.id, order.id, "ann", "bank", LATER)
    assert await read_entries(tx, shop.id) == PAID
