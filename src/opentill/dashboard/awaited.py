"""The money that becomes available on the coming days, as text and as a chart."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.money import Money
from opentill.dashboard.labels import BALANCE
from opentill.figures import BalanceProgress, Coming, CurrencyFigures, Day, Expected
from opentill.web import charts
from opentill.web.charts import Chart, Row, Series
from opentill.web.language import Localizer

_FEWEST_DAYS: Final = 7  # of the chart


def shown_accounts(balance: BalanceProgress) -> list[str]:
    """Return the accounts that pages show, in their order.

    What is on hold or in reserve is shown only if it is not zero.
    """
    return [name for name in BALANCE if name in {"available", "pending"} or getattr(balance, name)]


class NextAmount(msgspec.Struct, frozen=True):
    """What is available in one currency, and the next amount that becomes available.

    ``day`` and ``amount`` are "" if nothing becomes available on the coming days; ``later`` is the
    sum after these days. ``held`` is the sum of money that was due and is held back, such as for a
    dispute. Amounts are text, "" for zero.
    """

    currency: str
    zero: str
    available: str
    day: str
    is_today: bool  # whether ``day`` is today
    amount: str
    later: str
    held: str


def chart(localizer: Localizer, days: Sequence[Day], schedule: Expected | CurrencyFigures) -> Chart:
    """Return the chart of the money that becomes available on each of the coming days."""
    currency, _ = schedule.balance.currency, localizer.gettext
    pending, reserve = schedule.pending, schedule.reserve

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, currency))

    # Most merchants have no reserve.
    names, columns = [_("From pending")], [pending.days]
    # The axis ends with the last day that has money, but has at least a week.
    by_day = [sum(amounts) for amounts in zip(pending.days, reserve.days, strict=True)]
    last = max((index for index, minor in enumerate(by_day) if minor), default=0)
    shown = max(last + 1, _FEWEST_DAYS)
    later, held = pending.later + reserve.later, pending.held + reserve.held
    if any(reserve.days):
        names, columns = [*names, _("From the reserve")], [*columns, reserve.days]
    rows = [
        Row(localizer.recent_day(day.date, days[0].date), localizer.short_day(day.date), tuple(
            charts.money(localizer, Money(minor, currency)) for minor in amounts
        ))
        for day, *amounts in list(zip(days, *columns, strict=True))[:shown]
    ]  # fmt: skip
    sentences = [
        _(
            "{soon} by {day}.",
            soon=amount(sum(by_day)),
            day=localizer.recent_day(days[last].date, days[0].date),
        )
        if any(by_day)
        else _("Nothing within {days} days.", days=len(days)),
        _("{amount} later.", amount=amount(later)) if later else "",
        _("{amount} is held.", amount=amount(held)) if held else "",
    ]
    return Chart(
        id=f"awaited-{currency}",
        title=_("What becomes available ({currency})", currency=currency),
        summary=" ".join(filter(None, sentences)),
        about=_("Day"),
        series=[Series(name, "bars", currency) for name in names],
        rows=rows,
    )


def next_amounts(localizer: Localizer, coming: Coming) -> list[NextAmount]:
    """Return the next amount that becomes available in each currency."""

    def next_amount(schedule: Expected) -> NextAmount:
        currency, index = schedule.balance.currency, schedule.next_day
        pending, reserve = schedule.pending, schedule.reserve

        def amount(minor: int) -> str:
            return localizer.amount(Money(minor, currency)) if minor else ""

        return NextAmount(
            currency,
            localizer.amount(Money(0, currency)),
            amount(schedule.balance.available) if schedule.balance.available > 0 else "",
            ""
            if index is None
            else localizer.recent_day(coming.days[index].date, coming.days[0].date),
            index == 0,
            "" if index is None else amount(schedule.by_day[index]),
            amount(pending.later + reserve.later),
            amount(pending.held + reserve.held),
        )

    return [next_amount(schedule) for schedule in coming.currencies]
