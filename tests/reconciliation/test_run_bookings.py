"""A bank books the file of a payout run as one amount."""

import pytest

from opentill import payouts
from opentill.db.database import Db
from opentill.integrity.rules import check_books
from reconciliation.bank_statements import (
    apply,
    create_sent_payouts,
    entry,
    read_inbox,
    read_results,
    statement,
)
from support.payout_runs import DyingDatabase, Killed
from support.world import NOW


def run_booking(run_id: str, amount: str, payments: str = "", **fields: str) -> str:
    """Write an entry that books the whole file of a run."""
    number = f"<NbOfTxs>{payments}</NbOfTxs>" if payments else ""
    payment = fields.get("payment", f"{run_id.replace('_', '-')}-1")
    return (
        f'<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{fields.get("side", "DBIT")}</CdtDbtInd>'
        f"<Sts>BOOK</Sts><AcctSvcrRef>{fields.get('ref', 'B-1')}</AcctSvcrRef><NtryDtls><Btch>"
        f"<PmtInfId>{payment}</PmtInfId>{number}</Btch></NtryDtls></Ntry>"
    )


async def _find_run_id(db: Db, payout: payouts.Payout) -> str:
    async with db.connection() as tx:
        return str(await tx.fetchval(
            "select run_id from payout_transfers where payout_id = $1", payout.id
        ))  # fmt: skip


@pytest.mark.parametrize("payments", ["", "3"])
async def test_a_booking_of_a_whole_file_ends_its_payouts(db: Db, payments: str) -> None:
    sent_payouts = await create_sent_payouts(db)
    run_id = await _find_run_id(db, sent_payouts[0])
    line = run_booking(run_id, "300.00", payments)
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.in_inbox) == (1, 3, 0)
    assert await read_results(db, sent_payouts) == [("PAID", "B-1")] * 3
    repeated = await apply(db, statement(line, form="camt.053.001.02"))
    assert (repeated.sent, repeated.repeated, repeated.in_inbox) == (0, 3, 0)
    result = await apply(db, statement(entry(sent_payouts[0].id, credit=True, ref="B-2")))
    assert result.returned == 1
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_second_booking_of_a_whole_file_adds_each_payout_to_the_inbox(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 2)
    line = run_booking(await _find_run_id(db, sent_payouts[0]), "200.00")
    result = await apply(db, statement(line, line))
    assert (result.lines, result.sent, result.in_inbox) == (2, 2, 1)
    assert (
        await read_inbox(db)
        == [("double in report", "100.00 EUR PAID", "100.00 EUR debit, B-1")] * 2
    )


OTHER_BOOKINGS = (
    # sum      number  fields                                                    kind of difference
    ("299.99", "", {}, "different"),
    ("300.00", "2", {}, "different"),
    ("300.00", "three", {}, "different"),
    ("300.00", "", {"side": "CRDT"}, "different"),
    ("300.00", "", {"payment": "run-01m7y0m0jzefzv5n8efcf1hqw5-1"}, "missing in ledger"),
    ("300.00", "", {"payment": "SALARIES-1"}, "missing in ledger"),
)


@pytest.mark.parametrize(("amount", "payments", "fields", "discrepancy"), OTHER_BOOKINGS)
async def test_a_booking_that_differs_from_the_file_goes_to_the_inbox(
    db: Db, amount: str, payments: str, fields: dict[str, str], discrepancy: str
) -> None:
    sent_payouts = await create_sent_payouts(db)
    line = run_booking(await _find_run_id(db, sent_payouts[0]), amount, payments, **fields)
    result = await apply(db, statement(line))
    assert (result.sent, result.in_inbox) == (0, 1)
    assert await read_results(db, sent_payouts) == [("PENDING", "")] * 3
    ((what, ours, _),) = await read_inbox(db)
    assert what == discrepancy
    assert ours == ("3 payouts, 300.00 EUR, SENT" if what == "different" else "")


async def test_a_booking_of_a_whole_file_adds_a_failed_payout_to_the_inbox(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db)
    await db.run(lambda tx: payouts.fail(tx, sent_payouts[1].id, "stopped", "ann", NOW))
    line = run_booking(await _find_run_id(db, sent_payouts[0]), "300.00")
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.in_inbox) == (1, 2, 1)
    assert await read_inbox(db) == [("different", "100.00 EUR FAILED", "100.00 EUR debit, B-1")]


async def test_an_interrupted_booking_of_a_whole_file_continues(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db)
    content = statement(run_booking(await _find_run_id(db, sent_payouts[0]), "300.00"))
    # The process is killed after the first payout, then after the second.
    for last in (2, 3):
        with pytest.raises(Killed):
            await apply(DyingDatabase(db, last, committed=True), content)
    assert {status for status, _ in await read_results(db, sent_payouts)} == {"PENDING", "PAID"}
    result = await apply(db, content)
    assert (result.sent + result.repeated, result.in_inbox) == (3, 0)
    assert await read_results(db, sent_payouts) == [("PAID", "B-1")] * 3
