"""CSV files for people: RFC 4180, streamed, and inert in a spreadsheet."""

import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

CONTENT_TYPE: Final = "text/csv; charset=utf-8"
_CHUNK: Final = 64 * 1024
# Cells that begin so are run as formulas by spreadsheets (OWASP, "CSV Injection").
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def utc(millis: int | None) -> str:
    """Write a time as people read it: ``2025-01-15T09:15:00.000Z``, or nothing."""
    if millis is None:
        return ""
    moment = datetime.fromtimestamp(millis // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def cell(value: Any) -> str:
    """Write one cell; text that a spreadsheet would run gets an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()  # a JSON object begins with a brace
    text = str(value).replace("\x00", "")
    if isinstance(value, str) and text.lstrip(" ").startswith(FORMULA):
        return "'" + text
    return text


def filename(what: str, start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    sides = ["all" if side is None else utc(side)[:10] for side in (start, end)]
    return f"{what}_{sides[0]}_{sides[1]}.csv"


def line(cells: Iterable[str]) -> bytes:
    """Write one row."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode()


async def chunks(
    columns: Iterable[str], rows: AsyncIterator[Iterable[str]]
) -> AsyncGenerator[bytes, None]:
    """Yield the file with its header row, in constant memory. Cells are written as they are."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # its defaults are RFC 4180 with CRLF
    writer.writerow(columns)
    async for row in rows:
        writer.writerow(row)
        if buffer.tell() > _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()
