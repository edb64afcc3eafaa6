"""Concurrent adjustments move no money twice, and the audit log stays one chain."""

import asyncio
from decimal import Decimal

from opentill import adjustments, ledger, merchants, payouts
from opentill.adjustments import AdjustmentRequest, Kind
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.payouts import PayoutRequest
from support.world import NOW, create_merchant, new_reference


async def _adjust(db: Db, shop: str, kind: Kind, minor: int, reference: str = "") -> str:
    """Make an adjustment; return its id, or "" if it would exceed the balance."""
    adjustment = AdjustmentRequest(
        kind=kind,
        amount_minor=minor,
        reference=reference or new_reference(),
        reason="why",
        by="ann",
    )
    try:
        return (await db.run(lambda tx: adjustments.request(tx, shop, adjustment, None, NOW))).id
    except Invalid as refusal:
        if refusal.field != "amount":
            raise
        return ""


async def test_concurrent_adjustments_and_payouts_keep_the_balance_valid(
    db: Db, database_url: str
) -> None:
    shop = (await db.run(create_merchant)).id
    await _adjust(db, shop, "recharge", 10_000)
    pool = await Db.connect(database_url, 20, acquire_timeout_s=60)
    kinds: tuple[Kind, ...] = ("freeze", "unfreeze", "freeze", "fee")

    async def pay_out(_: int) -> None:
        payout_request = PayoutRequest(
            amount_minor=900, reference=new_reference(), reason="weekly", by="bob"
        )
        try:
            await pool.run(lambda tx: payouts.create(tx, shop, payout_request, None, NOW))
        except Invalid as refusal:
            if refusal.field != "amount":
                raise

    try:
        changes = [_adjust(pool, shop, kinds[n % 4], 700) for n in range(40)]
        await asyncio.gather(*changes, *map(pay_out, range(10)))
    finally:
        await pool.close()
    async with db.snapshot() as tx:
        balance = await ledger.find_balance(tx, shop, "USD")
        assert balance is not None
        assert balance.available >= 0
        assert balance.frozen == await adjustments.sum_frozen_manually(tx, shop, "USD")
        audit = await merchants.verify_audit(tx)
    assert audit.breaks == []
    assert audit.head is not None
    assert audit.head.number == audit.rows


async def test_concurrent_requests_with_one_reference_make_one_adjustment(db: Db) -> None:
    shop = (await db.run(create_merchant)).id
    adjustment_ids = await asyncio.gather(
        *(_adjust(db, shop, "recharge", 700, "R-1") for _ in range(12))
    )
    assert len(set(adjustment_ids)) == 1
    async with db.connection() as tx:
        balance = await ledger.find_balance(tx, shop, "USD")
    assert balance is not None
    assert balance.available == 700


async def test_concurrent_approvals_approve_an_adjustment_once(db: Db) -> None:
    shop = (await db.run(create_merchant)).id
    adjustment_request = AdjustmentRequest(
        kind="recharge", amount_minor=700, reference=new_reference(), reason="why", by="ann"
    )
    adjustment = await db.run(
        lambda tx: adjustments.request(tx, shop, adjustment_request, Decimal(0), NOW)
    )

    async def approve(_: int) -> bool:
        async def work(tx: Tx) -> object:
            return await adjustments.approve(tx, adjustment.id, "bob", NOW)

        try:
            return bool(await db.run(work))
        except Invalid as refusal:
            if refusal.field != "movement":
                raise
            return False

    assert sum(await asyncio.gather(*map(approve, range(10)))) == 1
