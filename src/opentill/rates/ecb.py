"""Reading of the files in which the European Central Bank publishes euro reference rates.

Source: https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates —
the CSV of one day ("Date, USD, JPY, …" and "26 January 2024, 1.0871, …"), the historical CSV (days
as 2024-01-26, "N/A" where there was no rate) and the XML of one or many days, where a ``Cube`` with
``time`` contains a ``Cube`` with ``currency`` and ``rate`` for each currency. A file with an error
is refused as a whole.
"""

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final
from xml.parsers import expat

from opentill.core import unzip, xmltext
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS
from opentill.rates.model import Day, Sheet

BASE: Final = "EUR"
MAX_BYTES: Final = 64 * 1024 * 1024
_CODE: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_RATE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_ISO_DAY: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_NAMED_DAY: Final = re.compile(r"([0-9]{1,2}) ([A-Z][a-z]+) ([0-9]{4})", re.ASCII)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_NO_RATE: Final = "N/A"
_ECB: Final = "http://www.ecb.int/vocabulary/2002-08-01/eurofxref"


class _SheetBuilder:
    """Builds a sheet from validated days and rates."""

    def __init__(self) -> None:
        self.days: dict[int, dict[str, Decimal]] = {}
        self.skipped: set[str] = set()

    def day(self, text: str, where: str) -> dict[str, Decimal]:
        """Begin a day and return its rates, which ``rate`` fills."""
        moment = _day(text, where)
        if moment in self.days:
            raise _invalid(where, f"the day {text} is there twice")
        return self.days.setdefault(moment, {})

    def rate(self, day: dict[str, Decimal], code: str, text: str, where: str) -> None:
        """Add a rate to a day; skip currencies that are no longer active."""
        if code in day or code == BASE:
            raise _invalid(where, f"{code} must be there once, and {BASE} is the base")
        if not _CODE.fullmatch(code):
            raise _invalid(where, f"{code!r} is no ISO 4217 code such as USD")
        rate = Decimal(text) if _RATE.fullmatch(text) else Decimal(0)
        if not rate:
            raise _invalid(where, f"the rate {text!r} of {code} is no positive decimal number")
        if code in EXPONENTS:
            day[code] = rate
        else:
            self.skipped.add(code)

    def sheet(self) -> Sheet:
        """Return the sheet, oldest day first."""
        days = tuple(Day(at, rates) for at, rates in sorted(self.days.items()) if rates)
        if not days:
            raise Invalid("file", "file must hold a rate of an active currency, and has none")
        return Sheet(base=BASE, days=days, skipped=tuple(sorted(self.skipped)))


def read(data: bytes) -> Sheet:
    """Read a file of reference rates: CSV, XML, or the ECB's zip archive of one.

    Raises Invalid on ``file``, whose reason names the place.
    """
    if data.startswith(unzip.MAGIC):
        with unzip.open_unpacked(io.BytesIO(data), MAX_BYTES) as file:
            data = file.read()
    if len(data) > MAX_BYTES:
        raise Invalid("file", f"file must be at most {MAX_BYTES // 1024 // 1024} MiB")
    if xmltext.is_xml(data[:512]):
        return _read_xml(data)
    return _read_csv(data)


def _invalid(where: str, reason: str) -> Invalid:
    return Invalid(
        "file", f"file must be the ECB's CSV or XML of reference rates: {where}: {reason}"
    )


def _day(text: str, where: str) -> int:
    """Convert a day to the Unix ms of its beginning (UTC)."""
    if match := _ISO_DAY.fullmatch(text):
        year, month, day = (int(part) for part in match.groups())
    elif (match := _NAMED_DAY.fullmatch(text)) and match[2] in _MONTHS:
        year, month, day = int(match[3]), _MONTHS.index(match[2]) + 1, int(match[1])
    else:
        raise _invalid(where, f"{text[:40]!r} is no day such as 2024-01-26 or 26 January 2024")
    try:
        return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise _invalid(where, f"{text!r} is no day of the calendar") from None


def _rows(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and cells of each row that is not blank; rows may end with ``, ``."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield f"line {reader.line_num}", cells[:-1] if not cells[-1] else cells
    except (UnicodeDecodeError, csv.Error) as error:
        raise _invalid("text", str(error).splitlines()[0]) from None


def _read_csv(data: bytes) -> Sheet:
    rows = _rows(data)
    where, header = next(rows, ("line 1", [""]))
    if header[0] != "Date" or not header[1:]:
        raise _invalid(where, "a header such as Date, USD, JPY is not there")
    if len(set(header)) != len(header):
        raise _invalid(where, "a currency is there twice")
    builder = _SheetBuilder()
    for where, cells in rows:
        if len(cells) != len(header):
            raise _invalid(where, f"{len(cells)} cells under a header of {len(header)}")
        day = builder.day(cells[0], where)
        for code, text in zip(header[1:], cells[1:], strict=True):
            if text != _NO_RATE:
                builder.rate(day, code, text, where)
    return builder.sheet()


def _read_xml(data: bytes) -> Sheet:
    """Read the XML form. Document types are refused, so that no entities can be declared."""
    builder = _SheetBuilder()
    parser = expat.ParserCreate(namespace_separator=" ")
    day: dict[str, Decimal] | None = None

    def where() -> str:
        return f"line {parser.CurrentLineNumber}"

    def refuse(*_: object) -> None:
        raise _invalid(where(), "a document type has no place here")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal day
        if name != f"{_ECB} Cube":
            return
        if "time" in attributes:
            day = builder.day(attributes["time"], where())
        elif attributes:
            if day is None or not {"currency", "rate"} <= attributes.keys():
                raise _invalid(
                    where(), "a Cube needs a currency and a rate, inside one with a time"
                )
            builder.rate(day, attributes["currency"], attributes["rate"], where())

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)  # noqa: FBT003 - expat has no keyword for it
    except xmltext.ERRORS as error:
        raise _invalid("XML", xmltext.explain(error)) from None
    return builder.sheet()
