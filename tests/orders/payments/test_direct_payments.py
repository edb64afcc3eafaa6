"""Payments through an account of the merchant: only the fee is ours, and prepaid money pays it."""

import pytest

from opentill import disputes, orders, refunds
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.orders import Order, PaymentAttempt
from opentill.orders.model import DAY_MS
from opentill.orders.settlement import service as settlement
from support.prepaid import adjust, moves_of, read_prepaid, submit_direct
from support.world import (
    NOW,
    create_order,
    create_product,
    create_refund,
    create_session,
    pay_order,
    read_entries,
    report_dispute,
    report_payment,
    report_refund,
)

FEE = 40  # of 9.99 at 4 %
OURS = ("pending", "available", "frozen", "reserve", "gateway")


async def create_funded_order(tx: Tx, prepaid: int = 100, **terms: str) -> Order:
    """Create an order of 9.99 of a merchant with this prepaid balance."""
    order = await create_order(tx, **terms)
    if prepaid:
        await adjust(tx, order.merchant_id, "topup", prepaid)
    return order


async def start(tx: Tx, order: Order) -> PaymentAttempt:
    attempt = await submit_direct(tx, order)
    assert attempt is not None
    return attempt


async def pay(tx: Tx, order: Order, attempt: PaymentAttempt) -> Order:
    amount = Money(order.amount_minor, order.currency)
    await report_payment(tx, attempt, "SUCCEEDED", amount=amount)
    return await orders.find(tx, order.merchant_id, order.id)


async def pay_directly(tx: Tx, prepaid: int = 100, **terms: str) -> Order:
    order = await create_funded_order(tx, prepaid, **terms)
    return await pay(tx, order, await start(tx, order))


async def next_order(tx: Tx, order: Order) -> Order:
    """Create another order of the same merchant."""
    product = await create_product(tx, order.merchant_id)
    session = await create_session(tx, order.merchant_id, product.id)
    return await orders.find(tx, order.merchant_id, session.order_id)


async def test_a_payment_takes_only_its_fee_and_only_from_the_prepaid_balance(tx: Tx) -> None:
    order = await create_funded_order(tx)
    attempt = await start(tx, order)
    assert (attempt.prepaid_minor, attempt.prepaid_held) == (FEE, True)
    assert await read_prepaid(tx, order.merchant_id) == (100, FEE)
    paid = await pay(tx, order, attempt)
    assert (paid.status, paid.paid_directly, paid.platform_fee_minor) == ("PAID", True, FEE)
    assert (paid.due_at, paid.settle_at, paid.unsettled_minor) == (None, None, 0)
    assert await read_prepaid(tx, order.merchant_id) == (60, 0)
    entries = await read_entries(tx, order.merchant_id)
    assert entries == [
        ("ADMIN_RECHARGE", "bank", "prepaid", 100),
        ("FEE", "prepaid", "platform", FEE),
    ]
    assert all(moves_of(entries, account) == [] for account in OURS)


async def test_a_direct_payment_never_settles(tx: Tx) -> None:
    order = await pay_directly(tx)
    later = NOW + 1000 * DAY_MS
    assert await settlement.settle_batch(tx, order.merchant_id, later, early=True) == []
    with pytest.raises(Invalid):
        await settlement.settle_one(tx, order.merchant_id, order.id, later, "asked")


async def test_a_fee_that_the_prepaid_balance_lacks_starts_no_payment(tx: Tx) -> None:
    order = await create_funded_order(tx, FEE - 1)
    assert await submit_direct(tx, order) is None
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PENDING"
    assert await read_prepaid(tx, order.merchant_id) == (FEE - 1, 0)


async def test_a_merchant_without_any_balance_starts_no_payment(tx: Tx) -> None:
    assert await submit_direct(tx, await create_order(tx)) is None


async def test_a_payment_without_a_fee_needs_no_prepaid_balance(tx: Tx) -> None:
    order = await create_order(tx, platform_fee_rate="0")
    attempt = await start(tx, order)
    assert (attempt.prepaid_minor, attempt.prepaid_held) == (0, False)
    paid = await pay(tx, order, attempt)
    assert (paid.status, paid.paid_directly) == ("PAID", True)
    assert await read_entries(tx, order.merchant_id) == []


@pytest.mark.parametrize("status", ["DECLINED", "REFUSED", "VOIDED"])
async def test_a_failed_payment_gives_its_fee_back_once(tx: Tx, status: str) -> None:
    order = await create_funded_order(tx)
    attempt = await start(tx, order)
    for _ in range(3):
        await report_payment(tx, attempt, status)
    assert await read_prepaid(tx, order.merchant_id) == (100, 0)


async def test_a_payment_with_an_unknown_outcome_keeps_its_fee(tx: Tx) -> None:
    order = await create_funded_order(tx)
    await report_payment(tx, await start(tx, order), "UNKNOWN")
    assert await read_prepaid(tx, order.merchant_id) == (100, FEE)


async def test_a_late_payment_pays_the_order_and_overdraws_the_prepaid_balance(tx: Tx) -> None:
    order = await create_funded_order(tx, FEE)
    late = await start(tx, order)
    await report_payment(tx, late, "DECLINED")
    other = await next_order(tx, order)
    assert (await pay(tx, other, await start(tx, other))).status == "PAID"
    paid = await pay(tx, order, late)
    assert (paid.status, paid.paid_directly) == ("PAID", True)
    assert await read_prepaid(tx, order.merchant_id) == (-FEE, 0)
    third = await next_order(tx, order)
    assert await submit_direct(tx, third) is None
    await adjust(tx, order.merchant_id, "topup", 2 * FEE)
    assert await submit_direct(tx, third) is not None


async def test_a_second_payment_is_given_back_and_takes_no_fee(tx: Tx) -> None:
    order = await create_funded_order(tx)
    first = await start(tx, order)
    await report_payment(tx, first, "ACTION_REQUIRED", action_url="https://pay.example.com")
    second = await start(tx, await orders.find(tx, order.merchant_id, order.id))
    assert await read_prepaid(tx, order.merchant_id) == (100, 2 * FEE)
    await pay(tx, order, second)
    await pay(tx, order, first)
    attempt = await orders.find_attempt(tx, order.merchant_id, first.id)
    assert (attempt.status, attempt.prepaid_held) == ("DUPLICATE", False)
    assert await read_prepaid(tx, order.merchant_id) == (100 - FEE, 0)


async def test_orders_of_the_operators_and_of_the_merchants_accounts_are_kept_apart(tx: Tx) -> None:
    order = await pay_directly(tx)
    credited = await pay_order(tx, await next_order(tx, order))
    assert (credited.paid_directly, credited.due_at is None) == (False, False)
    assert [row[0] for row in await read_entries(tx, order.merchant_id)] == [
        "ADMIN_RECHARGE", "FEE", "PAYMENT", "FEE",
    ]  # fmt: skip


# ── refunds ──


@pytest.mark.parametrize(("policy", "returned"), [("KEPT", (0, 0)), ("RETURNED", (16, 24))])
async def test_refunds_move_no_money_of_ours_and_treat_the_fee_by_the_merchants_terms(
    tx: Tx, policy: str, returned: tuple[int, int]
) -> None:
    order = await pay_directly(tx, refund_fee_policy=policy)
    first = await create_refund(tx, order, "4.00")
    second = await create_refund(tx, order)
    assert (first.fee_returned_minor, second.fee_returned_minor) == returned
    assert (first.debit_minor, first.merchant_debit_usd_minor) == (0, 0)
    assert first.user_refund_usd_minor == 400
    for refund in (first, second):
        await report_refund(tx, refund, "SUCCEEDED")
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "REFUNDED"
    assert await read_prepaid(tx, order.merchant_id) == (100 - FEE + sum(returned), 0)
    entries = await read_entries(tx, order.merchant_id)
    assert all(moves_of(entries, account) == [] for account in OURS)


async def test_a_failed_refund_returns_no_fee_and_the_next_one_returns_it(tx: Tx) -> None:
    order = await pay_directly(tx, refund_fee_policy="RETURNED")
    await report_refund(tx, await create_refund(tx, order, "4.00"), "REFUSED")
    refund = await create_refund(tx, order)
    assert refund.fee_returned_minor == FEE
    await report_refund(tx, refund, "SUCCEEDED")
    assert await read_prepaid(tx, order.merchant_id) == (100, 0)


async def test_a_reversed_refund_takes_its_part_of_the_fee_again(tx: Tx) -> None:
    order = await pay_directly(tx, refund_fee_policy="RETURNED")
    refund = await create_refund(tx, order)
    await report_refund(tx, refund, "SUCCEEDED")
    outcome = RefundOutcome(status="REFUSED", reason="account_closed")
    report = GatewayRefundEvent(attempt_id=refund.attempt_id, refund_id=refund.id, outcome=outcome)
    await refunds.apply_report(tx, refund.merchant_id, report, NOW, gateway="sandbox")
    assert await read_prepaid(tx, order.merchant_id) == (100 - FEE, 0)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_the_quote_of_a_refund_says_that_it_debits_nothing(tx: Tx) -> None:
    order = await pay_directly(tx, refund_fee_policy="RETURNED")
    quote = await refunds.quote(
        tx, order.merchant_id, order.id, refunds.RefundBody(amount="4.00"), NOW
    )
    assert (quote.paid_directly, quote.debit_minor, quote.fee_returned_minor) == (True, 0, 16)


# ── disputes ──


async def test_disputes_change_only_the_status(tx: Tx) -> None:
    order = await pay_directly(tx, dispute_fee_minor=1500)
    before = await read_entries(tx, order.merchant_id)
    statuses = []
    for outcome in ("OPENED", "LOST", "RECOVERED"):
        await report_dispute(tx, order, outcome)
        order = await orders.find(tx, order.merchant_id, order.id)
        statuses.append(order.status)
    assert statuses == ["DISPUTED", "CHARGEBACK", "PAID"]
    assert (order.settled_at, order.settle_at, order.charged_back_minor) == (None, None, 0)
    (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
    assert (dispute.amount_minor, dispute.debit_minor, dispute.fee_minor) == (999, 0, 0)
    assert await read_entries(tx, order.merchant_id) == before


async def test_a_won_dispute_leaves_the_order_paid(tx: Tx) -> None:
    order = await pay_directly(tx)
    await report_dispute(tx, order, "OPENED")
    await report_dispute(tx, order, "WON")
    order = await orders.find(tx, order.merchant_id, order.id)
    assert (order.status, order.settle_at) == ("PAID", None)


# ── transfers ──


async def test_prepaid_money_comes_from_the_available_balance_and_goes_back(tx: Tx) -> None:
    order = await create_funded_order(tx, 0)
    merchant_id = order.merchant_id
    await adjust(tx, merchant_id, "recharge", 500)
    with pytest.raises(Invalid, match="available balance at or above"):
        async with tx.transaction():
            await adjust(tx, merchant_id, "prepay", 501)
    await adjust(tx, merchant_id, "prepay", 100)
    await start(tx, order)
    with pytest.raises(Invalid, match="no payment has reserved: 0.60 USD"):
        async with tx.transaction():
            await adjust(tx, merchant_id, "unprepay", 61)
    await adjust(tx, merchant_id, "unprepay", 60)
    assert await read_prepaid(tx, merchant_id) == (FEE, FEE)
    assert (await read_entries(tx, merchant_id))[1:] == [
        ("FREEZE", "available", "prepaid", 100),
        ("UNFREEZE", "prepaid", "available", 60),
    ]
