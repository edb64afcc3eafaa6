"""Timestamps of V2 messages: real time, because shops compare them with their own clocks."""

import re
from typing import Final

from opentill.db.clock import now_ms

# A timestamp may differ from our clock by this, in both directions.
MAX_SKEW_S: Final = 300
_TIMESTAMP: Final = re.compile(r"[0-9]{10}", re.ASCII)


def now_s() -> int:
    """Return real time, Unix s."""
    return now_ms() // 1000


def is_recent(text: str) -> bool:
    """Whether a text is a timestamp that is at most ``MAX_SKEW_S`` from now."""
    is_timestamp = _TIMESTAMP.fullmatch(text) is not None
    return is_timestamp and abs(now_s() - int(text)) <= MAX_SKEW_S
