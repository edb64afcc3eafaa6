"""Reads a settlement report, and keeps its rows on disk while they are compared.

CSV in UTF-8 with a header row; ``model.COLUMNS`` says what is in it. Its rows are put into a SQLite
file without a name that disappears with the process.
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
from opentill.reconciliation import stripe
from opentill.reconciliation.model import COLUMNS, KINDS, Kind, Row

_BATCH: Final = 1000
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?", re.ASCII)
_MILLIS: Final = re.compile(r"[0-9]{9,15}", re.ASCII)
_REFERENCE_MOST: Final = 255


def _refuse(line: int, column: str) -> Invalid:
    return Invalid("file", f"line {line}: {column} must be {COLUMNS[column]}")


def read(lines: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of a report. Raises Invalid that names the line and what is accepted.

    A report as Stripe exports it is known by its columns, and read as it is.
    """
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, None) or []]
        row = stripe.reader(header)
        if row is not None:
            yield from stripe.rows(reader, header, row)
            return
        if missing := [name for name in COLUMNS if header.count(name) != 1]:
            reason = f"line 1: each of the columns {', '.join(COLUMNS)} must be named once"
            raise Invalid("file", f"{reason}; not so: {', '.join(missing)}")
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) != len(header):
                    reason = f"line {reader.line_num}: as many cells as line 1 are needed"
                    raise Invalid("file", f"{reason}: {len(header)}, not {len(cells)}")
                named = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
                yield _row(reader.line_num, named)
    except csv.Error as error:
        raise Invalid("file", f"line {reader.line_num}: must be CSV ({error})") from None
    except UnicodeDecodeError:
        reason = f"line {reader.line_num + 1} or after: must be CSV in UTF-8"
        raise Invalid("file", reason) from None


def _row(line: int, cells: Mapping[str, str]) -> Row:
    kind = KINDS.get(cells["kind"])
    if kind is None:
        raise _refuse(line, "kind")
    if not 1 <= len(cells["reference"]) <= _REFERENCE_MOST or "\x00" in cells["reference"]:
        raise _refuse(line, "reference")
    if cells["currency"] not in EXPONENTS:
        raise _refuse(line, "currency")
    return Row(
        line=line,
        kind=kind,
        reference=cells["reference"],
        amount_minor=_minor(line, cells["amount"], cells["currency"]),
        currency=cells["currency"],
        settled_at=_time(line, cells["settled_at"]),
    )


def _minor(line: int, text: str, currency: str) -> int:
    if _AMOUNT.fullmatch(text) is None:
        raise _refuse(line, "amount")
    exact = Decimal(text).scaleb(exponent(currency))
    if not 0 < exact <= MOST_MINOR or exact != int(exact):
        raise _refuse(line, "amount")
    return int(exact)


def _time(line: int, text: str) -> int:
    try:
        time_ms = int(text) if _MILLIS.fullmatch(text) else _millis_of(text)
    except (ValueError, OverflowError):
        raise _refuse(line, "settled_at") from None
    if not times.is_credible(time_ms):
        raise _refuse(line, "settled_at")
    return time_ms


def _millis_of(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class Stage:
    """The rows of one report, to be looked up by kind and reference."""

    def __init__(self, rows: Iterator[Row]) -> None:
        """Take all rows in. Raises what reading them does."""
        self._sql = sqlite3.connect("", isolation_level=None)  # SQLite's own temporary file
        self._sql.executescript("""
            pragma journal_mode = off;
            pragma cache_size = -8192;
            create table rows (line integer primary key, kind text, reference text,
                amount_minor integer, currency text, settled_at integer, at_once integer,
                seen integer default 0);
            begin;
        """)
        while batch := list(islice(rows, _BATCH)):
            self._sql.executemany(
                "insert into rows values (?, ?, ?, ?, ?, ?, ?, 0)",
                [
                    (row.line, row.kind, row.reference, row.amount_minor, row.currency,
                     row.settled_at, row.at_once)
                    for row in batch
                ],
            )  # fmt: skip
        self._sql.execute("create index named on rows (kind, reference)")
        self._sql.execute("commit")

    def __enter__(self) -> Self:
        """Return the stage."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database, with which its file disappears."""
        self._sql.close()

    def span(self) -> tuple[int, int] | None:
        """Return the times of the first and last row, Unix ms; None without rows."""
        first, last = self._sql.execute(
            "select min(settled_at), max(settled_at) from rows"
        ).fetchone()
        return None if first is None else (first, last)

    def takes_at_once(self) -> bool:
        """Return whether the provider takes disputed money when a dispute opens."""
        return bool(self._sql.execute("select max(at_once) from rows").fetchone()[0])

    def count(self, since: int, until: int) -> int:
        """Return how many rows there are between two times."""
        sql = "select count(*) from rows where settled_at between ? and ?"
        found: int = self._sql.execute(sql, (since, until)).fetchone()[0]
        return found

    def take(self, kind: Kind, references: tuple[str, ...]) -> list[Row]:
        """Return the rows of one thing, which are then seen."""
        marks = ", ".join("?" * len(references))
        rows = self._rows(
            f"where kind = ? and reference in ({marks}) and not seen order by line",
            (kind, *references),
        )
        for row in rows:
            self._sql.execute("update rows set seen = 1 where line = ?", (row.line,))
        return rows

    def look(self, kind: Kind, references: tuple[str, ...]) -> list[tuple[int, str]]:
        """Return amount and currency of the rows of one thing that nobody took, and take none."""
        marks = ", ".join("?" * len(references))
        rows = self._rows(
            f"where kind = ? and reference in ({marks}) and not seen", (kind, *references)
        )
        return [(row.amount_minor, row.currency) for row in rows]

    def rest(self, since: int, until: int, after_line: int) -> list[Row]:
        """Return a batch of the rows between two times that nobody took, in the file's order."""
        return self._rows(
            "where not seen and settled_at between ? and ? and line > ? order by line limit ?",
            (since, until, after_line, _BATCH),
        )

    def _rows(self, where: str, values: tuple[object, ...]) -> list[Row]:
        columns = "line, kind, reference, amount_minor, currency, settled_at, at_once"
        names = columns.split(", ")
        found = self._sql.execute(f"select {columns} from rows {where}", values)  # noqa: S608 - ours
        return [Row(**dict(zip(names, row, strict=True))) for row in found]
