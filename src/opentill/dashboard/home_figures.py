"""A merchant's figures as text for its home page: periods, charts, the balance."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from opentill.core.money import Money
from opentill.dashboard import awaited
from opentill.dashboard.labels import BALANCE, PERIOD
from opentill.figures import SPANS, Attempts, CurrencyFigures, Figures, Period
from opentill.web import charts, sparklines
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer
from opentill.web.sparklines import Sparkline
from opentill.web.translations import N_

ChartName = Literal["volume", "available", "attempts"]
CHARTS: Final[tuple[ChartName, ...]] = ("volume", "available", "attempts")
_LEAST_DAYS: Final = 7  # a sparkline of fewer days would not show a course
_NEXT: Final = 3  # days on which money becomes available
_LARGEST_GROWTH: Final = 10  # growth above this factor is not shown as a percentage


class Measure(msgspec.Struct, frozen=True):
    """A figure of a period and of the preceding period, as text.

    ``change`` is the growth as a percentage, "" if there is none. ``name`` is a message id.
    """

    name: str
    now: str
    before: str
    change: str


class PeriodCard(msgspec.Struct, frozen=True):
    """The figures of a period: message id of its name, days compared with it, and measures."""

    name: str
    compared: Markup
    measures: tuple[Measure, ...]


class Headline(msgspec.Struct, frozen=True):
    """A figure at the top of the page, and the figure of the period before.

    ``name`` is a message id, ``change`` a percentage with its sign, "" if there is none, and
    ``sparkline`` the figure by day, None if there are too few days.
    """

    name: str
    now: str
    before: str
    change: str
    sparkline: Sparkline | None


class CurrencyTexts(msgspec.Struct, frozen=True):
    """The figures in one currency.

    ``chart`` is the chart that the person has chosen, None if it is shown with another currency.
    ``next_amounts`` are the next days on which money becomes available, and the amounts.
    """

    currency: str
    headlines: tuple[Headline, ...]
    cards: tuple[PeriodCard, ...]
    chart: Chart | None
    balance: dict[str, str]  # by account
    next_amounts: tuple[tuple[str, str], ...]


class FigureTexts:
    """All figures of the page."""

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
        self.chart_names: tuple[ChartName, ...] = (
            CHARTS if with_balance else tuple(name for name in CHARTS if name != "available")
        )
        self.shown_chart: ChartName = chart if chart in self.chart_names else "volume"
        self.shown_days = days
        self._localizer = localizer
        self._gettext = localizer.gettext
        self._zone = zone
        self._figures = figures
        self._days = [
            (localizer.day(day.date), localizer.short_day(day.date)) for day in figures.days
        ]
        self._with_balance = with_balance
        self.currencies = tuple(self._currency(row) for row in figures.currencies)

    def as_of(self, now: int) -> str:
        """Return the time up to which payments are counted, "" if that is ``now`` (Unix ms)."""
        is_behind = self._figures.as_of < now
        return self._localizer.moment_in(self._figures.as_of, self._zone) if is_behind else ""

    def _currency(self, row: CurrencyFigures) -> CurrencyTexts:
        currency = row.balance.currency
        balance: dict[str, str] = {}
        next_amounts: tuple[tuple[str, str], ...] = ()
        if self._with_balance:
            balance = {name: self._amount(getattr(row.balance, name), currency) for name in BALANCE}
            next_amounts = self._next_amounts(row)
        return CurrencyTexts(
            currency,
            self._headlines(row),
            tuple(self._cards(row)),
            self._chart(row),
            balance,
            next_amounts,
        )

    def _chart(self, row: CurrencyFigures) -> Chart | None:
        if self.shown_chart == "volume":
            return self._volume(row)
        if self.shown_chart == "available":
            return awaited.chart(self._localizer, self._figures.coming, row)
        # The attempts are counted over all currencies, so the first one shows them.
        return self._attempts() if row is self._figures.currencies[0] else None

    def _next_amounts(self, row: CurrencyFigures) -> tuple[tuple[str, str], ...]:
        by_day = zip(self._figures.coming, row.pending.days, row.reserve.days, strict=True)
        amounts = [
            (self._localizer.short_day(day.date), self._amount(minor, row.balance.currency))
            for day, pending, reserve in by_day
            if (minor := pending + reserve)
        ]
        return tuple(amounts[:_NEXT])

    def _headlines(self, row: CurrencyFigures) -> tuple[Headline, ...]:
        index = SPANS.index(self.shown_days)
        sums, attempts = row.comparisons[index], self._figures.attempts_compared[index]
        number = max(self.shown_days, _LEAST_DAYS)
        days, currency = row.days[-number:], row.balance.currency

        def headline(measure: Measure, values: Sequence[float], texts: Sequence[str]) -> Headline:
            sparkline = self._sparkline(measure.name, values, texts)
            return Headline(measure.name, measure.now, measure.before, measure.change, sparkline)

        def amounts(minors: Sequence[int]) -> list[str]:
            return [self._amount(minor, currency) for minor in minors]

        paid, net = [day.paid_minor for day in days], [day.net_minor for day in days]
        payments = [day.payments for day in days]
        headlines = [
            headline(
                self._money(row, N_("Volume"), sums.now.paid_minor, sums.before.paid_minor),
                paid,
                amounts(paid),
            ),
            headline(
                self._money(row, N_("Net"), sums.now.net_minor, sums.before.net_minor),
                net,
                amounts(net),
            ),
            headline(
                self._count(N_("Payments"), sums.now.payments, sums.before.payments),
                payments,
                [self._localizer.number(payment) for payment in payments],
            ),
        ]
        if len(self._figures.currencies) == 1:  # failed attempts have no settlement currency
            by_day = [day.success_rate for day in self._figures.attempts[-number:]]
            rates = [rate for rate in by_day if rate is not None]
            texts = [charts.percent(self._localizer, rate).text for rate in rates]
            headlines.append(headline(self._rate(attempts.now, attempts.before), rates, texts))
        return tuple(headlines)

    def _sparkline(
        self, name: str, values: Sequence[float], texts: Sequence[str]
    ) -> Sparkline | None:
        """Draw a figure by day; its accessible name has the lowest and the highest value."""
        if not values:
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        label = self._gettext(
            "{name} by day: from {lowest} to {highest}",
            name=self._gettext(name),
            lowest=texts[order[0]],
            highest=texts[order[-1]],
        )
        return sparklines.draw(str(label), values)

    def _cards(self, row: CurrencyFigures) -> Sequence[PeriodCard]:
        cards: list[PeriodCard] = []
        has_one_currency = len(self._figures.currencies) == 1
        attempts_compared = self._figures.attempts_compared
        for compared, attempts in zip(row.comparisons, attempts_compared, strict=True):
            now, before = compared.now, compared.before
            measures = [
                self._money(row, N_("Volume"), now.paid_minor, before.paid_minor),
                self._money(row, N_("Refunds"), now.refunded_minor, before.refunded_minor),
                self._money(row, N_("Fees"), now.fees_minor, before.fees_minor),
                self._money(row, N_("Net"), now.net_minor, before.net_minor),
                self._count(N_("Payments"), now.payments, before.payments),
            ]
            if now.disputed_minor or before.disputed_minor:
                lost_measure = self._money(
                    row, N_("Lost to disputes"), now.disputed_minor, before.disputed_minor
                )
                measures.insert(2, lost_measure)
            # With several currencies the rate is omitted, since failed attempts have no settlement
            # currency.
            if has_one_currency:
                measures.append(self._rate(attempts.now, attempts.before))
            name = PERIOD[str(compared.period.days)]
            cards.append(PeriodCard(name, self._compared(compared.period), tuple(measures)))
        return cards

    def _compared(self, period: Period) -> Markup:
        moment = self._localizer.moment_in
        return self._gettext(
            "compared with {since} – {until}",
            since=moment(period.before_since, self._zone),
            until=moment(period.before_until, self._zone),
        )

    def _amount(self, minor: int, currency: str) -> str:
        return self._localizer.amount(Money(minor, currency))

    def _money(self, row: CurrencyFigures, name: str, now: int, before: int) -> Measure:
        currency = row.balance.currency
        change = self._change(now, before)
        return Measure(name, self._amount(now, currency), self._amount(before, currency), change)

    def _count(self, name: str, now: int, before: int) -> Measure:
        number = self._localizer.number
        return Measure(name, number(now), number(before), self._change(now, before))

    def _rate(self, now: Attempts, before: Attempts) -> Measure:
        cells = [charts.percent(self._localizer, row.success_rate) for row in (now, before)]
        return Measure(N_("Success rate"), cells[0].text, cells[1].text, "")

    def _change(self, now: int, before: int) -> str:
        """Write the growth as a percentage, "" where a percentage would say little."""
        if before <= 0 or now < 0 or now == before or now > _LARGEST_GROWTH * before:
            return ""
        share = self._localizer.percent(abs(now - before) / before)
        return f"+{share}" if now > before else f"-{share}"

    def _volume(self, row: CurrencyFigures) -> Chart:
        """Return the chart of gross and net volume by day."""
        currency, _ = row.balance.currency, self._gettext
        rows = [
            Row(name, short, tuple(
                charts.money(self._localizer, Money(minor, currency))
                for minor in (day.paid_minor, day.net_minor)
            ))
            for (name, short), day in zip(self._days, row.days, strict=True)
        ]  # fmt: skip
        best_day = max(range(len(row.days)), key=lambda index: row.days[index].paid_minor)
        total = sum(day.paid_minor for day in row.days)
        summary = _("Nothing in these {days} days.", days=len(row.days))
        if total:
            summary = _(
                "{total} in {days} days; the most was {most} on {day}.",
                total=self._amount(total, currency),
                days=len(row.days),
                most=self._amount(row.days[best_day].paid_minor, currency),
                day=self._days[best_day][0],
            )
        return Chart(
            id=f"volume-{currency}",
            title=_("Volume by day ({currency})", currency=currency),
            summary=summary,
            about=_("Day"),
            series=[
                Series(_("Volume"), "bars", currency),
                Series(_("Net"), "line", currency),
            ],
            rows=rows,
        )

    def _attempts(self) -> Chart:
        """Return the chart of payments and their success rate by day, over all currencies."""
        _, localizer = self._gettext, self._localizer
        rows = [
            Row(name, short, (
                charts.count(localizer, day.payments),
                charts.count(localizer, day.failed),
                charts.percent(localizer, day.success_rate),
            ))
            for (name, short), day in zip(self._days, self._figures.attempts, strict=True)
        ]  # fmt: skip
        total = Attempts(
            sum(day.payments for day in self._figures.attempts),
            sum(day.failed for day in self._figures.attempts),
        )
        rate: Cell = charts.percent(localizer, total.success_rate)
        return Chart(
            id="attempts",
            title=_("Payments and success rate by day"),
            summary=_("Nothing in these {days} days.", days=len(rows))
            if total.success_rate is None
            else _(
                "{payments} payments in {days} days; {rate} of the attempts succeeded.",
                payments=localizer.number(total.payments),
                days=len(rows),
                rate=rate.text,
            ),
            about=_("Day"),
            series=[
                Series(_("Payments"), "bars", "count"),
                Series(_("Failed attempts"), "bars", "count"),
                Series(_("Success rate"), "line", "percent"),
            ],
            rows=rows,
        )
