"""The file by which the bank knows what to pay: ISO 20022 pain.001.001.09, or CSV.

It is made of rows that do not change any more, so that it has the same bytes however often it is
made; their SHA-256 is kept with the run. The id of a payout is the end-to-end id, by which the
bank's report finds it again.
"""

import hashlib
import io
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Final
from xml.sax.saxutils import escape

from opentill.core import encryption
from opentill.core.bankaccounts import CLEARING, BankAccount
from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.money import exponent
from opentill.db.database import Db, Tx
from opentill.http import csvfile
from opentill.payouts import accounts, queries, runs
from opentill.payouts.model import Run, RunSums, Transfer

NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
MEDIA_TYPES: Final = {"xml": "application/xml; charset=utf-8", "csv": csvfile.CONTENT_TYPE}
COLUMNS: Final = (
    "endToEndId", "amount", "currency", "payOn", "holder", "account", "bic", "bankCode", "country",
    "remittance",
)  # fmt: skip
_MEMORY: Final = 1024 * 1024
_PIECE: Final = 64 * 1024  # characters
# Where IBANs are paid by SEPA: the EPC's list of its area, in euro.
_AREA: Final = (
    "AD AL AT BE BG CH CY CZ DE DK EE ES FI FR GB GI GR HR HU IE IS IT LI LT LU LV MC MD ME MK MT "
    "NL NO PL PT RO RS SE SI SK SM VA"
)
_SEPA: Final = frozenset(_AREA.split())


def filename(run: Run) -> str:
    """Name a run's file."""
    return f"payouts_{run.currency}_{run.pay_on}_{run.id}.{run.form}"


async def make(db: Db, run_id: str, secret_key: str) -> IO[bytes]:
    """Write the file of a run that is SENT, and return it at its beginning.

    Its digest is kept when it is made first, and compared from then on. Raises NotFound, Invalid
    and ConfigurationError.
    """
    file = tempfile.SpooledTemporaryFile(max_size=_MEMORY)  # noqa: SIM115 - the caller's from here
    try:
        digest = await _write(db, run_id, secret_key, file)
        await _check_digest(db, run_id, digest)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


async def _write(db: Db, run_id: str, secret_key: str, file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    async with db.snapshot() as tx:
        run = await runs.find(tx, run_id)
        if run.status != "SENT":
            raise Invalid("run", "run must be sent before its file is made")
        sums = await queries.RUN_SUMS.one(tx, run_id=run_id)
        pieces = _xml(tx, run, sums, secret_key) if run.form == "xml" else _csv(tx, run, secret_key)
        async for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


async def _check_digest(db: Db, run_id: str, found: str) -> None:
    """Keep the digest of the file that was made first, or compare with it."""
    await db.run(lambda tx: queries.NOTE_DIGEST.run(tx, id=run_id, sha256=found))
    async with db.connection() as tx:
        kept = (await runs.find(tx, run_id)).sha256
    if kept != found:
        message = f"the file of {run_id} is not the one that was made first ({kept}): do not use it"
        raise ConfigurationError(message)


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


def _remittance(one: Transfer) -> str:
    return f"Payout {one.payout_id}"


async def _csv(tx: Tx, run: Run, secret_key: str) -> AsyncIterator[bytes]:
    async def rows() -> AsyncIterator[list[str]]:
        async for one, account in _transfers(tx, run, secret_key):
            yield [
                one.payout_id, _decimal(one.amount_minor, one.currency), one.currency, run.pay_on,
                csvfile.cell(account.holder), account.number, account.bic, account.bank_code,
                account.country, _remittance(one),
            ]  # fmt: skip

    async for piece in csvfile.chunks(COLUMNS, rows()):
        yield piece


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


def _is_sepa(run: Run, account: BankAccount) -> bool:
    return run.currency == "EUR" and account.is_iban and account.country in _SEPA


def _head(run: Run, sums: RunSums) -> str:
    """Write everything before the first transfer."""
    number, total = str(sums.in_file), _decimal(sums.file_minor, run.currency)
    made = datetime.fromtimestamp((run.sent_at or 0) // 1000, UTC)
    source = run.source
    # The debtor's bank must be named; where nobody has said which, it is the bank asked to pay.
    agent = _agent(source) or _element("FinInstnId", _element("Othr", _text("Id", "NOTPROVIDED")))
    group = _element(
        "GrpHdr",
        _text("MsgId", run.id),
        _text("CreDtTm", f"{made:%Y-%m-%dT%H:%M:%S}Z"),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("InitgPty", _text("Nm", source.holder)),
    )
    payment = (
        _text("PmtInfId", f"{run.id}-1"),
        _text("PmtMtd", "TRF"),
        _text("NbOfTxs", number),
        _text("CtrlSum", total),
        _element("ReqdExctnDt", _text("Dt", run.pay_on)),
        _element("Dbtr", _text("Nm", source.holder)),
        _element("DbtrAcct", _account(source, run.currency)),
        _element("DbtrAgt", agent),
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="{NAMESPACE}">\n'
        f"<CstmrCdtTrfInitn>\n{group}\n<PmtInf>\n" + "\n".join(payment) + "\n"
    )


def _transfer(run: Run, one: Transfer, account: BankAccount) -> str:
    sepa = _is_sepa(run, account) and run.source.is_iban
    service = _element("PmtTpInf", _element("SvcLvl", _text("Cd", "SEPA"))) if sepa else ""
    return _element(
        "CdtTrfTxInf",
        _element("PmtId", _text("InstrId", one.payout_id), _text("EndToEndId", one.payout_id)),
        service,
        _element(
            "Amt", _text("InstdAmt", _decimal(one.amount_minor, one.currency), Ccy=one.currency)
        ),
        _text("ChrgBr", "SLEV" if sepa else "SHAR"),
        _element("CdtrAgt", _agent(account)),
        _element("Cdtr", _text("Nm", account.holder)),
        _element("CdtrAcct", _account(account)),
        _element("RmtInf", _text("Ustrd", _remittance(one))),
    )


async def _xml(tx: Tx, run: Run, sums: RunSums, secret_key: str) -> AsyncIterator[bytes]:
    yield _head(run, sums).encode()
    buffer, length = io.StringIO(), 0
    async for one, account in _transfers(tx, run, secret_key):
        length += buffer.write(_transfer(run, one, account) + "\n")
        if length > _PIECE:
            yield buffer.getvalue().encode()
            buffer, length = io.StringIO(), 0
    yield f"{buffer.getvalue()}</PmtInf>\n</CstmrCdtTrfInitn>\n</Document>\n".encode()
