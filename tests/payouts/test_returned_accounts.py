"""After the bank returned a payout, the next one waits for another or a confirmed account."""

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
    ADDRESS,
    ANN,
    BOB,
    IBAN,
    KEY,
    NATIONAL,
    RULE,
    begin,
    payee,
    taken,
    whole,
)
from support.world import DAY, NOW, fresh

LATER: Final = NOW + 10


async def returned_shop(db: Db) -> tuple[Merchant, Payout]:
    """Return a merchant whose payout the bank returned at ``LATER``."""
    shop, payout = await sent_shop(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    failed = await db.run(
        lambda tx: payouts.record_return(tx, payout.id, "account closed", "ann", LATER)
    )
    return shop, failed


async def sent_shop(db: Db) -> tuple[Merchant, Payout]:
    """Return a merchant with a payout that is in a file and waits for the bank."""
    shop = await db.run(payee)
    view = await whole(db, fresh())
    await taken(db, view.run.id)
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id))
    return shop, payout


async def waits(db: Db, shop: Merchant, now: int = LATER) -> str | None:
    """Return what a merchant's money waits for."""
    due = await db.read(lambda tx: payouts.due(tx, 100))
    (row,) = [row for row in due if row.merchant_id == shop.id]
    return row.waits_for(now)


async def confirm(db: Db, shop: Merchant, now: int = LATER + 1) -> None:
    await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, now))


async def recharge(tx: Tx, shop: Merchant, now: int) -> None:
    more = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=5_000, reference=fresh(), reason="more", by="ann"
    )
    await adjustments.request(tx, shop.id, more, None, now)


async def test_the_next_run_does_not_pay_the_closed_account_again(db: Db) -> None:
    shop, _ = await returned_shop(db)
    assert await waits(db, shop) == "payout returned"
    view = await whole(db, fresh(), LATER)
    assert view.sums.payouts == 0


async def test_another_account_ends_the_hold(db: Db) -> None:
    shop, _ = await returned_shop(db)
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, RULE, LATER + 1))
    assert await waits(db, shop) == "account changed"
    assert await waits(db, shop, LATER + 1 + 3 * DAY) is None


async def test_another_address_of_the_same_account_does_not(db: Db) -> None:
    shop, _ = await returned_shop(db)
    moved = msgspec.structs.replace(IBAN, address=ADDRESS)
    await db.run(lambda tx: payouts.change_account(tx, shop.id, moved, ANN, RULE, LATER + 1))
    assert await waits(db, shop, LATER + 2) == "payout returned"


async def test_the_address_that_the_bank_missed_ends_the_hold(db: Db) -> None:
    shop, payout = await sent_shop(db)
    reason = "BE04 address of the holder is missing"
    await db.run(lambda tx: payouts.fail(tx, payout.id, reason, "ann", LATER))
    assert await waits(db, shop) == "payout returned"
    moved = msgspec.structs.replace(IBAN, address=ADDRESS)
    await db.run(lambda tx: payouts.change_account(tx, shop.id, moved, ANN, RULE, LATER + 1))
    assert await waits(db, shop, LATER + 2) is None


async def test_the_account_was_changed_before_the_bank_returned_the_payout(db: Db) -> None:
    shop, payout = await sent_shop(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, RULE, NOW + 2))
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "ann", LATER))
    assert await waits(db, shop, NOW + 2 + 3 * DAY) is None  # the closed one is not used any more


async def test_staff_confirm_the_account_with_a_reason(db: Db) -> None:
    shop, _ = await returned_shop(db)
    await confirm(db, shop)
    assert await waits(db, shop) is None
    entries = await db.read(lambda tx: merchants.audit_log(tx, shop.id))
    (entry,) = [entry for entry in entries if entry.action == "payouts confirm-account"]
    assert (entry.who, entry.reason, entry.subject) == ("bob", "for the bank", "DE ···· 3000")
    view = await whole(db, fresh(), LATER + 2)
    assert view.sums.payouts == 1


async def test_what_returns_after_the_confirmation_waits_again(db: Db) -> None:
    shop, _ = await returned_shop(db)
    await confirm(db, shop)
    view = await whole(db, fresh(), LATER + 2)
    await taken(db, view.run.id, now=LATER + 2)
    (payout,) = await db.read(lambda tx: payouts.search(tx, shop.id, "PENDING"))
    await db.run(lambda tx: payouts.fail(tx, payout.id, "AC01", "ann", LATER + 3))
    assert await waits(db, shop) == "payout returned"


async def test_only_an_account_that_waits_is_confirmed_and_once(db: Db) -> None:
    shop = await db.run(payee)
    with pytest.raises(Invalid) as refused:
        await confirm(db, shop)
    assert refused.value.field == "account"
    none = await db.run(lambda tx: payee(tx, account=None))
    with pytest.raises(NotFound):
        await confirm(db, none)
    held, _ = await returned_shop(db)

    async def attempt(_: int) -> bool:
        try:
            await confirm(db, held)
        except Invalid:
            return False
        return True

    done = await asyncio.gather(*(attempt(number) for number in range(4)))
    assert sorted(done) == [False, False, False, True]


async def test_what_was_shown_is_what_is_confirmed(db: Db) -> None:
    shop, _ = await returned_shop(db)
    seen = await db.read(lambda tx: payouts.account_held_since(tx, shop.id))
    assert seen == LATER
    with pytest.raises(merchants.Stale):
        await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (1, NOW)))
    with pytest.raises(merchants.Stale):
        await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (2, LATER)))
    await db.run(lambda tx: payouts.confirm_account(tx, shop.id, BOB, LATER + 1, (1, LATER)))
    assert await waits(db, shop) is None


@pytest.mark.parametrize(
    ("reason", "is_held"),
    [
        ("AC01", True), ("AC04 account closed", True), ("R-transaction, BE06", True),
        ("RC01: wrong bank code", True), ("AG01 (bank reference 7)", True),
        ("AM04 no money", False), ("the file was lost (bank reference AC04)", False),
        ("AC02 our own account", False), ("BACK04", False), ("TRAC04", False),
    ],
)  # fmt: skip
async def test_a_failure_holds_if_the_bank_names_the_account(
    db: Db, reason: str, is_held: bool
) -> None:
    shop, payout = await sent_shop(db)
    failed = await db.run(lambda tx: payouts.fail(tx, payout.id, reason, "ann", LATER))
    assert await waits(db, shop) == ("payout returned" if is_held else None)
    assert failed.concerns_account is is_held


async def test_a_run_that_is_ready_does_not_pay_it_either(db: Db) -> None:
    shop, payout = await sent_shop(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: recharge(tx, shop, NOW + 2))
    other = await db.run(payee)
    ready = await whole(db, fresh(), NOW + 3)
    assert ready.sums.payouts == 2
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "closed", "ann", LATER))
    await taken(db, ready.run.id, now=LATER + 1)
    in_file = [one async for one in payouts.in_file_of_run(db, ready.run.id)]
    assert [one.merchant_id for one in in_file] == [other.id]
    (second,) = [
        one for one in await db.read(lambda tx: payouts.search(tx, shop.id)) if one.id != payout.id
    ]
    assert second.status == "FAILED"
    assert second.failure_reason == "the bank returned another payout to this account"


async def test_a_return_between_the_list_and_the_payout(db: Db) -> None:
    """A run has read who is due when the return is recorded: it looks again under the lock."""
    shop, payout = await sent_shop(db)
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: recharge(tx, shop, NOW + 2))
    run = await begin(db, fresh(), NOW + 3)
    blocked = asyncio.Event()

    async def record(tx: Tx) -> None:
        await merchants.lock(tx, shop.id)
        blocked.set()
        await asyncio.sleep(0.3)
        await payouts.record_return(tx, payout.id, "closed", "ann", NOW + 3)

    recording = asyncio.create_task(db.run(record))
    await blocked.wait()
    view = await payouts.perform_run(db, run, KEY, NOW + 4)
    await recording
    assert view.sums.payouts == 0


async def test_a_payout_by_hand_waits_for_a_change_after_its_return(db: Db) -> None:
    shop = await db.run(payee)
    asked = payouts.PayoutRequest(amount_minor=100, reference="W", reason="by hand", by="ann")
    payout = await db.run(lambda tx: payouts.create(tx, shop.id, asked, None, NOW))
    await db.run(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", NOW + 1))
    await db.run(lambda tx: payouts.record_return(tx, payout.id, "closed", "ann", LATER))
    assert await waits(db, shop) == "payout returned"
    await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, RULE, LATER + 1))
    assert await waits(db, shop, LATER + 1 + 3 * DAY) is None


async def test_staff_need_not_look_at_a_return_that_they_confirmed(db: Db) -> None:
    shop, payout = await returned_shop(db)
    listed = await db.read(lambda tx: payouts.returned_since(tx, NOW, 100))
    assert payout.id in {one.id for one in listed}
    await confirm(db, shop)
    listed = await db.read(lambda tx: payouts.returned_since(tx, NOW, 100))
    assert payout.id not in {one.id for one in listed}


async def test_a_return_and_a_confirmation_are_of_one_merchant(db: Db) -> None:
    shop, _ = await returned_shop(db)
    other, _ = await returned_shop(db)
    third = await db.run(payee)
    assert await waits(db, third) is None
    await confirm(db, other)
    assert [await waits(db, each) for each in (shop, other)] == ["payout returned", None]
