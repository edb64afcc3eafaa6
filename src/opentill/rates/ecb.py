"""The files in which the European Central Bank publishes its euro reference rates.

Source: https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates —
the CSV of one day ("Date, USD, JPY, …" and "26 January 2024, 1.0871, …"), the historical CSV (days
as 2024-01-26, "N/A" where there was no rate) and the XML of one or many days, where a ``Cube`` with
``time`` holds a ``Cube`` with ``currency`` and ``rate`` for each currency. A file is taken whole or
not at all.
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


class _Collected:
    """The days and currencies read so far, each checked as it comes."""

    def __init__(self) -> None:
        self.days: dict[int, dict[str, Decimal]] = {}
        self.skipped: set[str] = set()

    def day(self, text: str, where: str) -> dict[str, Decimal]:
        """Begin a day and return its rates, to be filled."""
        moment = _day(text, where)
        if moment in self.days:
            raise _wrong(where, f"the day {text} is there twice")
        return self.days.setdefault(moment, {})

    def rate(self, day: dict[str, Decimal], code: str, text: str, where: str) -> None:
        """Add a rate to a day, unless its currency is one of the past."""
        if code in day or code == BASE:
            raise _wrong(where, f"{code} must be there once, and {BASE} is the base")
        if not _CODE.fullmatch(code):
            raise _wrong(where, f"{code!r} is no ISO 4217 code such as USD")
        rate = Decimal(text) if _RATE.fullmatch(text) else Decimal(0)
        if not rate:
            raise _wrong(where, f"the rate {text!r} of {code} is no positive decimal number")
        if code in EXPONENTS:
            day[code] = rate
        else:
            self.skipped.add(code)

    def sheet(self) -> Sheet:
        """Return all of it, oldest day first."""
        days = tuple(Day(at, rates) for at, rates in sorted(self.days.items()) if rates)
        if not days:
            raise Invalid("file", "file must hold a rate of an active currency, and has none")
        return Sheet(base=BASE, days=days, skipped=tuple(sorted(self.skipped)))


def read(data: bytes) -> Sheet:
    """Read a file of reference rates, CSV or XML, or the ECB's zip archive of one.

    Raises Invalid on ``file``, which says where.
    """
    if data.startswith(unzip.MAGIC):
        with unzip.open_unpacked(io.BytesIO(data), MAX_BYTES) as file:
            data = file.read()
    if len(data) > MAX_BYTES:
        raise Invalid("file", f"file must be at most {MAX_BYTES // 1024 // 1024} MiB")
    if xmltext.is_xml(data[:512]):
        return _read_xml(data)
    return _read_csv(data)


def _wrong(where: str, why: str) -> Invalid:
    return Invalid("file", f"file must be the ECB's CSV or XML of reference rates: {where}: {why}")


def _day(text: str, where: str) -> int:
    """Turn a day into Unix ms of its beginning (UTC)."""
    if found := _ISO_DAY.fullmatch(text):
        year, month, day = (int(part) for part in found.groups())
    elif (found := _NAMED_DAY.fullmatch(text)) and found[2] in _MONTHS:
        year, month, day = int(found[3]), _MONTHS.index(found[2]) + 1, int(found[1])
    else:
        raise _wrong(where, f"{text[:40]!r} is no day such as 2024-01-26 or 26 January 2024")
    try:
        return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise _wrong(where, f"{text!r} is no day of the calendar") from None


def _rows(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield each row that is not blank, with where it stands; ends of rows may be ``, ``."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield f"line {reader.line_num}", cells[:-1] if not cells[-1] else cells
    except (UnicodeDecodeError, csv.Error) as error:
        raise _wrong("text", str(error).splitlines()[0]) from None


def _read_csv(data: bytes) -> Sheet:
    rows = _rows(data)
    where, header = next(rows, ("line 1", [""]))
    if header[0] != "Date" or not header[1:]:
        raise _wrong(where, "a header such as Date, USD, JPY is not there")
    if len(set(header)) != len(header):
        raise _wrong(where, "a currency is there twice")
    collected = _Collected()
    for where, cells in rows:
        if len(cells) != len(header):
            raise _wrong(where, f"{len(cells)} cells under a header of {len(header)}")
        day = collected.day(cells[0], where)
        for code, text in zip(header[1:], cells[1:], strict=True):
            if text != _NO_RATE:
                collected.rate(day, code, text, where)
    return collected.sheet()


def _read_xml(data: bytes) -> Sheet:
    """Read the XML form. A document type is refused, so that there are no entities at all."""
    collected = _Collected()
    parser = expat.ParserCreate(namespace_separator=" ")
    day: dict[str, Decimal] | None = None

    def where() -> str:
        return f"line {parser.CurrentLineNumber}"

    def refuse(*_: object) -> None:
        raise _wrong(where(), "a document type has no place here")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal day
        if name != f"{_ECB} Cube":
            return
        if "time" in attributes:
            day = collected.day(attributes["time"], where())
        elif attributes:
            if day is None or not {"currency", "rate"} <= attributes.keys():
                raise _wrong(where(), "a Cube needs a currency and a rate, inside one with a time")
            collected.rate(day, attributes["currency"], attributes["rate"], where())

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)  # noqa: FBT003 - expat's way
    except xmltext.ERRORS as error:
        raise _wrong("XML", xmltext.explain(error)) from None
    return collected.sheet()
