"""Days and periods in time zones consist of whole quarter hours, even when clocks change."""

import itertools
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from opentill.figures.model import (
    FIRST_DAY,
    QUARTER_MS,
    Sums,
    day_bounds,
    last_days,
    local,
    millis,
    next_days,
    periods,
)

HOUR = 3_600_000


def to_unix_ms(zone: str, *moment: int) -> int:
    """Return a local time as Unix ms."""
    return millis(datetime(*moment, tzinfo=ZoneInfo(zone)))


@pytest.mark.parametrize(
    ("name", "middle_day", "hours"),
    [
        ("Asia/Kathmandu", date(2026, 3, 29), 24),
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/St_Johns", date(2026, 3, 8), 23),
        ("America/St_Johns", date(2026, 11, 1), 25),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("America/Havana", date(2026, 3, 8), 23),  # on this day, the clocks skip midnight
        ("Pacific/Apia", date(2011, 12, 30), 0),  # the calendar of Samoa skipped this day
    ],
)
def test_consecutive_days_have_no_gap_and_the_quarter_hours_of_their_date(
    name: str, middle_day: date, hours: float
) -> None:
    zone = ZoneInfo(name)
    days = [day_bounds(middle_day + timedelta(days=number), zone) for number in range(-3, 4)]
    assert days[3].until - days[3].since == hours * HOUR
    assert all(day.until == next_day.since for day, next_day in itertools.pairwise(days))
    for day in days:
        assert day.since % QUARTER_MS == 0
        for quarter in range(day.since, day.until, QUARTER_MS):
            assert local(quarter, zone).date() == day.date
            assert local(quarter + QUARTER_MS - 1, zone).date() == day.date


def test_since_1980_days_of_every_zone_begin_at_a_quarter_hour() -> None:
    days = [
        date(year, month, 1)
        for year in range(FIRST_DAY.year, FIRST_DAY.year + 60)
        for month in (1, 7)
    ]
    assert days[0] == FIRST_DAY
    for name in available_timezones():
        zone = ZoneInfo(name)
        assert not any(day_bounds(day, zone).since % QUARTER_MS for day in days), name


def test_the_last_days_and_the_next_days_include_today() -> None:
    now = to_unix_ms("Asia/Kathmandu", 2026, 5, 1, 0, 10)
    zone = ZoneInfo("Asia/Kathmandu")
    assert [day.date for day in last_days(now, zone, 2)] == [date(2026, 4, 30), date(2026, 5, 1)]
    assert [day.date for day in next_days(now, zone, 2)] == [date(2026, 5, 1), date(2026, 5, 2)]


@pytest.mark.parametrize(
    ("now", "days", "since", "before_since", "before_until"),
    [
        ((2026, 10, 26, 14, 20), 1, (26, 0, 0), (25, 0, 0), (25, 14, 15)),
        ((2026, 10, 25, 14, 20), 1, (25, 0, 0), (24, 0, 0), (24, 14, 15)),
        ((2026, 10, 28, 0, 5), 7, (22, 0, 0), (15, 0, 0), (21, 0, 0)),
        # The clocks change within the period, but it ends at the same time of day.
        ((2026, 10, 28, 9, 59), 7, (22, 0, 0), (15, 0, 0), (21, 9, 45)),
    ],
)
def test_a_period_is_compared_with_the_previous_one_until_the_same_time_of_day(
    now, days, since, before_since, before_until
) -> None:
    zone = "Europe/Berlin"
    (period,) = periods(to_unix_ms(zone, *now), ZoneInfo(zone), [days])
    assert period.since == to_unix_ms(zone, 2026, 10, *since)
    assert period.before_since == to_unix_ms(zone, 2026, 10, *before_since)
    assert period.before_until == to_unix_ms(zone, 2026, 10, *before_until)
    assert period.until > to_unix_ms(zone, *now) >= period.until - QUARTER_MS


def test_a_time_of_day_that_yesterday_did_not_have_ends_within_yesterday() -> None:
    zone = ZoneInfo("Europe/Berlin")
    # The clocks skipped 2:30 on the day before.
    now = to_unix_ms("Europe/Berlin", 2026, 3, 30, 2, 30)
    (period,) = periods(now, zone, [1])
    assert period.before_since < period.before_until <= period.since


def test_net_is_volume_less_refunds_disputes_and_fees() -> None:
    totals = Sums(paid_minor=1000, refunded_minor=100, disputed_minor=50, fees_minor=40)
    assert totals.net_minor == 810
    assert totals.minus(Sums(paid_minor=400)).net_minor == 410
