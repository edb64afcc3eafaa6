"""Concurrent payouts never overdraw the balance, and one reference creates one payout."""

import asyncio

import msgspec

from opentill import adjustments, ledger, payouts
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.payouts import Payout, PayoutRequest
from support.world import NOW, create_merchant, new_reference


async def _create_shop(db: Db, available: int) -> str:
    recharge = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=available, reference=new_reference(), reason="start", by="ann"
    )
    shop_id = (await db.run(create_merchant)).id
    await db.run(lambda tx: adjustments.request(tx, shop_id, recharge, None, NOW))
    return shop_id


async def _pay_out(db: Db, shop: str, request: PayoutRequest) -> Payout | None:
    """Create a payout; return None if the balance is too low."""
    try:
        return await db.run(lambda tx: payouts.create(tx, shop, request, None, NOW))
    except Invalid as refused:
        if refused.field != "amount":
            raise
        return None


async def _available(db: Db, shop: str) -> int:
    async with db.connection() as tx:
        balance = await ledger.find_balance(tx, shop, "USD")
    return balance.available if balance else 0


async def test_payouts_over_twenty_connections_never_overdraw_the_balance(
    db: Db, database_url: str
) -> None:
    shop = await _create_shop(db, 10_000)
    pool = await Db.connect(database_url, 20, acquire_timeout_s=20)
    partial = PayoutRequest(
        amount_minor=700, fee_minor=50, reference=new_reference(), reason="weekly", by="ann"
    )
    full_payout = PayoutRequest(
        amount_minor=None, fee_minor=50, reference=new_reference(), reason="weekly", by="bob"
    )
    try:
        requests = [
            msgspec.structs.replace(full_payout if n == 30 else partial, reference=f"W-{n}")
            for n in range(40)
        ]
        results = await asyncio.gather(*(_pay_out(pool, shop, request) for request in requests))
    finally:
        await pool.close()
    available = await _available(db, shop)
    assert available == 10_000 - sum(
        payout.amount_minor + payout.fee_minor for payout in results if payout
    )
    assert 0 <= available < 750


async def test_concurrent_requests_with_one_reference_create_one_payout(db: Db) -> None:
    shop = await _create_shop(db, 10_000)
    request = PayoutRequest(amount_minor=700, reference="W-1", reason="weekly", by="ann")
    results = await asyncio.gather(*(_pay_out(db, shop, request) for _ in range(12)))
    assert len({payout.id for payout in results if payout}) == 1
    assert await _available(db, shop) == 9_300


async def test_only_one_of_concurrent_results_of_a_payout_is_recorded(db: Db) -> None:
    shop = await _create_shop(db, 10_000)
    request = PayoutRequest(
        amount_minor=700, fee_minor=50, reference=new_reference(), reason="weekly", by="ann"
    )
    payout = await _pay_out(db, shop, request)
    assert payout is not None

    async def end(number: int) -> str | None:
        async def record_result(tx):
            if number % 2:
                return await payouts.pay(tx, payout.id, "TRN", "sent", "ann", NOW)
            return await payouts.fail(tx, payout.id, "closed", "bob", NOW)

        try:
            return (await db.run(record_result)).status
        except Invalid as refused:
            if refused.field != "payout":
                raise
            return None

    statuses = [status for status in await asyncio.gather(*map(end, range(10))) if status]
    assert len(statuses) == 1
    assert await _available(db, shop) == (10_000 if statuses == ["FAILED"] else 9_250)
