"""When money becomes available, in words and as a chart."""

from collections.abc import Sequence

import msgspec

from opentill.core.money import Money
from opentill.figures import Coming, CurrencyFigures, Day, Expected
from opentill.web import charts
from opentill.web.charts import Chart, Row, Series
from opentill.web.language import Localizer


class Next(msgspec.Struct, frozen=True):
    """What becomes available next in one currency: how much on which day.

    Where nothing does within the coming days, both are "", and ``later`` is what does after them.
    ``held`` was due already and waits, such as for the end of a dispute.
    """

    currency: str
    day: str
    amount: str
    later: str
    held: str


def chart(localizer: Localizer, days: Sequence[Day], one: Expected | CurrencyFigures) -> Chart:
    """Return the chart of what becomes available on the coming days."""
    currency, _ = one.balance.currency, localizer.gettext

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, currency))

    rows = [
        Row(localizer.day(day.date), localizer.short_day(day.date), tuple(
            charts.money(localizer, Money(minor, currency)) for minor in each
        ))
        for day, *each in zip(days, one.pending.days, one.reserve.days, strict=True)
    ]  # fmt: skip
    return Chart(
        id=f"awaited-{currency}",
        title=_("What becomes available ({currency})", currency=currency),
        summary=_(
            "{soon} within {days} days, {later} later. Held back, such as for disputes: {held}.",
            soon=amount(sum(one.pending.days) + sum(one.reserve.days)),
            days=len(rows),
            later=amount(one.pending.later + one.reserve.later),
            held=amount(one.pending.held + one.reserve.held),
        ),
        about=_("Day"),
        series=[
            Series(_("From pending"), "bars", currency),
            Series(_("From the reserve"), "bars", currency),
        ],
        rows=rows,
    )


def next_of(localizer: Localizer, found: Coming) -> list[Next]:
    """Return what becomes available next in each currency."""
    made: list[Next] = []
    for one in found.currencies:
        currency, index = one.balance.currency, one.next_day

        def amount(minor: int, currency: str = currency) -> str:
            return localizer.amount(Money(minor, currency)) if minor else ""

        made.append(
            Next(
                currency,
                "" if index is None else localizer.day(found.days[index].date),
                "" if index is None else amount(one.by_day[index]),
                amount(one.pending.later + one.reserve.later),
                amount(one.pending.held + one.reserve.held),
            )
        )
    return made
