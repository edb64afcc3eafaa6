"""Evidence files: accepted types and names; a file is stored once and never changed."""

import asyncio
import hashlib
from typing import Final

import asyncpg
import pytest

from opentill import disputes, merchants
from opentill.core.errors import NotFound
from opentill.db.database import Db, Tx
from opentill.disputes import EvidenceRefused
from opentill.disputes.evidence_model import MAX_BYTES, MAX_FILES, kind_of, name_of
from support import world

PDF: Final = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n"
PNG: Final = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\0" * 17 + b"\x00\x00\x00\x00IEND\xaeB`\x82"
JPEG: Final = b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\0" * 20 + b"\xff\xd9"
ANN: Final = merchants.Actor("ann@example.com (per_1)", "for a test")
# These files have other types, and some of them imitate an accepted type.
REJECTED: Final = {
    "an HTML page": b"<!doctype html><script>alert(1)</script>",
    "an SVG drawing": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    "an HTML page before a PDF": b"<script>alert(1)</script>" + PDF,
    "a blank before a PDF": b"\n" + PDF,
    "the beginning of a PDF": PDF[:20],
    "the beginning of a PNG": PNG[:30],
    "the beginning of a JPEG": JPEG[:12],
    "a PNG that begins with another part": PNG.replace(b"IHDR", b"tEXt"),
    "a GIF": b"GIF89a" + b"\0" * 30,
    "a program": b"MZ" + b"\0" * 30,
    "an archive": b"PK\x03\x04" + b"\0" * 30,
    "a text": b"delivered on Monday",
}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PDF, "application/pdf"),
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (JPEG + b"\0", "image/jpeg"),
    ],
)
def test_the_type_of_a_file_is_recognized_by_its_content(content: bytes, kind: str) -> None:
    assert kind_of(content) == kind


@pytest.mark.parametrize("description", REJECTED)
def test_a_file_of_another_type_is_refused(description: str) -> None:
    with pytest.raises(EvidenceRefused, match="a whole PDF, PNG or JPEG file") as refusal:
        kind_of(REJECTED[description])
    assert refusal.value.why == "kind"


def test_empty_and_too_large_files_are_refused() -> None:
    padding = b" " * (MAX_BYTES - len(PDF))
    assert kind_of(PDF + padding) == "application/pdf"
    for content, reason in ((PDF + padding + b" ", "size"), (b"", "missing")):
        with pytest.raises(EvidenceRefused) as refusal:
            kind_of(content)
        assert refusal.value.why == reason


@pytest.mark.parametrize(
    ("uploaded_name", "name"),
    [
        ("Receipt 7.pdf", "Receipt 7.pdf"),
        ("RECEIPT.PDF", "RECEIPT.PDF"),
        ("收据.pdf", "收据.pdf"),
        ("page.html", "page.html.pdf"),
        ("../../etc/passwd", "passwd.pdf"),
        ("C:\\Users\\ann\\letter.pdf", "letter.pdf"),
        ('a";filename=x.html\r\nset-cookie: a=b', "a filename=x.html set-cookie a=b.pdf"),
        ("exe\u202efdp.pdf", "exe fdp.pdf"),
        (".pdf", "pdf.pdf"),
        ("...", "file.pdf"),
        ("", "file.pdf"),
        ("n" * 500 + ".pdf", "n" * 114 + ".pdf"),
    ],
)
def test_a_stored_name_has_no_path_and_the_extension_of_its_type(
    uploaded_name: str, name: str
) -> None:
    assert name_of(uploaded_name, "application/pdf") == name


async def open_dispute(db: Db) -> disputes.Dispute:
    """Open a dispute of a new merchant's order."""

    async def work(tx: Tx) -> disputes.Dispute:
        order = await world.pay_order(tx, await world.create_order(tx))
        dispute = await world.report_dispute(tx, order, "OPENED")
        assert dispute is not None
        return dispute

    return await db.run(work)


async def add_file(db: Db, dispute: disputes.Dispute, content: bytes) -> disputes.Evidence:
    return await disputes.add_evidence(
        db, dispute.merchant_id, dispute.id, "a.pdf", content, actor=ANN, now=world.NOW + 5
    )


async def read_audit_subjects(db: Db, dispute: disputes.Dispute) -> list[str]:
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select subject from audit_log where merchant_id = $1 and who = $2 order by number",
            dispute.merchant_id,
            ANN.who,
        )
    return [row["subject"] for row in rows]


async def test_a_file_is_stored_unchanged_and_audited(db: Db) -> None:
    dispute = await open_dispute(db)
    file = await add_file(db, dispute, PDF)
    digest = hashlib.sha256(PDF).digest()
    assert (file.number, file.name, file.kind) == (1, "a.pdf", "application/pdf")
    assert file.size == len(PDF)
    assert (file.sha256, file.who, file.at) == (digest, ANN.who, world.NOW + 5)
    async with db.connection() as tx:
        assert await disputes.list_evidence(tx, dispute) == [file]
        assert await disputes.read_evidence(tx, file.merchant_id, file.id) == PDF
        assert (await disputes.find(tx, dispute.merchant_id, dispute.id)).updated_at == file.at
        with pytest.raises(NotFound):
            await disputes.read_evidence(tx, "mer_other", file.id)
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never updated"):
            await tx.execute("update dispute_evidence set name = 'b.pdf'")
    assert await read_audit_subjects(db, dispute) == [f"{dispute.id} a.pdf SHA-256 {digest.hex()}"]


async def test_concurrent_uploads_of_one_file_are_stored_and_audited_once(db: Db) -> None:
    dispute = await open_dispute(db)
    files = await asyncio.gather(*(add_file(db, dispute, PDF) for _ in range(4)))
    assert len({file.id for file in files}) == 1
    assert len(await read_audit_subjects(db, dispute)) == 1


async def test_concurrent_uploads_never_exceed_the_maximum(db: Db) -> None:
    dispute = await open_dispute(db)
    for number in range(MAX_FILES - 2):
        await add_file(db, dispute, PDF + bytes([number]))
    uploads = [add_file(db, dispute, PDF + bytes([100 + number])) for number in range(5)]
    results = await asyncio.gather(*uploads, return_exceptions=True)
    refusal_reasons = [result.why for result in results if isinstance(result, EvidenceRefused)]
    assert refusal_reasons == ["many"] * 3
    async with db.connection() as tx:
        numbers = [file.number for file in await disputes.list_evidence(tx, dispute)]
    assert numbers == [*range(1, MAX_FILES + 1)]
    assert len(await read_audit_subjects(db, dispute)) == MAX_FILES
    # The same content was stored as file 1.
    assert (await add_file(db, dispute, PDF + bytes([0]))).number == 1


async def test_an_upload_that_fails_while_it_is_stored_leaves_nothing(db: Db) -> None:
    dispute = await open_dispute(db)
    async with db.transaction() as tx:
        await tx.execute(
            "create function fail() returns trigger language plpgsql"
            " as $$ begin raise 'cannot store'; end $$;"
            " create trigger fail before insert on dispute_evidence"
            " for each row execute function fail()"
        )
    with pytest.raises(Exception, match="cannot store"):
        await add_file(db, dispute, PDF)
    assert await read_audit_subjects(db, dispute) == []
    async with db.transaction() as tx:
        await tx.execute("drop function fail cascade")
    assert (await add_file(db, dispute, PDF)).number == 1
    assert len(await read_audit_subjects(db, dispute)) == 1


async def test_a_decided_dispute_accepts_notes_but_no_files(db: Db) -> None:
    dispute = await open_dispute(db)
    key = (dispute.merchant_id, dispute.id)
    await db.run(
        lambda tx: disputes.decide(tx, *key, "lost", who="op", reason="bank", now=world.NOW)
    )
    with pytest.raises(EvidenceRefused) as refusal:
        await add_file(db, dispute, PDF)
    assert refusal.value.why == "closed"
    assert await read_audit_subjects(db, dispute) == []
    note = await db.run(
        lambda tx: disputes.add_note(tx, *key, "Ours", ANN.who, world.NOW, by_merchant=True)
    )
    assert note.by_merchant


async def test_the_database_refuses_a_file_that_contradicts_its_row(db: Db) -> None:
    dispute = await open_dispute(db)
    row = (dispute.merchant_id, "ev_1", dispute.id, len(PDF), hashlib.sha256(PDF).digest())
    contradictions = ((*row, PDF + b" "), (*row[:4], bytes(32), PDF), (*row[:3], 7, row[4], PDF))
    for values in contradictions:
        with pytest.raises(asyncpg.CheckViolationError):
            await db.run(
                lambda tx, values=values: tx.execute(
                    "insert into dispute_evidence (merchant_id, id, dispute_id, number, name, kind,"
                    " size, sha256, content, who, at)"
                    " values ($1, $2, $3, 1, 'a.pdf', 'application/pdf', $4, $5, $6, 'ann', 0)",
                    *values,
                )
            )


async def test_the_deadline_is_the_last_one_that_the_gateway_or_operator_set(db: Db) -> None:
    dispute = await open_dispute(db)
    key = (dispute.merchant_id, dispute.id)
    assert dispute.respond_by is None

    async def report_deadline(respond_by: int | None) -> int | None:
        async def work(tx: Tx) -> disputes.Dispute | None:
            order = await world.orders.find(tx, dispute.merchant_id, dispute.order_id)
            return await world.report_dispute(tx, order, "OPENED", respond_by=respond_by)

        reported_dispute = await db.run(work)
        assert reported_dispute is not None
        return reported_dispute.respond_by

    assert await report_deadline(world.NOW + world.DAY) == world.NOW + world.DAY
    assert await report_deadline(None) == world.NOW + world.DAY  # the last event had no deadline
    changed_dispute = await db.run(lambda tx: disputes.set_deadline(tx, *key, 7, world.NOW))
    assert changed_dispute.respond_by == 7
    assert await report_deadline(world.NOW + world.DAY) == world.NOW + world.DAY
