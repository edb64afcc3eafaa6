"""A provider can reverse a refund that had succeeded."""

import json

import pytest

from opentill import orders, refunds
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.orders import Order
from opentill.refunds import Refund
from support.world import (
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
    report_refund,
    settle_order,
)

LATER = NOW + 5_000


async def report_failure(tx: Tx, refund: Refund, now: int = LATER, ref: str = "") -> None:
    """Report that a refund has failed, as a callback of its own gateway does."""
    attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
    outcome = RefundOutcome(status="REFUSED", reason="lost_or_stolen_card", provider_ref=ref)
    report = GatewayRefundEvent(attempt_id=attempt.id, refund_id=refund.id, outcome=outcome)
    await refunds.apply_report(tx, refund.merchant_id, report, now, gateway=attempt.gateway)


async def find(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def reverse_refund(tx: Tx, order: Order, amount: str | None = None) -> Refund:
    """Refund an order and reverse the refund."""
    refund = await create_refund(tx, order, amount)
    await report_refund(tx, refund, "SUCCEEDED")
    await report_failure(tx, refund)
    return await refunds.find(tx, refund.merchant_id, refund.id)


async def test_a_reversed_refund_returns_the_merchants_money(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    before = await read_balances(tx, order)
    refund = await reverse_refund(tx, order, "4.00")
    assert (refund.status, refund.error_message) == ("FAILED", "lost_or_stolen_card")
    assert (refund.succeeded_at, refund.failed_at) == (NOW, LATER)
    assert await read_balances(tx, order) == before
    assert (await read_entries(tx, order.merchant_id))[-1] == ("REFUND", "gateway", "pending", 400)
    after = await find(tx, order)
    assert (after.refunded_minor, after.refund_held_minor, after.refund_debit_minor) == (0, 0, 0)
    assert (after.status, after.refund_status) == ("PAID", "NONE")
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.cause) == ("refund_reversed", f"{refund.id}: lost_or_stolen_card")


@pytest.mark.parametrize(
    ("settled", "status", "account"),
    [
        ("never", "PAID", "pending"),
        ("before the refund", "SETTLED", "available"),
        ("before the reversal", "SETTLED", "available"),
    ],
)
async def test_after_a_reversal_an_order_refunded_in_full_is_paid_again(
    tx: Tx, settled: str, status: str, account: str
) -> None:
    order = await create_order_in(tx, "SETTLED" if settled == "before the refund" else "PAID")
    net = sum(await read_balances(tx, order))
    refund = await create_refund(tx, order)
    await report_refund(tx, refund, "SUCCEEDED")
    if settled == "before the reversal":
        await orders.settle_one(tx, order.merchant_id, order.id, NOW, "test")
    await report_failure(tx, refund)
    after = await find(tx, order)
    assert (after.status, after.refunded_minor, after.refund_status) == (status, 0, "NONE")
    posted = (await read_entries(tx, order.merchant_id))[-1]
    assert posted == ("REFUND", "gateway", account, refund.debit_minor)
    assert sum(await read_balances(tx, order)) == net
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.from_status, line.to_status) == ("refund_reversed", "REFUNDED", status)
    if status == "PAID":
        assert (await settle_order(tx, after)).status == "SETTLED"
    await report_refund(tx, await create_refund(tx, order), "SUCCEEDED")
    assert (await find(tx, order)).status == "REFUNDED"


async def test_a_reversal_charges_the_fee_that_the_refund_had_returned(tx: Tx) -> None:
    order = await pay_order(
        tx, await create_order(tx, platform_fee_rate="0.04", refund_fee_policy="RETURNED")
    )
    before = await read_balances(tx, order)
    refund = await reverse_refund(tx, order)
    assert refund.debit_minor == order.net_settled_minor
    assert await read_balances(tx, order) == before


async def test_a_repeated_report_of_a_reversal_changes_nothing(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await reverse_refund(tx, order)
    before = await dump_rows(tx)
    await report_failure(tx, refund, LATER + 1)
    await report_refund(tx, refund, "SUCCEEDED", LATER + 2)
    assert await dump_rows(tx) == before


async def test_a_failure_of_a_refund_in_progress_is_no_reversal(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_failure(tx, refund)
    failed_refund = await refunds.find(tx, refund.merchant_id, refund.id)
    assert (failed_refund.status, failed_refund.succeeded_at) == ("FAILED", None)
    assert (await read_history(tx, order))[-1].event == "refund_failed"
    assert await refunds.list_open(tx, order.merchant_id) == []


async def test_a_refusal_of_a_repeated_request_reverses_nothing(tx: Tx) -> None:
    """The provider may refuse the repetition because the first request has succeeded."""
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, refund, "SUCCEEDED")
    before = await dump_rows(tx)
    await report_refund(tx, refund, "REFUSED", LATER)
    assert await dump_rows(tx) == before


async def test_a_failure_of_another_refund_at_the_provider_reverses_nothing(tx: Tx) -> None:
    """A request that is repeated after days may create a second refund under our id."""
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, refund, "SUCCEEDED", provider_ref="rf_1")
    before = await dump_rows(tx)
    await report_failure(tx, refund, ref="rf_2")
    assert await dump_rows(tx) == before
    await report_failure(tx, refund, ref="rf_1")
    assert (await refunds.find(tx, refund.merchant_id, refund.id)).was_reversed


async def test_one_of_two_refunds_is_reversed(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    reversed_refund = await create_refund(tx, order, "3.33")
    other_refund = await create_refund(tx, order)
    for refund in (reversed_refund, other_refund):
        await report_refund(tx, refund, "SUCCEEDED")
    await report_failure(tx, reversed_refund)
    after = await find(tx, order)
    assert (after.status, after.refunded_minor) == ("PAID", other_refund.amount_minor)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await create_refund(tx, order, "3.34")
    await report_refund(tx, await create_refund(tx, order, "3.33"), "SUCCEEDED")
    assert (await find(tx, order)).status == "REFUNDED"


@pytest.mark.parametrize("dispute_status", ["OPENED", "LOST"])
@pytest.mark.parametrize("is_settled", [True, False])
async def test_a_refund_is_reversed_while_its_order_is_disputed(
    tx: Tx, dispute_status: str, is_settled: bool
) -> None:
    order = await create_order_in(tx, "SETTLED" if is_settled else "PAID")
    refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, refund, "SUCCEEDED")
    await report_dispute(tx, order, dispute_status)
    before = await read_balances(tx, order)
    await report_failure(tx, refund)
    after = await find(tx, order)
    assert after.status == ("DISPUTED" if dispute_status == "OPENED" else "CHARGEBACK")
    assert after.refunded_minor == 0
    pending, available, *others = before
    if is_settled:
        available += refund.debit_minor
    else:
        pending += refund.debit_minor
    assert await read_balances(tx, order) == (pending, available, *others)


async def test_a_reversal_emits_an_event_and_opens_a_case(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await reverse_refund(tx, order, "4.00")
    rows = await tx.fetch(
        "select type, body from events where merchant_id = $1 order by created_at, id",
        order.merchant_id,
    )
    events = [(row["type"], json.loads(row["body"])["data"]) for row in rows]
    refund_events = [(type_, data) for type_, data in events if data.get("refund_id") == refund.id]
    assert [type_ for type_, _ in refund_events] == ["order.refunded", "refund.failed"]
    failed = refund_events[-1][1]
    assert (failed["reversed"], failed["error_message"]) == (True, "lost_or_stolen_card")
    (case,) = await refunds.list_open(tx, order.merchant_id)
    assert (case.kind, case.refund_id, case.amount_minor) == ("REVERSED", refund.id, 400)
    await refunds.dismiss(tx, *(case.merchant_id, case.gateway, case.gateway_ref), "ann", LATER)
    assert await refunds.list_open(tx, order.merchant_id) == []


async def test_an_operator_reverses_a_refund_that_no_gateway_reports(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, "4.00")
    ids = (refund.merchant_id, refund.id)
    with pytest.raises(Invalid) as refused:
        await refunds.reverse_manually(tx, *ids, "the transfer came back", LATER)
    assert "PROCESSING" in (refused.value.reason or "")
    await report_refund(tx, refund, "SUCCEEDED")
    after = await refunds.reverse_manually(tx, *ids, "the transfer came back", LATER)
    assert (after.status, after.error_message) == ("FAILED", "the transfer came back")
    assert (await find(tx, order)).refunded_minor == 0
    with pytest.raises(Invalid):
        await refunds.reverse_manually(tx, *ids, "again", LATER)
