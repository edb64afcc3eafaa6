"""A bank returns payouts."""

import asyncio

import pytest

from opentill import ledger, onboarding, payouts
from opentill.db.database import Db
from opentill.integrity.rules import check_books
from opentill.merchants import standing
from reconciliation.bank_statements import (
    CSV,
    apply,
    create_sent_payouts,
    entry,
    read_inbox,
    read_results,
    statement,
)
from support.payout_runs import BOB
from support.world import NOW


async def _available(db: Db, payout: payouts.Payout) -> int:
    balance = await db.read(lambda tx: ledger.find_balance(tx, payout.merchant_id, payout.currency))
    assert balance is not None
    return balance.available


async def test_a_return_of_a_paid_payout_counts_once(db: Db) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    debit, credit = entry(sent_payout.id, ref="B-1"), entry(sent_payout.id, credit=True, ref="B-2")
    assert (await apply(db, statement(debit))).sent == 1
    assert await _available(db, sent_payout) == 0
    result = await apply(db, statement(credit))
    assert (result.returned, result.in_inbox) == (1, 0)
    (payout,) = await db.read(lambda tx: payouts.find_many(tx, [sent_payout.id]))
    assert (payout.status, payout.bank_reference, payout.is_returned) == ("FAILED", "B-1", True)
    assert payout.failure_reason == "AC04 closed (bank reference B-2)"
    assert await _available(db, sent_payout) == 10_000
    # The monthly statement repeats the lines of the daily ones, in either order.
    for lines in ((debit, credit), (credit, debit)):
        result = await apply(db, statement(*lines))
        assert (result.sent, result.returned, result.repeated, result.in_inbox) == (0, 0, 2, 0)
    other = await apply(
        db,
        statement(entry(sent_payout.id, ref="B-3"), entry(sent_payout.id, credit=True, ref="B-4")),
    )
    assert (other.returned, other.in_inbox) == (0, 2)
    assert await read_inbox(db) == [
        ("different", "100.00 EUR FAILED", "100.00 EUR debit, B-3"),
        ("different", "100.00 EUR FAILED", "100.00 EUR credit, B-4"),
    ]
    assert await _available(db, sent_payout) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_statement_has_a_payout_and_its_return(db: Db, newest_first: bool) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    lines = [entry(sent_payout.id, ref="B-1"), entry(sent_payout.id, credit=True, ref="B-2")]
    result = await apply(db, statement(*(reversed(lines) if newest_first else lines)))
    assert (result.sent, result.returned, result.in_inbox) == (1, 1, 0)
    assert await read_results(db, [sent_payout]) == [("FAILED", "B-1")]
    assert await _available(db, sent_payout) == 10_000


async def test_concurrent_reports_of_a_return_count_once(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 4)
    await apply(db, statement(*(entry(payout.id, ref="B-1") for payout in sent_payouts)))
    lines = [entry(payout.id, credit=True, ref="R-1") for payout in sent_payouts]
    files = [statement(*lines, form=form) for form in ("camt.053.001.02", "camt.053.001.08")]
    rows = "".join(f"{payout.id},failed,100.00,EUR,R-1,x\r\n" for payout in sent_payouts)
    files.append((CSV + rows).encode())
    results = await asyncio.gather(*(apply(db, file) for file in files))
    assert sum(result.returned for result in results) == 4
    assert sum(result.repeated for result in results) == 8
    assert [await _available(db, payout) for payout in sent_payouts] == [10_000] * 4
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_return_of_less_than_was_sent_goes_to_the_inbox(db: Db) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    booked = entry(sent_payout.id, "95.00", credit=True, ref="B-2")
    amount = '<Amt Ccy="EUR">95.00</Amt></TxDtls>'
    instructed = '<AmtDtls><InstdAmt><Amt Ccy="EUR">100.00</Amt></InstdAmt></AmtDtls></TxDtls>'
    for line in (booked, booked.replace(amount, instructed)):
        assert (await apply(db, statement(line))).returned == 0
    assert await read_results(db, [sent_payout]) == [("PAID", "B-1")]
    assert await read_inbox(db) == [("different", "100.00 EUR PAID", "95.00 EUR credit, B-2")]


async def test_a_reversal_of_a_credit_sends_no_payout(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 2)
    await apply(db, statement(entry(sent_payouts[0].id, credit=True, ref="B-1")))
    reversals = [
        entry(payout.id, ref="B-2").replace("<Sts>", "<RvslInd>true</RvslInd><Sts>")
        for payout in sent_payouts
    ]
    result = await apply(db, statement(*reversals))
    assert (result.sent, result.in_inbox) == (0, 2)
    assert [status for status, _ in await read_results(db, sent_payouts)] == ["FAILED", "PENDING"]


async def test_a_return_without_a_text_has_the_meaning_of_its_code(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 2)
    returns = [
        entry(sent_payouts[0].id, credit=True, ref="B-2").replace(
            "<AddtlInf>closed</AddtlInf>", ""
        ),
        entry(sent_payouts[1].id, credit=True)
        .replace("<AddtlInf>closed</AddtlInf>", "")
        .replace("AC04", "AM05")
        .replace(
            f"<EndToEndId>{sent_payouts[1].id}<",
            f"<InstrId>{sent_payouts[1].id}</InstrId><EndToEndId><",
        ),
    ]
    assert (await apply(db, statement(*returns))).returned == 2
    assert await read_results(db, sent_payouts) == [
        ("FAILED", "AC04 account closed (bank reference B-2)"),
        ("FAILED", "AM05 sent twice"),
    ]


async def test_a_return_for_a_closed_merchant_is_recorded(db: Db) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    await db.run(
        lambda tx: standing.change_status(tx, sent_payout.merchant_id, "suspended", BOB, NOW)
    )
    await db.run(lambda tx: onboarding.close(tx, sent_payout.merchant_id, BOB, NOW))
    assert (await apply(db, statement(entry(sent_payout.id, credit=True, ref="B-2")))).returned == 1
    assert await _available(db, sent_payout) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_only_the_credit_by_which_a_payout_failed_is_a_repetition(db: Db) -> None:
    returned, failed, unnamed = sent_payouts = await create_sent_payouts(db, 3)
    await apply(
        db, statement(entry(returned.id, credit=True, ref="B-1"), entry(unnamed.id, credit=True))
    )
    await db.run(lambda tx: payouts.fail(tx, failed.id, "wrong name", "ann", NOW))
    assert await read_results(db, sent_payouts) == [
        ("FAILED", "AC04 closed (bank reference B-1)"),
        ("FAILED", "wrong name"),
        ("FAILED", "AC04 closed"),
    ]
    row = f"{returned.id},failed,100.00,EUR,B-1,in other words\r\n"
    assert (await apply(db, (CSV + row).encode())).repeated == 1
    assert (await apply(db, statement(entry(unnamed.id, credit=True)))).repeated == 1
    others = [
        entry(returned.id, credit=True, ref="B-2"),
        entry(returned.id, credit=True),
        entry(failed.id, credit=True, ref="B-3"),
        entry(failed.id, credit=True, ref="B-3"),
    ]
    result = await apply(db, statement(*others))
    assert (result.repeated, result.in_inbox) == (0, 4)
    ours, theirs = "100.00 EUR FAILED", "100.00 EUR credit"
    assert await read_inbox(db) == [
        ("different", ours, f"{theirs}, B-2"),
        ("double in report", ours, theirs),
        ("different", ours, f"{theirs}, B-3"),
        ("double in report", ours, f"{theirs}, B-3, no. 2"),
    ]
