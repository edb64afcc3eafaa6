"""Each integrity rule about features' rows reports at least one kind of corruption.

``test_check.py`` does the same for orders, refunds and entries.
"""

from collections.abc import AsyncIterator

import pytest

from ledger.corruptions import (
    FEATURE_CORRUPTIONS,
    ORDER_CORRUPTIONS,
    corrupted,
    drop_constraints,
)
from opentill import adjustments, orders, payouts
from opentill.adjustments import AdjustmentRequest
from opentill.db.database import Db, Tx
from opentill.figures import jobs as figure_jobs
from opentill.integrity.rules import check_books, statements
from opentill.payouts import PayoutRequest
from support import prepaid
from support.books import assert_books
from support.world import (
    NOW,
    create_merchant,
    create_order,
    create_order_in,
    create_refund,
    new_reference,
    pay_order,
    report_dispute,
    report_payment,
    report_refund,
    report_refund_event,
    settle_order,
    submit_attempt,
)


async def create_books(tx: Tx) -> None:
    """Create orders, refunds, disputes, payouts and adjustments in every final status."""
    for status in ("PAID", "SETTLED", "CLOSED", "FAILED", "REVOKED", "DISPUTED", "CHARGEBACK"):
        await create_order_in(tx, status)
    order = await settle_order(tx, await pay_order(tx, await create_order(tx, reserve_rate="0.1")))
    for outcome in ("REFUSED", "SUCCEEDED"):
        await report_refund(tx, await create_refund(tx, order, "1.00"), outcome)
    await _create_providers_refunds(tx)
    await _create_direct_payments(tx)
    recovered = await create_order_in(tx, "CHARGEBACK")
    await report_dispute(tx, recovered, "RECOVERED")
    await report_dispute(tx, await create_order_in(tx, "DISPUTED"), "WON")
    await report_payment(tx, await submit_attempt(tx, await create_order(tx)), "DECLINED")
    shop = await create_merchant(tx)
    for kind, amount_minor in (("recharge", 20_000), ("freeze", 700)):
        request = AdjustmentRequest(
            kind=kind, amount_minor=amount_minor, reference=new_reference(), reason="why", by="ann"
        )
        await adjustments.request(tx, shop.id, request, None, NOW)
    for number in range(3):
        request = PayoutRequest(
            amount_minor=2_500, fee_minor=100, reference=new_reference(), reason="why", by="ann"
        )
        payout = await payouts.create(tx, shop.id, request, None, NOW)
        if number == 0:
            await payouts.pay(tx, payout.id, "TRN", "why", "ann", NOW)
        elif number == 1:
            await payouts.fail(tx, payout.id, "why", "ann", NOW)


async def _create_direct_payments(tx: Tx) -> None:
    """Create a direct payment whose refund returns a part of the fee, and one in progress."""
    paid, waiting = [await create_order(tx, refund_fee_policy="RETURNED") for _ in range(2)]
    for order in (paid, waiting):
        await prepaid.adjust(tx, order.merchant_id, "topup", 100)
    attempts = [await prepaid.submit_direct(tx, order) for order in (paid, waiting)]
    assert attempts[0] is not None
    await report_payment(tx, attempts[0], "SUCCEEDED")
    order = await orders.find(tx, paid.merchant_id, paid.id)
    await report_refund(tx, await create_refund(tx, order, "4.00"), "SUCCEEDED")


async def _create_providers_refunds(tx: Tx) -> None:
    """Create refunds that a provider reverses, and refunds made at the provider."""
    order = await create_order_in(tx, "SETTLED")
    await report_refund_event(tx, order, "SUCCEEDED", minor=300, ref="rf_made")
    refund = await report_refund(tx, await create_refund(tx, order, "2.00"), "SUCCEEDED")
    await report_refund_event(tx, order, "REFUSED", refund=refund)
    order = await create_order_in(tx, "PAID")
    # The refund of the full amount is reversed, so that the order is PAID again.
    for status in ("SUCCEEDED", "REFUSED"):
        await report_refund_event(tx, order, status, ref="rf_reversed")


@pytest.fixture(scope="module")
async def unguarded(module_database_url: str) -> AsyncIterator[Tx]:
    """A connection to committed books without constraints; each test rolls back its corruption."""
    db = await Db.connect(module_database_url, 4, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            await create_books(tx)
        await figure_jobs.count_all(db)
        async with db.connection() as tx:
            await assert_books(tx)
            await drop_constraints(tx)
            yield tx
    finally:
        await db.close()


@pytest.mark.parametrize(("statement", "rule"), FEATURE_CORRUPTIONS)
async def test_the_rule_finds_its_corruption(unguarded: Tx, statement: str, rule: str) -> None:
    async with corrupted(unguarded, statement):
        _, violations = await check_books(unguarded)
    assert rule in {violation.rule for violation in violations}
    assert all(violation.detail for violation in violations)


async def test_assert_books_fails_for_a_lost_event(unguarded: Tx) -> None:
    await assert_books(unguarded)
    lost = "delete from events where id = (select max(id) from events where type = 'order.paid')"
    async with corrupted(unguarded, lost):
        with pytest.raises(AssertionError, match=r"order\.paid: 1 expected, 0 written"):
            await assert_books(unguarded)


def test_every_rule_has_a_corruption_that_it_finds() -> None:
    tested_rules = {rule for _, rule in FEATURE_CORRUPTIONS}
    tested_rules |= set().union(*(rules for _, rules in ORDER_CORRUPTIONS))
    checked_rules = [query.sql.split("'")[1] for query, _ in statements()]
    assert sorted(tested_rules) == sorted(checked_rules)
