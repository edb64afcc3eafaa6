"""Operators at many keyboards: nothing is taken twice, and the audit log stays one chain."""

import asyncio
from decimal import Decimal

from opentill import adjustments, ledger, merchants, payouts
from opentill.adjustments import AdjustmentRequest, Kind
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.payouts import PayoutRequest
from support.world import NOW, create_merchant, new_reference


async def _adjust(db: Db, shop: str, kind: Kind, minor: int, reference: str = "") -> str:
    adjustment = AdjustmentRequest(
        kind=kind,
        amount_minor=minor,
        reference=reference or new_reference(),
        reason="why",
        by="ann",
    )
    try:
        return (await db.run(lambda tx: adjustments.request(tx, shop, adjustment, None, NOW))).id
    except Invalid as refused:
        if refused.field != "amount":
            raise
        return ""


async def test_freezing_and_unfreezing_from_many_connections(db: Db, database_url: str) -> None:
    shop = (await db.run(create_merchant)).id
    await _adjust(db, shop, "recharge", 10_000)
    many = await Db.connect(database_url, 20, acquire_timeout_s=60)
    kinds: tuple[Kind, ...] = ("freeze", "unfreeze", "freeze", "fee")

    async def pay_out(_: int) -> None:
        payout_request = PayoutRequest(
            amount_minor=900, reference=new_reference(), reason="weekly", by="bob"
        )
        try:
            await many.run(lambda tx: payouts.create(tx, shop, payout_request, None, NOW))
        except Invalid as refused:
            if refused.field != "amount":
                raise

    try:
        moves = [_adjust(many, shop, kinds[n % 4], 700) for n in range(40)]
        await asyncio.gather(*moves, *map(pay_out, range(10)))
    finally:
        await many.close()
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
    results = await asyncio.gather(*(_adjust(db, shop, "recharge", 700, "R-1") for _ in range(12)))
    assert len(set(results)) == 1
    async with db.connection() as tx:
        balance = await ledger.find_balance(tx, shop, "USD")
    assert balance is not None
    assert balance.available == 700


async def test_an_adjustment_is_approved_once(db: Db) -> None:
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
        except Invalid as refused:
            if refused.field != "movement":
                raise
            return False

    assert sum(await asyncio.gather(*map(approve, range(10)))) == 1
