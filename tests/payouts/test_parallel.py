"""Payouts from many connections at once never overdraw, and a reference counts once."""

import asyncio

import msgspec

from opentill import adjustments, ledger, payouts
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.payouts import Payout, PayoutRequest
from support.world import NOW, fresh, merchant


async def _shop(db: Db, available: int) -> str:
    asked = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=available, reference=fresh(), reason="start", by="ann"
    )
    made = await db.run(merchant)
    await db.run(lambda tx: adjustments.request(tx, made.id, asked, None, NOW))
    return made.id


async def _payout(db: Db, shop: str, wanted: PayoutRequest) -> Payout | None:
    try:
        return await db.run(lambda tx: payouts.create(tx, shop, wanted, None, NOW))
    except Invalid as refused:
        if refused.field != "amount":
            raise
        return None


async def _available(db: Db, shop: str) -> int:
    async with db.connection() as tx:
        balance = await ledger.find_balance(tx, shop, "USD")
    return balance.available if balance else 0


async def test_twenty_connections_never_overdraw(db: Db, database_url: str) -> None:
    shop = await _shop(db, 10_000)
    many = await Db.connect(database_url, 20, acquire_timeout_s=20)
    ask = PayoutRequest(
        amount_minor=700, fee_minor=50, reference=fresh(), reason="weekly", by="ann"
    )
    everything = PayoutRequest(
        amount_minor=None, fee_minor=50, reference=fresh(), reason="weekly", by="bob"
    )
    try:
        asked = [
            msgspec.structs.replace(everything if n == 30 else ask, reference=f"W-{n}")
            for n in range(40)
        ]
        made = [p for p in await asyncio.gather(*(_payout(many, shop, a) for a in asked)) if p]
    finally:
        await many.close()
    left = await _available(db, shop)
    assert left == 10_000 - sum(payout.amount_minor + payout.fee_minor for payout in made)
    assert 0 <= left < 750


async def test_a_reference_in_parallel_is_one_payout(db: Db) -> None:
    shop = await _shop(db, 10_000)
    ask = PayoutRequest(amount_minor=700, reference="W-1", reason="weekly", by="ann")
    made = await asyncio.gather(*(_payout(db, shop, ask) for _ in range(12)))
    assert len({payout.id for payout in made if payout}) == 1
    assert await _available(db, shop) == 9_300


async def test_a_payout_ends_once_however_many_say_so(db: Db) -> None:
    shop = await _shop(db, 10_000)
    ask = PayoutRequest(
        amount_minor=700, fee_minor=50, reference=fresh(), reason="weekly", by="ann"
    )
    payout = await _payout(db, shop, ask)
    assert payout is not None

    async def end(number: int) -> str | None:
        async def step(tx):
            if number % 2:
                return await payouts.pay(tx, payout.id, "TRN", "sent", "ann", NOW)
            return await payouts.fail(tx, payout.id, "closed", "bob", NOW)

        try:
            return (await db.run(step)).status
        except Invalid as refused:
            if refused.field != "payout":
                raise
            return None

    ends = [status for status in await asyncio.gather(*map(end, range(10))) if status]
    assert len(ends) == 1
    assert await _available(db, shop) == (10_000 if ends == ["FAILED"] else 9_250)
