"""The formats in which banks send statements, and hostile files."""

import io
import zipfile

import pytest

from opentill import reconciliation
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.reconciliation import camt
from reconciliation.bank_statements import (
    CSV,
    apply,
    create_sent_payouts,
    entry,
    read_results,
    statement,
)


async def test_a_csv_report_ends_payouts(db: Db) -> None:
    sent_payouts = await create_sent_payouts(db, 2)
    first, second = (payout.id for payout in sent_payouts)
    rows = f"{first},paid,100.00,EUR,B-7,\r\n{second},failed,100.00,EUR,,no such account\r\n"
    result = await apply(db, (CSV + rows).encode())
    assert (result.sent, result.returned) == (1, 1)
    assert await read_results(db, sent_payouts) == [("PAID", "B-7"), ("FAILED", "no such account")]


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
    sent_payouts = await create_sent_payouts(db, 1)
    result = await apply(db, FORMATS[name](statement(entry(sent_payouts[0].id))))
    assert (result.lines, result.sent, result.in_inbox) == (1, 1, 0)
    assert await read_results(db, sent_payouts) == [("PAID", sent_payouts[0].id)]


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
