"""Plausibility of external times, and the conversion of stored ones."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from opentill.core import times


@pytest.mark.parametrize(
    ("time_ms", "is_credible"),
    [
        (times.EARLIEST_MS, True),
        (times.EARLIEST_MS - 1, False),
        (1_795_000_000_000, True),
        (times.LATEST_MS - 1, True),
        (times.LATEST_MS, False),
        (2**62, False),
        (-(2**62), False),
    ],
)
def test_times_of_this_century_are_credible(time_ms: int, *, is_credible: bool) -> None:
    assert times.is_credible(time_ms) is is_credible


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Niue")])
@pytest.mark.parametrize("time_ms", [2**62, 2**80, -(2**62), 253_402_300_799_999, -1])
def test_any_number_converts_to_a_time(time_ms: int, zone: ZoneInfo) -> None:
    assert times.moment(time_ms, zone).year in {1969, 1970, 9999}


def test_a_usual_time_keeps_its_milliseconds() -> None:
    assert times.moment(1_795_000_000_123).isoformat() == "2026-11-18T11:06:40.123000+00:00"
