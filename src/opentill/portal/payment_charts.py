"""What the charts of payments by hour and by day share: their columns, and how rows are written."""

from collections.abc import Sequence

import msgspec

from opentill.core.money import Money
from opentill.figures import Attempts
from opentill.web import charts
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer


class Period(msgspec.Struct, frozen=True):
    """An hour or a day: its name in the table, and a short one for the axis."""

    name: str
    short: str


class Text(msgspec.Struct, frozen=True):
    """The title of a chart, its content in words, and the heading of the column of the periods."""

    title: str
    summary: str
    about: str


def volume(
    localizer: Localizer,
    periods: Sequence[Period],
    currency: str,
    columns: Sequence[Sequence[int]],
    text: Text,
    *,
    last_is_open: bool,
) -> Chart:
    """Return the chart of the volume, and of the net volume if ``columns`` has it; minor units.

    ``last_is_open``: the last period is not over yet.
    """
    _ = localizer.gettext
    series = [Series(_("Volume"), "bars", currency), Series(_("Net"), "line", currency)]
    return Chart(
        id=f"volume-{currency}",
        title=text.title,
        summary=text.summary,
        about=text.about,
        series=series[: len(columns)],
        rows=_rows(
            periods,
            [
                tuple(charts.money(localizer, Money(minor, currency)) for minor in minors)
                for minors in zip(*columns, strict=True)
            ],
            last_is_open=last_is_open,
        ),
    )


def attempts(
    localizer: Localizer,
    periods: Sequence[Period],
    by_period: Sequence[Attempts],
    text: Text,
    *,
    last_is_open: bool,
) -> Chart:
    """Return the chart of payments, failed attempts and success rate, over all currencies."""
    _ = localizer.gettext
    return Chart(
        id="attempts",
        title=text.title,
        summary=text.summary,
        about=text.about,
        series=[
            Series(_("Payments"), "bars", "count"),
            Series(_("Failed attempts"), "bars", "count"),
            Series(_("Success rate"), "line", "percent"),
        ],
        rows=_rows(
            periods,
            [
                (
                    charts.count(localizer, counts.payments),
                    charts.count(localizer, counts.failed),
                    charts.percent(localizer, counts.success_rate),
                )
                for counts in by_period
            ],
            last_is_open=last_is_open,
        ),
    )


def sum_up(by_period: Sequence[Attempts]) -> Attempts:
    """Return the attempts of all periods together."""
    return Attempts(
        sum(counts.payments for counts in by_period), sum(counts.failed for counts in by_period)
    )


def _rows(
    periods: Sequence[Period], cells: Sequence[tuple[Cell, ...]], *, last_is_open: bool
) -> list[Row]:
    last = len(periods) - 1
    return [
        Row(period.name, period.short, row, is_open=last_is_open and position == last)
        for position, (period, row) in enumerate(zip(periods, cells, strict=True))
    ]
