"""The time zone of the console: UTC, since its merchants are in many zones. Each page names it."""

from typing import Final
from zoneinfo import ZoneInfo

ZONE: Final = ZoneInfo("UTC")
