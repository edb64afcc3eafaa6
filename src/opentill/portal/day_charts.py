"""Charts of payments by day, for the home pages of the dashboard and the console."""

from collections.abc import Sequence

from opentill.core.money import Money
from opentill.figures import Attempts, Day
from opentill.portal import payment_charts
from opentill.portal.payment_charts import Period, Text
from opentill.web import charts
from opentill.web.charts import Chart
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
    total, best = sum(volumes), max(range(len(days)), key=volumes.__getitem__)
    summary = _("No payments in these {days} days.", days=len(days))
    if total:
        summary = _(
            "{total} in {days} days. Highest: {most} on {day}.",
            total=localizer.amount(Money(total, currency)),
            days=len(days),
            most=localizer.amount(Money(volumes[best], currency)),
            day=localizer.recent_day(days[best].date, days[-1].date),
        )
    text = Text(_("Volume by day ({currency})", currency=currency), summary, _("Day"))
    columns = (volumes, nets) if nets else (volumes,)
    periods = _periods(localizer, days, has_today=has_today)
    return payment_charts.volume(
        localizer, periods, currency, columns, text, last_is_open=has_today
    )


def attempts(
    localizer: Localizer, days: Sequence[Day], by_day: Sequence[Attempts], *, has_today: bool
) -> Chart:
    """Return the chart of payments, failed attempts and success rate, over all currencies.

    ``has_today``: the last day is today, which is not over yet.
    """
    _ = localizer.gettext
    total = payment_charts.sum_up(by_day)
    summary = _("No payments in these {days} days.", days=len(days))
    if total.success_rate is not None:
        summary = _(
            "{payments} payments in {days} days; {rate} of the attempts succeeded.",
            payments=localizer.number(total.payments),
            days=len(days),
            rate=charts.percent(localizer, total.success_rate).text,
        )
    text = Text(_("Payments and success rate by day"), summary, _("Day"))
    periods = _periods(localizer, days, has_today=has_today)
    return payment_charts.attempts(localizer, periods, by_day, text, last_is_open=has_today)


def _periods(localizer: Localizer, days: Sequence[Day], *, has_today: bool) -> list[Period]:
    periods = [
        Period(localizer.recent_day(day.date, days[-1].date), localizer.short_day(day.date))
        for day in days
    ]
    if has_today:
        periods[-1] = Period(periods[-1].name, localizer.gettext("Today"))
    return periods
