"""Reads the lines of a bank's report, which is camt or a CSV file."""

import csv
from collections.abc import Iterator
from typing import IO, Final

from opentill.core import xmltext
from opentill.core.errors import Invalid
from opentill.reconciliation import camt
from opentill.reconciliation.lines import bounded
from opentill.reconciliation.model import BankKind, BankLine

_KINDS: Final[dict[str, BankKind]] = {"sent": "sent", "paid": "sent", "returned": "returned",
                                      "failed": "returned"}  # fmt: skip
COLUMNS: Final = ("end_to_end_id", "status", "amount", "currency", "bank_reference", "reason")


def read(file: IO[bytes]) -> Iterator[BankLine]:
    """Yield the lines of a report, camt or CSV. Raises Invalid for what is neither."""
    file.seek(0)
    start = file.read(512)
    file.seek(0)
    return camt.read(file) if xmltext.is_xml(start) else _csv(file)


def _csv(file: IO[bytes]) -> Iterator[BankLine]:
    reader = csv.reader(bounded(file), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, None) or []]
        if missing := [name for name in COLUMNS if header.count(name) != 1]:
            reason = f"file must be camt XML, or CSV with the columns {', '.join(COLUMNS)}"
            raise Invalid("file", f"{reason}; not so: {', '.join(missing)}")
        for cells in reader:
            if any(cells):
                yield _csv_line(reader.line_num, header, cells)
    except csv.Error as error:
        raise Invalid("file", f"line {reader.line_num}: must be CSV ({error})") from None


def _csv_line(number: int, header: list[str], cells: list[str]) -> BankLine:
    if len(cells) != len(header):
        raise Invalid("file", f"line {number}: must have {len(header)} cells, not {len(cells)}")
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    kind = _KINDS.get(row["status"].lower())
    amount = camt.minor(row["amount"], row["currency"])
    if kind is None:
        raise Invalid("file", f"line {number}: status must be one of {', '.join(_KINDS)}")
    if amount is None:
        reason = "amount and currency must be such as 9.99 and USD"
        raise Invalid("file", f"line {number}: {reason}")
    return BankLine(
        line=number, end_to_end=row["end_to_end_id"], kind=kind, amount_minor=amount,
        currency=row["currency"], bank_reference=row["bank_reference"], reason=row["reason"],
    )  # fmt: skip
