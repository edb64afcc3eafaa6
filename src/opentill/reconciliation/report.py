"""Reads a settlement report, and stores its rows on disk while they are compared.

A report is CSV in UTF-8 with a header row; ``model.COLUMNS`` describes its columns. The rows are
stored in an anonymous SQLite file that disappears with the process.
"""

import csv
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Final, Self

from opentill.core import times
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, MOST_MINOR, exponent
from opentill.reconciliation import alipay, stripe, wechat_pay
from opentill.reconciliation.model import (
    COLUMNS,
    KINDS,
    Kind,
    Period,
    Row,
    bounds_of_day,
    bounds_of_moment,
)

_BATCH: Final = 1000
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?", re.ASCII)
_MILLIS: Final = re.compile(r"[0-9]{9,15}", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}(?:-?[0-9])?)", re.ASCII)
_REFERENCE_MOST: Final = 255


def _refuse(line: int, column: str) -> Invalid:
    return Invalid("file", f"line {line}: {column} must be {COLUMNS[column]}")


def read(lines: Iterable[str], period: Period | None = None) -> Iterator[Row]:
    """Yield the rows of a report. Raises Invalid that names the line and what is accepted.

    Stores in ``period`` the time that the report says it covers, if it says so, the kinds of its
    movements, and its account.
    Reports that Stripe and WeChat Pay export are recognized by their columns, Alipay's by their
    first line.
    """
    period, rest = period or Period(), iter(lines)
    reader = csv.reader(rest, strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, None) or []]
        if alipay.is_bill(header):
            yield from alipay.read(reader, period)
            return
        if wechat_pay.is_bill(header):
            period.kinds = wechat_pay.kinds_of(header)
            yield from wechat_pay.read(rest, header, period)
            return
        parse_row = stripe.find_parser(header)
        if parse_row is not None:
            yield from stripe.read(reader, header, parse_row)
            return
        if missing := [name for name in COLUMNS if header.count(name) != 1]:
            reason = f"line 1: each of the columns {', '.join(COLUMNS)} must be named once"
            raise Invalid("file", f"{reason}; not so: {', '.join(missing)}")
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) != len(header):
                    reason = f"line {reader.line_num}: as many cells as line 1 are needed"
                    raise Invalid("file", f"{reason}: {len(header)}, not {len(cells)}")
                row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
                yield _parse_row(reader.line_num, row)
    except csv.Error as error:
        raise Invalid("file", f"line {reader.line_num}: must be CSV ({error})") from None
    except UnicodeDecodeError:
        reason = f"line {reader.line_num + 1} or after: must be CSV in UTF-8"
        raise Invalid("file", reason) from None


def _parse_row(line: int, cells: Mapping[str, str]) -> Row:
    kind = KINDS.get(cells["kind"])
    if kind is None:
        raise _refuse(line, "kind")
    if not 1 <= len(cells["reference"]) <= _REFERENCE_MOST or "\x00" in cells["reference"]:
        raise _refuse(line, "reference")
    if cells["currency"] not in EXPONENTS:
        raise _refuse(line, "currency")
    settled_at = _parse_time(line, cells["settled_at"])
    complete_since, complete_until = _bounds(settled_at, cells["settled_at"])
    return Row(
        line=line,
        kind=kind,
        reference=cells["reference"],
        amount_minor=_parse_amount(line, cells["amount"], cells["currency"]),
        currency=cells["currency"],
        settled_at=settled_at,
        complete_since=complete_since,
        complete_until=complete_until,
    )


def _parse_amount(line: int, text: str, currency: str) -> int:
    if _AMOUNT.fullmatch(text) is None:
        raise _refuse(line, "amount")
    exact = Decimal(text).scaleb(exponent(currency))
    if not 0 < exact <= MOST_MINOR or exact != int(exact):
        raise _refuse(line, "amount")
    return int(exact)


def _parse_time(line: int, text: str) -> int:
    try:
        time_ms = int(text) if _MILLIS.fullmatch(text) else _millis_of(text)
    except (ValueError, OverflowError):
        raise _refuse(line, "settled_at") from None
    if not times.is_credible(time_ms):
        raise _refuse(line, "settled_at")
    return time_ms


def _bounds(settled_at: int, text: str) -> tuple[int, int]:
    """Return what a row says about the completeness of its report; ``text`` is the cell."""
    if _MILLIS.fullmatch(text):
        return bounds_of_moment(settled_at, 1)
    if _DATE.fullmatch(text):
        return bounds_of_day(settled_at, UTC)
    return bounds_of_moment(settled_at, 1 if settled_at % 1000 else 1000)


def _millis_of(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class Stage:
    """The rows of a report, for lookups by kind and reference."""

    def __init__(self, rows: Iterator[Row]) -> None:
        """Store all rows. Raises the errors of ``rows``."""
        self._sql = sqlite3.connect("", isolation_level=None)  # "" creates a temporary file
        self._sql.executescript("""
            pragma journal_mode = off;
            pragma cache_size = -8192;
            create table rows (line integer primary key, kind text, reference text,
                amount_minor integer, currency text, settled_at integer, complete_since integer,
                complete_until integer, at_once integer, taken integer default 0);
            begin;
        """)
        while batch := list(islice(rows, _BATCH)):
            self._sql.executemany(
                "insert into rows values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
                [
                    (row.line, row.kind, row.reference, row.amount_minor, row.currency,
                     row.settled_at, row.complete_since, row.complete_until, row.at_once)
                    for row in batch
                ],
            )  # fmt: skip
        self._sql.execute("create index named on rows (kind, reference)")
        self._sql.execute("commit")

    def __enter__(self) -> Self:
        """Return the stage."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database, which deletes its file."""
        self._sql.close()

    def span(self) -> Period:
        """Return the time from the first to the last row; days count as whole days."""
        since, until = self._sql.execute(
            "select min(min(settled_at, complete_since)), max(max(settled_at, complete_until))"
            " from rows"
        ).fetchone()
        return Period(since=since, until=until)

    def complete(self) -> Period:
        """Return the time of which the report has all movements, according to its rows."""
        since, until = self._sql.execute(
            "select min(complete_since), max(complete_until) from rows"
        ).fetchone()
        return Period(since=since, until=until)

    def end_of_moment(self, until: int) -> int:
        """Return the end of the last row's second or day, of the rows until a time.

        Returns ``until`` if the report's times are exact, or if it is later.
        """
        (end,) = self._sql.execute(
            "select max(max(complete_since - 1, complete_until)) from rows where settled_at <= ?",
            (until,),
        ).fetchone()
        return until if end is None else max(until, int(end))

    def takes_at_once(self) -> bool:
        """Whether the provider takes disputed money when a dispute opens."""
        return bool(self._sql.execute("select max(at_once) from rows").fetchone()[0])

    def count(self, since: int, until: int) -> int:
        """Count the rows between two times."""
        sql = "select count(*) from rows where settled_at between ? and ?"
        return int(self._sql.execute(sql, (since, until)).fetchone()[0])

    def take(self, kind: Kind, references: tuple[str, ...]) -> list[Row]:
        """Return the rows about an item, and mark them as taken."""
        marks = ", ".join("?" * len(references))
        rows = self._rows(
            f"where kind = ? and reference in ({marks}) and not taken order by line",
            (kind, *references),
        )
        for row in rows:
            self._sql.execute("update rows set taken = 1 where line = ?", (row.line,))
        return rows

    def look(self, kind: Kind, references: tuple[str, ...]) -> list[tuple[int, str]]:
        """Return amounts and currencies of the rows about an item that are not taken yet."""
        marks = ", ".join("?" * len(references))
        rows = self._rows(
            f"where kind = ? and reference in ({marks}) and not taken", (kind, *references)
        )
        return [(row.amount_minor, row.currency) for row in rows]

    def untaken(self, since: int, until: int, after_line: int) -> list[Row]:
        """Return a batch of the rows between two times that are not taken yet, in file order."""
        return self._rows(
            "where not taken and settled_at between ? and ? and line > ? order by line limit ?",
            (since, until, after_line, _BATCH),
        )

    def _rows(self, where: str, values: tuple[object, ...]) -> list[Row]:
        columns = (
            "line, kind, reference, amount_minor, currency, settled_at, complete_since,"
            " complete_until, at_once"
        )
        names = columns.split(", ")
        cursor = self._sql.execute(f"select {columns} from rows {where}", values)  # noqa: S608 - interpolates constants of this program only
        return [Row(**dict(zip(names, row, strict=True))) for row in cursor]
