"""After the bank returned a payout, payouts wait until the account is changed or confirmed."""

import asyncio
from typing import Final

import msgspec
import pytest

from opentill import adjustments, merchants, payouts
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db, Tx
from opentill.merchants import Merchant
from opentill.payouts import Payout
from support.payout_runs import (
    ACCOUNT_KEY,
    ADDRESS,
    ANN,
    BOB,
    HOLD_RULE,
    IBAN,
    NATIONAL,
    complete_run,
    create_payee,
    download_run,
    start_run,
)
from support.world import DAY, NOW, new_reference

LATER: Final = NOW + 10


async def create_shop_with_returned_payout(db: Db) -> tuple[Merchant, Payout]:
    """Return a merchant whose payout the bank returned at ``LATER``."""
    shop, payout = await create_shop_with_sent_payout(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    failed = await db.run(
        lambda tx: payouts.record_return(tx, payout.id, "account closed", "ann", LATER)
    )
    return shop, failed


async def create_shop_with_sent_payout(db: Db) -> tuple[Merchant, Payout]:
    """Return a merchant with a payout that is in a file and waits for the bank."""
    shop = await db.run(create_payee)
    view = await complete_run(db, new_reference())
    await download_run(db, view.run.id)
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id))
    return shop, payout


async def waits_for(db: Db, shop: Merchant, now: int = LATER) -> str | None:
    """Return the reason for which a merchant's money waits, None if it does not."""
    due = await db.read(lambda tx: payouts.list_due(tx, 100))
    (row,) = [row for row in due if row.merchant_id == shop.id]
    return row.waits_for(now)


async def confirm(db: Db, shop: Merchant, now: int = LATER + 1) -> None:
    await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, now))


async def recharge(tx: Tx, shop: Merchant, now: int) -> None:
    recharge = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=5_000, reference=new_reference(), reason="more", by="ann"
    )
    await adjustments.request(tx, shop.id, recharge, None, now)


async def test_the_next_run_does_not_pay_the_closed_account_again(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    assert await waits_for(db, shop) == "payout returned"
    with pytest.raises(Invalid, match="none is due"):
        await complete_run(db, new_reference(), LATER)


async def test_a_change_of_the_account_ends_the_hold(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    await db.run(
        lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, LATER + 1)
    )
    assert await waits_for(db, shop) == "account changed"
    assert await waits_for(db, shop, LATER + 1 + 3 * DAY) is None


async def test_a_change_of_only_the_address_does_not_end_the_hold(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    moved = msgspec.structs.replace(IBAN, address=ADDRESS)
    await db.run(lambda tx: payouts.change_account(tx, shop.id, moved, ANN, HOLD_RULE, LATER + 1))
    assert await waits_for(db, shop, LATER + 2) == "payout returned"


async def test_an_address_ends_the_hold_if_the_bank_required_it(db: Db) -> None:
    shop, payout = await create_shop_with_sent_payout(db)
    reason = "BE04 address of the holder is missing"
    await db.run(lambda tx: payouts.fail(tx, payout.id, reason, "ann", LATER))
    assert await waits_for(db, shop) == "payout returned"
    moved = msgspec.structs.replace(IBAN, address=ADDRESS)
    await db.run(lambda tx: payouts.change_account(tx, shop.id, moved, ANN, HOLD_RULE, LATER + 1))
    assert await waits_for(db, shop, LATER + 2) is None


async def test_a_return_does_not_hold_an_account_that_was_entered_before_it(db: Db) -> None:
    shop, payout = await create_shop_with_sent_payout(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, NOW + 2))
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "ann", LATER))
    # The returned payout went to the previous account, not to this one.
    assert await waits_for(db, shop, NOW + 2 + 3 * DAY) is None


async def test_staff_can_confirm_the_account_with_a_reason_and_end_the_hold(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    await confirm(db, shop)
    assert await waits_for(db, shop) is None
    entries = await db.read(lambda tx: merchants.audit_log(tx, shop.id))
    (entry,) = [entry for entry in entries if entry.action == "payouts confirm-account"]
    assert (entry.who, entry.reason, entry.subject) == ("bob", "for the bank", "DE •••• 3000")
    view = await complete_run(db, new_reference(), LATER + 2)
    assert view.sums.payouts == 1


async def test_a_return_after_the_confirmation_holds_the_account_again(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    await confirm(db, shop)
    view = await complete_run(db, new_reference(), LATER + 2)
    await download_run(db, view.run.id, now=LATER + 2)
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id, "PENDING"))
    await db.run(lambda tx: payouts.fail(tx, payout.id, "AC01", "ann", LATER + 3))
    assert await waits_for(db, shop) == "payout returned"


async def test_only_a_held_account_can_be_confirmed_and_only_once(db: Db) -> None:
    shop = await db.run(create_payee)
    with pytest.raises(Invalid) as refused:
        await confirm(db, shop)
    assert refused.value.field == "account"
    without_account = await db.run(lambda tx: create_payee(tx, account=None))
    with pytest.raises(NotFound):
        await confirm(db, without_account)
    held_shop, _ = await create_shop_with_returned_payout(db)

    async def attempt(_: int) -> bool:
        try:
            await confirm(db, held_shop)
        except Invalid:
            return False
        return True

    results = await asyncio.gather(*(attempt(number) for number in range(4)))
    assert sorted(results) == [False, False, False, True]


async def test_a_confirmation_from_an_outdated_page_is_refused(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    held_since = await db.read(lambda tx: payouts.account_held_since(tx, shop.id))
    assert held_since == LATER
    with pytest.raises(merchants.Stale):
        await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (1, NOW)))
    with pytest.raises(merchants.Stale):
        await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (2, LATER)))
    await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (1, LATER)))
    assert await waits_for(db, shop) is None


@pytest.mark.parametrize(
    ("reason", "is_held"),
    [
        ("AC01", True), ("AC04 account closed", True), ("R-transaction, BE06", True),
        ("RC01: wrong bank code", True), ("AG01 (bank reference 7)", True),
        ("AM04 no money", False), ("the file was lost (bank reference AC04)", False),
        ("AC02 our own account", False), ("BACK04", False), ("TRAC04", False),
    ],
)  # fmt: skip
async def test_a_failure_holds_the_account_if_the_bank_names_it(
    db: Db, reason: str, is_held: bool
) -> None:
    shop, payout = await create_shop_with_sent_payout(db)
    failed = await db.run(lambda tx: payouts.fail(tx, payout.id, reason, "ann", LATER))
    assert await waits_for(db, shop) == ("payout returned" if is_held else None)
    assert failed.concerns_account is is_held


async def test_a_run_that_is_ready_does_not_pay_a_held_account(db: Db) -> None:
    shop, payout = await create_shop_with_sent_payout(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: recharge(tx, shop, NOW + 2))
    other_shop = await db.run(create_payee)
    ready = await complete_run(db, new_reference(), NOW + 3)
    assert ready.sums.payouts == 2
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "closed", "ann", LATER))
    await download_run(db, ready.run.id, now=LATER + 1)
    in_file = [item.merchant_id async for item in payouts.payouts_in_file(db, ready.run.id)]
    assert in_file == [other_shop.id]
    newest, *_ = await db.read(lambda tx: payouts.search(tx, shop.id))
    assert newest.id != payout.id
    assert newest.status == "FAILED"
    assert newest.failure_reason == "the bank returned another payout to this account"


async def test_a_run_rereads_the_account_under_the_lock(db: Db) -> None:
    """The return is recorded after the run has read the list of merchants."""
    shop, payout = await create_shop_with_sent_payout(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: recharge(tx, shop, NOW + 2))
    run = await start_run(db, new_reference(), NOW + 3)
    blocked = asyncio.Event()

    async def record(tx: Tx) -> None:
        await merchants.lock(tx, shop.id)
        blocked.set()
        await asyncio.sleep(0.3)
        await payouts.record_return(tx, payout.id, "closed", "ann", NOW + 3)

    recording = asyncio.create_task(db.run(record))
    await blocked.wait()
    view = await payouts.perform_run(db, run, ACCOUNT_KEY, NOW + 4)
    await recording
    assert view.sums.payouts == 0


async def test_the_return_of_a_payout_outside_a_run_holds_the_account(db: Db) -> None:
    shop = await db.run(create_payee)
    request = payouts.PayoutRequest(amount_minor=100, reference="W", reason="single", by="ann")
    payout = await db.run(lambda tx: payouts.create(tx, shop.id, request, None, NOW))
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "closed", "ann", LATER))
    assert await waits_for(db, shop) == "payout returned"
    await db.run(
        lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, LATER + 1)
    )
    assert await waits_for(db, shop, LATER + 1 + 3 * DAY) is None


async def test_a_return_needs_no_attention_after_the_confirmation(db: Db) -> None:
    shop, payout = await create_shop_with_returned_payout(db)
    listed = await db.read(lambda tx: payouts.returned_since(tx, NOW, 100))
    assert payout.id in {returned.id for returned in listed}
    await confirm(db, shop)
    listed = await db.read(lambda tx: payouts.returned_since(tx, NOW, 100))
    assert payout.id not in {returned.id for returned in listed}


async def test_a_return_and_a_confirmation_affect_only_their_merchant(db: Db) -> None:
    shop, _ = await create_shop_with_returned_payout(db)
    other_shop, _ = await create_shop_with_returned_payout(db)
    shop_without_return = await db.run(create_payee)
    assert await waits_for(db, shop_without_return) is None
    await confirm(db, other_shop)
    assert await waits_for(db, shop) == "payout returned"
    assert await waits_for(db, other_shop) is None
