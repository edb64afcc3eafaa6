"""A merchant's figures as text for its home page: a period, a chart, the balance."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from opentill.core import times
from opentill.core.money import Money
from opentill.dashboard import awaited
from opentill.dashboard.labels import COMPARED_PERIOD, HOME_CHART, PERIOD
from opentill.figures import SPANS, Attempts, CurrencyFigures, Figures, Period, Sums
from opentill.portal import day_charts, headlines, hour_charts
from opentill.portal.headlines import Headline
from opentill.web import charts
from opentill.web.charts import Chart
from opentill.web.language import Localizer
from opentill.web.translations import N_

ChartName = Literal["volume", "available", "attempts"]
CHARTS: Final[tuple[ChartName, ...]] = ("volume", "available", "attempts")
_NEXT: Final = 4  # days on which money becomes available


class Measure(msgspec.Struct, frozen=True):
    """A figure of a period and of the preceding period, as text.

    ``change`` is the growth as a percentage, "" if there is none. ``name`` is a message id.
    """

    name: str
    now: str
    before: str
    change: str


class PeriodTable(msgspec.Struct, frozen=True):
    """All figures of a period: message id of its name, times of the period before, and measures."""

    name: str
    compared: Markup
    measures: tuple[Measure, ...]


class CurrencyTexts(msgspec.Struct, frozen=True):
    """The figures in one currency.

    ``chart`` is the chart that the person has chosen, None if it is shown with another currency.
    ``next_amounts`` are the next days on which money becomes available, and the amounts; the last
    one may be the sum of the days after them.
    """

    currency: str
    headlines: tuple[Headline, ...]
    table: PeriodTable
    chart: Chart | None
    balance: dict[str, str]  # by account
    next_amounts: tuple[tuple[str, str], ...]
    held: str  # the part of the pending balance that is due, but held; "" if there is none


class FigureTexts:
    """Formats all figures of the page."""

    def __init__(
        self,
        localizer: Localizer,
        zone: tzinfo,
        figures: Figures,
        *,
        with_balance: bool,
        days: int = 7,
        chart: ChartName = "volume",
    ) -> None:
        """Write the figures of the last ``days`` days, one of ``SPANS``, and one chart.

        ``with_balance``: whether the person may see the balance and awaited money.
        """
        names = tuple(name for name in CHARTS if with_balance or name != "available")
        self.chart_choices = tuple((name, HOME_CHART[name]) for name in names)
        self.shown_chart: ChartName = chart if chart in names else "volume"
        self.shown_days = days
        self._localizer = localizer
        self._gettext = localizer.gettext
        self._zone = zone
        self._figures = figures
        self._with_balance = with_balance
        self.currencies = tuple(self._currency(row) for row in figures.currencies)

    def as_of(self, now: int) -> str:
        """Return the time up to which payments are counted, "" if that is ``now`` (Unix ms)."""
        is_behind = self._figures.as_of < now
        if not is_behind:
            return ""
        return self._localizer.time_element(self._figures.as_of, self._zone, now)

    def _currency(self, row: CurrencyFigures) -> CurrencyTexts:
        currency = row.balance.currency
        balance: dict[str, str] = {}
        next_amounts: tuple[tuple[str, str], ...] = ()
        held = ""
        if self._with_balance:
            balance = {
                name: self._amount(getattr(row.balance, name), currency)
                for name in awaited.shown_accounts(row.balance)
            }
            next_amounts = self._next_amounts(row)
            if row.pending.held > 0:
                held = self._amount(row.pending.held, currency)
        return CurrencyTexts(
            currency,
            self._headlines(row),
            self._table(row),
            self._chart(row),
            balance,
            next_amounts,
            held,
        )

    @property
    def _is_by_hour(self) -> bool:
        """Whether charts and sparklines are of the hours of today instead of days."""
        return self.shown_days == 1

    def _course(self, row: CurrencyFigures) -> Sequence[Sums]:
        """Return the sums of each day of the period, or of each hour of today."""
        return row.hours if self._is_by_hour else row.days[-self.shown_days :]

    def _attempts(self) -> Sequence[Attempts]:
        """Return the attempts of each day of the period, or of each hour of today."""
        if self._is_by_hour:
            return self._figures.attempts_by_hour
        return self._figures.attempts[-self.shown_days :]

    def _chart(self, row: CurrencyFigures) -> Chart | None:
        if self.shown_chart == "volume":
            return self._volume_chart(row)
        if self.shown_chart == "available":
            return awaited.chart(self._localizer, self._figures.coming, row)
        # The attempts are counted over all currencies, so the first one shows them.
        if row is not self._figures.currencies[0]:
            return None
        counts = self._attempts()
        if self._is_by_hour:
            return hour_charts.attempts(self._localizer, self._zone, self._figures.hours, counts)
        days = self._figures.days[-self.shown_days :]
        return day_charts.attempts(self._localizer, days, counts, has_today=True)

    def _volume_chart(self, row: CurrencyFigures) -> Chart:
        sums, currency = self._course(row), row.balance.currency
        volumes, nets = [each.volume_minor for each in sums], [each.net_minor for each in sums]
        if self._is_by_hour:
            hours = self._figures.hours
            return hour_charts.volume(self._localizer, self._zone, hours, currency, volumes, nets)
        days = self._figures.days[-self.shown_days :]
        return day_charts.volume(self._localizer, days, currency, volumes, nets, has_today=True)

    def _next_amounts(self, row: CurrencyFigures) -> tuple[tuple[str, str], ...]:
        by_day = zip(self._figures.coming, row.pending.days, row.reserve.days, strict=True)
        minors = [
            (self._localizer.short_day(day.date), pending + reserve)
            for day, pending, reserve in by_day
            if pending + reserve
        ]
        shown, later = minors[:_NEXT], minors[_NEXT:]
        if later:
            number = self._localizer.number(len(later))
            text = N_("1 more day") if len(later) == 1 else N_("{number} more days")
            total = sum(minor for _, minor in later)
            shown.append((str(self._gettext(text, number=number)), total))
        return tuple((name, self._amount(minor, row.balance.currency)) for name, minor in shown)

    def _headlines(self, row: CurrencyFigures) -> tuple[Headline, ...]:
        index = SPANS.index(self.shown_days)
        sums, attempts = row.comparisons[index], self._figures.attempts_compared[index]
        course, currency = self._course(row), row.balance.currency
        period = self._compared_times(sums.period)

        def headline(
            measure: Measure,
            values: Sequence[float],
            texts: Sequence[str],
            *,
            has_today: bool = True,
        ) -> Headline:
            name, label = measure.name, COMPARED_PERIOD[str(self.shown_days)]
            sparkline = headlines.draw_days(
                self._localizer,
                name,
                values,
                texts,
                has_today=has_today,
                by_hour=self._is_by_hour,
            )
            compared = str(self._gettext(label, before=measure.before, **period))
            return Headline(name, measure.now, compared, measure.change, sparkline)

        def amounts(minors: Sequence[int]) -> list[str]:
            return [self._amount(minor, currency) for minor in minors]

        paid, net = [each.volume_minor for each in course], [each.net_minor for each in course]
        payments = [each.all_payments for each in course]
        figures = [
            headline(
                self._money(row, N_("Volume"), sums.now.volume_minor, sums.before.volume_minor),
                paid,
                amounts(paid),
            ),
            headline(
                self._money(row, _net_name(row), sums.now.net_minor, sums.before.net_minor),
                net,
                amounts(net),
            ),
            headline(
                self._count(N_("Payments"), sums.now.all_payments, sums.before.all_payments),
                payments,
                [self._localizer.number(payment) for payment in payments],
            ),
        ]
        if len(self._figures.currencies) == 1:  # failed attempts have no settlement currency
            of_all = [counts.success_rate for counts in self._attempts()]
            rates = [rate for rate in of_all if rate is not None]
            texts = [charts.percent(self._localizer, rate).text for rate in rates]
            rate, has_today = self._rate(attempts.now, attempts.before), of_all[-1] is not None
            figures.append(headline(rate, rates, texts, has_today=has_today))
        return tuple(figures)

    def _table(self, row: CurrencyFigures) -> PeriodTable:
        index = SPANS.index(self.shown_days)
        sums, attempts = row.comparisons[index], self._figures.attempts_compared[index]
        now, before = sums.now, sums.before
        measures = [
            self._money(row, N_("Volume"), now.volume_minor, before.volume_minor),
            self._money(row, N_("Refunds"), now.refunded_minor, before.refunded_minor),
            self._money(row, N_("Fees"), now.fees_minor, before.fees_minor),
            self._money(row, _net_name(row), now.net_minor, before.net_minor),
            self._count(N_("Payments"), now.all_payments, before.all_payments),
        ]
        if now.disputed_minor or before.disputed_minor:
            measures.insert(
                2,
                self._money(row, N_("Lost to disputes"), now.disputed_minor, before.disputed_minor),
            )
        if row.ever.direct_payments:
            text = N_("Paid to your own accounts")
            measures.insert(1, self._money(row, text, now.direct_minor, before.direct_minor))
            refunded = (now.direct_refunded_minor, before.direct_refunded_minor)
            if any(refunded):
                text = N_("Refunded from your own accounts")
                measures.insert(3, self._money(row, text, *refunded))
        # With several currencies the rate is omitted, since failed attempts have no settlement
        # currency.
        if len(self._figures.currencies) == 1:
            measures.append(self._rate(attempts.now, attempts.before))
        name = PERIOD[str(self.shown_days)]
        return PeriodTable(name, self._compared(sums.period), tuple(measures))

    def _compared_times(self, period: Period) -> dict[str, str]:
        """Return the first day, the last day and the time of day at which the comparison ends."""

        def day(at: int) -> str:
            return self._localizer.short_day(times.moment(at, self._zone).date())

        return {
            "since": day(period.before_since),
            "until": day(period.before_until),
            "time": self._localizer.time_of_day(period.before_until, self._zone),
        }

    def _compared(self, period: Period) -> Markup:
        def moment(at: int) -> Markup:
            return self._localizer.time_element(at, self._zone, self._figures.as_of)

        return self._gettext(
            "compared with {since} – {until}",
            since=moment(period.before_since),
            until=moment(period.before_until),
        )

    def _amount(self, minor: int, currency: str) -> str:
        return self._localizer.amount(Money(minor, currency))

    def _money(self, row: CurrencyFigures, name: str, now: int, before: int) -> Measure:
        currency = row.balance.currency
        change = headlines.change(self._localizer, now, before)
        return Measure(name, self._amount(now, currency), self._amount(before, currency), change)

    def _count(self, name: str, now: int, before: int) -> Measure:
        number = self._localizer.number
        change = headlines.change(self._localizer, now, before)
        return Measure(name, number(now), number(before), change)

    def _rate(self, now: Attempts, before: Attempts) -> Measure:
        cells = [charts.percent(self._localizer, row.success_rate) for row in (now, before)]
        change = headlines.change_of_rate(self._localizer, now.success_rate, before.success_rate)
        return Measure(N_("Success rate"), cells[0].text, cells[1].text, change)


def _net_name(row: CurrencyFigures) -> str:
    """Name the net amount, which never contains what was paid to the merchant's own accounts."""
    return N_("Net in your balance") if row.ever.direct_payments else N_("Net")
