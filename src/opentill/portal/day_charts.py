"""Charts of payments by day, for the home pages of the dashboard and the console."""

from collections.abc import Sequence

import msgspec

from opentill.core.money import Money
from opentill.figures import Attempts, Day
from opentill.web import charts
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer


def volume(
    localizer: Localizer,
    days: Sequence[Day],
    currency: str,
    volumes: Sequence[int],
    nets: Sequence[int] = (),
    *,
    has_today: bool,
) -> Chart:
    """Return the chart of the volume, and of the net volume if there is one; minor units.

    ``has_today``: the last day is today, which is not over yet.
    """
    _ = localizer.gettext

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, currency))

    columns = (volumes, nets) if nets else (volumes,)
    rows = [
        _row(
            localizer,
            day,
            days[-1],
            *(charts.money(localizer, Money(minor, currency)) for minor in minors),
        )
        for day, *minors in zip(days, *columns, strict=True)
    ]
    total, best = sum(volumes), max(range(len(days)), key=volumes.__getitem__)
    summary = _("No payments in these {days} days.", days=len(days))
    if total:
        summary = _(
            "{total} in {days} days. Highest: {most} on {day}.",
            total=amount(total),
            days=len(days),
            most=amount(volumes[best]),
            day=localizer.recent_day(days[best].date, days[-1].date),
        )
    series = [Series(_("Volume"), "bars", currency), Series(_("Net"), "line", currency)]
    return Chart(
        id=f"volume-{currency}",
        title=_("Volume by day ({currency})", currency=currency),
        summary=summary,
        about=_("Day"),
        series=series[: len(columns)],
        rows=_mark_today(rows) if has_today else rows,
    )


def attempts(
    localizer: Localizer, days: Sequence[Day], by_day: Sequence[Attempts], *, has_today: bool
) -> Chart:
    """Return the chart of payments, failed attempts and success rate, over all currencies.

    ``has_today``: the last day is today, which is not over yet.
    """
    _ = localizer.gettext
    rows = [
        _row(
            localizer,
            day,
            days[-1],
            charts.count(localizer, counts.payments),
            charts.count(localizer, counts.failed),
            charts.percent(localizer, counts.success_rate),
        )
        for day, counts in zip(days, by_day, strict=True)
    ]
    total = Attempts(
        sum(counts.payments for counts in by_day), sum(counts.failed for counts in by_day)
    )
    summary = _("No payments in these {days} days.", days=len(days))
    if total.success_rate is not None:
        summary = _(
            "{payments} payments in {days} days; {rate} of the attempts succeeded.",
            payments=localizer.number(total.payments),
            days=len(days),
            rate=charts.percent(localizer, total.success_rate).text,
        )
    return Chart(
        id="attempts",
        title=_("Payments and success rate by day"),
        summary=summary,
        about=_("Day"),
        series=[
            Series(_("Payments"), "bars", "count"),
            Series(_("Failed attempts"), "bars", "count"),
            Series(_("Success rate"), "line", "percent"),
        ],
        rows=_mark_today(rows) if has_today else rows,
    )


def _row(localizer: Localizer, day: Day, last: Day, *cells: Cell) -> Row:
    """Return the row of a day; ``last`` is the newest day of the chart."""
    return Row(localizer.recent_day(day.date, last.date), localizer.short_day(day.date), cells)


def _mark_today(rows: Sequence[Row]) -> list[Row]:
    return [*rows[:-1], *(msgspec.structs.replace(row, is_open=True) for row in rows[-1:])]
