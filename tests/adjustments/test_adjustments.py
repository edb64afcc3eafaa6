"""Adjustments: the posting of each kind, every refusal, and the approval by a second operator."""

from decimal import Decimal
from typing import Any

import pytest

from opentill import adjustments, ledger, merchants
from opentill.adjustments import Adjustment, AdjustmentRequest
from opentill.adjustments.model import BY_KIND, KINDS, MOVES
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.orders import Order
from support.world import (
    NOW,
    create_merchant,
    create_order_in,
    create_refund,
    dump_rows,
    new_reference,
    read_entries,
)

LATER = NOW + 5_000
LIMIT = Decimal(50)


async def create_merchant_with_balance(tx: Tx, minor: int = 10_000, **terms: Any) -> str:
    """Create a merchant with an available balance of ``minor``; return the merchant's id."""
    shop = await create_merchant(tx, **terms)
    await make_adjustment(tx, shop.id, "recharge", minor)
    return shop.id


def build_request(kind: str, minor: int, **fields: Any) -> AdjustmentRequest:
    """Build the request for an adjustment; ``fields`` replace the defaults."""
    defaults = {"reference": new_reference(), "reason": "why", "by": "ann"}
    return AdjustmentRequest(**(defaults | {"kind": kind, "amount_minor": minor} | fields))


async def make_adjustment(
    tx: Tx, shop: str, kind: str, minor: int, limit: Decimal | None = None, **fields: Any
) -> Adjustment:
    """Request an adjustment; it waits for approval if its amount is above ``limit``."""
    return await adjustments.request(tx, shop, build_request(kind, minor, **fields), limit, NOW)


async def read_balances(tx: Tx, shop: str) -> tuple[int, int, int]:
    """Return the merchant's pending, available and frozen balance in minor units of USD."""
    balance = await ledger.find_balance(tx, shop, "USD")
    return (balance.pending, balance.available, balance.frozen) if balance else (0, 0, 0)


async def assert_refused(tx: Tx, operation: Any, field: str) -> str:
    """Check that the operation is refused for ``field`` and changes no row; return the reason."""
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as problem:
        async with tx.transaction():
            await operation
    assert problem.value.field == field
    assert await dump_rows(tx) == before
    return problem.value.reason or ""


async def create_order_with_balance(tx: Tx) -> Order:
    """Create a paid order of a merchant with 80.00 available and 20.00 frozen by an adjustment."""
    order = await create_order_in(tx, "PAID")
    await make_adjustment(tx, order.merchant_id, "recharge", 10_000)
    await make_adjustment(tx, order.merchant_id, "freeze", 2_000)
    await make_adjustment(tx, order.merchant_id, "topup", 600)
    return order


ADJUSTMENTS = (
    # Each row: kind, account, amount, and the posting's type, source, target and amount.
    ("freeze", "available", 500, ("FREEZE", "available", "frozen", 500)),
    ("unfreeze", "available", 2_000, ("UNFREEZE", "frozen", "available", 2_000)),
    ("recharge", "available", 500, ("ADMIN_RECHARGE", "bank", "available", 500)),
    ("correct", "available", 500, ("BALANCE_CORRECTION", "platform", "available", 500)),
    ("correct", "available", -500, ("BALANCE_CORRECTION", "available", "platform", 500)),
    ("correct", "pending", 500, ("BALANCE_CORRECTION", "platform", "pending", 500)),
    ("correct", "pending", -500, ("BALANCE_CORRECTION", "pending", "platform", 500)),
    ("fee", "available", 500, ("FEE", "available", "platform", 500)),
    ("topup", "available", 500, ("ADMIN_RECHARGE", "bank", "prepaid", 500)),
    ("prepay", "available", 500, ("FREEZE", "available", "prepaid", 500)),
    ("unprepay", "available", 500, ("UNFREEZE", "prepaid", "available", 500)),
)


@pytest.mark.parametrize("needs_approval", [False, True])
@pytest.mark.parametrize(("kind", "account", "minor", "posting"), ADJUSTMENTS)
async def test_an_adjustment_makes_its_posting(
    tx: Tx, kind, account, minor, posting, needs_approval
) -> None:
    order = await create_order_with_balance(tx)
    shop, before = order.merchant_id, await read_entries(tx, order.merchant_id)
    order_field = {"order_id": order.id} if kind == "correct" else {}
    limit = Decimal(0) if needs_approval else None
    adjustment = await make_adjustment(tx, shop, kind, minor, limit, account=account, **order_field)
    assert (adjustment.asked_by, adjustment.decided_by, adjustment.created_at) == ("ann", None, NOW)
    if needs_approval:
        assert (adjustment.status, adjustment.decided_at) == ("WAITING", None)
        assert await read_entries(tx, shop) == before
        assert await adjustments.list_waiting(tx, shop) == [adjustment]
        adjustment = await adjustments.approve(tx, adjustment.id, "bob", LATER)
        assert (adjustment.decided_by, adjustment.decided_at) == ("bob", LATER)
        assert await adjustments.list_waiting(tx, shop) == []
    assert adjustment.status == "DONE"
    assert await read_entries(tx, shop) == [*before, posting]
    cause = await tx.fetchrow(
        "select source_type, source_id from entries order by number desc limit 1"
    )
    assert tuple(cause) == ("operator", adjustment.id)


def test_the_cases_above_are_all_adjustments_that_the_code_allows() -> None:
    cases = {
        (kind, account, 1 if minor > 0 else -1): posting[:3]
        for kind, account, minor, posting in ADJUSTMENTS
    }
    assert {key: (m.posting, m.source, m.target) for key, m in BY_KIND.items()} == cases
    assert len(MOVES) == len(BY_KIND)
    assert {move.kind for move in MOVES} == set(KINDS)
    for move in MOVES:
        assert (move.posting, move.source, move.target) in ledger.BY_MOVE


REFUSED = (
    # Each row: kind, amount, other fields, refused field, part of the reason.
    ("freeze", 8_001, {}, "amount", "available balance at or above 0.00 USD"),
    ("prepay", 8_001, {}, "amount", "available balance at or above 0.00 USD"),
    ("unprepay", 601, {}, "amount", "at most what no payment has reserved: 6.00 USD"),
    ("fee", 8_001, {}, "amount", "available balance at or above 0.00 USD"),
    ("unfreeze", 2_001, {}, "amount", "at most what operators froze: 20.00 USD"),
    ("correct", -18_001, {"order": True}, "amount", "available balance at or above -100.00 USD"),
    ("correct", -10_960, {"order": True, "account": "pending"}, "amount", "above -100.00 USD"),
    ("correct", 500, {}, "order", "the order that the correction is about"),
    ("correct", 500, {"order_id": "order_x"}, "order", "must be an order of mer_"),
    ("correct", 500, {"order_of_another_merchant": True}, "order", "must be an order of mer_"),
    ("freeze", 500, {"order": True}, "order", "must not be given for a freeze"),
    ("freeze", 500, {"account": "pending"}, "account", "must be available for a freeze"),
    ("recharge", 500, {"account": "pending"}, "account", "must be available"),
    ("correct", 0, {"order": True}, "amount", "more than 0.00"),
    *((kind, 0, {}, "amount", "more than 0.00") for kind in KINDS if kind != "correct"),
    *((kind, -1, {}, "amount", "more than 0.00") for kind in KINDS if kind != "correct"),
    ("recharge", 10**15 + 1, {}, "amount", "at most 10000000000000.00 USD"),
    ("correct", -(10**15) - 1, {"order": True}, "amount", "at most 10000000000000.00 USD"),
    ("recharge", 500, {"reason": "  "}, "reason", "printable"),
    ("recharge", 500, {"reason": "a" * 501}, "reason", "1 to 500"),
    ("recharge", 500, {"by": ""}, "by", "printable"),
    ("recharge", 500, {"reference": ""}, "reference", "1 to 64"),
    ("recharge", 500, {"reference": "\udcff"}, "reference", "printable"),
)


@pytest.mark.parametrize(("kind", "minor", "fields", "refused_field", "text"), REFUSED)
async def test_an_invalid_adjustment_is_refused(
    tx: Tx, kind, minor, fields, refused_field, text
) -> None:
    order, values = await create_order_with_balance(tx), dict(fields)
    if values.pop("order", None):
        values["order_id"] = order.id
    if values.pop("order_of_another_merchant", None):
        values["order_id"] = (await create_order_with_balance(tx)).id
    assert text in await assert_refused(
        tx, make_adjustment(tx, order.merchant_id, kind, minor, **values), refused_field
    )


async def test_a_correction_may_go_down_to_the_overdraft_limit(tx: Tx) -> None:
    order = await create_order_with_balance(tx)
    await make_adjustment(tx, order.merchant_id, "correct", -18_000, order_id=order.id)
    assert (await read_balances(tx, order.merchant_id))[1] == -10_000


async def test_unfreezing_releases_only_what_operators_froze(tx: Tx) -> None:
    order = await create_order_with_balance(tx)
    await create_refund(tx, order, "5.00")
    assert await read_balances(tx, order.merchant_id) == (459, 8_000, 2_500)
    await assert_refused(tx, make_adjustment(tx, order.merchant_id, "unfreeze", 2_001), "amount")
    await make_adjustment(tx, order.merchant_id, "unfreeze", 1_200)
    await assert_refused(tx, make_adjustment(tx, order.merchant_id, "unfreeze", 801), "amount")
    await make_adjustment(tx, order.merchant_id, "unfreeze", 800)
    assert await read_balances(tx, order.merchant_id) == (459, 10_000, 500)


async def test_a_repeated_reference_returns_the_same_adjustment(tx: Tx) -> None:
    order = await create_order_with_balance(tx)
    shop = order.merchant_id
    freeze = await make_adjustment(tx, shop, "freeze", 500, reference="F-1")
    before = await dump_rows(tx)
    repeated = await make_adjustment(tx, shop, "freeze", 500, reference="F-1", reason="")
    assert repeated == freeze
    assert await dump_rows(tx) == before
    changes = ({"kind": "fee"}, {"minor": 501}, {"account": "pending"}, {"order_id": order.id})
    for change in changes:
        fields = {"kind": "freeze", "minor": 500} | change
        work = make_adjustment(tx, shop, reference="F-1", **fields)
        assert f"{freeze.id}, a freeze of 5.00 USD" in await assert_refused(tx, work, "reference")
    another_shop = await create_merchant_with_balance(tx)
    assert (await make_adjustment(tx, another_shop, "freeze", 500, reference="F-1")).id != freeze.id


@pytest.mark.parametrize(
    ("limit", "minor", "needs_approval"),
    [(None, 10**15, False), (LIMIT, 5_000, False), (LIMIT, 5_001, True), (Decimal(0), 1, True)],
)
async def test_an_adjustment_above_the_limit_waits_for_approval(
    tx: Tx, limit, minor, needs_approval
) -> None:
    adjustment = await make_adjustment(tx, (await create_merchant(tx)).id, "recharge", minor, limit)
    assert adjustment.status == ("WAITING" if needs_approval else "DONE")


async def test_a_negative_correction_counts_by_its_absolute_amount(tx: Tx) -> None:
    order = await create_order_with_balance(tx)
    adjustment = await make_adjustment(
        tx, order.merchant_id, "correct", -5_001, LIMIT, order_id=order.id
    )
    assert (adjustment.status, await adjustments.list_waiting(tx)) == ("WAITING", [adjustment])


@pytest.mark.parametrize("by", ["ann", " ANN ", ""])
async def test_nobody_approves_their_own_adjustment(tx: Tx, by) -> None:
    adjustment = await make_adjustment(tx, (await create_merchant(tx)).id, "recharge", 5_001, LIMIT)
    await assert_refused(tx, adjustments.approve(tx, adjustment.id, by, LATER), "by")


@pytest.mark.parametrize("by", ["ann", "bob"])
async def test_an_adjustment_is_rejected_or_withdrawn(tx: Tx, by) -> None:
    shop = (await create_merchant(tx)).id
    adjustment = await make_adjustment(tx, shop, "recharge", 5_001, LIMIT)
    await assert_refused(tx, adjustments.reject(tx, adjustment.id, by, " ", LATER), "reason")
    after = await adjustments.reject(tx, adjustment.id, by, "a typing error", LATER)
    assert (after.status, after.decided_by, after.decided_at) == ("REJECTED", by, LATER)
    assert await read_entries(tx, shop) == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
@pytest.mark.parametrize("status", ["DONE", "approved", "REJECTED"])
async def test_an_adjustment_that_is_not_waiting_cannot_be_decided(
    tx: Tx, status, decision
) -> None:
    shop = (await create_merchant(tx)).id
    adjustment = await make_adjustment(
        tx, shop, "recharge", 5_001, None if status == "DONE" else LIMIT
    )
    if status == "approved":
        await adjustments.approve(tx, adjustment.id, "bob", LATER)
    elif status == "REJECTED":
        await adjustments.reject(tx, adjustment.id, "bob", "no", LATER)
    work = (
        adjustments.approve(tx, adjustment.id, "cid", LATER)
        if decision == "approve"
        else adjustments.reject(tx, adjustment.id, "cid", "no", LATER)
    )
    assert "must be WAITING: this one is" in await assert_refused(tx, work, "movement")


async def test_an_adjustment_that_became_impossible_stays_waiting(tx: Tx) -> None:
    shop = await create_merchant_with_balance(tx)
    adjustment = await make_adjustment(tx, shop, "freeze", 9_000, LIMIT)
    await make_adjustment(tx, shop, "fee", 2_000)
    await assert_refused(tx, adjustments.approve(tx, adjustment.id, "bob", LATER), "amount")
    await make_adjustment(tx, shop, "recharge", 1_000)
    assert (await adjustments.approve(tx, adjustment.id, "bob", LATER)).status == "DONE"


async def test_every_adjustment_is_in_the_audit_log(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    shop = order.merchant_id
    recharge = await make_adjustment(tx, shop, "recharge", 6_000, LIMIT)
    await adjustments.approve(tx, recharge.id, "bob", LATER)
    correction = await make_adjustment(tx, shop, "correct", -6_000, LIMIT, order_id=order.id)
    await adjustments.reject(tx, correction.id, "cid", "not twice", LATER)
    *rows, creation = await merchants.audit_log(tx, shop)
    assert creation.action == "merchants create"
    rows.reverse()
    assert [(row.who, row.action, row.subject, row.reason) for row in rows] == [
        ("ann", "balance recharge", f"{recharge.id}: 60.00 USD available, waiting", "why"),
        (
            "bob",
            "balance approve",
            f"{recharge.id}: recharge of 60.00 USD, asked for by ann",
            "why",
        ),
        (
            "ann",
            "balance correct",
            f"{correction.id}: -60.00 USD available for {order.id}, waiting",
            "why",
        ),
        (
            "cid",
            "balance reject",
            f"{correction.id}: correct of -60.00 USD, asked for by ann",
            "not twice",
        ),
    ]
    assert not (await merchants.verify_audit(tx)).breaks


async def test_an_unknown_adjustment_is_not_found(tx: Tx) -> None:
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await make_adjustment(tx, "mer_x", "recharge", 1)
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await adjustments.list_waiting(tx, "mer_x")
    with pytest.raises(NotFound, match="there is no movement mov_x"):
        await adjustments.approve(tx, "mov_x", "bob", NOW)
