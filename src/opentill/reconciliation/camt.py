"""Reads the bank's reports: ISO 20022 camt.053 (statement), camt.054 (notification), camt.052.

Expat parses the file as a stream; at most one entry is in memory. A document type declaration is
refused, so no entities can be declared: nothing expands and nothing is fetched. Depth, length of
texts and number of lines are limited. Elements are recognized by their local names, which are the
same in every version from 001.02 on.
"""

import re
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Final
from xml.parsers import expat

from opentill.core import xmltext
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, MOST_MINOR, exponent
from opentill.reconciliation.model import BankKind, BankLine

_CHUNK: Final = 64 * 1024
_DEEPEST: Final = 40
_LONGEST_TEXT: Final = 4096
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{0,5}))?", re.ASCII)
_KINDS: Final = ("BkToCstmrStmt", "BkToCstmrDbtCdtNtfctn", "BkToCstmrAcctRpt")
# Path below an entry (Ntry) or a transaction (TxDtls) → name of the field.
_FIELDS: Final = {
    "Amt": "amount",
    "AmtDtls/InstdAmt/Amt": "instructed",
    "AmtDtls/TxAmt/Amt": "transaction",
    "CdtDbtInd": "direction",
    "RvslInd": "reversal",
    "Sts": "status",
    "Sts/Cd": "status",
    "AcctSvcrRef": "bank_reference",
    "NtryRef": "entry_reference",
    "Refs/AcctSvcrRef": "bank_reference",
    "Refs/EndToEndId": "end_to_end",
    "Refs/InstrId": "instruction",
    "Refs/PmtInfId": "payment",
    "NtryDtls/Btch/PmtInfId": "payment",
    "NtryDtls/Btch/NbOfTxs": "payments",
    "RtrInf/Rsn/Cd": "reason",
    "RtrInf/Rsn/Prtry": "reason",
    "RtrInf/AddtlInf": "explanation",
}
# Codes for returned credit transfers (ISO 20022, ExternalReturnReason1Code) → their meanings.
_REASONS: Final = {
    "AC01": "wrong account number",
    "AC03": "wrong account number",
    "AC04": "account closed",
    "AC06": "account blocked",
    "AC13": "wrong type of account",
    "AC14": "wrong type of account",
    "AG01": "transfers to this account are not allowed",
    "AM05": "sent twice",
    "BE01": "holder and account do not belong together",
    "BE04": "address of the holder is missing",
    "BE05": "payer not recognized",
    "BE06": "holder unknown",
    "BE07": "address of the payer is missing",
    "CNOR": "bank of the account not reachable",
    "CUST": "returned by the holder",
    "ERIN": "addresses are not supported",
    "FOCR": "recalled",
    "FRAD": "suspected fraud",
    "MD07": "holder has died",
    "MS02": "returned by the holder without a reason",
    "MS03": "returned by the bank without a reason",
    "NOAS": "holder did not respond",
    "RC01": "wrong bank code",
    "RC07": "wrong bank code",
    "RR01": "account of the payer is missing, as rules require",
    "RR02": "name or address of the payer is missing, as rules require",
    "RR03": "name or address of the holder is missing, as rules require",
    "RR04": "rules forbid it",
}
_DIRECTIONS: Final[dict[str, BankKind]] = {"DBIT": "sent", "CRDT": "returned"}
_NO_ID: Final = ("", "NOTPROVIDED")
_WITH_CURRENCY: Final = frozenset({"amount", "instructed", "transaction"})


class _Reader:
    """Collects lines from the events of expat."""

    def __init__(self) -> None:
        self.lines: deque[BankLine] = deque()
        self.number = 0
        self.is_camt = False
        self._path: list[str] = []
        self._text: list[str] = []
        self._length = 0
        self._currency = ""
        self._entry: dict[str, str] | None = None
        self._details: dict[str, str] | None = None
        # The last transaction that was read. It is emitted once it is known whether its entry has
        # another one.
        self._held: dict[str, str] | None = None
        self._has_several = False
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = _refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.buffer_text = True

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        self._path.append(local)
        if len(self._path) > _DEEPEST:
            raise Invalid("file", f"file must be nested at most {_DEEPEST} deep")
        # An envelope may contain the document, beside a header (AppHdr, head.001).
        self.is_camt = self.is_camt or (local in _KINDS and self._path[-2:-1] == ["Document"])
        self._text, self._length = [], 0
        self._currency = attributes.get("Ccy", "")
        if local == "Ntry":
            self._entry, self._held, self._has_several = {}, None, False
        elif local == "TxDtls" and self._entry is not None:
            self._has_several = self._has_several or self._held is not None
            self._flush()
            self._details = {}

    def _data(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST_TEXT and self._entry is not None:
            raise Invalid("file", f"line {self._line}: texts must have at most {_LONGEST_TEXT}")
        if self._entry is not None:
            self._text.append(text)

    @property
    def _line(self) -> int:
        return self.parser.CurrentLineNumber

    def _end(self, name: str) -> None:
        local = name.rpartition(" ")[2]
        if self._entry is not None:
            self._store("".join(self._text).strip())
        self._text, self._length = [], 0
        self._path.pop()
        if local == "TxDtls" and self._details is not None:
            self._held, self._details = self._details, None
        elif local == "Ntry" and self._entry is not None:
            if self._held is None:
                self._emit({}, is_only=True)
            self._flush()
            self._entry = None

    def _store(self, text: str) -> None:
        """Store the text of an element that is a field of the entry or of a transaction."""
        fields = self._entry if self._details is None else self._details
        if not text or fields is None:
            return
        root = "Ntry" if self._details is None else "TxDtls"
        start = len(self._path) - 1 - self._path[::-1].index(root)
        field = _FIELDS.get("/".join(self._path[start + 1 :]))
        if field is not None and field not in fields:
            fields[field] = text
            if field in _WITH_CURRENCY:
                fields[f"{field} currency"] = self._currency

    def _flush(self) -> None:
        if self._held is not None:
            self._emit(self._held, is_only=not self._has_several)
            self._held = None

    def _emit(self, details: dict[str, str], *, is_only: bool) -> None:
        """Append the line of a transaction, completed by the fields of its entry."""
        entry = self._entry or {}
        status = entry.get("status", "BOOK")
        if status not in ("BOOK", "BOOKED"):
            return  # the entry is pending or for information only
        self.number += 1
        kind = _DIRECTIONS.get(details.get("direction", entry.get("direction", "")))
        # The direction has no default, because it says whether a payout was sent or came back.
        if kind is None:
            raise Invalid("file", f"line {self._line}: CdtDbtInd must be CRDT or DBIT")
        amount, currency = _amount(details, entry, kind, is_only=is_only)
        code = details.get("reason", "")
        explanation = details.get("explanation") or _REASONS.get(code)
        reason = " ".join(text for text in (code, explanation) if text)
        end_to_end = details.get("end_to_end", "")
        self.lines.append(BankLine(
            line=self.number,
            end_to_end=details.get("instruction", end_to_end)
            if end_to_end in _NO_ID
            else end_to_end,
            kind=kind,
            amount_minor=amount,
            currency=currency,
            bank_reference=details.get("bank_reference")
            or entry.get("bank_reference") or entry.get("entry_reference", ""),
            reason=reason,
            payment=details.get("payment") or (entry.get("payment", "") if is_only else ""),
            payments=entry.get("payments", "") if is_only else "",
            is_reversal=details.get("reversal", entry.get("reversal")) in ("true", "1"),
        ))  # fmt: skip


def _refuse_doctype(*_: object) -> None:
    raise Invalid("file", "file must have no document type declaration (DOCTYPE)")


def _amount(
    details: dict[str, str], entry: dict[str, str], kind: BankKind, *, is_only: bool
) -> tuple[int | None, str]:
    """Return the amount in minor units and its currency; None if the report has no amount.

    For a debit, the instructed amount is preferred, since the booked one may include charges. For a
    credit, the booked amount is preferred, since the bank may have deducted charges.
    """
    in_details = ((details, "instructed"), (details, "transaction"))
    booked = ((entry, "amount"),)
    order = booked + in_details if kind == "returned" else in_details + booked
    for fields, field in ((details, "amount"), *order):
        if field in fields and (fields is details or is_only):
            currency = fields.get(f"{field} currency", "")
            return minor(fields[field], currency), currency
    return None, ""


def minor(text: str, currency: str) -> int | None:
    """Return an amount in minor units; None if it is invalid for the currency."""
    if currency not in EXPONENTS or _AMOUNT.fullmatch(text) is None:
        return None
    exact = Decimal(text).scaleb(exponent(currency))
    return int(exact) if exact == int(exact) and exact <= MOST_MINOR else None


def read(file: IO[bytes]) -> Iterator[BankLine]:
    """Yield the booked lines of a report. Raises Invalid for another file."""
    reader = _Reader()
    try:
        while chunk := file.read(_CHUNK):
            reader.parser.Parse(chunk, False)  # noqa: FBT003 - expat has no keyword for it
            while reader.lines:
                yield reader.lines.popleft()
        reader.parser.Parse(b"", True)  # noqa: FBT003 - expat has no keyword for it
    except xmltext.ERRORS as error:
        raise Invalid("file", f"file must be {xmltext.explain(error)}") from None
    if not reader.is_camt:
        raise Invalid("file", "file must be camt.052, camt.053 or camt.054, or CSV")
    yield from reader.lines
