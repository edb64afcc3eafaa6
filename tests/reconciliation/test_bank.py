"""The bank's report: a line that matches a payout ends it, any other goes to the inbox."""

import asyncio

import pytest

from opentill import merchants, reconciliation
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
from support.payout_runs import BOB, DyingDatabase, Killed
from support.world import NOW


async def test_a_statement_ends_payouts(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db)
    content = statement(
        entry(sent_payouts[0].id, ref="B-1"),
        entry(sent_payouts[1].id.replace("_", " ").upper(), credit=True, ref="B-2"),
        entry(sent_payouts[2].id, status="PDNG"),
    )
    result = await apply(db, content)
    assert (result.sent, result.returned, result.repeated, result.in_inbox) == (1, 1, 0, 0)
    assert await read_results(db, sent_payouts) == [
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
    sent_payouts = await create_sent_payouts(db, 1)
    result = await apply(db, statement(create_line(sent_payouts[0].id)))
    assert (result.sent, result.returned, result.in_inbox) == (0, 0, 1)
    assert await read_results(db, sent_payouts) == [("PENDING", "")]
    assert [what for what, _, _ in await read_inbox(db)] == [discrepancy]


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
    sent_payouts = await create_sent_payouts(db, 1)
    content = statement(*UNRELATED, entry(sent_payouts[0].id))
    result = await apply(db, content)
    assert (result.lines, result.sent, result.in_inbox, result.unrelated) == (
        5,
        1,
        0,
        len(UNRELATED),
    )
    assert (await read_inbox(db), await db.read(reconciliation.count_open)) == ([], 0)
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
    sent_payouts = await create_sent_payouts(db, 1)
    result = await apply(db, statement(line))
    assert (result.sent, result.in_inbox, result.unrelated) == (0, 1, 0)
    assert await read_results(db, sent_payouts) == [("PENDING", "")]
    assert len(await read_inbox(db)) == 1


async def test_a_second_debit_goes_to_the_inbox(db: Db) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    await apply(db, statement(entry(sent_payout.id, ref="B-1")))
    result = await apply(db, statement(entry(sent_payout.id, ref="B-3")))
    assert (result.sent, result.in_inbox) == (0, 1)
    assert await read_results(db, [sent_payout]) == [("PAID", "B-1")]
    assert await read_inbox(db) == [
        ("double in report", "100.00 EUR PAID", "100.00 EUR debit, B-3")
    ]


async def test_concurrent_reports_end_each_payout_once(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 8)
    lines = [
        entry(payout.id, credit=bool(number % 2), ref=f"B-{number}")
        for number, payout in enumerate(sent_payouts)
    ]
    files = [statement(*lines), statement(*lines), statement(*lines, form="camt.053.001.02")]
    results = await asyncio.gather(*(apply(db, file) for file in files))
    assert sum(result.sent for result in results) == 4
    assert sum(result.returned for result in results) == 4
    assert [result.in_inbox for result in results] == [0, 0, 0]
    assert {status for status, _ in await read_results(db, sent_payouts)} == {"PAID", "FAILED"}
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []


@pytest.mark.parametrize("name", ["", "NOTPROVIDED"])
async def test_a_line_without_references_is_a_separate_one_in_each_file(db: Db, name: str) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    today = statement(entry(name))
    assert (await apply(db, today)).in_inbox == 1
    (difference,) = await db.read(reconciliation.list_differences)
    await db.run(lambda tx: reconciliation.resolve(tx, difference.id, BOB, NOW))
    assert (await apply(db, today)).is_new is False
    assert await read_inbox(db) == []
    later = await apply(db, statement(entry(name), entry(sent_payout.id)))
    assert later.in_inbox == 1
    assert await read_inbox(db) == [("missing in ledger", "", "100.00 EUR debit")]
    (difference,) = await db.read(reconciliation.list_differences)
    assert difference.reference == f"{name} line 1 of {later.file_id}".strip()


async def test_equal_lines_of_a_file_are_separate_differences(db: Db) -> None:
    (sent_payout,) = await create_sent_payouts(db, 1)
    rent, payout = entry("RENT", ref="R-1"), entry(sent_payout.id)
    content = statement(rent, payout, payout, rent, payout, rent)
    with pytest.raises(Killed):
        await apply(DyingDatabase(db, 5, committed=True), content)
    for file in (content, statement(rent, rent)):  # the second file contains the same lines
        await apply(db, file)
        assert sorted(await read_inbox(db)) == [
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit"),
            ("double in report", "100.00 EUR PAID", "100.00 EUR debit, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 2"),
            ("missing in ledger", "", "100.00 EUR debit, R-1, no. 3"),
        ]


@pytest.mark.parametrize("last", range(1, 5))
@pytest.mark.parametrize("committed", [False, True])
async def test_an_interrupted_report_continues(db: Db, last: int, committed: bool) -> None:
    sent_payouts = await create_sent_payouts(db, 2)
    content = statement(
        entry(sent_payouts[0].id, ref="B-1"), entry(sent_payouts[1].id, credit=True)
    )
    with pytest.raises(Killed):
        await apply(DyingDatabase(db, last, committed=committed), content)
    result = await apply(db, content)
    assert result.lines == 2
    assert (await read_results(db, sent_payouts))[0] == ("PAID", "B-1")
    assert (await read_results(db, sent_payouts))[1] == ("FAILED", "AC04 closed")
    assert await read_inbox(db) == []
    async with db.connection() as tx:
        assert (await check_books(tx))[1] == []
