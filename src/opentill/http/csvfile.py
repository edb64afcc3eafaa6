"""CSV files for people: RFC 4180, streamed, and inert in a spreadsheet."""

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
# What spreadsheets run as formulas (OWASP, "CSV Injection"): what begins with one of these signs,
# also behind blanks and characters that nobody sees. A program that splits a line elsewhere than we
# do (at semicolons or tabs, or by reading a quote on its own) finds more beginnings than we write.
# The patterns mean the same to Python and to PostgreSQL, which writes the long files.
_SIGN: Final = r"[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
_UNSEEN: Final = (
    r"[\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F"
    r"\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0"
    r"\uFFF0-\uFFFB\U000E0000-\U000E0FFF]"
)
AT_START: Final = rf"^({_UNSEEN}*{_SIGN}| *[\t\r\n])"
AFTER_SEPARATOR: Final = rf"([;\t\r\n\"])(?={_UNSEEN}*{_SIGN})"
ANYWHERE: Final = rf"(^|[;\t\r\n\"]){_UNSEEN}*{_SIGN}|^ *[\t\r\n]"
IN_JSON: Final = rf";(?={_UNSEEN}*{_SIGN})"  # which is always inside a string of it
JSON_SEMICOLON: Final = r"\u003b"
_AT_START: Final = re.compile(AT_START)
_AFTER_SEPARATOR: Final = re.compile(AFTER_SEPARATOR)
_IN_JSON: Final = re.compile(IN_JSON)


def utc(millis: int | None) -> str:
    """Write a time as people read it: ``2025-01-15T09:15:00.000Z``, or nothing."""
    if millis is None:
        return ""
    moment = times.moment(millis)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def local(millis: int | None, zone: tzinfo) -> str:
    """Write a time as a zone's clocks show it and spreadsheets read it; "" for none."""
    if millis is None:
        return ""
    return f"{times.moment(millis, zone):%Y-%m-%d %H:%M:%S}"


def cell(value: Any) -> str:
    """Write one cell; in front of text that a spreadsheet would run there is an apostrophe.

    JSON keeps its meaning: it begins with a brace, and a semicolon may be written as an escape.
    """
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return _IN_JSON.sub(lambda _: JSON_SEMICOLON, bytes(value).decode())
    text = str(value).replace("\x00", "")
    if not isinstance(value, str):
        return text
    before = "'" if _AT_START.match(text) else ""
    return before + _AFTER_SEPARATOR.sub(r"\1'", text)


def filename(what: str, start: int | None, end: int | None) -> str:
    """Name the range: ``orders_2025-01-01_2025-01-31.csv``, ``all`` where a side is open."""
    sides = ["all" if side is None else utc(side)[:10] for side in (start, end)]
    return f"{what}_{sides[0]}_{sides[1]}.csv"


def line(cells: Iterable[str]) -> bytes:
    """Write one row."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode()


async def with_bom(file: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield a file with the mark by which spreadsheets see that it is UTF-8."""
    begun = False
    async for chunk in file:
        yield chunk if begun else codecs.BOM_UTF8 + chunk
        begun = True


async def chunks(
    columns: Iterable[str], rows: AsyncIterator[Iterable[str]]
) -> AsyncGenerator[bytes, None]:
    """Yield the file with its header row, in constant memory. Cells are written as they are."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # its defaults are RFC 4180 with CRLF
    length = writer.writerow(columns)  # it returns what ``write`` does: how many characters
    async for row in rows:
        length += writer.writerow(row)
        if length > _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
            length = 0
    yield buffer.getvalue().encode()
