"""Times in Unix ms that come from outside: which are believed, and how any stored one is shown."""

from datetime import UTC, datetime, tzinfo
from typing import Final

EARLIEST_MS: Final = 946_684_800_000  # the year 2000
LATEST_MS: Final = 4_102_444_800_000  # the year 2100
_FIRST_SHOWN_MS: Final = 0
# So that it is December 31 of the year 9999 in every zone, the furthest of which is 14 hours ahead.
_LAST_SHOWN_MS: Final = 253_402_300_799_999 - 14 * 3_600_000


def is_credible(time_ms: int) -> bool:
    """Return whether a time that a provider or a bank names can be meant."""
    return EARLIEST_MS <= time_ms < LATEST_MS


def moment(time_ms: int, zone: tzinfo = UTC) -> datetime:
    """Return a stored time in a zone; one beyond the years 1970 to 9999 as the nearest within.

    Whatever is stored can be shown: no page fails for one odd time.
    """
    shown = min(max(time_ms, _FIRST_SHOWN_MS), _LAST_SHOWN_MS)
    seconds, millis = divmod(shown, 1000)
    return datetime.fromtimestamp(seconds, zone).replace(microsecond=millis * 1000)
