"""The time zone of the console's pages, which are about merchants in many: UTC, named on each."""

from typing import Final
from zoneinfo import ZoneInfo

ZONE: Final = ZoneInfo("UTC")
