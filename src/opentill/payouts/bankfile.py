"""The payment instructions for the bank: ISO 20022 pain.001.001.09, or CSV.

The file is generated from rows that no longer change, so it always has the same bytes; the run
stores their SHA-256. A payout's id is its end-to-end id, by which the bank's report names it. Texts
use the characters that banks accept (``charset.py``).
"""

import hashlib
import io
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Final, NamedTuple
from xml.sax.saxutils import escape

from opentill.core import encryption
from opentill.core.bankaccounts import CLEARING, LONGEST_HOLDER, BankAccount
from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.money import exponent
from opentill.db.database import Db, Tx
from opentill.http import csvfile
from opentill.payouts import accounts, charset, queries, runs
from opentill.payouts.model import Run, RunSums, Transfer

NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
MEDIA_TYPES: Final = {"xml": "application/xml; charset=utf-8", "csv": csvfile.CONTENT_TYPE}
COLUMNS: Final = (
    "endToEndId", "amount", "currency", "payOn", "holder", "account", "bic", "bankCode", "country",
    "remittance",
)  # fmt: skip
ADDRESS_COLUMNS: Final = ("street", "building", "postCode", "town", "addressCountry")
_MEMORY: Final = 1024 * 1024
# File contents are collected up to this many characters before they are written.
_PIECE: Final = 64 * 1024
# Codes of the countries in SEPA, from the EPC's list.
_AREA: Final = (
    "AD AL AT BE BG CH CY CZ DE DK EE ES FI FR GB GI GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT "
    "NL NO PL PT RO RS SE SI SK SM VA"
)
_SEPA: Final = frozenset(_AREA.split())


class FileVersion(NamedTuple):
    """The form of the file in a version of OpenTill.

    ``plain``: references and names are not transliterated. ``single``: the file asks the bank to
    book each transfer separately, and contains the holders' addresses.
    """

    plain: bool
    single: bool = True

    def reference(self, our_id: str) -> str:
        """Return an id of OpenTill in the characters that this file allows for a reference."""
        return our_id if self.plain else charset.reference(our_id)

    def name(self, holder: str, *, sepa: bool, longest: int = LONGEST_HOLDER) -> str:
        """Write a holder's name.

        Outside SEPA, a name that Latin letters cannot express is not changed.
        """
        if self.plain or not (sepa or charset.can_write(holder)):
            return holder
        return charset.text(holder, longest)

    def party(self, account: BankAccount, *, sepa: bool) -> str:
        """Write the holder of an account, with the address (PartyIdentification135)."""
        holder = _text("Nm", self.name(account.holder, sepa=sepa))
        address = account.address
        if address is None or not self.single:
            return holder
        lines = (
            ("StrtNm", address.street, 70), ("BldgNb", address.building, 16),
            ("PstCd", address.post_code, 16), ("TwnNm", address.town, 35),
            ("Ctry", address.country, 2),
        )  # fmt: skip
        elements = (
            _text(tag, self.name(text, sepa=sepa, longest=longest))
            for tag, text, longest in lines
            if text
        )
        return holder + _element("PstlAdr", *elements)


_VERSIONS: Final = (  # newest first
    FileVersion(plain=False),
    FileVersion(plain=False, single=False),
    FileVersion(plain=True, single=False),
)


def file_name(run: Run) -> str:
    """Return the name of a run's file."""
    return f"payouts_{run.currency}_{run.pay_on}_{run.id}.{run.form}"


async def make(db: Db, run_id: str, secret_key: str) -> IO[bytes]:
    """Write the file of a run that is SENT, and return it, positioned at its start.

    The digest of the first file is stored, and every later file must have the same digest. If an
    earlier version of OpenTill wrote the first file, later files are written in the form of that
    version. Raises NotFound, Invalid and ConfigurationError.
    """
    for version in _VERSIONS:
        file = tempfile.SpooledTemporaryFile(max_size=_MEMORY)  # noqa: SIM115 - the caller closes it
        try:
            digest = await _write(db, run_id, secret_key, version, file)
            if await _matches_first(db, run_id, digest):
                file.seek(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()
    message = f"the file of {run_id} is not the one that was made first: do not use it"
    raise ConfigurationError(message)


async def _write(
    db: Db, run_id: str, secret_key: str, version: FileVersion, file: IO[bytes]
) -> str:
    """Write the file and return its SHA-256."""
    digest = hashlib.sha256()
    async with db.snapshot() as tx:
        run = await runs.find(tx, run_id)
        if run.status != "SENT":
            raise Invalid("run", "run must be sent before its file is made")
        sums = await queries.SUMS_OF_RUNS.one(tx, run_id=[run_id])
        transfers = _transfers(tx, run, secret_key)
        pieces = (
            _xml(run, sums, transfers, version)
            if run.form == "xml"
            else _csv(run, transfers, version)
        )
        async for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


async def _matches_first(db: Db, run_id: str, digest: str) -> bool:
    """Store the digest if the run has none yet; return whether it equals the stored one."""
    await db.run(lambda tx: queries.STORE_DIGEST.run(tx, id=run_id, sha256=digest))
    async with db.connection() as tx:
        return (await runs.find(tx, run_id)).sha256 == digest


async def _transfers(
    tx: Tx, run: Run, secret_key: str
) -> AsyncIterator[tuple[Transfer, BankAccount]]:
    async for transfer in queries.TRANSFERS.each(tx, run_id=run.id):
        try:
            yield transfer, accounts.read(secret_key, transfer)
        except encryption.WrongKey:
            message = f"the bank account of {transfer.merchant_id} is encrypted with another key"
            raise ConfigurationError(message) from None


def _decimal(minor: int, currency: str) -> str:
    """Write an amount with the currency's own decimals, as banks require: 1000 for JPY."""
    return f"{Decimal(minor).scaleb(-exponent(currency)):f}"


_Transfers = AsyncIterator[tuple[Transfer, BankAccount]]


async def _csv(run: Run, transfers: _Transfers, version: FileVersion) -> AsyncIterator[bytes]:
    async def rows() -> AsyncIterator[list[str]]:
        async for transfer, account in transfers:
            reference = version.reference(transfer.payout_id)
            yield [
                reference, _decimal(transfer.amount_minor, transfer.currency), transfer.currency,
                run.pay_on, csvfile.format_cell(account.holder), account.number, account.bic,
                account.bank_code, account.country, f"Payout {reference}",
                *(_address_cells(account) if version.single else ()),
            ]  # fmt: skip

    columns = (*COLUMNS, *ADDRESS_COLUMNS) if version.single else COLUMNS
    async for piece in csvfile.encode_rows(columns, rows()):
        yield piece


def _address_cells(account: BankAccount) -> list[str]:
    address = account.address
    if address is None:
        return [""] * len(ADDRESS_COLUMNS)
    texts = (address.street, address.building, address.post_code, address.town, address.country)
    return [csvfile.format_cell(text) for text in texts]


# ── XML ──


def _element(name: str, *content: str, **attributes: str) -> str:
    """Write an element around its content; return "" if that is empty."""
    body = "".join(content)
    pairs = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{pairs}>{body}</{name}>" if body else ""


def _text(name: str, text: str, **attributes: str) -> str:
    return _element(name, escape(text), **attributes)


def _agent(account: BankAccount) -> str:
    """Write the bank of an account (BranchAndFinancialInstitutionIdentification6)."""
    clearing = CLEARING.get(account.country)
    member = ""
    if account.bank_code and clearing is not None:
        system = _element("ClrSysId", _text("Cd", clearing.system))
        member = _element("ClrSysMmbId", system, _text("MmbId", account.bank_code))
    return _element("FinInstnId", _text("BICFI", account.bic), member)


def _account(account: BankAccount, currency: str = "") -> str:
    """Write an account (CashAccount38)."""
    number = account.number
    id_ = _text("IBAN", number) if account.is_iban else _element("Othr", _text("Id", number))
    return _element("Id", id_) + _text("Ccy", currency)


def payment_id(run_id: str, version: FileVersion = _VERSIONS[0]) -> str:
    """Return the payment id of a run's file (PmtInfId), by which a bank may book the whole file."""
    return f"{version.reference(run_id)}-1"


def _is_sepa(run: Run, account: BankAccount) -> bool:
    return run.currency == "EUR" and account.is_iban and account.country in _SEPA


def _head(run: Run, sums: RunSums, version: FileVersion) -> str:
    """Write everything before the first transfer."""
    source = run.source
    sepa = run.currency == "EUR" and source.is_iban
    number, total = str(sums.in_file), _decimal(sums.file_minor, run.currency)
    sent_at = datetime.fromtimestamp((run.sent_at or 0) // 1000, UTC)
    # The schema requires the debtor's bank. NOTPROVIDED stands for the bank that receives the file.
    agent = _agent(source) or _element("FinInstnId", _element("Othr", _text("Id", "NOTPROVIDED")))
    group = _element(
        "GrpHdr",
        _text("MsgId", version.reference(run.id)),
        _text("CreDtTm", f"{sent_at:%Y-%m-%dT%H:%M:%S}Z"),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("InitgPty", _text("Nm", version.name(source.holder, sepa=sepa))),
    )
    payment = (
        _text("PmtInfId", payment_id(run.id, version)),
        _text("PmtMtd", "TRF"),
        _text("BtchBookg", "false" if version.single else ""),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("ReqdExctnDt", _text("Dt", run.pay_on)),
        _element("Dbtr", version.party(source, sepa=sepa)),
        _element("DbtrAcct", _account(source, run.currency)),
        _element("DbtrAgt", agent),
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="{NAMESPACE}">\n'
        f"<CstmrCdtTrfInitn>\n{group}\n<PmtInf>\n" + "\n".join(payment) + "\n"
    )


def _transfer(run: Run, transfer: Transfer, account: BankAccount, version: FileVersion) -> str:
    sepa = _is_sepa(run, account) and run.source.is_iban
    reference = version.reference(transfer.payout_id)
    amount = _decimal(transfer.amount_minor, transfer.currency)
    service = _element("PmtTpInf", _element("SvcLvl", _text("Cd", "SEPA"))) if sepa else ""
    return _element(
        "CdtTrfTxInf",
        _element("PmtId", _text("InstrId", reference), _text("EndToEndId", reference)),
        service,
        _element("Amt", _text("InstdAmt", amount, Ccy=transfer.currency)),
        _text("ChrgBr", "SLEV" if sepa else "SHAR"),
        _element("CdtrAgt", _agent(account)),
        _element("Cdtr", version.party(account, sepa=sepa)),
        _element("CdtrAcct", _account(account)),
        _element("RmtInf", _text("Ustrd", f"Payout {reference}")),
    )


async def _xml(
    run: Run, sums: RunSums, transfers: _Transfers, version: FileVersion
) -> AsyncIterator[bytes]:
    yield _head(run, sums, version).encode()
    buffer, length = io.StringIO(), 0
    async for transfer, account in transfers:
        length += buffer.write(_transfer(run, transfer, account, version) + "\n")
        if length > _PIECE:
            yield buffer.getvalue().encode()
            buffer, length = io.StringIO(), 0
    yield f"{buffer.getvalue()}</PmtInf>\n</CstmrCdtTrfInitn>\n</Document>\n".encode()
