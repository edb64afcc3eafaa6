"""A payout keeps the account to which it goes, whatever the merchant enters later."""

from opentill import payouts
from opentill.db.database import Db
from support.payout_runs import ANN, HOLD_RULE, NATIONAL, complete_run, create_payee
from support.world import NOW, new_reference


async def test_a_payout_of_a_run_keeps_the_account_to_which_it_goes(db: Db) -> None:
    shop, other_shop = await db.run(create_payee), await db.run(create_payee)
    await complete_run(db, new_reference())
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id, None))
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, NOW))
    ids = [payout.id]
    accounts = await db.read(lambda tx: payouts.find_accounts_of(tx, shop.id, ids))
    assert accounts[payout.id].shown == "DE •••• 3000"
    assert await db.read(lambda tx: payouts.find_accounts_of(tx, other_shop.id, ids)) == {}


async def test_a_payout_outside_a_run_goes_to_the_account_of_its_time(db: Db) -> None:
    shop = await db.run(create_payee)
    request = payouts.PayoutRequest(
        amount_minor=1, reference=new_reference(), reason="weekly", by="ann"
    )
    payout = await db.run(lambda tx: payouts.create(tx, shop.id, request, None, NOW))
    later = NOW + 1
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, later))
    accounts = await db.read(lambda tx: payouts.find_accounts_of(tx, shop.id, [payout.id]))
    assert accounts[payout.id].shown == "DE •••• 3000"
