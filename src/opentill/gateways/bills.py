"""Bills of whole days of China, which Alipay and WeChat Pay make in the following morning.

Both providers return a link to a compressed file, and say the same of a day whose bill is late and
of a day without movements: that there is no bill.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import BinaryIO, Final

import msgspec

from opentill.core.errors import ConfigurationError, Invalid

# Days of China begin so long before those of UTC; there is no daylight saving time.
OFFSET_MS: Final = 8 * 3_600_000
# Both providers make the bill of a day until ten o'clock of the next one.
DELAY_MS: Final = 10 * 3_600_000
MOST_PACKED: Final = 256 * 1024 * 1024
MOST_BYTES: Final = 1024 * 1024 * 1024
DOWNLOAD_S: Final = 30.0  # shorter than a link of WeChat Pay's is valid
_DAY_MS: Final = 86_400_000
# A day that ended so long ago and has no bill had no movements.
_SETTLED_MS: Final = _DAY_MS
_PAUSES_S: Final = (1.0, 3.0)
_log: Final = logging.getLogger(__name__)


class TryAgain(Exception):
    """A bill was not received; another request may succeed. The text says why."""


class NoBill(TryAgain):
    """The provider has no bill of a day: it is late, or the day had no movements."""


class Day(msgspec.Struct, frozen=True):
    """A day of China: its name such as "2026-11-27", and when it begins and ends (Unix ms)."""

    name: str
    start_ms: int
    end_ms: int  # the start of the next day


# Fetches the bill of a day and adds it to the report. Raises TryAgain, NoBill and
# ConfigurationError.
AddBill = Callable[[Day], Awaitable[None]]


async def fetch_days(
    provider: str, add: AddBill, since: int | None, until: int | None, now_ms: int
) -> None:
    """Fetch the bills of all days between two times (Unix ms, inclusive), with repetitions.

    Raises Invalid without ``since``, and ConfigurationError for a bill that cannot be fetched.
    """
    if since is None or until is None:
        raise Invalid("from", f"from must be a day: {provider} has a bill for each day")
    for day in days(since, until):
        is_recent = now_ms - day.end_ms < _SETTLED_MS
        try:
            await _fetch_repeatedly(add, day, is_recent=is_recent)
        except NoBill:
            if is_recent:
                msg = (
                    f"{provider} has no bill of {day.name}: it is late, or that day had no payments"
                    " and refunds. Fetch it again in half an hour; a day later, it counts as a day"
                    " without movements"
                )
                raise ConfigurationError(msg) from None
            _log.info("%s has no bill of %s: a day without movements", provider, day.name)
        except TryAgain as failure:
            reason = f"was not received from {provider} ({failure})"
            msg = f"the bill of {day.name} {reason}: fetch it again in half an hour"
            raise ConfigurationError(msg) from None


async def _fetch_repeatedly(add: AddBill, day: Day, *, is_recent: bool) -> None:
    """Fetch a bill, at most three times. Raises the last failure."""
    for pause_s in _PAUSES_S:
        try:
            await add(day)
        except NoBill:
            if not is_recent:
                raise
        except TryAgain as failure:
            _log.info("the bill of %s is fetched again: %s", day.name, failure)
        else:
            return
        await asyncio.sleep(pause_s)
    await add(day)


def days(since: int, until: int) -> Iterator[Day]:
    """Yield the days that have moments of a range (Unix ms, inclusive)."""
    first, last = ((time_ms + OFFSET_MS) // _DAY_MS for time_ms in (since, until))
    for number in range(first, last + 1):
        name = (date(1970, 1, 1) + timedelta(days=number)).isoformat()
        start_ms = number * _DAY_MS - OFFSET_MS
        yield Day(name, start_ms, start_ms + _DAY_MS)


def china_time(time_ms: int) -> str:
    """Return a time (Unix ms) as Alipay's bills write it: 2026年11月27日 00:00:00."""
    moment = datetime.fromtimestamp((time_ms + OFFSET_MS) / 1000, UTC)
    return f"{moment:%Y}年{moment:%m}月{moment:%d}日 {moment:%H:%M:%S}"


class JoinedBills:
    """The rows of several bills in one file, below the header of the first one."""

    def __init__(self, target: BinaryIO) -> None:
        """``target`` gets the lines in UTF-8."""
        self._target = target
        self.header = ""

    def write(self, line: str) -> None:
        """Write a line, or text of several lines."""
        self._target.write(line.encode())

    def begin_bill(self, header: str, day: Day | None = None) -> None:
        """Begin the rows of a bill. Raises ConfigurationError for one with other columns."""
        if not self.header:
            self.header = header
            self.write(f"{header}\r\n")
        elif self.header != header and day is not None:
            msg = f"the bill of {day.name} has other columns than the one before: fetch it alone"
            raise ConfigurationError(msg)
