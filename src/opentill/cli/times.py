"""Parsing and formatting of times in UTC (decision 0062)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from opentill.core import times

DAY_MS: Final = 86_400_000
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
_UNITS_MS: Final = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_DATE_AND_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{3})?)?) ?(?P<zone>Z|UTC|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
_MILLIS: Final = re.compile(r"[0-9]{9,}")  # nine or more digits are Unix ms and not a year
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Span(NamedTuple):
    """A span in Unix ms: a whole day, or a moment, whose start equals its end."""

    first: int
    last: int


def duration_ms(text: str) -> int | None:
    """Parse ``8d``, ``2h``, ``30m`` or a combination (``1d12h``) into ms, None if invalid."""
    parts = re.findall(r"([0-9]{1,6})([dhms])", text, re.ASCII)
    total = sum(int(number) * _UNITS_MS[unit] for number, unit in parts)
    return total if total and "".join(map("".join, parts)) == text else None


def duration(millis: int) -> str:
    """Format a duration to the second, in the form of ``duration_ms``: ``1d12h``; ``0s``."""
    parts, remaining = "", millis
    for unit, length in _UNITS_MS.items():
        count, remaining = divmod(remaining, length)
        parts += f"{count}{unit}" if count else ""
    return parts or "0s"


def is_relative(text: str) -> bool:
    """Whether a text is relative to now: ``today``, ``yesterday``, ``7d``."""
    return text in _DAYS_AGO or duration_ms(text.removesuffix(" ago")) is not None


def parse_relative(text: str, now: int, *, ahead: bool = False) -> Span:
    """Return the span of a relative text at ``now`` (Unix ms).

    A duration is subtracted from ``now`` or, with ``ahead``, added to it.
    """
    if (days := _DAYS_AGO.get(text)) is not None:
        return _day(now // DAY_MS * DAY_MS - days * DAY_MS)
    millis = duration_ms(text.removesuffix(" ago"))
    if millis is None:
        raise AssertionError
    moment = min(now + millis, _LAST_MS) if ahead else max(now - millis, 0)
    return Span(moment, moment)


def parse_absolute(text: str) -> Span | None:
    """Return the span of a date, a time or Unix ms, None for other text."""
    if _MILLIS.fullmatch(text):
        moment = min(int(text), _LAST_MS)
        return Span(moment, moment)
    match = _DATE_AND_TIME.fullmatch(text)
    if match is None:
        return None
    zone = match["zone"] if match["zone"] not in (None, "Z", "UTC") else "+00:00"
    try:
        at = datetime.fromisoformat(f"{match['day']}T{match['time'] or '00:00'}{zone}")
    except ValueError:
        return None
    moment = (at - _EPOCH) // timedelta(milliseconds=1)
    return Span(moment, moment) if match["time"] else _day(moment)


def _day(start: int) -> Span:
    return Span(start, start + DAY_MS - 1)


def day(millis: int) -> str:
    """Format the day (UTC) of Unix ms."""
    return _at(millis).strftime("%Y-%m-%d")


def format_time(millis: int) -> str:
    """Format Unix ms as a time (UTC) to the second: ``2026-11-22 14:30:05``."""
    return _at(millis).strftime("%Y-%m-%d %H:%M:%S")


def _at(millis: int) -> datetime:
    return times.moment(millis)
