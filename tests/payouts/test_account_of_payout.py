"""A payout of a run keeps the account to which it goes, whatever the merchant enters later."""

from opentill import payouts
from opentill.db.database import Db
from support.payout_runs import ANN, HOLD_RULE, NATIONAL, complete_run, create_payee
from support.world import NOW, new_reference


async def test_a_payout_of_a_run_keeps_the_account_to_which_it_goes(db: Db) -> None:
    shop, other_shop = await db.run(create_payee), await db.run(create_payee)
    await complete_run(db, new_reference())
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id, None))
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, NOW))
    account = await db.read(lambda tx: payouts.find_account_of(tx, shop.id, payout.id))
    assert account is not None
    assert account.shown == "DE ···· 3000"
    assert await db.read(lambda tx: payouts.find_account_of(tx, other_shop.id, payout.id)) is None
