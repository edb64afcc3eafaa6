"""The bank's report: a line that matches a payout ends it, any other goes to the inbox."""

import asyncio
import io
import zipfile
from decimal import Decimal

import pytest

from opentill import approvals, ledger, merchants, onboarding, payouts, reconciliation
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.integrity.rules import check_books
from opentill.merchants import Actor, standing
from opentill.reconciliation import BankResult, camt
from support.payout_runs import BOB, DyingDatabase, Killed, complete_run, create_payee, download_run
from support.world import NOW, new_reference

CSV = "end_to_end_id,status,amount,currency,bank_reference,reason\r\n"
HEAD = '<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:{0}"><{1}><{2}>'


def entry(
    end_to_end: str, amount: str = "100.00", *, credit: bool = False, ref: str = "", **fields: str
) -> str:
    """Write an entry of a statement with one transaction."""
    side = "CRDT" if credit else "DBIT"
    reason = "<RtrInf><Rsn><Cd>AC04</Cd></Rsn><AddtlInf>closed</AddtlInf></RtrInf>"
    amount_element = f'<Amt Ccy="{fields.get("currency", "EUR")}">{amount}</Amt>'
    return (
        f"<Ntry>{amount_element}<CdtDbtInd>{side}</CdtDbtInd>"
        f"<Sts><Cd>{fields.get('status', 'BOOK')}</Cd></Sts>"
        f"<AcctSvcrRef>{ref}</AcctSvcrRef><NtryDtls><TxDtls><Refs><EndToEndId>{end_to_end}"
        f"</EndToEndId></Refs>{amount_element}{reason if credit else ''}</TxDtls></NtryDtls></Ntry>"
    )


def statement(*entries: str, form: str = "camt.053.001.08") -> bytes:
    """Write a camt.053."""
    head = HEAD.format(form, "BkToCstmrStmt", "Stmt")
    return f"{head}{''.join(entries)}</Stmt></BkToCstmrStmt></Document>".encode()


async def apply(
    db: Db,
    content: bytes,
    name: str = "statement.xml",
    above: Decimal | None = None,
    actor: Actor = BOB,
) -> BankResult:
    """Read a report like the operator, with a limit above which a second person must approve."""
    file, rules = io.BytesIO(content), approvals.Rules(above, True, frozenset())
    return await reconciliation.apply_bank_report(db, file, name, actor, NOW + 10, rules=rules)


async def _create_sent_payouts(db: Db, number: int = 3) -> list[payouts.Payout]:
    shops = [await db.run(create_payee) for _ in range(number)]
    view = await complete_run(db, new_reference())
    await download_run(db, view.run.id)
    return [(await db.read(lambda tx, s=shop: payouts.search(tx, s.id)))[0] for shop in shops]


async def _read_results(db: Db, sent_payouts: list[payouts.Payout]) -> list[tuple[str, str]]:
    """Return the status of each payout, and the bank's reference or the failure reason."""
    rows = await db.read(lambda tx: payouts.find_many(tx, [payout.id for payout in sent_payouts]))
    by_id = {row.id: (row.status, row.bank_reference or row.failure_reason) for row in rows}
    return [by_id[payout.id] for payout in sent_payouts]


async def _read_inbox(db: Db) -> list[tuple[str, str, str]]:
    rows = await db.read(lambda tx: reconciliation.list_differences(tx, limit=1000))
    return [(row.what, row.ours, row.theirs) for row in rows]


async def test_a_statement_ends_payouts(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db)
    content = statement(
        entry(sent_payouts[0].id, ref="B-1"),
        entry(sent_payouts[1].id.replace("_", " ").upper(), credit=True, ref="B-2"),
        entry(sent_payouts[2].id, status="PDNG"),
    )
    result = await apply(db, content)
    assert (result.sent, result.returned, result.repeated, result.in_inbox) == (1, 1, 0, 0)
    assert await _read_results(db, sent_payouts) == [
        ("PAID", "B-1"),
        ("FAILED", "AC04 closed (bank reference B-2)"),
        ("PENDING", ""),
    ]
    repeated = await apply(db, content, "other.xml")
    assert (repeated.is_new, repeated.sent, repeated.file_id) == (False, 0, result.file_id)
    # The same booking in another file changes nothing.
    other = await apply(db, statement(entry(sent_payouts[0].id, ref="B-1"), form="camt.053.001.02"))
    assert (other.is_new, other.repeated, other.in_inbox) == (True, 1, 0)
    rows = await db.read(lambda tx: merchants.audit_log(tx, limit=10))
    assert [row.action for row in rows][:2] == ["payouts report", "payouts failed"]
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


MISMATCHES = (
    # entry about a pending payout of 100.00                              kind of difference
    (lambda id_: entry(id_, "99.99"), "different"),
    (lambda id_: entry(id_, "100.00", currency="USD"), "different"),
    (lambda id_: entry(id_, "1e2"), "different"),
    (lambda _: entry("NOTPROVIDED"), "missing in ledger"),
    (lambda _: entry("po_01m7y0m0jzefzv5n8efcf1hqw5"), "missing in ledger"),
)


@pytest.mark.parametrize(("create_line", "discrepancy"), MISMATCHES)
async def test_a_line_that_matches_no_payout_moves_nothing(
    db: Db, create_line, discrepancy
) -> None:
    sent_payouts = await _create_sent_payouts(db, 1)
    result = await apply(db, statement(create_line(sent_payouts[0].id)))
    assert (result.sent, result.returned, result.in_inbox) == (0, 0, 1)
    assert await _read_results(db, sent_payouts) == [("PENDING", "")]
    assert [what for what, _, _ in await _read_inbox(db)] == [discrepancy]


UNRELATED = (
    entry("RENT-2026-11", "1250.00", ref="B-8"),
    entry("NOTPROVIDED", "3.50", ref="B-9"),
    entry("PO-2026-17", "80.00"),
    entry("", "12.00").replace("DBIT", "CRDT"),
)
RELATED = (
    entry("po_01m7y0m0jzefzv5n8efcf1hqw5", "80.00"),  # the id has OpenTill's form, but is unknown
    entry("po_01m7y0m0jzefzv5n8efcf1", "80.00"),  # the bank has truncated the id
    entry("RENT-2026-11", "100.00"),  # a pending payout has this amount
    entry("", "80.00", credit=True),  # a credit may be a returned payment
    entry("", "80.00").replace("<Sts>", "<RvslInd>true</RvslInd><Sts>"),
    entry("", "1e2"),
)


async def test_bookings_that_concern_no_payout_need_no_attention(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 1)
    content = statement(*UNRELATED, entry(sent_payouts[0].id))
    result = await apply(db, content)
    assert (result.lines, result.sent, result.in_inbox, result.unrelated) == (
        5,
        1,
        0,
        len(UNRELATED),
    )
    assert (await _read_inbox(db), await db.read(reconciliation.count_open)) == ([], 0)
    bookings = await db.read(reconciliation.list_bookings)
    assert sorted(booking.theirs for booking in bookings) == [
        "12.00 EUR credit", "1250.00 EUR debit, B-8", "3.50 EUR debit, B-9", "80.00 EUR debit",
    ]  # fmt: skip
    assert await db.read(lambda tx: reconciliation.list_differences(tx, resolved=True)) == []
    repeated = await apply(db, content)
    assert (repeated.is_new, repeated.in_inbox, repeated.unrelated) == (False, 0, len(UNRELATED))
    await apply(db, statement(UNRELATED[0]))  # this other file contains the same booking
    assert len(await db.read(reconciliation.list_bookings)) == len(UNRELATED)


@pytest.mark.parametrize("line", RELATED, ids=map(str, range(len(RELATED))))
async def test_a_line_that_may_concern_a_payout_goes_to_the_inbox(db: Db, line: str) -> None:
    sent_payouts = await _create_sent_payouts(db, 1)
    result = await apply(db, statement(line))
    assert (result.sent, result.in_inbox, result.unrelated) == (0, 1, 0)
    assert await _read_results(db, sent_payouts) == [("PENDING", "")]
    assert len(await _read_inbox(db)) == 1


async def test_a_second_debit_goes_to_the_inbox(db: Db) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    result = await apply(db, statement(entry(sent_payout.id, ref="B-3")))
    assert (result.sent, result.in_inbox) == (0, 1)
    assert await _read_results(db, [sent_payout]) == [("PAID", "B-1")]
    assert await _read_inbox(db) == [
        ("double in report", "100.00 EUR PAID", "100.00 EUR debit, B-3")
    ]


async def _available(db: Db, payout: payouts.Payout) -> int:
    balance = await db.read(lambda tx: ledger.find_balance(tx, payout.merchant_id, payout.currency))
    assert balance is not None
    return balance.available


async def test_a_return_of_a_paid_payout_counts_once(db: Db) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
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
    assert await _read_inbox(db) == [
        ("different", "100.00 EUR FAILED", "100.00 EUR debit, B-3"),
        ("different", "100.00 EUR FAILED", "100.00 EUR credit, B-4"),
    ]
    assert await _available(db, sent_payout) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_statement_has_a_payout_and_its_return(db: Db, newest_first: bool) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
    lines = [entry(sent_payout.id, ref="B-1"), entry(sent_payout.id, credit=True, ref="B-2")]
    result = await apply(db, statement(*(reversed(lines) if newest_first else lines)))
    assert (result.sent, result.returned, result.in_inbox) == (1, 1, 0)
    assert await _read_results(db, [sent_payout]) == [("FAILED", "B-1")]
    assert await _available(db, sent_payout) == 10_000


async def test_concurrent_reports_of_a_return_count_once(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 4)
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
    (sent_payout,) = await _create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    booked = entry(sent_payout.id, "95.00", credit=True, ref="B-2")
    amount = '<Amt Ccy="EUR">95.00</Amt></TxDtls>'
    instructed = '<AmtDtls><InstdAmt><Amt Ccy="EUR">100.00</Amt></InstdAmt></AmtDtls></TxDtls>'
    for line in (booked, booked.replace(amount, instructed)):
        assert (await apply(db, statement(line))).returned == 0
    assert await _read_results(db, [sent_payout]) == [("PAID", "B-1")]
    assert await _read_inbox(db) == [("different", "100.00 EUR PAID", "95.00 EUR credit, B-2")]


async def test_a_reversal_of_a_credit_sends_no_payout(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 2)
    await apply(db, statement(entry(sent_payouts[0].id, credit=True, ref="B-1")))
    reversals = [
        entry(payout.id, ref="B-2").replace("<Sts>", "<RvslInd>true</RvslInd><Sts>")
        for payout in sent_payouts
    ]
    result = await apply(db, statement(*reversals))
    assert (result.sent, result.in_inbox) == (0, 2)
    assert [status for status, _ in await _read_results(db, sent_payouts)] == ["FAILED", "PENDING"]


async def test_a_return_without_a_text_has_the_meaning_of_its_code(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 2)
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
    assert await _read_results(db, sent_payouts) == [
        ("FAILED", "AC04 account closed (bank reference B-2)"),
        ("FAILED", "AM05 sent twice"),
    ]


async def test_a_return_for_a_closed_merchant_is_recorded(db: Db) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    await db.run(
        lambda tx: standing.change_status(tx, sent_payout.merchant_id, "suspended", BOB, NOW)
    )
    await db.run(lambda tx: onboarding.close(tx, sent_payout.merchant_id, BOB, NOW))
    assert (await apply(db, statement(entry(sent_payout.id, credit=True, ref="B-2")))).returned == 1
    assert await _available(db, sent_payout) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_concurrent_reports_end_each_payout_once(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 8)
    lines = [
        entry(payout.id, credit=bool(number % 2), ref=f"B-{number}")
        for number, payout in enumerate(sent_payouts)
    ]
    files = [statement(*lines), statement(*lines), statement(*lines, form="camt.053.001.02")]
    results = await asyncio.gather(*(apply(db, file) for file in files))
    assert sum(result.sent for result in results) == 4
    assert sum(result.returned for result in results) == 4
    assert [result.in_inbox for result in results] == [0, 0, 0]
    assert {status for status, _ in await _read_results(db, sent_payouts)} == {"PAID", "FAILED"}
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_only_the_credit_by_which_a_payout_failed_is_a_repetition(db: Db) -> None:
    returned, failed, unnamed = sent_payouts = await _create_sent_payouts(db, 3)
    await apply(
        db, statement(entry(returned.id, credit=True, ref="B-1"), entry(unnamed.id, credit=True))
    )
    await db.run(lambda tx: payouts.fail(tx, failed.id, "wrong name", "ann", NOW))
    assert await _read_results(db, sent_payouts) == [
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
    assert await _read_inbox(db) == [
        ("different", ours, f"{theirs}, B-2"),
        ("double in report", ours, theirs),
        ("different", ours, f"{theirs}, B-3"),
        ("double in report", ours, f"{theirs}, B-3, no. 2"),
    ]


@pytest.mark.parametrize("name", ["", "NOTPROVIDED"])
async def test_a_line_without_references_is_a_separate_one_in_each_file(db: Db, name: str) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
    today = statement(entry(name))
    assert (await apply(db, today)).in_inbox == 1
    (difference,) = await db.read(reconciliation.list_differences)
    await db.run(lambda tx: reconciliation.resolve(tx, difference.id, BOB, NOW))
    assert (await apply(db, today)).is_new is False
    assert await _read_inbox(db) == []
    later = await apply(db, statement(entry(name), entry(sent_payout.id)))
    assert later.in_inbox == 1
    assert await _read_inbox(db) == [("missing in ledger", "", "100.00 EUR debit")]
    (difference,) = await db.read(reconciliation.list_differences)
    assert difference.reference == f"{name} line 1 of {later.file_id}".strip()


async def test_equal_lines_of_a_file_are_separate_differences(db: Db) -> None:
    (sent_payout,) = await _create_sent_payouts(db, 1)
    rent, payout = entry("RENT", ref="R-1"), entry(sent_payout.id)
    content = statement(rent, payout, payout, rent, payout, rent)
    with pytest.raises(Killed):
        await apply(DyingDatabase(db, 5, committed=True), content)
    for file in (content, statement(rent, rent)):  # the second file contains the same lines
        await apply(db, file)
        assert sorted(await _read_inbox(db)) == [
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit"),
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 3"),
        ]


@pytest.mark.parametrize("last", range(1, 5))
@pytest.mark.parametrize("committed", [False, True])
async def test_an_interrupted_report_continues(db: Db, last: int, committed: bool) -> None:
    sent_payouts = await _create_sent_payouts(db, 2)
    content = statement(
        entry(sent_payouts[0].id, ref="B-1"), entry(sent_payouts[1].id, credit=True)
    )
    with pytest.raises(Killed):
        await apply(DyingDatabase(db, last, committed=committed), content)
    result = await apply(db, content)
    assert result.lines == 2
    assert (await _read_results(db, sent_payouts))[0] == ("PAID", "B-1")
    assert (await _read_results(db, sent_payouts))[1] == ("FAILED", "AC04 closed")
    assert await _read_inbox(db) == []
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_csv_report_ends_payouts(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 2)
    first, second = (payout.id for payout in sent_payouts)
    rows = f"{first},paid,100.00,EUR,B-7,\r\n{second},failed,100.00,EUR,,no such account\r\n"
    result = await apply(db, (CSV + rows).encode())
    assert (result.sent, result.returned) == (1, 1)
    assert await _read_results(db, sent_payouts) == [("PAID", "B-7"), ("FAILED", "no such account")]


def test_an_entry_has_an_amount_for_each_transaction() -> None:
    def details(number: int, amount: str) -> str:
        return (
            f"<TxDtls><Refs><EndToEndId>E{number}</EndToEndId></Refs>"
            f'<AmtDtls><TxAmt><Amt Ccy="EUR">{amount}</Amt></TxAmt></AmtDtls></TxDtls>'
        )

    batch = (
        '<Ntry><Amt Ccy="EUR">3.50</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts>'
        f"<AcctSvcrRef>R</AcctSvcrRef><NtryDtls>{details(1, '1.00')}{details(2, '2.50')}"
        "<TxDtls><Refs><EndToEndId>E3</EndToEndId></Refs></TxDtls></NtryDtls></Ntry>"
    )
    single = '<Ntry><Amt Ccy="EUR">4.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts></Ntry>'
    rows = [
        (line.end_to_end, line.kind, line.amount_minor, line.bank_reference)
        for line in camt.read(io.BytesIO(statement(batch, single)))
    ]
    assert rows == [
        ("E1", "sent", 100, "R"), ("E2", "sent", 250, "R"), ("E3", "sent", None, "R"),
        ("", "returned", 400, ""),
    ]  # fmt: skip


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
    sent_payouts = await _create_sent_payouts(db)
    run_id = await _find_run_id(db, sent_payouts[0])
    line = run_booking(run_id, "300.00", payments)
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.in_inbox) == (1, 3, 0)
    assert await _read_results(db, sent_payouts) == [("PAID", "B-1")] * 3
    repeated = await apply(db, statement(line, form="camt.053.001.02"))
    assert (repeated.sent, repeated.repeated, repeated.in_inbox) == (0, 3, 0)
    result = await apply(db, statement(entry(sent_payouts[0].id, credit=True, ref="B-2")))
    assert result.returned == 1
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_second_booking_of_a_whole_file_adds_each_payout_to_the_inbox(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db, 2)
    line = run_booking(await _find_run_id(db, sent_payouts[0]), "200.00")
    result = await apply(db, statement(line, line))
    assert (result.lines, result.sent, result.in_inbox) == (2, 2, 1)
    assert (
        await _read_inbox(db)
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
    sent_payouts = await _create_sent_payouts(db)
    line = run_booking(await _find_run_id(db, sent_payouts[0]), amount, payments, **fields)
    result = await apply(db, statement(line))
    assert (result.sent, result.in_inbox) == (0, 1)
    assert await _read_results(db, sent_payouts) == [("PENDING", "")] * 3
    ((what, ours, _),) = await _read_inbox(db)
    assert what == discrepancy
    assert ours == ("3 payouts, 300.00 EUR, SENT" if what == "different" else "")


async def test_a_booking_of_a_whole_file_adds_a_failed_payout_to_the_inbox(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db)
    await db.run(lambda tx: payouts.fail(tx, sent_payouts[1].id, "stopped", "ann", NOW))
    line = run_booking(await _find_run_id(db, sent_payouts[0]), "300.00")
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.in_inbox) == (1, 2, 1)
    assert await _read_inbox(db) == [("different", "100.00 EUR FAILED", "100.00 EUR debit, B-1")]


async def test_an_interrupted_booking_of_a_whole_file_continues(db: Db) -> None:
    sent_payouts = await _create_sent_payouts(db)
    content = statement(run_booking(await _find_run_id(db, sent_payouts[0]), "300.00"))
    # The process is killed after the first payout, then after the second.
    for last in (2, 3):
        with pytest.raises(Killed):
            await apply(DyingDatabase(db, last, committed=True), content)
    assert {status for status, _ in await _read_results(db, sent_payouts)} == {"PENDING", "PAID"}
    result = await apply(db, content)
    assert (result.sent + result.repeated, result.in_inbox) == (3, 0)
    assert await _read_results(db, sent_payouts) == [("PAID", "B-1")] * 3


BOMB = (
    '<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><Document>&b;'
    "</Document>"
)
EXTERNAL = '<!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]><Document>&a;</Document>'


def zip_files(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Put files into a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return target.getvalue()


def _mark_as_encrypted(archive: bytes) -> bytes:
    """Set the flag of an encrypted file in both headers of an archive's file."""
    local, central = archive.index(b"PK\3\4"), archive.index(b"PK\1\2")
    changed = bytearray(archive)
    changed[local + 6] |= 1
    changed[central + 8] |= 1
    return bytes(changed)


def _wrap_in_envelope(document: bytes) -> bytes:
    """Put a document and its business application header into an envelope, like banks do."""
    header = b'<AppHdr xmlns="urn:iso:std:iso:20022:tech:xsd:head.001.001.02"><BizMsgIdr/></AppHdr>'
    return b"<Envelope>" + header + document.partition(b"?>")[2] + b"</Envelope>"


FORMATS = {
    "zip": lambda content: zip_files(("__MACOSX/._s.xml", b"x"), ("a/s.xml", content)),
    "stored": lambda content: zip_files(("s.xml", content), method=zipfile.ZIP_STORED),
    "utf-16": lambda content: content.decode().encode("utf-16"),
    "utf-16 in a zip": lambda content: zip_files(("s.xml", content.decode().encode("utf-16"))),
    "iso-8859-1": lambda content: content.replace(b"?>", b' encoding="iso-8859-1"?>', 1),
    "envelope": _wrap_in_envelope,
}


@pytest.mark.parametrize("name", FORMATS)
async def test_a_statement_is_read_in_the_formats_of_banks(db: Db, name: str) -> None:
    sent_payouts = await _create_sent_payouts(db, 1)
    result = await apply(db, FORMATS[name](statement(entry(sent_payouts[0].id))))
    assert (result.lines, result.sent, result.in_inbox) == (1, 1, 0)
    assert await _read_results(db, sent_payouts) == [("PAID", sent_payouts[0].id)]


HOSTILE: tuple[tuple[bytes, str], ...] = (
    (BOMB.encode(), "DOCTYPE"),
    (EXTERNAL.encode(), "DOCTYPE"),
    (b"<a>" * 10_000, "nested"),
    (b"<Document><BkToCstmrStmt>", "well-formed"),
    (b"<html><body/></html>", "camt.052, camt.053 or camt.054"),
    (statement(entry("x" * 5_000)), "at most 4096"),
    (statement(entry("E1").replace("DBIT", "")), "CdtDbtInd must be CRDT or DBIT"),
    (statement(entry("E1").replace("DBIT", "crdt")), "CdtDbtInd must be CRDT or DBIT"),
    (b"", "camt XML, or CSV with the columns"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b'<?xml version="1.0" encoding="gb18030"?><a/>', "UTF-8, UTF-16 or ISO-8859-1"),
    (b'<?xml version="1.0" encoding="none"?><a/>', "UTF-8, UTF-16 or ISO-8859-1"),
    (b"\xff\xfe" + "<a>\ud800".encode("utf-16-le", "surrogatepass"), "well-formed"),
    (zip_files(), "exactly one file"),
    (zip_files(("a.xml", b"<a/>"), ("b.xml", b"<b/>")), "'a.xml', 'b.xml'"),
    (zip_files(("a.xml", statement() + b" " * 30_000_000)), "larger than can be read"),
    (zip_files(("a.xml", BOMB.encode())), "DOCTYPE"),
    (zip_files(("a.zip", zip_files(("a.xml", b"<a/>")))), "camt XML, or CSV|UTF-8"),
    (zip_files(("a.xml", b"<a/>"))[:-30], "cannot be unpacked"),
    (_mark_as_encrypted(zip_files(("a.xml", b"<a/>"))), "encrypted"),
    (b"PK\3\4 and nothing else", "cannot be unpacked"),
    (b"a" * 300_000, "fewer than"),
    ((CSV + "po_1,paid,1.00\r\n").encode(), "must have 6 cells"),
    ((CSV + "po_1,gone,1.00,EUR,,\r\n").encode(), "status must be one of"),
    ((CSV + "po_1,paid,1.001,EUR,,\r\n").encode(), "amount and currency"),
)


@pytest.mark.parametrize(("content", "reason"), HOSTILE, ids=map(str, range(len(HOSTILE))))
async def test_a_hostile_file_is_refused_and_changes_nothing(
    db: Db, content: bytes, reason: str
) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        await apply(db, content)
    assert refused.value.field == "file"
    assert await db.read(reconciliation.list_files) == []
