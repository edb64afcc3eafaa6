"""A refund has the transitions of the table, and no order is refunded beyond its amount.

``tests/spec/test_transition_tables.py`` and ``tests/spec/test_refunds.py`` test what is refused.
"""

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


@pytest.mark.parametrize(("outcome", "status", "postings"), OUTCOMES)
async def test_an_outcome_of_the_table_changes_refund_order_and_ledger(
    tx: Tx, outcome, status, postings
) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    assert (refund.status, refund.held_from, refund.debit_minor) == ("PROCESSING", "pending", 400)
    before = await dump_rows(tx)
    after = await report_refund(tx, refund, outcome, LATER, reason="no such account")
    assert after.status == status
    assert (await read_entries(tx, order.merchant_id))[2:] == postings
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
    expected_minor = 0 if failed else 400
    assert refunded_order.refunded_minor == refunded_order.refund_held_minor == expected_minor
    assert refunded_order.refund_debit_minor == expected_minor
    assert refunded_order.refund_status == ("NONE" if failed else "PARTIAL")


@pytest.mark.parametrize("ended_by", ["SUCCEEDED", "REFUSED"])
@pytest.mark.parametrize("outcome", [row[0] for row in OUTCOMES])
async def test_an_outcome_after_the_end_of_a_refund_changes_nothing(
    tx: Tx, ended_by, outcome
) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, refund, ended_by, LATER)
    before = await dump_rows(tx)
    await report_refund(tx, refund, outcome, LATER + 1)
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("amount", ["0.00", "9.99", "6.00", "999999999999999.99"])
async def test_an_amount_that_is_zero_or_exceeds_the_remainder_is_refused(tx: Tx, amount) -> None:
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
    failed_refund = await create_refund(tx, order)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await create_refund(tx, order, "0.01")
    await report_refund(tx, failed_refund, "REFUSED")
    new_refund = await create_refund(tx, order)
    await report_refund(tx, new_refund, "SUCCEEDED")
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "REFUNDED"


async def test_a_refund_number_that_is_used_again_returns_the_existing_refund(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    body = RefundBody(amount="4.00", refund_no="r-1")
    refund = await refunds.create(tx, order.merchant_id, order.id, body, NOW)
    before = await dump_rows(tx)
    assert await refunds.create(tx, order.merchant_id, order.id, body, LATER) == refund
    assert await dump_rows(tx) == before
    other_amount = RefundBody(amount="4.01", refund_no="r-1")
    with pytest.raises(Invalid) as refused:
        await refunds.create(tx, order.merchant_id, order.id, other_amount, LATER)
    assert refused.value.field == "refundNo"
    assert await dump_rows(tx) == before


async def test_a_refund_number_of_another_order_is_refused(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    session = await create_session(tx, order.merchant_id, order.product_id)
    other_order = await pay_order(tx, await orders.find(tx, order.merchant_id, session.order_id))
    body = RefundBody(amount="4.00", refund_no="r-1")
    await refunds.create(tx, order.merchant_id, order.id, body, NOW)
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        await refunds.create(tx, order.merchant_id, other_order.id, body, NOW)
    assert refused.value.field == "refundNo"
    assert await dump_rows(tx) == before
    # Each merchant has its own refund numbers.
    foreign_order = await create_order_in(tx, "PAID")
    await refunds.create(tx, foreign_order.merchant_id, foreign_order.id, body, NOW)


# A full refund of 9.99 USD also takes the fee of 0.40 USD from the merchant's balance.
@pytest.mark.parametrize(("overdraft_minor", "accepted"), [(40, True), (39, False), (0, False)])
async def test_a_refund_takes_the_balance_down_to_the_overdraft_limit_and_no_further(
    tx: Tx, overdraft_minor, accepted
) -> None:
    order = await create_order_in(tx, "PAID", overdraft_minor=overdraft_minor)
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
async def test_partial_refunds_add_up_to_a_full_refund(
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
    remainder = 997
    for part in (1, 1, 3, 7, 333, 331, 2, 319):
        remainder -= part
        refund = await create_refund(tx, order, f"{part}.00")
        await report_refund(tx, refund, "SUCCEEDED")
    assert remainder == 0
    after = await orders.find(tx, order.merchant_id, order.id)
    total = after.gross_settled_minor if policy == "KEPT" else after.net_settled_minor
    assert (after.status, after.refund_debit_minor) == ("REFUNDED", total)
