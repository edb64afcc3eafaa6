"""Times in Unix ms: the plausibility of external ones, and their conversion for display."""

from datetime import UTC, datetime, tzinfo
from typing import Final

EARLIEST_MS: Final = 946_684_800_000  # the year 2000
LATEST_MS: Final = 4_102_444_800_000  # the year 2100
_FIRST_SHOWN_MS: Final = 0
# This time is still in the year 9999 in every time zone, because none is more than 14 hours ahead
# of UTC.
_LAST_SHOWN_MS: Final = 253_402_300_799_999 - 14 * 3_600_000


def is_credible(time_ms: int) -> bool:
    """Whether a time reported by a provider or a bank is plausible."""
    return EARLIEST_MS <= time_ms < LATEST_MS


def moment(time_ms: int, zone: tzinfo = UTC) -> datetime:
    """Return a stored time in a zone, clamped to the years 1970 to 9999.

    Clamping keeps an implausible time from breaking a page.
    """
    shown_ms = min(max(time_ms, _FIRST_SHOWN_MS), _LAST_SHOWN_MS)
    seconds, millis = divmod(shown_ms, 1000)
    return datetime.fromtimestamp(seconds, zone).replace(microsecond=millis * 1000)


def iso(time_ms: int) -> str:
    """Return a stored time in UTC as ISO 8601, to the second: the attribute of a ``<time>``."""
    return moment(time_ms).isoformat(timespec="seconds").replace("+00:00", "Z")
