"""Payout runs pay each merchant once, even if a run is interrupted."""

import asyncio
import hashlib
from decimal import Decimal
from typing import Any

import pytest

from opentill import merchants, payouts
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.integrity.rules import check_books
from opentill.merchants import Actor, Merchant
from opentill.payouts import FileRequest, Payout, charset
from support.payout_runs import (
    ACCOUNT_KEY,
    ANN,
    BOB,
    HOLD_RULE,
    IBAN,
    NATIONAL,
    DyingDatabase,
    Killed,
    complete_run,
    create_payee,
    download_run,
    start_run,
)
from support.world import DAY, NOW, new_reference


async def _create_shops(db: Db, number: int = 3, **terms: Any) -> list[Merchant]:
    return [await db.run(lambda tx: create_payee(tx, **terms)) for _ in range(number)]


async def _read_payouts(db: Db, shops: list[Merchant]) -> list[Payout]:
    rows: list[Payout] = []
    for shop in shops:
        rows += await db.read(lambda tx, shop=shop: payouts.search(tx, shop.id))
    return rows


# Each row: the last of the seven transactions of a run that is reached, and whether it is committed
# before the process is killed. A run for three merchants has these transactions: the run, a payout
# for each merchant, READY, SENT and the file's digest.
INTERRUPTIONS = [(last, committed) for last in range(1, 8) for committed in (False, True)]


@pytest.mark.parametrize(("last", "committed"), INTERRUPTIONS)
async def test_a_run_that_was_killed_pays_each_merchant_once(
    db: Db, last: int, committed: bool
) -> None:
    shops, reference = await _create_shops(db), new_reference()

    async def perform(target: Db) -> tuple[str, bytes]:
        view = await complete_run(target, reference)
        return view.run.id, await download_run(target, view.run.id)

    with pytest.raises(Killed):
        await perform(DyingDatabase(db, last, committed=committed))
    run_id, content = await perform(db)
    created = await _read_payouts(db, shops)
    assert sorted(payout.merchant_id for payout in created) == sorted(shop.id for shop in shops)
    assert {payout.amount_minor for payout in created} == {10_000}
    for payout in created:
        end_to_end = f"<EndToEndId>{charset.reference(payout.id)}</EndToEndId>"
        assert content.count(end_to_end.encode()) == 1
    assert content.count(b"<CdtTrfTxInf>") == 3
    assert await perform(db) == (run_id, content)
    run = (await db.read(lambda tx: payouts.view_run(tx, run_id))).run
    assert (run.status, run.sha256, run.sent_by) == (
        "SENT",
        hashlib.sha256(content).hexdigest(),
        "bob",
    )
    with pytest.raises(Invalid, match="none is due in EUR"):
        await start_run(db, new_reference())
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_several_processes_perform_a_run_together(db: Db) -> None:
    shops, reference = await _create_shops(db, 6), new_reference()
    views = await asyncio.gather(*(complete_run(db, reference) for _ in range(4)))
    assert len({view.run.id for view in views}) == 1
    assert len(await _read_payouts(db, shops)) == 6
    files = await asyncio.gather(*(download_run(db, views[0].run.id) for _ in range(4)))
    assert len(set(files)) == 1


async def test_a_run_skips_merchants_that_cannot_be_paid(db: Db) -> None:
    payable = await db.run(create_payee)
    without_account = await db.run(lambda tx: create_payee(tx, account=None))
    below_minimum = await db.run(lambda tx: create_payee(tx, payout_minimum_minor=10_001))
    # The fee takes the whole amount.
    fee_only = await db.run(lambda tx: create_payee(tx, minor=150))
    in_usd = await db.run(lambda tx: create_payee(tx, account=NATIONAL, settlement_currency="USD"))
    changed = await db.run(create_payee)
    await db.run(lambda tx: payouts.change_account(tx, changed.id, NATIONAL, ANN, HOLD_RULE, NOW))
    payouts_off = await db.run(create_payee)
    switch = {"on": False, "actor": ANN, "now": NOW}
    await db.run(lambda tx: merchants.set_capability(tx, payouts_off.id, "payout", **switch))
    unreadable = await db.run(lambda tx: create_payee(tx, rule=payouts.HoldRule("l" * 32, 3)))
    view = await complete_run(db, new_reference(), fee_minor=150)
    assert view.unreadable == (unreadable.id,)
    rows = await db.read(lambda tx: payouts.list_payouts_of_run(tx, view.run.id))
    assert [(row.merchant_id, row.amount_minor, row.fee_minor) for row in rows] == [
        (payable.id, 9_850, 150)
    ]
    due = await db.read(lambda tx: payouts.list_due(tx, 100))
    assert {row.merchant_id: row.waits_for(NOW) for row in due} == {
        without_account.id: "no account", below_minimum.id: "below minimum",
        changed.id: "account changed", fee_only.id: None, in_usd.id: None, unreadable.id: None,
        payouts_off.id: "payouts off",
    }  # fmt: skip
    # The next run has no fee. It pays the account that was changed three days before, which is no
    # longer held.
    later = await complete_run(db, new_reference(), NOW + 3 * DAY)
    rows = await db.read(lambda tx: payouts.list_payouts_of_run(tx, later.run.id))
    assert {row.merchant_id for row in rows} == {changed.id, fee_only.id}


async def test_a_payout_that_failed_before_the_file_is_not_in_it(db: Db) -> None:
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())
    failing_payout, sent_payout = await _read_payouts(db, shops)
    await db.run(lambda tx: payouts.fail(tx, failing_payout.id, "wrong name", "ann", NOW))
    content = await download_run(db, view.run.id)
    assert charset.reference(failing_payout.id).encode() not in content
    assert charset.reference(sent_payout.id).encode() in content
    # A payout that fails later remains in the file, because the bank has the file already.
    await db.run(lambda tx: payouts.fail(tx, sent_payout.id, "came back", "ann", NOW))
    assert await download_run(db, view.run.id) == content


async def test_a_merchant_that_was_suspended_after_the_run_is_not_in_its_file(db: Db) -> None:
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())
    held_payout, sent_payout = await _read_payouts(db, shops)
    suspend = ("suspended", ANN, NOW)
    await db.run(lambda tx: merchants.change_status(tx, shops[0].id, *suspend))
    content = await download_run(db, view.run.id)
    assert charset.reference(held_payout.id).encode() not in content
    assert content.count(b"<CdtTrfTxInf>") == 1
    assert content.count(charset.reference(sent_payout.id).encode()) == 3
    # The payout stays PENDING until an operator fails it. The file does not change.
    await db.run(lambda tx: merchants.change_status(tx, shops[0].id, "resumed", ANN, NOW))
    await db.run(lambda tx: payouts.fail(tx, held_payout.id, "suspended", "ann", NOW))
    assert await download_run(db, view.run.id) == content
    other_run = await complete_run(db, new_reference())
    await db.run(lambda tx: merchants.change_status(tx, shops[0].id, *suspend))
    with pytest.raises(Invalid, match="must have payouts that may be sent"):
        await download_run(db, other_run.run.id)
    view = await db.read(lambda tx: payouts.view_run(tx, other_run.run.id))
    assert view.run.status == "READY"


async def test_a_payout_whose_account_was_changed_after_the_run_fails(db: Db) -> None:
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())
    failing_payout, sent_payout = await _read_payouts(db, shops)
    await db.run(lambda tx: payouts.change_account(tx, shops[0].id, NATIONAL, ANN, HOLD_RULE, NOW))
    content = await download_run(db, view.run.id)
    assert charset.reference(failing_payout.id).encode() not in content
    assert content.count(b"<CdtTrfTxInf>") == 1
    assert content.count(charset.reference(sent_payout.id).encode()) == 3
    failed, sent_payout = await _read_payouts(db, shops)
    assert (failed.status, sent_payout.status) == ("FAILED", "PENDING")
    assert failed.failure_reason == "the bank account was changed after this payout was made"
    assert await download_run(db, view.run.id) == content
    # The money is available again, but it is held because the account was changed recently.
    due = await db.read(lambda tx: payouts.list_due(tx, 100))
    assert [(row.merchant_id, row.available, row.waits_for(NOW)) for row in due] == [
        (shops[0].id, 10_000, "account changed")
    ]
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_payout_in_a_sent_file_remains_when_its_account_is_changed(db: Db) -> None:
    """The bank pays by the file: if the money became available again, it would be paid twice."""
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())
    content = await download_run(db, view.run.id)
    await db.run(lambda tx: payouts.change_account(tx, shops[0].id, NATIONAL, ANN, HOLD_RULE, NOW))
    assert await download_run(db, view.run.id) == content
    assert [payout.status for payout in await _read_payouts(db, shops)] == ["PENDING", "PENDING"]
    assert await db.read(lambda tx: payouts.list_due(tx, 100)) == []


async def test_a_payout_whose_account_is_changed_while_the_file_is_written_fails(db: Db) -> None:
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())

    class Changing(Db):
        """A database in which an account is changed before each transaction."""

        def __init__(self) -> None:
            self.__dict__.update(db.__dict__)

        async def run(self, work: Any) -> Any:
            change = (shops[0].id, NATIONAL, ANN, HOLD_RULE, NOW)
            await db.run(lambda tx: payouts.change_account(tx, *change))
            return await db.run(work)

    content = await download_run(Changing(), view.run.id)
    assert content.count(b"<CdtTrfTxInf>") == 1
    assert [payout.status for payout in await _read_payouts(db, shops)] == ["FAILED", "PENDING"]


async def test_an_account_that_cannot_be_decrypted_does_not_delay_the_others(db: Db) -> None:
    shops = sorted(await _create_shops(db, 2, account=None), key=lambda shop: shop.id)
    lost = payouts.HoldRule("l" * 32, 3)
    for shop, rule in zip(shops, (lost, HOLD_RULE), strict=True):
        change = (shop.id, IBAN, ANN, rule, NOW)
        await db.run(lambda tx, change=change: payouts.change_account(tx, *change))
    run = await start_run(db, new_reference())
    await payouts.perform_run(db, run, lost.secret_key, NOW, 1)
    await payouts.perform_run(db, run, ACCOUNT_KEY, NOW)
    content = await download_run(db, run.id)
    assert content.count(b"<CdtTrfTxInf>") == 1
    failed, sent_payout = await _read_payouts(db, shops)
    assert (failed.status, sent_payout.status) == ("FAILED", "PENDING")
    assert failed.failure_reason == "the bank account must be entered again"
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_run_without_accounts_that_can_be_decrypted_is_not_sent(db: Db) -> None:
    shops = await _create_shops(db, 2)
    view = await complete_run(db, new_reference())
    with pytest.raises(Invalid, match="must have payouts that wait to be sent"):
        await download_run(db, view.run.id, key="l" * 32)
    view = await db.read(lambda tx: payouts.view_run(tx, view.run.id))
    assert view.run.status == "READY"
    assert {payout.status for payout in await _read_payouts(db, shops)} == {"FAILED"}
    assert (await complete_run(db, new_reference())).sums.pending == 2


async def test_a_file_can_be_downloaded_in_one_format_and_only_of_a_complete_run(db: Db) -> None:
    await _create_shops(db, 1)
    run = await start_run(db, new_reference())
    with pytest.raises(Invalid, match="run must be complete"):
        await download_run(db, run.id)
    await payouts.perform_run(db, run, ACCOUNT_KEY, NOW)
    content = await download_run(db, run.id, "csv")
    assert content.startswith(b"endToEndId,amount,currency,payOn,holder,account")
    with pytest.raises(Invalid, match="format must be csv, in which bob has taken"):
        await download_run(db, run.id, "xml")


async def test_a_second_person_must_download_the_file_of_a_run_above_the_limit(db: Db) -> None:
    await _create_shops(db, 1)
    view = await complete_run(db, new_reference())
    with pytest.raises(Invalid, match="another operator than ann"):
        await payouts.send_run(
            db, view.run.id, FileRequest("xml", ANN, Decimal(50)), ACCOUNT_KEY, NOW
        )
    sent_payout = await payouts.send_run(
        db, view.run.id, FileRequest("xml", BOB, Decimal(50)), ACCOUNT_KEY, NOW
    )
    assert sent_payout.sent_by == "bob"


@pytest.mark.parametrize("due", ["nothing", "another currency", "only the fee", "a held account"])
async def test_a_run_for_which_no_payout_is_due_is_refused(db: Db, due: str) -> None:
    """The refused run leaves its reference free."""
    if due == "another currency":
        await db.run(lambda tx: create_payee(tx, account=NATIONAL, settlement_currency="USD"))
    elif due != "nothing":
        shop = await db.run(lambda tx: create_payee(tx, minor=150))
    if due == "a held account":
        await db.run(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, HOLD_RULE, NOW))
    with pytest.raises(Invalid, match="none is due in EUR") as refused:
        await start_run(db, "W-47", fee_minor=150)
    assert refused.value.field == "due"
    assert await db.read(payouts.list_runs) == []
    await db.run(create_payee)
    assert (await complete_run(db, "W-47")).sums.payouts


async def test_a_run_whose_accounts_cannot_be_decrypted_stays_open(db: Db) -> None:
    lost = payouts.HoldRule("l" * 32, 3)
    shop = await db.run(lambda tx: create_payee(tx, rule=lost))
    view = await complete_run(db, "W-47")
    assert (view.progress, view.unreadable) == ("OPEN", (shop.id,))
    await db.run(create_payee)
    assert (await complete_run(db, "W-47")).progress == "READY"


async def test_the_progress_of_a_run_follows_its_payouts(db: Db) -> None:
    await _create_shops(db, 2)
    run_id = (await complete_run(db, "W-47")).run.id

    async def read_progress() -> tuple[str, int]:
        (view,) = await db.read(payouts.list_runs)
        return view.progress, view.sums.paid

    assert await read_progress() == ("READY", 0)
    await download_run(db, run_id)
    assert await read_progress() == ("SENT", 0)
    first, second = await db.read(lambda tx: payouts.list_payouts_of_run(tx, run_id))
    await db.run(lambda tx: payouts.pay(tx, first.payout_id, "B-1", "sent", "ann", NOW))
    assert await read_progress() == ("SENT", 1)
    await db.run(lambda tx: payouts.fail(tx, second.payout_id, "closed", "ann", NOW))
    assert await read_progress() == ("PAID", 1)
    await db.run(lambda tx: payouts.record_return(tx, first.payout_id, "closed", "ann", NOW))
    assert await read_progress() == ("FAILED", 0)


async def test_a_repeated_reference_returns_the_same_run_or_is_refused(db: Db) -> None:
    await db.run(create_payee)
    run = await start_run(db, "W-47", pay_on="2025-06-16")
    assert await start_run(db, "W-47", NOW + DAY) == run
    for change in ({"currency": "USD"}, {"fee_minor": 1}, {"pay_on": "2025-06-17"}):
        with pytest.raises(Invalid, match="reference must be new"):
            await start_run(db, "W-47", **change)
    for day in ("2025-06-14", "2025-02-30", "tomorrow"):
        with pytest.raises(Invalid, match="on must be a day from today on"):
            await start_run(db, new_reference(), pay_on=day)


async def test_accounts_are_encrypted_versioned_and_audited(db: Db) -> None:
    shop = await db.run(lambda tx: create_payee(tx, account=None))

    async def change(account: Any, seen: int | None) -> payouts.StoredAccount:
        return await db.run(
            lambda tx: payouts.change_account(tx, shop.id, account, ANN, HOLD_RULE, NOW, seen)
        )

    stored_account = await change(IBAN, 0)
    assert (stored_account.version, stored_account.usable_from, stored_account.shown) == (
        1,
        NOW,
        "DE •••• 3000",
    )
    assert b"37040044" not in stored_account.number
    # Entering the same account again changes nothing.
    assert await change(IBAN, 0) == stored_account
    with pytest.raises(merchants.Stale):
        await change(NATIONAL, 0)
    changed_account = await change(NATIONAL, 1)
    assert (changed_account.version, changed_account.usable_from) == (2, NOW + 3 * DAY)
    rows = await db.read(lambda tx: merchants.audit_log(tx, shop.id))
    subjects = [row.subject for row in rows if row.action == "payouts account"]
    assert subjects == [
        "DE •••• 3000 → US •••• 6789, of Harbour Books",
        "DE •••• 3000, of Müller & Söhne <GmbH>",
    ]


async def test_a_run_is_marked_as_paid_once(db: Db) -> None:
    shops = await _create_shops(db)
    view = await complete_run(db, new_reference())
    run_id = view.run.id
    with pytest.raises(Invalid, match="run must be SENT"):
        await payouts.pay_run(db, run_id, "B-1", BOB, NOW)
    await download_run(db, run_id)
    created = await _read_payouts(db, shops)
    await db.run(lambda tx: payouts.fail(tx, created[0].id, "stopped", "ann", NOW))
    for bank_reference, actor, field in (
        ("", BOB, "bank-reference"),
        ("B-1", Actor("bob", ""), "reason"),
    ):
        with pytest.raises(Invalid) as refused:
            await payouts.pay_run(db, run_id, bank_reference, actor, NOW)
        assert refused.value.field == field
    counts = await asyncio.gather(
        *(payouts.pay_run(db, run_id, f"B-{number}", BOB, NOW) for number in range(2))
    )
    assert sum(counts) == 2
    assert await payouts.pay_run(db, run_id, "B-3", BOB, NOW) == 0
    ended = await _read_payouts(db, shops)
    assert sorted(payout.status for payout in ended) == ["FAILED", "PAID", "PAID"]
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []
