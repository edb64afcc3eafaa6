"""A payout has the transitions of the table; a refused transition moves nothing."""

from decimal import Decimal
from typing import Any

import asyncpg
import msgspec
import pytest

from opentill import adjustments, ledger, merchants, payouts
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.integrity.rules import check_books
from opentill.merchants import Merchant
from opentill.payouts import Payout, PayoutRequest
from opentill.payouts.model import EVENTS, TRANSITIONS
from support.world import (
    NOW,
    create_merchant,
    create_product,
    create_session,
    dump_rows,
    new_reference,
    read_entries,
)

LATER = NOW + 5_000


async def create_shop(tx: Tx, available: int = 10_000, **terms: Any) -> Merchant:
    """Create a merchant with an available balance."""
    shop = await create_merchant(tx, **terms)
    if available:
        recharge = adjustments.AdjustmentRequest(
            kind="recharge",
            amount_minor=available,
            reference=new_reference(),
            reason="start",
            by="ann",
        )
        await adjustments.request(tx, shop.id, recharge, None, NOW)
    return shop


def payout_request(amount: int | None = 2_500, **fields: Any) -> PayoutRequest:
    """Return a request for a payout."""
    defaults = {
        "amount_minor": amount,
        "reference": new_reference(),
        "reason": "weekly",
        "by": "ann",
    }
    return PayoutRequest(**(defaults | fields))


async def create(tx: Tx, merchant_id: str, amount: int | None = 2_500, **fields: Any) -> Payout:
    """Create a payout."""
    return await payouts.create(tx, merchant_id, payout_request(amount, **fields), None, NOW)


async def end(tx: Tx, payout: Payout, event: str) -> Payout:
    """Record the result of a payout's transfer at the bank."""
    if event == "paid":
        return await payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", LATER)
    if event == "returned":
        return await payouts.record_return(tx, payout.id, "account closed", "ann", LATER)
    return await payouts.fail(tx, payout.id, "account closed", "ann", LATER)


async def available(tx: Tx, merchant_id: str) -> int:
    """Return a merchant's available balance."""
    balance = await ledger.find_balance(tx, merchant_id, "USD")
    return balance.available if balance else 0


async def assert_refused(tx: Tx, operation: Any, field: str) -> str:
    """Fail unless an operation is refused at ``field`` and changes nothing; return the reason."""
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as problem:
        async with tx.transaction():
            await operation
    assert problem.value.field == field
    assert await dump_rows(tx) == before
    return problem.value.reason or ""


POSTINGS_OUT = [("PAYOUT", "available", "bank", 2_500), ("FEE", "available", "platform", 150)]
POSTINGS_BACK = [
    ("PAYOUT", "bank", "available", 2_500),
    ("BALANCE_CORRECTION", "platform", "available", 150),
]
TABLE = (
    # Each row: from, event, to, postings, available balance afterwards (minor units).
    ("PENDING", "paid", "PAID", [], 7_350),
    ("PENDING", "failed", "FAILED", POSTINGS_BACK, 10_000),
    ("PAID", "returned", "FAILED", POSTINGS_BACK, 10_000),
)


async def test_a_payout_leaves_available_when_it_is_created(tx: Tx) -> None:
    owner = await create_shop(tx)
    payout = await create(tx, owner.id, fee_minor=150)
    assert (payout.status, payout.amount_minor, payout.fee_minor) == ("PENDING", 2_500, 150)
    assert (payout.created_by, payout.approved_by, payout.reason) == ("ann", None, "weekly")
    assert (await read_entries(tx, owner.id))[1:] == POSTINGS_OUT
    assert await available(tx, owner.id) == 7_350


@pytest.mark.parametrize(("source", "event", "target", "postings", "available_after"), TABLE)
async def test_each_transition_of_the_table_writes_payout_and_entries(
    tx: Tx, source, event, target, postings, available_after
) -> None:
    owner = await create_shop(tx)
    payout = await create(tx, owner.id, fee_minor=150)
    if source == "PAID":
        payout = await end(tx, payout, "paid")
    assert payout.status == source
    after = await end(tx, payout, event)
    assert after == await payouts.find(tx, owner.id, payout.id)
    assert (after.status, after.updated_at) == (target, LATER)
    was_paid = "PAID" in (source, target)
    assert (after.bank_reference, after.paid_at) == (("TRN-1", LATER) if was_paid else ("", None))
    failure = (after.failure_reason, after.failed_at)
    assert failure == (("account closed", LATER) if target == "FAILED" else ("", None))
    assert after.is_returned == (source == "PAID")
    assert (await read_entries(tx, owner.id))[3:] == postings
    assert await available(tx, owner.id) == available_after


def test_the_code_has_exactly_the_transitions_of_this_table() -> None:
    table = {(row[0], row[1]): row[2] for row in TABLE} | {(None, "created"): "PENDING"}
    assert {(row.source, row.event): row.target for row in TRANSITIONS} == table


IMPOSSIBLE = [
    (before, event)
    for before in ([], ["paid"], ["failed"], ["paid", "returned"])
    for event in EVENTS[1:]
    if (before, event) not in (([], "paid"), ([], "failed"), (["paid"], "returned"))
]


@pytest.mark.parametrize(("before", "event"), IMPOSSIBLE)
async def test_a_payout_that_has_ended_does_not_end_again(tx: Tx, before, event) -> None:
    payout = await create(tx, (await create_shop(tx)).id)
    for earlier_event in before:
        payout = await end(tx, payout, earlier_event)
    reason = await assert_refused(tx, end(tx, payout, event), "payout")
    source = "PAID" if event == "returned" else "PENDING"
    assert reason.startswith(f"payout must be {source}: this one is {payout.status}")


PAID = "paid_at = 1, bank_reference = 'B'"
STATEMENTS = (
    # Each row: earlier events, columns that a statement sets, part of the constraint's name.
    (["paid"], "status = 'PENDING', paid_at = null, bank_reference = ''", "transitions"),
    (["failed"], "status = 'PENDING', failed_at = null, failure_reason = ''", "transitions"),
    (["failed"], f"status = 'PAID', failed_at = null, failure_reason = '', {PAID}", "transitions"),
    (["paid", "returned"], "status = 'PAID', failed_at = null, failure_reason = ''", "transitions"),
    (["paid", "returned"], "bank_reference = ''", "reference"),
    ([], "bank_reference = 'B'", "reference"),
    ([], PAID, "time"),
)  # fmt: skip


@pytest.mark.parametrize(("before", "change", "rule"), STATEMENTS)
async def test_the_database_refuses_other_transitions(tx: Tx, before, change, rule) -> None:
    payout = await create(tx, (await create_shop(tx)).id)
    for earlier_event in before:
        payout = await end(tx, payout, earlier_event)
    with pytest.raises(asyncpg.CheckViolationError) as problem:
        async with tx.transaction():
            await tx.execute(f"update payouts set {change} where id = $1", payout.id)
    assert rule in str(problem.value.constraint_name)


async def test_after_a_return_the_money_can_be_paid_out_again(tx: Tx) -> None:
    owner = await create_shop(tx)
    returned_payout = await end(tx, await create(tx, owner.id, None), "paid")
    await end(tx, returned_payout, "returned")
    new_payout = await create(tx, owner.id, None)
    assert (new_payout.amount_minor, new_payout.status) == (returned_payout.amount_minor, "PENDING")
    assert (await end(tx, new_payout, "paid")).status == "PAID"
    assert (await check_books(tx))[1] == []


async def test_the_merchant_gets_an_event_of_a_returned_payout(tx: Tx) -> None:
    owner = await create_shop(tx)
    payout = await end(tx, await create(tx, owner.id, fee_minor=150), "paid")
    await end(tx, payout, "returned")
    await end(tx, await create(tx, owner.id, 100), "failed")
    bodies = [
        msgspec.json.decode(row["body"])
        for row in await tx.fetch(
            "select body from events where merchant_id = $1 order by id", owner.id
        )
    ]
    events = [(body["type"], body["data"].get("returned")) for body in bodies]
    assert events == [("payout.paid", None), ("payout.failed", True), ("payout.failed", False)]
    assert bodies[1]["data"] == {
        "payout_id": payout.id, "amount": "25.00", "fee": "1.50", "currency": "USD",
        "status": "FAILED", "failure_reason": "account closed", "failed_at": LATER,
        "returned": True,
    }  # fmt: skip


async def test_a_failed_payout_restores_the_balance_exactly(tx: Tx) -> None:
    owner = await create_shop(tx, 33_333)
    before = await ledger.find_balance(tx, owner.id, "USD")
    assert before is not None
    await end(tx, await create(tx, owner.id, None, fee_minor=7), "failed")
    after = await ledger.find_balance(tx, owner.id, "USD")
    assert after is not None
    accounts = ("pending", "available", "frozen", "reserve", "gateway", "bank", "platform")
    assert [getattr(after, account) for account in accounts] == [
        getattr(before, account) for account in accounts
    ]


async def test_a_payout_without_an_amount_pays_everything_available_less_its_fee(tx: Tx) -> None:
    owner = await create_shop(tx, 10_000)
    payout = await create(tx, owner.id, None, fee_minor=150)
    assert (payout.amount_minor, await available(tx, owner.id)) == (9_850, 0)


INVALID_PAYOUTS: tuple[tuple[int, dict[str, Any], dict[str, Any], str, str], ...] = (
    # available  terms             payout                         field          part of the reason
    (10_000, {}, {"amount": 10_001}, "amount", "at most what is available: 100.00 USD"),
    (10_000, {}, {"amount": 10_000, "fee_minor": 1}, "amount", "with the fee of 0.01 USD: 100.00"),
    (0, {}, {"amount": 1}, "amount", "until something is available: it is 0.00 USD"),
    (0, {}, {"amount": None}, "amount", "until something is available: it is 0.00 USD"),
    (100, {}, {"amount": None, "fee_minor": 100}, "amount", "with the fee of 1.00 USD: 1.00 USD"),
    (10_000, {}, {"amount": 0}, "amount", "more than 0.00"),
    (10_000, {}, {"amount": -1}, "amount", "more than 0.00"),
    (10_000, {}, {"amount": 10**15 + 1}, "amount", "at most 10000000000000.00 USD"),
    (10_000, {}, {"fee_minor": -1}, "fee", "more than 0.00"),
    (10_000, {"payout_minimum_minor": 2_501}, {}, "amount", "at least 25.01 USD"),
    (2_500, {"payout_minimum_minor": 2_501}, {"amount": None}, "amount", "at least 25.01 USD"),
    (10_000, {}, {"reason": " "}, "reason", "printable"),
    (10_000, {}, {"by": ""}, "by", "printable"),
    (10_000, {}, {"reference": ""}, "reference", "1 to 64"),
    (10_000, {}, {"reference": "a" * 65}, "reference", "1 to 64"),
    (10_000, {}, {"reference": "a\x00"}, "reference", "printable"),
    (10_000, {}, {"approved_by": "ANN "}, "by", "another operator than ann"),
)


@pytest.mark.parametrize(("balance", "terms", "fields", "field", "reason"), INVALID_PAYOUTS)
async def test_an_invalid_payout_is_refused(tx: Tx, balance, terms, fields, field, reason) -> None:
    owner = await create_shop(tx, balance, **terms)
    assert reason in await assert_refused(tx, create(tx, owner.id, **fields), field)


async def test_nothing_is_paid_out_while_available_is_below_zero(tx: Tx) -> None:
    owner = await create_shop(tx, 100)
    await correct_down(tx, owner.id, 300)
    assert await available(tx, owner.id) == -200
    for amount in (1, None):
        reason = await assert_refused(tx, create(tx, owner.id, amount), "amount")
        assert reason == "amount must wait until something is available: it is -2.00 USD"


async def correct_down(tx: Tx, merchant_id: str, amount: int) -> None:
    """Reduce the balance by a correction for an order."""
    mug = await create_product(tx, merchant_id)
    order_id = (await create_session(tx, merchant_id, mug.id)).order_id
    correction = adjustments.AdjustmentRequest(
        kind="correct", amount_minor=-amount, reference=new_reference(), reason="twice", by="ann",
        order_id=order_id,
    )  # fmt: skip
    await adjustments.request(tx, merchant_id, correction, None, NOW)


async def test_a_reference_that_is_used_again_returns_the_existing_payout(tx: Tx) -> None:
    owner = await create_shop(tx)
    payout = await create(tx, owner.id, fee_minor=150, reference="W-1")
    before = await dump_rows(tx)
    for amount in (2_500, None):
        repeated = await create(tx, owner.id, amount, fee_minor=150, reference=" W-1 ", reason="")
        assert repeated == payout
    assert await dump_rows(tx) == before
    for fields in ({"amount": 2_501, "fee_minor": 150}, {"fee_minor": 0}):
        changed_request = create(tx, owner.id, reference="W-1", **fields)
        reason = await assert_refused(tx, changed_request, "reference")
        assert payout.id in reason
    of_other_shop = await create(tx, (await create_shop(tx)).id, 100, reference="W-1")
    assert of_other_shop.id != payout.id


async def test_the_reference_of_a_failed_payout_returns_that_payout(tx: Tx) -> None:
    owner = await create_shop(tx)
    failed = await end(tx, await create(tx, owner.id, reference="W-1"), "failed")
    assert await create(tx, owner.id, reference="W-1") == failed


APPROVALS = (
    # Each row: limit, amount, fee, who approved the payout (None: nobody), whether it is refused.
    (None, 9_000, 0, None, False),
    ("50", 5_000, 0, None, False),
    ("50", 5_001, 0, None, True),
    ("50", 4_999, 2, None, True),
    ("50", 5_001, 0, "bob", False),
    ("0", 1, 0, None, True),
    ("50", None, 0, None, True),
    ("50", None, 0, "bob", False),
)


@pytest.mark.parametrize(("limit", "amount", "fee", "approved_by", "is_refused"), APPROVALS)
async def test_a_second_operator_must_approve_a_payout_above_the_limit(
    tx: Tx, limit, amount, fee, approved_by, is_refused
) -> None:
    owner = await create_shop(tx)
    limit_in_currency = None if limit is None else Decimal(limit)
    request = payout_request(amount, fee_minor=fee, approved_by=approved_by)
    creation = payouts.create(tx, owner.id, request, limit_in_currency, NOW)
    if is_refused:
        assert "second person" in await assert_refused(tx, creation, "amount")
    else:
        assert (await creation).approved_by == approved_by


async def test_every_transition_is_in_the_audit_log(tx: Tx) -> None:
    owner = await create_shop(tx)
    paid = await create(tx, owner.id, fee_minor=150, approved_by="bob")
    await end(tx, paid, "paid")
    failed = await create(tx, owner.id, None)
    await end(tx, failed, "failed")
    _creation, _recharge, *rows = reversed(await merchants.audit_log(tx, owner.id))
    assert [(row.who, row.action, row.subject, row.reason) for row in rows] == [
        (
            "ann",
            "payouts create",
            f"{paid.id}: 25.00 USD, fee 1.50 USD, approved by bob",
            "weekly",
        ),
        ("ann", "payouts paid", f"{paid.id} TRN-1", "sent"),
        ("ann", "payouts create", f"{failed.id}: everything available", "weekly"),
        ("ann", "payouts failed", failed.id, "account closed"),
    ]


@pytest.mark.parametrize("bank_reference", ["", " ", "a" * 141, "a\nb"])
async def test_an_invalid_bank_reference_is_refused(tx: Tx, bank_reference) -> None:
    payout = await create(tx, (await create_shop(tx)).id)
    payment = payouts.pay(tx, payout.id, bank_reference, "sent", "ann", LATER)
    await assert_refused(tx, payment, "bank-reference")


async def test_a_failure_requires_a_reason(tx: Tx) -> None:
    payout = await create(tx, (await create_shop(tx)).id)
    await assert_refused(tx, payouts.fail(tx, payout.id, " ", "ann", LATER), "reason")


async def test_unknown_merchants_and_payouts_are_not_found(tx: Tx) -> None:
    shop, other_shop = await create_shop(tx), await create_shop(tx)
    payout = await create(tx, shop.id)
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await create(tx, "mer_x")
    with pytest.raises(NotFound, match="there is no payout po_x"):
        await payouts.pay(tx, "po_x", "TRN", "sent", "ann", LATER)
    with pytest.raises(NotFound):
        await payouts.find(tx, other_shop.id, payout.id)
    assert await payouts.search(tx, other_shop.id) == []
    assert await payouts.search(tx, shop.id, "PENDING") == [payout]


async def test_the_approval_limit_applies_to_currencies_without_decimals(tx: Tx) -> None:
    shop = await create_shop(tx, 500, settlement_currency="JPY")
    request = payout_request(500)
    with pytest.raises(Invalid, match="second person"):
        async with tx.transaction():
            await payouts.create(tx, shop.id, request, Decimal("499.99"), NOW)
    payout = await payouts.create(tx, shop.id, request, Decimal(500), NOW)
    assert payouts.PayoutOut.from_payout(payout).amount == "500.00"
