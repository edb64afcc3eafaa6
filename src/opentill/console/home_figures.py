"""Figures of all merchants as text for the console's home page: headlines and charts by day."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Final, Literal

from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.figures import Attempts, Day, DaySums, GatewaySums
from opentill.figures.model import day_bounds, local, quarter
from opentill.portal import day_charts, headlines, lists
from opentill.portal.headlines import Headline
from opentill.portal.lists import Days
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.charts import Chart
from opentill.web.language import Localizer
from opentill.web.translations import N_

ChartName = Literal["volume", "attempts"]
CHARTS: Final[Mapping[ChartName, str]] = {
    "volume": N_("Volume"),
    "attempts": N_("Success rate"),
}
_MOST_CURRENCIES: Final = 2  # headlines and charts show the volumes of this many currencies
_MOST_DAYS: Final = 92  # charts show at most this many days, the last ones of the range
_DEFAULT_DAYS: Final = 30
_LONG_RANGE: Final = 14  # from so many days on, today weighs little in a range that ends with it
_FEWEST: Final = 20  # payments before, below which a change in percent would say little


def read_days(request: PageRequest) -> Days:
    """Read the range of days from the query. The default is the last 30 days."""
    return lists.days(request, ZONE, _last_days(request))


def last_days(request: PageRequest) -> Days:
    """Return the last 30 days, today included, as every page of the console means them."""
    return lists.days(request, ZONE, _last_days(request), reads_query=False)


def _last_days(request: PageRequest) -> tuple[date, date]:
    today = local(request.now, ZONE).date()
    return today - timedelta(days=_DEFAULT_DAYS - 1), today


def gateway_cells(localizer: Localizer, sums: GatewaySums) -> tuple[str, ...]:
    """Return the texts of payments, failed attempts, success rate and volume."""
    return (
        localizer.number(sums.payments),
        localizer.number(sums.failed),
        charts.percent(localizer, sums.success_rate).text,
        localizer.amount(Money(sums.volume_minor, sums.currency)),
    )


def _bounds(days: Days, now: int) -> tuple[date, date]:
    """Return the first day of the range, and the last one that is not in the future."""
    last = max(days.since, min(days.until, now))
    return local(days.since, ZONE).date(), local(last, ZONE).date()


def chart_days(days: Days, now: int) -> list[Day]:
    """Return the days of the charts: the last ones of the range up to today."""
    first, last = _bounds(days, now)
    first = max(first, last - timedelta(days=_MOST_DAYS - 1))
    number = (last - first).days + 1
    return [day_bounds(first + timedelta(days=index), ZONE) for index in range(number)]


def range_before(days: Days, now: int) -> tuple[int, int] | None:
    """Return as many days before the range: whole ones, as a person chooses them.

    A range of few days that ends today is compared up to the same time of day, because the rest of
    today weighs too much in it. None if the range has no first day or is in the future.
    """
    if not 0 < days.since <= now:
        return None
    first, last = _bounds(days, now)
    since = day_bounds(_first_before(first, last), ZONE).since
    if _ends_at_this_time(days, now):
        return max(0, since), max(0, since + quarter(now) - days.since)
    return max(0, since), max(0, day_bounds(first, ZONE).since)


def _first_before(first: date, last: date) -> date:
    """Return the first of as many days before a range."""
    return first - (last - first) - timedelta(days=1)


def _ends_at_this_time(days: Days, now: int) -> bool:
    """Whether the range before ends at the present time of day."""
    first, last = _bounds(days, now)
    return days.until > now and (last - first).days + 1 < _LONG_RANGE


def compare(localizer: Localizer, days: Days, now: int, before: str) -> str:
    """Name the days of the range before (``range_before``) and its figure."""
    first, last = _bounds(days, now)
    begin, end = _first_before(first, last), first - timedelta(days=1)
    with_year = begin.year != local(now, ZONE).year
    named = localizer.short_day(begin, with_year=with_year)
    if begin != end:
        named = f"{named} – {localizer.short_day(end, with_year=with_year)}"
    if not _ends_at_this_time(days, now):
        return str(localizer.gettext(N_("vs. {days}: {before}"), days=named, before=before))
    time = localizer.time_of_day(quarter(now), ZONE)
    text = N_("vs. {days}, until {time}: {before}")
    return str(localizer.gettext(text, days=named, time=time, before=before))


def is_comparable(before: int) -> bool:
    """Whether so many payments or attempts before are enough to show a change in percent."""
    return before >= _FEWEST


class FigureTexts:
    """The figures of a range of days, and those of the equally long range before."""

    def __init__(
        self,
        localizer: Localizer,
        days: Days,
        now: int,
        by_day: Sequence[DaySums],
        sums: Sequence[GatewaySums],
        previous: Sequence[GatewaySums] | None,
    ) -> None:
        """``previous``: the sums of the range before, None if the range has no first day."""
        self._localizer = localizer
        self._range, self._now = days, now
        self._days = chart_days(days, now)
        self._has_today = self._days[-1].until > now
        self._by_day = by_day
        self._sums = sums
        self._previous = previous
        volumes = _volumes(sums)
        self._currencies = sorted(volumes, key=lambda currency: -volumes[currency])[
            :_MOST_CURRENCIES
        ]

    def charts(self, name: ChartName) -> list[Chart]:
        """Return the chosen chart, for each currency if it shows amounts; none for one day."""
        if len(self._days) == 1:
            return []
        if name == "attempts":
            return [
                day_charts.attempts(
                    self._localizer,
                    self._days,
                    self._attempts_by_day(),
                    has_today=self._has_today,
                )
            ]
        return [
            day_charts.volume(
                self._localizer,
                self._days,
                currency,
                self._volume_by_day(currency),
                has_today=self._has_today,
            )
            for currency in self._currencies
        ]

    def _volume_name(self, currency: str) -> str:
        """Return the name of a volume, with its currency if there are several."""
        if len(self._currencies) == 1:
            return N_("Volume")
        return str(self._localizer.gettext(N_("Volume in {currency}"), currency=currency))

    def headlines(self) -> list[Headline]:
        """Return the volume of each currency, the number of payments and the success rate."""
        localizer, attempts = self._localizer, self._attempts_by_day()
        volumes, volumes_before = _volumes(self._sums), _volumes(self._previous or ())
        now, before = _attempts(self._sums), _attempts(self._previous or ())
        with_change = is_comparable(before.payments + before.failed)

        def amount(minor: int, currency: str) -> str:
            return localizer.amount(Money(minor, currency))

        def change(now: int, before: int) -> str:
            return headlines.change(localizer, now, before) if with_change else ""

        result: list[Headline] = []
        for currency in self._currencies:
            minors, earlier = self._volume_by_day(currency), volumes_before.get(currency, 0)
            result.append(
                Headline(
                    self._volume_name(currency),
                    amount(volumes[currency], currency),
                    self._compared(amount(earlier, currency)),
                    change(volumes[currency], earlier),
                    headlines.draw_days(
                        localizer,
                        N_("Volume"),
                        minors,
                        [amount(minor, currency) for minor in minors],
                        has_today=self._has_today,
                    ),
                )
            )
        numbers = [day.payments for day in attempts]
        result.append(
            Headline(
                N_("Payments"),
                localizer.number(now.payments),
                self._compared(localizer.number(before.payments)),
                change(now.payments, before.payments),
                headlines.draw_days(
                    localizer,
                    N_("Payments"),
                    numbers,
                    [localizer.number(number) for number in numbers],
                    has_today=self._has_today,
                ),
            )
        )
        rates = [day.success_rate for day in attempts if day.success_rate is not None]
        result.append(
            Headline(
                N_("Success rate"),
                charts.percent(localizer, now.success_rate).text,
                self._compared(
                    "" if before.success_rate is None else localizer.percent(before.success_rate)
                ),
                headlines.change_of_rate(localizer, now.success_rate, before.success_rate)
                if with_change
                else "",
                headlines.draw_days(
                    localizer,
                    N_("Success rate"),
                    rates,
                    [localizer.percent(rate) for rate in rates],
                    has_today=self._has_today and attempts[-1].success_rate is not None,
                ),
            )
        )
        return result

    def _compared(self, before: str) -> str:
        """Name the range before and its figure, "" if there is no such range or figure."""
        if self._previous is None or not before:
            return ""
        return compare(self._localizer, self._range, self._now, before)

    def _volume_by_day(self, currency: str) -> list[int]:
        minors = {row.index: row.volume_minor for row in self._by_day if row.currency == currency}
        return [minors.get(index, 0) for index in range(len(self._days))]

    def _attempts_by_day(self) -> list[Attempts]:
        return [
            _attempts([row for row in self._by_day if row.index == index])
            for index in range(len(self._days))
        ]


def _volumes(sums: Sequence[GatewaySums]) -> dict[str, int]:
    """Return the volume by currency."""
    by_currency: dict[str, int] = {}
    for row in sums:
        by_currency[row.currency] = by_currency.get(row.currency, 0) + row.volume_minor
    return by_currency


def _attempts(sums: Sequence[GatewaySums] | Sequence[DaySums]) -> Attempts:
    """Return the payments and failed attempts of all currencies."""
    return Attempts(sum(row.payments for row in sums), sum(row.failed for row in sums))
