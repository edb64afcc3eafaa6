"""The file by which the bank knows what to pay: ISO 20022 pain.001.001.09, or CSV.

It is made of rows that do not change any more, so that it has the same bytes however often it is
made; their SHA-256 is kept with the run. The id of a payout is the end-to-end id, by which the
bank's report finds it again. Texts are in the letters that banks take (``charset.py``).
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
_PIECE: Final = 64 * 1024  # characters
# Where IBANs are paid by SEPA: the EPC's list of its area, in euro.
_AREA: Final = (
    "AD AL AT BE BG CH CY CZ DE DK EE ES FI FR GB GI GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT "
    "NL NO PL PT RO RS SE SI SK SM VA"
)
_SEPA: Final = frozenset(_AREA.split())


class Letters(NamedTuple):
    """How a file writes references and names; ``plain``: as they are, as files once did.

    ``single``: the bank is asked to book each transfer by itself, and addresses are in the file, as
    in no file once.
    """

    plain: bool
    single: bool = True

    def reference(self, our_id: str) -> str:
        """Write one of our ids."""
        return our_id if self.plain else charset.reference(our_id)

    def name(self, holder: str, *, sepa: bool, longest: int = LONGEST_HOLDER) -> str:
        """Write a name. Outside SEPA one that cannot be written in Latin letters stays as it is."""
        if self.plain or not (sepa or charset.can_write(holder)):
            return holder
        return charset.text(holder, longest)

    def party(self, account: BankAccount, *, sepa: bool) -> str:
        """Write who holds an account, with the address (PartyIdentification135)."""
        named = _text("Nm", self.name(account.holder, sepa=sepa))
        address = account.address
        if address is None or not self.single:
            return named
        parts = (
            ("StrtNm", address.street, 70), ("BldgNb", address.building, 16),
            ("PstCd", address.post_code, 16), ("TwnNm", address.town, 35),
            ("Ctry", address.country, 2),
        )  # fmt: skip
        written = (
            _text(tag, self.name(text, sepa=sepa, longest=longest))
            for tag, text, longest in parts
            if text
        )
        return named + _element("PstlAdr", *written)


_LETTERS: Final = (
    Letters(plain=False),
    Letters(plain=False, single=False),
    Letters(plain=True, single=False),
)


def filename(run: Run) -> str:
    """Name a run's file."""
    return f"payouts_{run.currency}_{run.pay_on}_{run.id}.{run.form}"


async def make(db: Db, run_id: str, secret_key: str) -> IO[bytes]:
    """Write the file of a run that is SENT, and return it at its beginning.

    Its digest is kept when it is made first, and compared from then on: a file that was made by a
    version that wrote it in another way is made in that way again. Raises NotFound, Invalid and
    ConfigurationError.
    """
    for letters in _LETTERS:
        file = tempfile.SpooledTemporaryFile(max_size=_MEMORY)  # noqa: SIM115 - the caller's from here
        try:
            digest = await _write(db, run_id, secret_key, letters, file)
            if await _is_first(db, run_id, digest):
                file.seek(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()
    message = f"the file of {run_id} is not the one that was made first: do not use it"
    raise ConfigurationError(message)


async def _write(db: Db, run_id: str, secret_key: str, letters: Letters, file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    async with db.snapshot() as tx:
        run = await runs.find(tx, run_id)
        if run.status != "SENT":
            raise Invalid("run", "run must be sent before its file is made")
        sums = await queries.RUN_SUMS.one(tx, run_id=run_id)
        transfers = _transfers(tx, run, secret_key)
        pieces = (
            _xml(run, sums, transfers, letters)
            if run.form == "xml"
            else _csv(run, transfers, letters)
        )
        async for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


async def _is_first(db: Db, run_id: str, found: str) -> bool:
    """Keep the digest of the file that was made first, and return whether it is this one."""
    await db.run(lambda tx: queries.NOTE_DIGEST.run(tx, id=run_id, sha256=found))
    async with db.connection() as tx:
        return (await runs.find(tx, run_id)).sha256 == found


async def _transfers(
    tx: Tx, run: Run, secret_key: str
) -> AsyncIterator[tuple[Transfer, BankAccount]]:
    async for one in queries.TRANSFERS.each(tx, run_id=run.id):
        try:
            yield one, accounts.read(secret_key, one)
        except encryption.WrongKey:
            message = f"the bank account of {one.merchant_id} is encrypted with another key"
            raise ConfigurationError(message) from None


def _decimal(minor: int, currency: str) -> str:
    """Write an amount with the currency's own decimals, as banks take it: 1000 of JPY."""
    return f"{Decimal(minor).scaleb(-exponent(currency)):f}"


_Transfers = AsyncIterator[tuple[Transfer, BankAccount]]


async def _csv(run: Run, transfers: _Transfers, letters: Letters) -> AsyncIterator[bytes]:
    async def rows() -> AsyncIterator[list[str]]:
        async for one, account in transfers:
            named = letters.reference(one.payout_id)
            yield [
                named, _decimal(one.amount_minor, one.currency), one.currency, run.pay_on,
                csvfile.format_cell(account.holder), account.number, account.bic, account.bank_code,
                account.country, f"Payout {named}",
                *(_address_cells(account) if letters.single else ()),
            ]  # fmt: skip

    columns = (*COLUMNS, *ADDRESS_COLUMNS) if letters.single else COLUMNS
    async for piece in csvfile.encode_rows(columns, rows()):
        yield piece


def _address_cells(account: BankAccount) -> list[str]:
    address = account.address
    if address is None:
        return [""] * len(ADDRESS_COLUMNS)
    parts = (address.street, address.building, address.post_code, address.town, address.country)
    return [csvfile.format_cell(part) for part in parts]


# ── XML ──


def _element(name: str, *inside: str, **attributes: str) -> str:
    """Write an element around others, nothing where nothing is inside."""
    body = "".join(inside)
    shown = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{body}</{name}>" if body else ""


def _text(name: str, text: str, **attributes: str) -> str:
    return _element(name, escape(text), **attributes)


def _agent(account: BankAccount) -> str:
    """Name the bank of an account (BranchAndFinancialInstitutionIdentification6)."""
    clearing = CLEARING.get(account.country)
    member = ""
    if account.bank_code and clearing is not None:
        system = _element("ClrSysId", _text("Cd", clearing.system))
        member = _element("ClrSysMmbId", system, _text("MmbId", account.bank_code))
    return _element("FinInstnId", _text("BICFI", account.bic), member)


def _account(account: BankAccount, currency: str = "") -> str:
    """Name an account (CashAccount38)."""
    number = account.number
    named = _text("IBAN", number) if account.is_iban else _element("Othr", _text("Id", number))
    return _element("Id", named) + _text("Ccy", currency)


def payment_id(run_id: str, letters: Letters = _LETTERS[0]) -> str:
    """Name the payment of a run's file (PmtInfId): the bank may book all of it by this name."""
    return f"{letters.reference(run_id)}-1"


def _is_sepa(run: Run, account: BankAccount) -> bool:
    return run.currency == "EUR" and account.is_iban and account.country in _SEPA


def _head(run: Run, sums: RunSums, letters: Letters) -> str:
    """Write everything before the first transfer."""
    named = letters.reference(run.id)
    sepa = run.currency == "EUR" and run.source.is_iban
    holder = letters.name(run.source.holder, sepa=sepa)
    number, total = str(sums.in_file), _decimal(sums.file_minor, run.currency)
    made = datetime.fromtimestamp((run.sent_at or 0) // 1000, UTC)
    source = run.source
    # The debtor's bank must be named; where nobody has said which, it is the bank asked to pay.
    agent = _agent(source) or _element("FinInstnId", _element("Othr", _text("Id", "NOTPROVIDED")))
    group = _element(
        "GrpHdr",
        _text("MsgId", named),
        _text("CreDtTm", f"{made:%Y-%m-%dT%H:%M:%S}Z"),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("InitgPty", _text("Nm", holder)),
    )
    payment = (
        _text("PmtInfId", payment_id(run.id, letters)),
        _text("PmtMtd", "TRF"),
        _text("BtchBookg", "false" if letters.single else ""),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("ReqdExctnDt", _text("Dt", run.pay_on)),
        _element("Dbtr", letters.party(source, sepa=sepa)),
        _element("DbtrAcct", _account(source, run.currency)),
        _element("DbtrAgt", agent),
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="{NAMESPACE}">\n'
        f"<CstmrCdtTrfInitn>\n{group}\n<PmtInf>\n" + "\n".join(payment) + "\n"
    )


def _transfer(run: Run, one: Transfer, account: BankAccount, letters: Letters) -> str:
    sepa = _is_sepa(run, account) and run.source.is_iban
    named = letters.reference(one.payout_id)
    service = _element("PmtTpInf", _element("SvcLvl", _text("Cd", "SEPA"))) if sepa else ""
    return _element(
        "CdtTrfTxInf",
        _element("PmtId", _text("InstrId", named), _text("EndToEndId", named)),
        service,
        _element(
            "Amt", _text("InstdAmt", _decimal(one.amount_minor, one.currency), Ccy=one.currency)
        ),
        _text("ChrgBr", "SLEV" if sepa else "SHAR"),
        _element("CdtrAgt", _agent(account)),
        _element("Cdtr", letters.party(account, sepa=sepa)),
        _element("CdtrAcct", _account(account)),
        _element("RmtInf", _text("Ustrd", f"Payout {named}")),
    )


async def _xml(
    run: Run, sums: RunSums, transfers: _Transfers, letters: Letters
) -> AsyncIterator[bytes]:
    yield _head(run, sums, letters).encode()
    buffer, length = io.StringIO(), 0
    async for one, account in transfers:
        length += buffer.write(_transfer(run, one, account, letters) + "\n")
        if length > _PIECE:
            yield buffer.getvalue().encode()
            buffer, length = io.StringIO(), 0
    yield f"{buffer.getvalue()}</PmtInf>\n</CstmrCdtTrfInitn>\n</Document>\n".encode()
