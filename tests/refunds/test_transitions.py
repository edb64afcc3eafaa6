"""The table of transitions of refunds, and the amounts that can be refunded."""

from decimal import Decimal

import pytest

from opentill import orders, refunds
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.refunds.model import RefundBody
from support.world import (
    NOW,
    create_order_in,
    create_refund,
    create_session,
    dump_rows,
    pay_order,
    read_entries,
    read_history,
    report_refund,
)

LATER = NOW + 5_000
FROZEN = ("FREEZE", "pending", "frozen", 400)

OUTCOMES = (
    # outcome         status        postings after PAYMENT and FEE
    ("SUCCEEDED", "SUCCEEDED", [FROZEN, ("REFUND", "frozen", "gateway", 400)]),
    ("REFUSED", "FAILED", [FROZEN, ("UNFREEZE", "frozen", "pending", 400)]),
    ("PENDING", "PROCESSING", [FROZEN]),
    ("UNREACHABLE", "PROCESSING", [FROZEN]),
    ("NOT_FOUND", "PROCESSING", [FROZEN]),
    ("UNKNOWN", "PROCESSING", [FROZEN]),
)


@pytest.mark.parametrize(("outcome", "status", "posts"), OUTCOMES)
async def test_a_transition_of_the_table(tx: Tx, outcome, status, posts) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    assert (refund.status, refund.held_from, refund.debit_minor) == ("PROCESSING", "pending", 400)
    before = await dump_rows(tx)
    after = await report_refund(tx, refund, outcome, LATER, reason="no such account")
    assert after.status == status
    assert (await read_entries(tx, order.merchant_id))[2:] == posts
    refunded_order = await orders.find(tx, order.merchant_id, order.id)
    event = {"SUCCEEDED": "refund_succeeded", "FAILED": "refund_failed"}.get(status)
    if event is None:
        assert await dump_rows(tx) == before
        return
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.at, line.from_status, line.to_status) == (event, LATER, "PAID", "PAID")
    assert after.try_at is None
    failed = status == "FAILED"
    assert after.error_message == ("no such account" if failed else None)
    assert (after.succeeded_at, after.failed_at) == ((None, LATER) if failed else (LATER, None))
    held = 0 if failed else 400
    assert refunded_order.refunded_minor == refunded_order.refund_held_minor == held
    assert refunded_order.refund_debit_minor == held
    assert refunded_order.refund_status == ("NONE" if failed else "PARTIAL")


@pytest.mark.parametrize("first", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize("then", [row[0] for row in OUTCOMES])
async def test_a_refund_that_has_ended_does_not_move_again(tx: Tx, first, then) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, refund, first, LATER)
    before = await dump_rows(tx)
    await report_refund(tx, refund, then, LATER + 1)
    assert await dump_rows(tx) == before


UNPAID = ("CREATING", "PENDING", "FAILED", "CLOSED", "REVOKED", "REFUNDED")


@pytest.mark.parametrize("status", UNPAID)
async def test_only_a_paid_order_is_refunded(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await create_refund(tx, order)
    assert refused.value.field == "orderId"
    assert status in (refused.value.reason or "")
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("amount", ["0.00", "9.99", "6.00", "999999999999999.99"])
async def test_an_amount_above_what_is_left_is_refused(tx: Tx, amount) -> None:
    order = await create_order_in(tx, "PAID")
    await create_refund(tx, order, "4.00")
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await create_refund(tx, order, amount)
    assert refused.value.field == "amount"
    assert await dump_rows(tx) == before


async def test_the_amount_of_a_failed_refund_can_be_refunded_again(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    first = await create_refund(tx, order)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await create_refund(tx, order, "0.01")
    await report_refund(tx, first, "REFUSED")
    again = await create_refund(tx, order)
    await report_refund(tx, again, "SUCCEEDED")
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "REFUNDED"


async def test_the_same_number_returns_the_first_refund(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    body = RefundBody(amount="4.00", refund_no="r-1")
    first = await refunds.create(tx, order.merchant_id, order.id, body, NOW)
    before = await dump_rows(tx)
    again = await refunds.create(tx, order.merchant_id, order.id, body, LATER)
    assert (again, await dump_rows(tx)) == (first, before)
    other = RefundBody(amount="4.01", refund_no="r-1")
    with pytest.raises(Invalid) as refused:
        await refunds.create(tx, order.merchant_id, order.id, other, LATER)
    assert refused.value.field == "refundNo"
    assert await dump_rows(tx) == before


async def test_the_same_number_on_another_order_is_refused(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    checkout = await create_session(tx, order.merchant_id, order.product_id)
    other = await pay_order(tx, await orders.find(tx, order.merchant_id, checkout.order_id))
    body = RefundBody(amount="4.00", refund_no="r-1")
    await refunds.create(tx, order.merchant_id, order.id, body, NOW)
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        await refunds.create(tx, other.merchant_id, other.id, body, NOW)
    assert refused.value.field == "refundNo"
    assert await dump_rows(tx) == before
    foreign = await create_order_in(tx, "PAID")  # each merchant has its own numbers
    await refunds.create(tx, foreign.merchant_id, foreign.id, body, NOW)


@pytest.mark.parametrize(("overdraft", "accepted"), [(40, True), (39, False), (0, False)])
async def test_a_refund_may_take_the_balance_down_to_the_overdraft_limit(
    tx: Tx, overdraft, accepted
) -> None:
    order = await create_order_in(tx, "PAID", overdraft_minor=overdraft)
    before = await dump_rows(tx)
    if accepted:
        await create_refund(tx, order)
        return
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await create_refund(tx, order)
    assert refused.value.field == "amount"
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("policy", ["KEPT", "RETURNED"])
@pytest.mark.parametrize(("currency", "settled", "rate"), [
    ("USD", "USD", None),
    ("JPY", "USD", "0.0067"),
    ("USD", "JPY", "149.37"),
    ("KWD", "USD", "3.2514"),
    ("USD", "KWD", "0.30756"),
])  # fmt: skip
async def test_partial_refunds_add_up_to_the_whole_order(
    tx: Tx, policy, currency, settled, rate
) -> None:
    for base, quote in ((currency, settled), (currency, "USD"), (settled, "USD")):
        if base != quote:
            await tx.execute(
                "insert into exchange_rates values ($1, $2, 0, $3) on conflict do nothing",
                base, quote, Decimal(rate or 1),
            )  # fmt: skip
    price = "997.00"
    order = await create_order_in(
        tx, "PAID", price=price, currency=currency, settlement_currency=settled,
        refund_fee_policy=policy, platform_fee_rate="0.037", overdraft_minor=10**9,
    )  # fmt: skip
    left = 997
    for part in (1, 1, 3, 7, 333, 331, 2, 319):
        left -= part
        refund = await create_refund(tx, order, f"{part}.00")
        await report_refund(tx, refund, "SUCCEEDED")
    assert left == 0
    after = await orders.find(tx, order.merchant_id, order.id)
    total = after.gross_settled_minor if policy == "KEPT" else after.net_settled_minor
    assert (after.status, after.refund_debit_minor) == ("REFUNDED", total)
