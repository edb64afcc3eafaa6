"""What operators move by hand: every row of the table, every refusal, and the second operator."""

from decimal import Decimal
from typing import Any

import pytest

from opentill import adjustments, ledger, merchants
from opentill.adjustments import Adjustment, AdjustmentRequest
from opentill.adjustments.model import BY_KIND, KINDS, MOVES
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.orders import Order
from support.world import NOW, dump, entries, fresh, in_status, merchant, refunded

LATER = NOW + 5_000
LIMIT = Decimal(50)


async def recharged(tx: Tx, minor: int = 10_000, **terms: Any) -> str:
    """Make a merchant with so much available; its id."""
    made = await merchant(tx, **terms)
    await done(tx, made.id, "recharge", minor)
    return made.id


def asked(kind: str, minor: int, **what: Any) -> AdjustmentRequest:
    """Ask for a movement."""
    return AdjustmentRequest(
        **(
            {
                "kind": kind,
                "amount_minor": minor,
                "reference": fresh(),
                "reason": "why",
                "by": "ann",
            }
            | what
        )
    )


async def done(
    tx: Tx, shop: str, kind: str, minor: int, limit: Decimal | None = None, **what: Any
) -> Adjustment:
    """Move something by hand."""
    return await adjustments.request(tx, shop, asked(kind, minor, **what), limit, NOW)


async def accounts(tx: Tx, shop: str) -> tuple[int, int, int]:
    """Return pending, available and frozen."""
    balance = await ledger.find_balance(tx, shop, "USD")
    return (balance.pending, balance.available, balance.frozen) if balance else (0, 0, 0)


async def refused(tx: Tx, step: Any, field: str) -> str:
    """See that a step is refused because of ``field`` and changes nothing; return the reason."""
    before = await dump(tx)
    with pytest.raises(Invalid) as problem:
        async with tx.transaction():
            await step
    assert problem.value.field == field
    assert await dump(tx) == before
    return problem.value.reason or ""


async def stocked(tx: Tx) -> Order:
    """Make a paid order of a merchant with 100.00 available, of which 20.00 were frozen by hand."""
    order = await in_status(tx, "PAID")
    await done(tx, order.merchant_id, "recharge", 10_000)
    await done(tx, order.merchant_id, "freeze", 2_000)
    return order


TABLE = (
    # kind       account      amount  posting
    ("freeze", "available", 500, ("FREEZE", "available", "frozen", 500)),
    ("unfreeze", "available", 2_000, ("UNFREEZE", "frozen", "available", 2_000)),
    ("recharge", "available", 500, ("ADMIN_RECHARGE", "bank", "available", 500)),
    ("correct", "available", 500, ("BALANCE_CORRECTION", "platform", "available", 500)),
    ("correct", "available", -500, ("BALANCE_CORRECTION", "available", "platform", 500)),
    ("correct", "pending", 500, ("BALANCE_CORRECTION", "platform", "pending", 500)),
    ("correct", "pending", -500, ("BALANCE_CORRECTION", "pending", "platform", 500)),
    ("fee", "available", 500, ("FEE", "available", "platform", 500)),
)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("kind", "account", "minor", "posting"), TABLE)
async def test_a_movement_of_the_table(tx: Tx, kind, account, minor, posting, waits) -> None:
    order = await stocked(tx)
    shop, before = order.merchant_id, await entries(tx, order.merchant_id)
    about = {"order_id": order.id} if kind == "correct" else {}
    limit = Decimal(0) if waits else None
    made = await done(tx, shop, kind, minor, limit, account=account, **about)
    assert (made.asked_by, made.decided_by, made.created_at) == ("ann", None, NOW)
    if waits:
        assert (made.status, made.decided_at) == ("WAITING", None)
        assert await entries(tx, shop) == before
        assert await adjustments.list_waiting(tx, shop) == [made]
        made = await adjustments.approve(tx, made.id, "bob", LATER)
        assert (made.decided_by, made.decided_at) == ("bob", LATER)
        assert await adjustments.list_waiting(tx, shop) == []
    assert made.status == "DONE"
    assert await entries(tx, shop) == [*before, posting]
    cause = await tx.fetchrow(
        "select source_type, source_id from entries order by number desc limit 1"
    )
    assert tuple(cause) == ("operator", made.id)


def test_the_table_in_code_is_this_one() -> None:
    ours = {(kind, account, 1 if minor > 0 else -1): row[:3] for kind, account, minor, row in TABLE}
    assert {key: (m.posting, m.source, m.target) for key, m in BY_KIND.items()} == ours
    assert len(MOVES) == len(BY_KIND)
    assert {move.kind for move in MOVES} == set(KINDS)
    for move in MOVES:
        assert (move.posting, move.source, move.target) in ledger.BY_MOVE


REFUSED = (
    # kind       amount      what                          field        the reason says
    ("freeze", 8_001, {}, "amount", "available balance at or above 0.00 USD"),
    ("fee", 8_001, {}, "amount", "available balance at or above 0.00 USD"),
    ("unfreeze", 2_001, {}, "amount", "at most what operators froze: 20.00 USD"),
    ("correct", -18_001, {"order": True}, "amount", "available balance at or above -100.00 USD"),
    ("correct", -10_960, {"order": True, "account": "pending"}, "amount", "above -100.00 USD"),
    ("correct", 500, {}, "order", "the order that the correction is about"),
    ("correct", 500, {"order_id": "order_x"}, "order", "must be an order of mer_"),
    ("correct", 500, {"stranger": True}, "order", "must be an order of mer_"),
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


@pytest.mark.parametrize(("kind", "minor", "what", "field", "says"), REFUSED)
async def test_what_cannot_be_moved(tx: Tx, kind, minor, what, field, says) -> None:
    order, given = await stocked(tx), dict(what)
    if given.pop("order", None):
        given["order_id"] = order.id
    if given.pop("stranger", None):
        given["order_id"] = (await stocked(tx)).id
    assert says in await refused(tx, done(tx, order.merchant_id, kind, minor, **given), field)


async def test_a_correction_may_go_down_to_the_overdraft_limit(tx: Tx) -> None:
    order = await stocked(tx)
    await done(tx, order.merchant_id, "correct", -18_000, order_id=order.id)
    assert (await accounts(tx, order.merchant_id))[1] == -10_000


async def test_only_what_operators_froze_is_unfrozen(tx: Tx) -> None:
    order = await stocked(tx)
    await refunded(tx, order, "5.00")
    assert await accounts(tx, order.merchant_id) == (459, 8_000, 2_500)
    await refused(tx, done(tx, order.merchant_id, "unfreeze", 2_001), "amount")
    await done(tx, order.merchant_id, "unfreeze", 1_200)
    await refused(tx, done(tx, order.merchant_id, "unfreeze", 801), "amount")
    await done(tx, order.merchant_id, "unfreeze", 800)
    assert await accounts(tx, order.merchant_id) == (459, 10_000, 500)


async def test_the_same_reference_is_the_same_movement(tx: Tx) -> None:
    order = await stocked(tx)
    first = await done(tx, order.merchant_id, "freeze", 500, reference="F-1")
    before = await dump(tx)
    assert await done(tx, order.merchant_id, "freeze", 500, reference="F-1", reason="") == first
    assert await dump(tx) == before
    others = ({"kind": "fee"}, {"minor": 501}, {"account": "pending"}, {"order_id": order.id})
    for other in others:
        what = {"kind": "freeze", "minor": 500} | other
        work = done(tx, order.merchant_id, reference="F-1", **what)
        assert f"{first.id}, a freeze of 5.00 USD" in await refused(tx, work, "reference")
    elsewhere = await done(tx, await recharged(tx), "freeze", 500, reference="F-1")
    assert elsewhere.id != first.id


@pytest.mark.parametrize(
    ("limit", "minor", "waits"),
    [(None, 10**15, False), (LIMIT, 5_000, False), (LIMIT, 5_001, True), (Decimal(0), 1, True)],
)
async def test_above_the_limit_a_second_operator_is_asked(tx: Tx, limit, minor, waits) -> None:
    made = await done(tx, (await merchant(tx)).id, "recharge", minor, limit)
    assert made.status == ("WAITING" if waits else "DONE")


async def test_a_taking_correction_counts_by_its_size(tx: Tx) -> None:
    order = await stocked(tx)
    made = await done(tx, order.merchant_id, "correct", -5_001, LIMIT, order_id=order.id)
    assert (made.status, await adjustments.list_waiting(tx)) == ("WAITING", [made])


@pytest.mark.parametrize("by", ["ann", " ANN ", ""])
async def test_nobody_approves_what_he_asked_for(tx: Tx, by) -> None:
    made = await done(tx, (await merchant(tx)).id, "recharge", 5_001, LIMIT)
    await refused(tx, adjustments.approve(tx, made.id, by, LATER), "by")


@pytest.mark.parametrize("by", ["ann", "bob"])
async def test_a_movement_is_rejected_or_withdrawn(tx: Tx, by) -> None:
    shop = (await merchant(tx)).id
    made = await done(tx, shop, "recharge", 5_001, LIMIT)
    await refused(tx, adjustments.reject(tx, made.id, by, " ", LATER), "reason")
    after = await adjustments.reject(tx, made.id, by, "a typing error", LATER)
    assert (after.status, after.decided_by, after.decided_at) == ("REJECTED", by, LATER)
    assert await entries(tx, shop) == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
@pytest.mark.parametrize("status", ["DONE", "approved", "REJECTED"])
async def test_what_does_not_wait_is_not_decided(tx: Tx, status, decision) -> None:
    shop = (await merchant(tx)).id
    made = await done(tx, shop, "recharge", 5_001, None if status == "DONE" else LIMIT)
    if status == "approved":
        await adjustments.approve(tx, made.id, "bob", LATER)
    elif status == "REJECTED":
        await adjustments.reject(tx, made.id, "bob", "no", LATER)
    work = (
        adjustments.approve(tx, made.id, "cid", LATER)
        if decision == "approve"
        else adjustments.reject(tx, made.id, "cid", "no", LATER)
    )
    assert "must be WAITING: this one is" in await refused(tx, work, "movement")


async def test_a_movement_that_cannot_be_made_any_more_goes_on_waiting(tx: Tx) -> None:
    shop = await recharged(tx)
    made = await done(tx, shop, "freeze", 9_000, LIMIT)
    await done(tx, shop, "fee", 2_000)
    await refused(tx, adjustments.approve(tx, made.id, "bob", LATER), "amount")
    await done(tx, shop, "recharge", 1_000)
    assert (await adjustments.approve(tx, made.id, "bob", LATER)).status == "DONE"


async def test_everything_is_in_the_audit_log(tx: Tx) -> None:
    order = await in_status(tx, "PAID")
    shop = order.merchant_id
    first = await done(tx, shop, "recharge", 6_000, LIMIT)
    await adjustments.approve(tx, first.id, "bob", LATER)
    second = await done(tx, shop, "correct", -6_000, LIMIT, order_id=order.id)
    await adjustments.reject(tx, second.id, "cid", "not twice", LATER)
    *rows, made = await merchants.audit_log(tx, shop)
    assert made.action == "merchants create"
    rows.reverse()
    assert [(row.who, row.action, row.subject, row.reason) for row in rows] == [
        ("ann", "balance recharge", f"{first.id}: 60.00 USD available, waiting", "why"),
        ("bob", "balance approve", f"{first.id}: recharge of 60.00 USD, asked for by ann", "why"),
        (
            "ann",
            "balance correct",
            f"{second.id}: -60.00 USD available for {order.id}, waiting",
            "why",
        ),
        (
            "cid",
            "balance reject",
            f"{second.id}: correct of -60.00 USD, asked for by ann",
            "not twice",
        ),
    ]
    assert not (await merchants.verify_audit(tx)).breaks


async def test_what_is_not_there(tx: Tx) -> None:
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await done(tx, "mer_x", "recharge", 1)
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await adjustments.list_waiting(tx, "mer_x")
    with pytest.raises(NotFound, match="there is no movement mov_x"):
        await adjustments.approve(tx, "mov_x", "bob", NOW)
