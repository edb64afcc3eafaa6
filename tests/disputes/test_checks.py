"""The integrity rules find disputes, settlements and reserves whose rows contradict each other."""

import pytest

from opentill.db.database import Tx
from opentill.integrity import event_queries
from opentill.integrity.rules import check_books
from support.world import create_order_in, report_dispute

DISPUTE = "a dispute has the entries of its status, and an entry its dispute"
ORDER = "an order is DISPUTED by one open dispute, and a CHARGEBACK by one that was lost"
UNSETTLED = "an order stands in pending until it is settled, and in reserve while that is held"
EVENTS = event_queries.SENTENCE
BALANCE = "each balance is what orders, refunds, disputes and the operator keep there"

# Each row: order status before the dispute, reported dispute status, SQL that corrupts the rows,
# violated rules.
BROKEN = [
    ("SETTLED", "OPENED", "update disputes set debit_minor = 998", {DISPUTE, BALANCE}),
    ("SETTLED", "OPENED", "update disputes set status = 'WON', closed_at = 1",
     {DISPUTE, ORDER, BALANCE, EVENTS}),
    ("PAID", "OPENED", "update disputes set disputed_from = 'SETTLED'", {DISPUTE, ORDER, BALANCE}),
    ("PAID", "OPENED", "delete from disputes", {ORDER, EVENTS}),
    ("SETTLED", "LOST", "delete from disputes", {DISPUTE, ORDER, UNSETTLED, EVENTS}),
    ("SETTLED", "LOST", "update disputes set offset_minor = 0", {DISPUTE}),
    ("SETTLED", "LOST", "update orders set charged_back_minor = 0", {ORDER}),
    ("PAID", "LOST", "update orders set charged_back_minor = 0", {ORDER, UNSETTLED, BALANCE}),
    ("SETTLED", "LOST", "update orders set reserve_status = 'HELD'", {UNSETTLED, BALANCE}),
    ("SETTLED", "LOST", "update disputes set status = 'RECOVERED'", {DISPUTE, ORDER, EVENTS}),
    ("SETTLED", "RECOVERED", "update disputes set status = 'LOST'", {DISPUTE, ORDER, EVENTS}),
    ("SETTLED", "RECOVERED", "update orders set reserve_minor = 1", {UNSETTLED, BALANCE}),
    ("SETTLED", "WON", "update orders set settle_at = 1", {UNSETTLED}),
    ("PAID", "WON", "update orders set settle_at = null", {UNSETTLED}),
    ("PAID", "WON", "update orders set settled_at = 1, settle_at = null",
     {UNSETTLED, BALANCE, EVENTS}),
    ("SETTLED", "WON", "update orders set reserve_status = 'RELEASED'", {UNSETTLED, BALANCE}),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "status", "change", "rules"), BROKEN)
async def test_corrupted_disputes_and_orders_violate_the_expected_rules(
    tx: Tx, origin, status, change, rules
):
    order = await create_order_in(tx, origin, reserve_rate="0.1")
    await report_dispute(tx, order, status)
    savepoint = tx.transaction()
    await savepoint.start()
    await tx.execute(change)
    _, violations = await check_books(tx)
    await savepoint.rollback()
    assert {violation.rule for violation in violations} == rules
    assert {violation.merchant_id for violation in violations} == {order.merchant_id}
    assert all(violation.detail for violation in violations)
