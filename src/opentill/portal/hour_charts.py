"""Charts of today's payments by hour, for the home page of the dashboard."""

from collections.abc import Sequence
from datetime import tzinfo

from opentill.core.money import Money
from opentill.figures import Attempts, Hour
from opentill.portal import payment_charts
from opentill.portal.payment_charts import Period, Text
from opentill.web import charts
from opentill.web.charts import Chart
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
    total, best = sum(volumes), max(range(len(hours)), key=volumes.__getitem__)
    summary = _("No payments today.")
    if total:
        summary = _(
            "{total} today. Highest: {most} in the hour from {time}.",
            total=localizer.amount(Money(total, currency)),
            most=localizer.amount(Money(volumes[best], currency)),
            time=localizer.time_of_day(hours[best].since, zone),
        )
    text = Text(_("Volume today by hour ({currency})", currency=currency), summary, _("Hour"))
    periods = _periods(localizer, zone, hours)
    return payment_charts.volume(
        localizer, periods, currency, (volumes, nets), text, last_is_open=True
    )


def attempts(
    localizer: Localizer, zone: tzinfo, hours: Sequence[Hour], by_hour: Sequence[Attempts]
) -> Chart:
    """Return the chart of payments, failed attempts and success rate, over all currencies."""
    _ = localizer.gettext
    total = payment_charts.sum_up(by_hour)
    summary = _("No payments today.")
    if total.success_rate is not None:
        summary = _(
            "Payments today: {payments}. {rate} of the attempts succeeded.",
            payments=localizer.number(total.payments),
            rate=charts.percent(localizer, total.success_rate).text,
        )
    text = Text(_("Payments and success rate today by hour"), summary, _("Hour"))
    periods = _periods(localizer, zone, hours)
    return payment_charts.attempts(localizer, periods, by_hour, text, last_is_open=True)


def _periods(localizer: Localizer, zone: tzinfo, hours: Sequence[Hour]) -> list[Period]:
    names = [localizer.time_of_day(hour.since, zone) for hour in hours]
    return [Period(name, name) for name in names]
