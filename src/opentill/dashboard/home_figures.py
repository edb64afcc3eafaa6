"""A merchant's figures in the words of its home page: periods, charts, the balance."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

import msgspec
from markupsafe import Markup

from opentill.core.money import Money
from opentill.dashboard import expected
from opentill.dashboard.labels import PERIOD
from opentill.figures import Attempts, CurrencyFigures, Figures, Period
from opentill.web import charts
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer
from opentill.web.translations import N_

_MOST: Final = 10  # times as much, beyond which a percentage says nothing


class Measure(msgspec.Struct, frozen=True):
    """One number of a period beside that of the one before; ``change`` is "" where there is none.

    ``name`` is a text.
    """

    name: str
    now: str
    before: str
    change: str


class PeriodCard(msgspec.Struct, frozen=True):
    """A period: the key of its name, what it is compared with, and its measures."""

    name: str
    compared: Markup
    measures: tuple[Measure, ...]


class CurrencyShown(msgspec.Struct, frozen=True):
    """What the page shows in one currency."""

    currency: str
    cards: tuple[PeriodCard, ...]
    charts: tuple[Chart, ...]
    balance: dict[str, str]  # by account


class Shown:
    """All figures of the page. ``as_of`` is "" unless they are behind."""

    def __init__(
        self, localizer: Localizer, zone: tzinfo, found: Figures, *, with_balance: bool
    ) -> None:
        """``with_balance``: whoever looks may see the balance and what becomes available."""
        self._localizer = localizer
        self._gettext = localizer.gettext
        self._zone = zone
        self._found = found
        self._days = [
            (localizer.day(day.date), localizer.short_day(day.date)) for day in found.days
        ]
        self._with_balance = with_balance
        self.currencies = tuple(self._of_currency(one) for one in found.currencies)
        self.attempts = self._attempts()

    def as_of(self, now: int) -> str:
        """Return of when the figures are, "" where they are of ``now`` (Unix ms)."""
        behind = self._found.as_of < now
        return self._localizer.moment_in(self._found.as_of, self._zone) if behind else ""

    def _of_currency(self, one: CurrencyFigures) -> CurrencyShown:
        standing = one.balance
        drawn = [self._volume(one)]
        balance: dict[str, str] = {}
        if self._with_balance:
            drawn.append(expected.chart(self._localizer, self._found.coming, one))
            for name in ("available", "pending", "frozen", "reserve"):
                balance[name] = self._amount(getattr(standing, name), standing.currency)
        return CurrencyShown(standing.currency, tuple(self._cards(one)), tuple(drawn), balance)

    def _cards(self, one: CurrencyFigures) -> Sequence[PeriodCard]:
        made: list[PeriodCard] = []
        only_one = len(self._found.currencies) == 1
        tries = self._found.attempts_compared
        for compared, attempts in zip(one.comparisons, tries, strict=True):
            now, before = compared.now, compared.before
            measures = [
                self._money(one, N_("Volume"), now.paid_minor, before.paid_minor),
                self._money(one, N_("Refunds"), now.refunded_minor, before.refunded_minor),
                self._money(one, N_("Fees"), now.fees_minor, before.fees_minor),
                self._money(one, N_("Net"), now.net_minor, before.net_minor),
                self._count(N_("Payments"), now.payments, before.payments),
            ]
            if now.disputed_minor or before.disputed_minor:
                lost = self._money(
                    one, N_("Lost to disputes"), now.disputed_minor, before.disputed_minor
                )
                measures.insert(2, lost)
            if only_one:  # an attempt that failed has no settlement currency
                measures.append(self._rate(attempts.now, attempts.before))
            name = PERIOD[str(compared.period.days)]
            made.append(PeriodCard(name, self._compared(compared.period), tuple(measures)))
        return made

    def _compared(self, period: Period) -> Markup:
        moment = self._localizer.moment_in
        return self._gettext(
            "beside {since} to {until}",
            since=moment(period.before_since, self._zone),
            until=moment(period.before_until, self._zone),
        )

    def _amount(self, minor: int, currency: str) -> str:
        return self._localizer.amount(Money(minor, currency))

    def _money(self, one: CurrencyFigures, name: str, now: int, before: int) -> Measure:
        currency = one.balance.currency
        change = self._change(now, before)
        return Measure(name, self._amount(now, currency), self._amount(before, currency), change)

    def _count(self, name: str, now: int, before: int) -> Measure:
        number = self._localizer.number
        return Measure(name, number(now), number(before), self._change(now, before))

    def _rate(self, now: Attempts, before: Attempts) -> Measure:
        cells = [charts.percent(self._localizer, one.success_rate) for one in (now, before)]
        return Measure(N_("Success rate"), cells[0].text, cells[1].text, "")

    def _change(self, now: int, before: int) -> str:
        """Write by how much a number grew, as a share of the one before; "" if that says little."""
        if before <= 0 or now < 0 or now == before or now > _MOST * before:
            return ""
        share = self._localizer.percent(abs(now - before) / before)
        return f"+{share}" if now > before else f"−{share}"

    def _volume(self, one: CurrencyFigures) -> Chart:
        """Return the chart of what came in by day, and what was left of it."""
        currency, _ = one.balance.currency, self._gettext
        rows = [
            Row(name, short, tuple(
                charts.money(self._localizer, Money(minor, currency))
                for minor in (day.paid_minor, day.net_minor)
            ))
            for (name, short), day in zip(self._days, one.days, strict=True)
        ]  # fmt: skip
        most = max(range(len(one.days)), key=lambda index: one.days[index].paid_minor)
        total = sum(day.paid_minor for day in one.days)
        summary = _("Nothing in these {days} days.", days=len(one.days))
        if total:
            summary = _(
                "{total} in {days} days; the most was {most} on {day}.",
                total=self._amount(total, currency),
                days=len(one.days),
                most=self._amount(one.days[most].paid_minor, currency),
                day=self._days[most][0],
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
            for (name, short), day in zip(self._days, self._found.attempts, strict=True)
        ]  # fmt: skip
        whole = Attempts(
            sum(day.payments for day in self._found.attempts),
            sum(day.failed for day in self._found.attempts),
        )
        rate: Cell = charts.percent(localizer, whole.success_rate)
        return Chart(
            id="attempts",
            title=_("Payments and success rate by day"),
            summary=_("Nothing in these {days} days.", days=len(rows))
            if whole.success_rate is None
            else _(
                "{payments} payments in {days} days; {rate} of the attempts succeeded.",
                payments=localizer.number(whole.payments),
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
