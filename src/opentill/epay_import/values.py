"""Reading single values of the old server: amounts, times, numbers and texts."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from opentill.epay_import.model import BadSource, LeftOut, Row
from opentill.epay_import.tables import TABLES

_MONEY: Final = re.compile(rb"(-?)([0-9]{1,12})(?:\.([0-9]{1,2})0*)?", re.ASCII)
_NUMERIC: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_TIME: Final = re.compile(rb"(\d{4}-\d\d-\d\d \d\d):(\d\d):(\d\d)(?:\.\d+)?", re.ASCII)
_MOST_HOURS: Final = 100_000
_MOST_DIGITS: Final = 18


def minor(value: bytes | None, column: str) -> int:
    """Return an amount in minor units, 0 for NULL or an empty text. Raises LeftOut."""
    if not value:
        return 0
    match = _MONEY.fullmatch(value)
    if match is None:
        if _NUMERIC.fullmatch(value) and b"." in value:
            msg = f"{column} has more than two decimals"
            raise LeftOut(msg)
        msg = f"{column} is no amount"
        raise LeftOut(msg)
    cents = int(match[2]) * 100 + int((match[3] or b"0").ljust(2, b"0"))
    return -cents if match[1] else cents


def is_number(text: str) -> bool:
    """Whether a text is a whole number of at most eighteen digits."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def number(value: bytes | None, column: str, default: int | None = None) -> int:
    """Return a whole number. Raises LeftOut; NULL is ``default`` if there is one."""
    if value is None and default is not None:
        return default
    digits = (value or b"").decode(errors="replace")
    if not is_number(digits.removeprefix("-")):
        msg = f"{column} is no number"
        raise LeftOut(msg)
    return int(digits)


def text(row: Row, value: bytes | None, column: str) -> str:
    """Return a text, "" for NULL. Raises BadSource if it is no UTF-8, LeftOut if it has a NUL."""
    if not value:
        return ""
    try:
        decoded = value.decode()
    except UnicodeDecodeError:
        reason = (
            f"{column} is no UTF-8: make the file again with --default-character-set=utf8mb4, from"
            " a database whose tables have the right character set"
        )
        raise BadSource(reason, row.table, row.number) from None
    if "\x00" in decoded:
        msg = f"{column} has a NUL character"
        raise LeftOut(msg)
    return decoded


def as_dict(row: Row, kind: str) -> dict[str, bytes | None]:
    """Return a row of a small table by the names of its columns."""
    table = next(table for name, table in TABLES.items() if name == kind)
    return dict(zip(table.columns, row.values, strict=True))


def time_reader(zone: str) -> Callable[[bytes | None, str], int | None]:
    """Return a function that reads local times of a zone as Unix ms.

    It returns None for NULL and for the date 0000-00-00, and raises LeftOut for anything else that
    is no time. Rows of one hour are next to each other, so the start of each hour is computed once.
    """
    place = ZoneInfo(zone)
    hours: dict[bytes, int] = {}

    def read(value: bytes | None, column: str) -> int | None:
        if not value or value.startswith(b"0000-00-00"):
            return None
        match = _TIME.fullmatch(value)
        if match is None:
            msg = f"{column} is no time"
            raise LeftOut(msg)
        start = hours.get(match[1])
        if start is None:
            try:
                local = datetime.strptime(match[1].decode(), "%Y-%m-%d %H").replace(tzinfo=place)
            except ValueError:
                msg = f"{column} is no time"
                raise LeftOut(msg) from None
            if len(hours) > _MOST_HOURS:
                hours.clear()
            start = hours[match[1]] = int(local.timestamp() * 1000)
        return start + (int(match[2]) * 60 + int(match[3])) * 1000

    return read
