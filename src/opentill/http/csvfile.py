"""CSV files (RFC 4180), streamed, whose cells a spreadsheet cannot run as formulas."""

import codecs
import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from datetime import tzinfo
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from opentill.core import times
from opentill.http.fields import meaning

CONTENT_TYPE: Final = "text/csv; charset=utf-8"
WithBom: TypeAlias = Annotated[
    Annotated[bool, msgspec.Meta(description="true or false")],
    meaning("`true`: the file begins with a byte order mark, by which spreadsheets know UTF-8."),
]
_CHUNK: Final = 64 * 1024
# Spreadsheets run a cell as a formula if it begins with one of these signs (OWASP, "CSV
# Injection"), even after blanks and invisible characters. A program that also splits lines at
# semicolons, tabs or single quotes sees more beginnings of cells than this file has. PostgreSQL
# writes the long files, so the patterns must mean the same there as in Python.
_SIGN: Final = r"[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
_INVISIBLE: Final = (
    r"[\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F"
    r"\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0"
    r"\uFFF0-\uFFFB\U000E0000-\U000E0FFF]"
)
AT_START: Final = rf"^({_INVISIBLE}*{_SIGN}| *[\t\r\n])"
AFTER_SEPARATOR: Final = rf"([;\t\r\n\"])(?={_INVISIBLE}*{_SIGN})"
ANYWHERE: Final = rf"(^|[;\t\r\n\"]){_INVISIBLE}*{_SIGN}|^ *[\t\r\n]"
IN_JSON: Final = rf";(?={_INVISIBLE}*{_SIGN})"  # a semicolon in JSON is always inside a string
JSON_SEMICOLON: Final = r"\u003b"
_AT_START: Final = re.compile(AT_START)
_AFTER_SEPARATOR: Final = re.compile(AFTER_SEPARATOR)
_IN_JSON: Final = re.compile(IN_JSON)


def format_utc(millis: int | None) -> str:
    """Format a time in UTC: ``2025-01-15T09:15:00.000Z``, "" for None."""
    if millis is None:
        return ""
    moment = times.moment(millis)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def format_local(millis: int | None, zone: tzinfo) -> str:
    """Format a time in a time zone, as spreadsheets read it; "" for None."""
    if millis is None:
        return ""
    return f"{times.moment(millis, zone):%Y-%m-%d %H:%M:%S}"


def format_cell(value: Any) -> str:
    """Format a cell; text that a spreadsheet would run as a formula gets an apostrophe before it.

    JSON keeps its meaning: it begins with a brace, and its semicolons may be written as escapes.
    """
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return _IN_JSON.sub(lambda _: JSON_SEMICOLON, bytes(value).decode())
    text = str(value).replace("\x00", "")
    if not isinstance(value, str):
        return text
    prefix = "'" if _AT_START.match(text) else ""
    return prefix + _AFTER_SEPARATOR.sub(r"\1'", text)


def range_filename(what: str, start: int | None, end: int | None) -> str:
    """Return a name such as ``orders_2025-01-01_2025-01-31.csv``, ``all`` for an open end."""
    sides = ["all" if side is None else format_utc(side)[:10] for side in (start, end)]
    return f"{what}_{sides[0]}_{sides[1]}.csv"


def encode_row(cells: Iterable[str]) -> bytes:
    """Encode one row."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode()


async def with_bom(file: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield a file after a byte order mark, by which spreadsheets recognize UTF-8."""
    has_begun = False
    async for chunk in file:
        yield chunk if has_begun else codecs.BOM_UTF8 + chunk
        has_begun = True


async def encode_rows(
    columns: Iterable[str], rows: AsyncIterator[Iterable[str]]
) -> AsyncGenerator[bytes, None]:
    """Yield the file with its header row, in constant memory. Cells must be formatted already."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # the writer's defaults follow RFC 4180, with CRLF as line end
    # ``writerow`` returns the number of characters that it has written.
    length = writer.writerow(columns)
    async for row in rows:
        length += writer.writerow(row)
        if length > _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
            length = 0
    yield buffer.getvalue().encode()
