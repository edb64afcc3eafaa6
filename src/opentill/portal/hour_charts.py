"""Charts of today's payments by hour, for the home page of the dashboard."""

from collections.abc import Sequence
from datetime import tzinfo

import msgspec

from opentill.core.money import Money
from opentill.figures import Attempts, Hour
from opentill.web import charts
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer


def volume(
    localizer: Localizer,
    zone: tzinfo,
    hours: Sequence[Hour],
    currency: str,
    volumes: Sequence[int],
    nets: Sequence[int],
) -> Chart:
    """Return the chart of the volume and the net volume of each hour; minor units."""
    _ = localizer.gettext
    rows = [
        _row(
            localizer,
            zone,
            hour,
            *(charts.money(localizer, Money(minor, currency)) for minor in minors),
        )
        for hour, *minors in zip(hours, volumes, nets, strict=True)
    ]
    total, best = sum(volumes), max(range(len(hours)), key=volumes.__getitem__)
    summary = _("No payments today.")
    if total:
        summary = _(
            "{total} today. Highest: {most} in the hour from {time}.",
            total=localizer.amount(Money(total, currency)),
            most=localizer.amount(Money(volumes[best], currency)),
            time=localizer.time_of_day(hours[best].since, zone),
        )
    return Chart(
        id=f"volume-{currency}",
        title=_("Volume today by hour ({currency})", currency=currency),
        summary=summary,
        about=_("Hour"),
        series=[Series(_("Volume"), "bars", currency), Series(_("Net"), "line", currency)],
        rows=_mark_last(rows),
    )


def attempts(
    localizer: Localizer, zone: tzinfo, hours: Sequence[Hour], by_hour: Sequence[Attempts]
) -> Chart:
    """Return the chart of payments, failed attempts and success rate, over all currencies."""
    _ = localizer.gettext
    rows = [
        _row(
            localizer,
            zone,
            hour,
            charts.count(localizer, counts.payments),
            charts.count(localizer, counts.failed),
            charts.percent(localizer, counts.success_rate),
        )
        for hour, counts in zip(hours, by_hour, strict=True)
    ]
    total = Attempts(
        sum(counts.payments for counts in by_hour), sum(counts.failed for counts in by_hour)
    )
    summary = _("No payments today.")
    if total.success_rate is not None:
        summary = _(
            "Payments today: {payments}. {rate} of the attempts succeeded.",
            payments=localizer.number(total.payments),
            rate=charts.percent(localizer, total.success_rate).text,
        )
    return Chart(
        id="attempts",
        title=_("Payments and success rate today by hour"),
        summary=summary,
        about=_("Hour"),
        series=[
            Series(_("Payments"), "bars", "count"),
            Series(_("Failed attempts"), "bars", "count"),
            Series(_("Success rate"), "line", "percent"),
        ],
        rows=_mark_last(rows),
    )


def _row(localizer: Localizer, zone: tzinfo, hour: Hour, *cells: Cell) -> Row:
    name = localizer.time_of_day(hour.since, zone)
    return Row(name, name, cells)


def _mark_last(rows: Sequence[Row]) -> list[Row]:
    """Mark the last hour, which is not over yet."""
    return [*rows[:-1], *(msgspec.structs.replace(row, is_open=True) for row in rows[-1:])]
