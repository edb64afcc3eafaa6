"""The bank's report: what fits a payout ends it, and everything else waits in the inbox."""

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
from support.payout_runs import BOB, Dying, Killed, payee, taken, whole
from support.world import NOW, fresh

CSV = "end_to_end_id,status,amount,currency,bank_reference,reason\r\n"
HEAD = '<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:{0}"><{1}><{2}>'


def entry(
    end_to_end: str, amount: str = "100.00", *, credit: bool = False, ref: str = "", **more: str
) -> str:
    """Write an entry of a statement with one transaction."""
    side = "CRDT" if credit else "DBIT"
    returned = "<RtrInf><Rsn><Cd>AC04</Cd></Rsn><AddtlInf>closed</AddtlInf></RtrInf>"
    own = f'<Amt Ccy="{more.get("currency", "EUR")}">{amount}</Amt>'
    return (
        f"<Ntry>{own}<CdtDbtInd>{side}</CdtDbtInd><Sts><Cd>{more.get('status', 'BOOK')}</Cd></Sts>"
        f"<AcctSvcrRef>{ref}</AcctSvcrRef><NtryDtls><TxDtls><Refs><EndToEndId>{end_to_end}"
        f"</EndToEndId></Refs>{own}{returned if credit else ''}</TxDtls></NtryDtls></Ntry>"
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
    """Read a report as the operator does, with a limit above which a second person approves."""
    file, rules = io.BytesIO(content), approvals.Rules(above, True, frozenset())
    return await reconciliation.apply_bank_report(db, file, name, actor, NOW + 10, rules=rules)


async def _sent(db: Db, number: int = 3) -> list[payouts.Payout]:
    shops = [await db.run(payee) for _ in range(number)]
    view = await whole(db, fresh())
    await taken(db, view.run.id)
    return [(await db.read(lambda tx, s=shop: payouts.search(tx, s.id)))[0] for shop in shops]


async def _now(db: Db, sent: list[payouts.Payout]) -> list[tuple[str, str]]:
    found = await db.read(lambda tx: payouts.find_many(tx, [one.id for one in sent]))
    by_id = {one.id: (one.status, one.bank_reference or one.failure_reason) for one in found}
    return [by_id[one.id] for one in sent]


async def _inbox(db: Db) -> list[tuple[str, str, str]]:
    found = await db.read(lambda tx: reconciliation.list_differences(tx, limit=1000))
    return [(one.what, one.ours, one.theirs) for one in found]


async def test_a_statement_ends_payouts(db: Db) -> None:
    sent = await _sent(db)
    content = statement(
        entry(sent[0].id, ref="B-1"),
        entry(sent[1].id.replace("_", " ").upper(), credit=True, ref="B-2"),
        entry(sent[2].id, status="PDNG"),
    )
    result = await apply(db, content)
    assert (result.sent, result.returned, result.known, result.found) == (1, 1, 0, 0)
    assert await _now(db, sent) == [
        ("PAID", "B-1"),
        ("FAILED", "AC04 closed (bank reference B-2)"),
        ("PENDING", ""),
    ]
    again = await apply(db, content, "other.xml")
    assert (again.is_new, again.sent, again.file_id) == (False, 0, result.file_id)
    # A notification of the same booking in another file says nothing new.
    other = await apply(db, statement(entry(sent[0].id, ref="B-1"), form="camt.053.001.02"))
    assert (other.is_new, other.known, other.found) == (True, 1, 0)
    rows = await db.read(lambda tx: merchants.audit_log(tx, limit=10))
    assert [row.action for row in rows][:2] == ["payouts report", "payouts failed"]
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


WRONG = (
    # what the bank says of a payout of 100.00 that waits           what, and what it leaves
    (lambda one: entry(one, "99.99"), "different"),
    (lambda one: entry(one, "100.00", currency="USD"), "different"),
    (lambda one: entry(one, "1e2"), "different"),
    (lambda _: entry("NOTPROVIDED"), "missing in ledger"),
    (lambda _: entry("po_01m7y0m0jzefzv5n8efcf1hqw5"), "missing in ledger"),
)


@pytest.mark.parametrize(("line", "what"), WRONG)
async def test_what_does_not_fit_moves_nothing(db: Db, line, what) -> None:
    sent = await _sent(db, 1)
    result = await apply(db, statement(line(sent[0].id)))
    assert (result.sent, result.returned, result.found) == (0, 0, 1)
    assert await _now(db, sent) == [("PENDING", "")]
    assert [found for found, _, _ in await _inbox(db)] == [what]


OTHERS = (
    entry("RENT-2026-11", "1250.00", ref="B-8"),
    entry("NOTPROVIDED", "3.50", ref="B-9"),
    entry("PO-2026-17", "80.00"),
    entry("", "12.00").replace("DBIT", "CRDT"),
)
CONCERNED = (
    entry("po_01m7y0m0jzefzv5n8efcf1hqw5", "80.00"),  # an id of ours that nobody has
    entry("po_01m7y0m0jzefzv5n8efcf1", "80.00"),  # one that the bank has cut
    entry("RENT-2026-11", "100.00"),  # the amount of a payout that waits
    entry("", "80.00", credit=True),  # something came back
    entry("", "80.00").replace("<Sts>", "<RvslInd>true</RvslInd><Sts>"),
    entry("", "1e2"),
)


async def test_bookings_that_concern_no_payout_wait_for_nobody(db: Db) -> None:
    sent = await _sent(db, 1)
    content = statement(*OTHERS, entry(sent[0].id))
    result = await apply(db, content)
    assert (result.lines, result.sent, result.found, result.other) == (5, 1, 0, len(OTHERS))
    assert (await _inbox(db), await db.read(reconciliation.count_open)) == ([], 0)
    bookings = await db.read(reconciliation.list_bookings)
    assert sorted(booking.theirs for booking in bookings) == [
        "12.00 EUR credit", "1250.00 EUR debit, B-8", "3.50 EUR debit, B-9", "80.00 EUR debit",
    ]  # fmt: skip
    assert await db.read(lambda tx: reconciliation.list_differences(tx, resolved=True)) == []
    again = await apply(db, content)
    assert (again.is_new, again.found, again.other) == (False, 0, len(OTHERS))
    await apply(db, statement(OTHERS[0]))  # the same booking in another file
    assert len(await db.read(reconciliation.list_bookings)) == len(OTHERS)


@pytest.mark.parametrize("line", CONCERNED, ids=map(str, range(len(CONCERNED))))
async def test_a_line_that_may_concern_a_payout_waits_for_a_person(db: Db, line: str) -> None:
    sent = await _sent(db, 1)
    result = await apply(db, statement(line))
    assert (result.sent, result.found, result.other) == (0, 1, 0)
    assert await _now(db, sent) == [("PENDING", "")]
    assert len(await _inbox(db)) == 1


async def test_a_second_debit_is_for_a_person(db: Db) -> None:
    (sent,) = await _sent(db, 1)
    await apply(db, statement(entry(sent.id, ref="B-1")))
    result = await apply(db, statement(entry(sent.id, ref="B-3")))
    assert (result.sent, result.found) == (0, 1)
    assert await _now(db, [sent]) == [("PAID", "B-1")]
    assert await _inbox(db) == [("double in report", "100.00 EUR PAID", "100.00 EUR debit, B-3")]


async def _available(db: Db, payout: payouts.Payout) -> int:
    balance = await db.read(lambda tx: ledger.find_balance(tx, payout.merchant_id, payout.currency))
    assert balance is not None
    return balance.available


async def test_a_payout_that_the_bank_returns_after_it_was_paid_comes_back_once(db: Db) -> None:
    (sent,) = await _sent(db, 1)
    debit, credit = entry(sent.id, ref="B-1"), entry(sent.id, credit=True, ref="B-2")
    assert (await apply(db, statement(debit))).sent == 1
    assert await _available(db, sent) == 0
    result = await apply(db, statement(credit))
    assert (result.returned, result.found) == (1, 0)
    (payout,) = await db.read(lambda tx: payouts.find_many(tx, [sent.id]))
    assert (payout.status, payout.bank_reference, payout.is_returned) == ("FAILED", "B-1", True)
    assert payout.failure_reason == "AC04 closed (bank reference B-2)"
    assert await _available(db, sent) == 10_000
    # The statement of the day, and the one of the month, in either order.
    for lines in ((debit, credit), (credit, debit)):
        again = await apply(db, statement(*lines))
        assert (again.sent, again.returned, again.known, again.found) == (0, 0, 2, 0)
    other = await apply(
        db, statement(entry(sent.id, ref="B-3"), entry(sent.id, credit=True, ref="B-4"))
    )
    assert (other.returned, other.found) == (0, 2)
    assert await _inbox(db) == [
        ("different", "100.00 EUR FAILED", "100.00 EUR debit, B-3"),
        ("different", "100.00 EUR FAILED", "100.00 EUR credit, B-4"),
    ]
    assert await _available(db, sent) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_statement_of_a_payout_that_went_out_and_came_back(
    db: Db, newest_first: bool
) -> None:
    (sent,) = await _sent(db, 1)
    lines = [entry(sent.id, ref="B-1"), entry(sent.id, credit=True, ref="B-2")]
    result = await apply(db, statement(*(reversed(lines) if newest_first else lines)))
    assert (result.sent, result.returned, result.found) == (1, 1, 0)
    assert await _now(db, [sent]) == [("FAILED", "B-1")]
    assert await _available(db, sent) == 10_000


async def test_reports_of_a_return_that_are_read_at_once_return_it_once(db: Db) -> None:
    sent = await _sent(db, 4)
    await apply(db, statement(*(entry(one.id, ref="B-1") for one in sent)))
    lines = [entry(one.id, credit=True, ref="R-1") for one in sent]
    files = [statement(*lines, form=form) for form in ("camt.053.001.02", "camt.053.001.08")]
    files.append((CSV + "".join(f"{one.id},failed,100.00,EUR,R-1,x\r\n" for one in sent)).encode())
    results = await asyncio.gather(*(apply(db, file) for file in files))
    assert sum(one.returned for one in results) == 4
    assert sum(one.known for one in results) == 8
    assert [await _available(db, one) for one in sent] == [10_000] * 4
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_return_of_less_than_was_sent_is_for_a_person(db: Db) -> None:
    (sent,) = await _sent(db, 1)
    await apply(db, statement(entry(sent.id, ref="B-1")))
    booked = entry(sent.id, "95.00", credit=True, ref="B-2")
    own = '<Amt Ccy="EUR">95.00</Amt></TxDtls>'
    asked = '<AmtDtls><InstdAmt><Amt Ccy="EUR">100.00</Amt></InstdAmt></AmtDtls></TxDtls>'
    for line in (booked, booked.replace(own, asked)):
        assert (await apply(db, statement(line))).returned == 0
    assert await _now(db, [sent]) == [("PAID", "B-1")]
    assert await _inbox(db) == [("different", "100.00 EUR PAID", "95.00 EUR credit, B-2")]


async def test_a_credit_that_the_bank_takes_back_sends_no_payout(db: Db) -> None:
    sent = await _sent(db, 2)
    await apply(db, statement(entry(sent[0].id, credit=True, ref="B-1")))
    reversals = [
        entry(one.id, ref="B-2").replace("<Sts>", "<RvslInd>true</RvslInd><Sts>") for one in sent
    ]
    result = await apply(db, statement(*reversals))
    assert (result.sent, result.found) == (0, 2)
    assert [status for status, _ in await _now(db, sent)] == ["FAILED", "PENDING"]


async def test_a_return_without_words_says_what_its_code_means(db: Db) -> None:
    sent = await _sent(db, 2)
    returns = [
        entry(sent[0].id, credit=True, ref="B-2").replace("<AddtlInf>closed</AddtlInf>", ""),
        entry(sent[1].id, credit=True)
        .replace("<AddtlInf>closed</AddtlInf>", "")
        .replace("AC04", "AM05")
        .replace(f"<EndToEndId>{sent[1].id}<", f"<InstrId>{sent[1].id}</InstrId><EndToEndId><"),
    ]
    assert (await apply(db, statement(*returns))).returned == 2
    assert await _now(db, sent) == [
        ("FAILED", "AC04 account closed (bank reference B-2)"),
        ("FAILED", "AM05 sent twice"),
    ]


async def test_money_that_comes_back_to_a_closed_merchant_is_not_lost(db: Db) -> None:
    (sent,) = await _sent(db, 1)
    await apply(db, statement(entry(sent.id, ref="B-1")))
    await db.run(lambda tx: standing.change_status(tx, sent.merchant_id, "suspended", BOB, NOW))
    await db.run(lambda tx: onboarding.close(tx, sent.merchant_id, BOB, NOW))
    assert (await apply(db, statement(entry(sent.id, credit=True, ref="B-2")))).returned == 1
    assert await _available(db, sent) == 10_000
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_reports_that_are_read_at_once_end_each_payout_once(db: Db) -> None:
    sent = await _sent(db, 8)
    lines = [entry(one.id, credit=bool(at % 2), ref=f"B-{at}") for at, one in enumerate(sent)]
    files = [statement(*lines), statement(*lines), statement(*lines, form="camt.053.001.02")]
    results = await asyncio.gather(*(apply(db, file) for file in files))
    assert sum(one.sent for one in results) == sum(one.returned for one in results) == 4
    assert [one.found for one in results] == [0, 0, 0]
    assert {status for status, _ in await _now(db, sent)} == {"PAID", "FAILED"}
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_only_the_credit_that_a_payout_failed_by_is_known_afterwards(db: Db) -> None:
    back, by_hand, unnamed = sent = await _sent(db, 3)
    await apply(
        db, statement(entry(back.id, credit=True, ref="B-1"), entry(unnamed.id, credit=True))
    )
    await db.run(lambda tx: payouts.fail(tx, by_hand.id, "wrong name", "ann", NOW))
    assert await _now(db, sent) == [
        ("FAILED", "AC04 closed (bank reference B-1)"),
        ("FAILED", "wrong name"),
        ("FAILED", "AC04 closed"),
    ]
    again = f"{back.id},failed,100.00,EUR,B-1,in other words\r\n"
    assert (await apply(db, (CSV + again).encode())).known == 1
    assert (await apply(db, statement(entry(unnamed.id, credit=True)))).known == 1
    others = [
        entry(back.id, credit=True, ref="B-2"),
        entry(back.id, credit=True),
        entry(by_hand.id, credit=True, ref="B-3"),
        entry(by_hand.id, credit=True, ref="B-3"),
    ]
    result = await apply(db, statement(*others))
    assert (result.known, result.found) == (0, 4)
    said = "100.00 EUR FAILED", "100.00 EUR credit"
    assert await _inbox(db) == [
        ("different", said[0], f"{said[1]}, B-2"),
        ("double in report", said[0], said[1]),
        ("different", said[0], f"{said[1]}, B-3"),
        ("double in report", said[0], f"{said[1]}, B-3, no. 2"),
    ]


@pytest.mark.parametrize("name", ["", "NOTPROVIDED"])
async def test_a_line_that_the_bank_does_not_name_is_another_in_each_file(
    db: Db, name: str
) -> None:
    (sent,) = await _sent(db, 1)
    today = statement(entry(name))
    assert (await apply(db, today)).found == 1
    (found,) = await db.read(reconciliation.list_differences)
    await db.run(lambda tx: reconciliation.resolve(tx, found.id, BOB, NOW))
    assert (await apply(db, today)).is_new is False
    assert await _inbox(db) == []
    later = await apply(db, statement(entry(name), entry(sent.id)))
    assert later.found == 1
    assert await _inbox(db) == [("missing in ledger", "", "100.00 EUR debit")]
    (other,) = await db.read(reconciliation.list_differences)
    assert other.reference == f"{name} line 1 of {later.file_id}".strip()


async def test_lines_of_a_file_that_say_the_same_are_as_many_in_the_inbox(db: Db) -> None:
    (sent,) = await _sent(db, 1)
    rent, again = entry("RENT", ref="R-1"), entry(sent.id)
    content = statement(rent, again, again, rent, again, rent)
    with pytest.raises(Killed):
        await apply(Dying(db, 5, committed=True), content)
    for file in (content, statement(rent, rent)):  # another file that says no more
        await apply(db, file)
        assert sorted(await _inbox(db)) == [
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit"),
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 3"),
        ]


@pytest.mark.parametrize("last", range(1, 5))
@pytest.mark.parametrize("committed", [False, True])
async def test_a_report_that_was_cut_off_goes_on(db: Db, last: int, committed: bool) -> None:
    sent = await _sent(db, 2)
    content = statement(entry(sent[0].id, ref="B-1"), entry(sent[1].id, credit=True))
    with pytest.raises(Killed):
        await apply(Dying(db, last, committed=committed), content)
    result = await apply(db, content)
    assert result.lines == 2
    assert (await _now(db, sent))[0] == ("PAID", "B-1")
    assert (await _now(db, sent))[1] == ("FAILED", "AC04 closed")
    assert await _inbox(db) == []
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_report_as_csv(db: Db) -> None:
    sent = await _sent(db, 2)
    rows = (
        f"{sent[0].id},paid,100.00,EUR,B-7,\r\n{sent[1].id},failed,100.00,EUR,,no such account\r\n"
    )
    result = await apply(db, (CSV + rows).encode())
    assert (result.sent, result.returned) == (1, 1)
    assert await _now(db, sent) == [("PAID", "B-7"), ("FAILED", "no such account")]


def test_a_batch_has_the_amount_of_each_transaction() -> None:
    def part(number: int, amount: str) -> str:
        return (
            f"<TxDtls><Refs><EndToEndId>E{number}</EndToEndId></Refs>"
            f'<AmtDtls><TxAmt><Amt Ccy="EUR">{amount}</Amt></TxAmt></AmtDtls></TxDtls>'
        )

    batch = (
        '<Ntry><Amt Ccy="EUR">3.50</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts>'
        f"<AcctSvcrRef>R</AcctSvcrRef><NtryDtls>{part(1, '1.00')}{part(2, '2.50')}"
        "<TxDtls><Refs><EndToEndId>E3</EndToEndId></Refs></TxDtls></NtryDtls></Ntry>"
    )
    alone = '<Ntry><Amt Ccy="EUR">4.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts></Ntry>'
    found = camt.read(io.BytesIO(statement(batch, alone)))
    assert [(one.end_to_end, one.kind, one.amount_minor, one.bank_reference) for one in found] == [
        ("E1", "sent", 100, "R"), ("E2", "sent", 250, "R"), ("E3", "sent", None, "R"),
        ("", "returned", 400, ""),
    ]  # fmt: skip


def whole_file(run_id: str, amount: str, payments: str = "", **more: str) -> str:
    """Write an entry by which the bank books a whole file."""
    number = f"<NbOfTxs>{payments}</NbOfTxs>" if payments else ""
    payment = more.get("payment", f"{run_id.replace('_', '-')}-1")
    return (
        f'<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{more.get("side", "DBIT")}</CdtDbtInd>'
        f"<Sts>BOOK</Sts><AcctSvcrRef>{more.get('ref', 'B-1')}</AcctSvcrRef><NtryDtls><Btch>"
        f"<PmtInfId>{payment}</PmtInfId>{number}</Btch></NtryDtls></Ntry>"
    )


async def _run_of(db: Db, payout: payouts.Payout) -> str:
    async with db.connection() as tx:
        return str(await tx.fetchval(
            "select run_id from payout_transfers where payout_id = $1", payout.id
        ))  # fmt: skip


@pytest.mark.parametrize("payments", ["", "3"])
async def test_a_booking_of_the_whole_file_ends_its_payouts(db: Db, payments: str) -> None:
    sent = await _sent(db)
    run_id = await _run_of(db, sent[0])
    line = whole_file(run_id, "300.00", payments)
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.found) == (1, 3, 0)
    assert await _now(db, sent) == [("PAID", "B-1")] * 3
    again = await apply(db, statement(line, form="camt.053.001.02"))
    assert (again.sent, again.known, again.found) == (0, 3, 0)
    back = await apply(db, statement(entry(sent[0].id, credit=True, ref="B-2")))
    assert back.returned == 1
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


async def test_a_whole_file_that_is_booked_twice_names_each_payout(db: Db) -> None:
    sent = await _sent(db, 2)
    line = whole_file(await _run_of(db, sent[0]), "200.00")
    result = await apply(db, statement(line, line))
    assert (result.lines, result.sent, result.found) == (2, 2, 1)
    assert (
        await _inbox(db) == [("double in report", "100.00 EUR PAID", "100.00 EUR debit, B-1")] * 2
    )


NO_WHOLE_FILE = (
    # sum      number  more                                                      what
    ("299.99", "", {}, "different"),
    ("300.00", "2", {}, "different"),
    ("300.00", "three", {}, "different"),
    ("300.00", "", {"side": "CRDT"}, "different"),
    ("300.00", "", {"payment": "run-01m7y0m0jzefzv5n8efcf1hqw5-1"}, "missing in ledger"),
    ("300.00", "", {"payment": "SALARIES-1"}, "missing in ledger"),
)


@pytest.mark.parametrize(("amount", "payments", "more", "what"), NO_WHOLE_FILE)
async def test_a_booking_that_is_not_the_whole_file_waits_in_the_inbox(
    db: Db, amount: str, payments: str, more: dict[str, str], what: str
) -> None:
    sent = await _sent(db)
    line = whole_file(await _run_of(db, sent[0]), amount, payments, **more)
    result = await apply(db, statement(line))
    assert (result.sent, result.found) == (0, 1)
    assert await _now(db, sent) == [("PENDING", "")] * 3
    ((found, ours, _),) = await _inbox(db)
    assert (found, ours) == (what, "3 payouts, 300.00 EUR, SENT" if what == "different" else "")


async def test_a_payout_that_failed_meanwhile_is_named_beside_the_whole_file(db: Db) -> None:
    sent = await _sent(db)
    await db.run(lambda tx: payouts.fail(tx, sent[1].id, "stopped", "ann", NOW))
    line = whole_file(await _run_of(db, sent[0]), "300.00")
    result = await apply(db, statement(line))
    assert (result.lines, result.sent, result.found) == (1, 2, 1)
    assert await _inbox(db) == [("different", "100.00 EUR FAILED", "100.00 EUR debit, B-1")]


async def test_a_whole_file_that_was_cut_off_goes_on(db: Db) -> None:
    sent = await _sent(db)
    content = statement(whole_file(await _run_of(db, sent[0]), "300.00"))
    for last in (2, 3):  # within its payouts
        with pytest.raises(Killed):
            await apply(Dying(db, last, committed=True), content)
    assert {status for status, _ in await _now(db, sent)} == {"PENDING", "PAID"}
    result = await apply(db, content)
    assert (result.sent + result.known, result.found) == (3, 0)
    assert await _now(db, sent) == [("PAID", "B-1")] * 3


BOMB = (
    '<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><Document>&b;'
    "</Document>"
)
OUTSIDE = '<!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]><Document>&a;</Document>'


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Put files into a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return target.getvalue()


def _encrypted(archive: bytes) -> bytes:
    """Set the flag of an encrypted file in both of its headers."""
    local, central = archive.index(b"PK\3\4"), archive.index(b"PK\1\2")
    changed = bytearray(archive)
    changed[local + 6] |= 1
    changed[central + 8] |= 1
    return bytes(changed)


def _enveloped(document: bytes) -> bytes:
    """Put a document beside its business application header, as banks send it."""
    header = b'<AppHdr xmlns="urn:iso:std:iso:20022:tech:xsd:head.001.001.02"><BizMsgIdr/></AppHdr>'
    return b"<Envelope>" + header + document.partition(b"?>")[2] + b"</Envelope>"


PACKED = {
    "zip": lambda content: zipped(("__MACOSX/._s.xml", b"x"), ("a/s.xml", content)),
    "stored": lambda content: zipped(("s.xml", content), method=zipfile.ZIP_STORED),
    "utf-16": lambda content: content.decode().encode("utf-16"),
    "utf-16 in a zip": lambda content: zipped(("s.xml", content.decode().encode("utf-16"))),
    "iso-8859-1": lambda content: content.replace(b"?>", b' encoding="iso-8859-1"?>', 1),
    "envelope": _enveloped,
}


@pytest.mark.parametrize("form", PACKED)
async def test_a_statement_is_read_as_banks_pack_it(db: Db, form: str) -> None:
    sent = await _sent(db, 1)
    result = await apply(db, PACKED[form](statement(entry(sent[0].id))))
    assert (result.lines, result.sent, result.found) == (1, 1, 0)
    assert await _now(db, sent) == [("PAID", sent[0].id)]


HOSTILE: tuple[tuple[bytes, str], ...] = (
    (BOMB.encode(), "DOCTYPE"),
    (OUTSIDE.encode(), "DOCTYPE"),
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
    (zipped(), "exactly one file"),
    (zipped(("a.xml", b"<a/>"), ("b.xml", b"<b/>")), "'a.xml', 'b.xml'"),
    (zipped(("a.xml", statement() + b" " * 30_000_000)), "larger than can be read"),
    (zipped(("a.xml", BOMB.encode())), "DOCTYPE"),
    (zipped(("a.zip", zipped(("a.xml", b"<a/>")))), "camt XML, or CSV|UTF-8"),
    (zipped(("a.xml", b"<a/>"))[:-30], "cannot be unpacked"),
    (_encrypted(zipped(("a.xml", b"<a/>"))), "encrypted"),
    (b"PK\3\4 and nothing else", "cannot be unpacked"),
    (b"a" * 300_000, "fewer than"),
    ((CSV + "po_1,paid,1.00\r\n").encode(), "must have 6 cells"),
    ((CSV + "po_1,gone,1.00,EUR,,\r\n").encode(), "status must be one of"),
    ((CSV + "po_1,paid,1.001,EUR,,\r\n").encode(), "amount and currency"),
)


@pytest.mark.parametrize(("content", "says"), HOSTILE, ids=map(str, range(len(HOSTILE))))
async def test_a_hostile_file_is_refused_and_leaves_nothing(
    db: Db, content: bytes, says: str
) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        await apply(db, content)
    assert refused.value.field == "file"
    assert await db.read(reconciliation.list_files) == []
