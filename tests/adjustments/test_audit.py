"""The audit log's hash chain reports each kind of tampering, even with the triggers disabled."""

import asyncpg
import msgspec
import pytest

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.merchants.audit import link
from opentill.merchants.model import AuditHead
from support.world import NOW

ROWS = 6


async def write_rows(tx: Tx, rows: int = ROWS) -> None:
    """Append rows to the audit log."""
    for number in range(rows):
        actor, subject = merchants.Actor("ann", "why"), f"thing {number}"
        await merchants.record_audit(tx, actor, "test", "mer_1", subject, NOW + number)


async def find_breaks(tx: Tx, saved_head: AuditHead | None = None) -> list[tuple[int | None, str]]:
    """Verify the chain; return the number of the row and the finding of each break."""
    verdict = await merchants.verify_audit(tx, saved_head)
    return [(chain_break.number, chain_break.finding) for chain_break in verdict.breaks]


async def tamper(tx: Tx, *statements: str) -> None:
    """Run statements with the triggers disabled, as only a superuser of the database can."""
    for table in ("audit_log", "audit_head"):
        await tx.execute(f"alter table {table} disable trigger all")
    for statement in statements:
        await tx.execute(statement)


async def test_an_unchanged_audit_log_is_valid(tx: Tx) -> None:
    assert await find_breaks(tx) == []
    await write_rows(tx)
    verdict = await merchants.verify_audit(tx)
    assert (verdict.rows, verdict.breaks) == (ROWS, [])
    newest = (await merchants.audit_log(tx))[0]
    assert verdict.head == AuditHead(ROWS, newest.hash or "")
    assert await merchants.audit_log(tx, "mer_2") == []
    assert [row.number for row in await merchants.audit_log(tx, "mer_1", 2)] == [6, 5]


@pytest.mark.parametrize(
    "statement",
    [
        "update audit_log set reason = 'another'",
        "delete from audit_log",
        "truncate audit_log",
        "delete from audit_head",
        "truncate audit_head",
    ],
)
async def test_the_database_refuses_to_change_the_audit_log(tx: Tx, statement) -> None:
    await write_rows(tx)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        async with tx.transaction():
            await tx.execute(statement)


FORGED = (
    "insert into audit_log (id, at, who, action, merchant_id, subject, reason{0})"
    " values ('aud_x', 1, 'eve', 'test', 'mer_1', 'thing', 'why'{1})"
)
COLUMNS = ("id", "at", "who", "action", "merchant_id", "subject", "reason", "hash")
TAMPERED = (
    # Each row: the SQL of an intruder, and the breaks that the check must report.
    *(
        ([f"update audit_log set {column} = {value} where number = 3"], [(3, "altered")])
        for column, value in zip(
            COLUMNS, ("'aud_y'", "at + 1", *["'eve'"] * 5, "sha256('x')"), strict=True
        )
        if column != "hash"
    ),
    (
        ["update audit_log set hash = sha256('x') where number = 3"],
        [(3, "altered"), (4, "altered")],
    ),
    (["update audit_log set reason = 'x' where number = 6"], [(6, "altered")]),
    (
        ["update audit_log set reason = 'x' where number in (2, 5)"],
        [(2, "altered"), (5, "altered")],
    ),
    (["delete from audit_log where number = 3"], [(3, "removed")]),
    (["delete from audit_log where number = 1"], [(1, "removed")]),
    (["delete from audit_log where number in (2, 3, 5)"], [(2, "removed"), (5, "removed")]),
    (["delete from audit_log where number = 6"], [(6, "removed")]),
    (["delete from audit_log where number > 4"], [(5, "removed")]),
    (["delete from audit_log"], [(1, "removed")]),
    (["truncate audit_log"], [(1, "removed")]),
    (
        [  # the newest rows are deleted, and the head is set back to match
            "delete from audit_log where number > 4",
            "update audit_head set number = 4",
        ],
        [(4, "altered")],
    ),
    (["delete from audit_head"], [(None, "removed")]),
    (["update audit_head set hash = sha256('x')"], [(6, "altered")]),
    ([FORGED.format("", "")], [(None, "inserted")]),
    ([FORGED.format(", number, hash", ", 7, sha256('x')")], [(7, "inserted")]),
    ([FORGED.format(", number", ", 7")], [(7, "inserted")]),
    (
        [
            FORGED.format(", number, hash", ", 7, sha256('x')"),
            "update audit_head set number = 7, hash = sha256('x')",
        ],
        [(7, "altered")],
    ),
    (
        ["drop index audit_log_by_number", FORGED.format(", number, hash", ", 3, sha256('x')")],
        [(3, "inserted")],
    ),
    (
        [  # two rows are swapped
            "update audit_log set number = 99 where number = 3",
            "update audit_log set number = 3 where number = 4",
            "update audit_log set number = 4 where number = 99",
        ],
        [(3, "altered"), (4, "altered"), (5, "altered")],
    ),
)


@pytest.mark.parametrize(("statements", "findings"), TAMPERED)
async def test_tampering_with_the_audit_log_is_reported(tx: Tx, statements, findings) -> None:
    await write_rows(tx)
    await tamper(tx, *statements)
    # Both rows have the number 3, and the check may read either first.
    if "drop index" in statements[0]:
        assert (3, "inserted") in await find_breaks(tx)
    else:
        assert await find_breaks(tx) == findings


async def test_a_rebuilt_chain_is_detected_by_a_saved_head(tx: Tx) -> None:
    await write_rows(tx)
    saved_head = (await merchants.verify_audit(tx)).head
    assert saved_head is not None
    await write_rows(tx, 2)
    assert await find_breaks(tx, saved_head) == []
    rows = sorted(await merchants.audit_log(tx), key=lambda row: row.number or 0)
    await tamper(tx, "update audit_log set who = 'eve' where number = 3")
    previous_hash = rows[1].hash or ""
    for row in rows[2:]:
        changed_row = row if row.number != 3 else msgspec.structs.replace(row, who="eve")
        previous_hash = link(previous_hash, changed_row)
        forged = bytes.fromhex(previous_hash)
        await tx.execute("update audit_log set hash = $2 where number = $1", row.number, forged)
    await tx.execute("update audit_head set hash = $1", bytes.fromhex(previous_hash))
    assert await find_breaks(tx) == []
    assert await find_breaks(tx, saved_head) == [(saved_head.number, "altered")]
    assert await find_breaks(tx, AuditHead(99, saved_head.hash)) == [(99, "removed")]


async def test_an_audit_row_needs_a_reason(tx: Tx) -> None:
    with pytest.raises(Invalid):
        await merchants.record_audit(tx, merchants.Actor("ann", " "), "test", "m", "s", NOW)
    assert await find_breaks(tx) == []
