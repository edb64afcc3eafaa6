"""The first page of the console: what needs somebody, what came in, and whose money it is."""

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from opentill import figures, ledger
from opentill.console import needs
from opentill.console.needs import Need
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.figures.model import local
from opentill.ledger import TrialBalance
from opentill.portal import lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.language import Localizer
from opentill.web.translations import N_

_DAYS: Final = 30  # of the range that is shown unasked


def period(request: PageRequest) -> Days:
    """Return the days that are asked for: the last thirty, unless others are."""
    today = local(request.now, ZONE).date()
    return lists.days(request, ZONE, (today - timedelta(days=_DAYS - 1), today))


async def show(request: PageRequest) -> Response:
    """Show what needs somebody, the volume of a range of days, and all balances."""
    days, localizer = period(request), request.localizer
    async with request.app.db.connection() as tx:
        found = await needs.counted(tx, request)
        sums = await figures.sum_range(tx, None, days.since, days.until + 1)
        by_gateway = await figures.sum_by_gateway(tx, days.since, days.until + 1)
        balances = await ledger.trial_balance(tx)
    behind = await figures.waiting(request.app.db)
    return render.page(
        request,
        "home.html",
        behind=localizer.number(behind) if behind else "",
        needs=[(one, _number(localizer, one, number)) for one, number in found],
        days=days,
        errors=days.errors,
        zone=ZONE,
        volume=[
            (one.currency, _of_sums(localizer, one))
            for one in sums
            if one.payments or one.refunds or one.fees_minor
        ],
        gateways=[(one, _of_gateway(localizer, one)) for one in by_gateway],
        money=[(one.currency, _accounts(localizer, one)) for one in balances],
    )


def _number(localizer: Localizer, need: Need, number: int) -> str:
    shown = localizer.number(number)
    return f"{shown}+" if number == need.most else shown


def _of_gateway(localizer: Localizer, one: figures.GatewaySums) -> tuple[str, ...]:
    return (
        localizer.number(one.payments),
        localizer.number(one.failed),
        charts.percent(localizer, one.success_rate).text,
        localizer.amount(Money(one.volume_minor, one.currency)),
    )


def _of_sums(localizer: Localizer, one: figures.CurrencySums) -> tuple[str, ...]:
    minors = (one.paid_minor, one.refunded_minor, one.fees_minor)
    amounts = (localizer.amount(Money(minor, one.currency)) for minor in minors)
    return (localizer.number(one.payments), *amounts)


def _accounts(localizer: Localizer, one: TrialBalance) -> list[tuple[str, str]]:
    """Return whose money there is: what gateways took in is owed, paid out, or earned.

    The three make up the first, since the accounts of every posting add up to zero.
    """
    minors = {
        N_("Taken in by gateways"): -one.gateway,
        N_("Owed to merchants"): one.pending + one.available + one.frozen + one.reserve,
        N_("Pending"): one.pending,
        N_("Available"): one.available,
        N_("Frozen"): one.frozen,
        N_("In reserve"): one.reserve,
        N_("Paid out"): one.bank,
        N_("Earned"): one.platform,
    }
    return [(name, localizer.amount(Money(minor, one.currency))) for name, minor in minors.items()]


pages: Final = (Page("GET", CONSOLE_PATH, "console.read", show, menu=N_("Home")),)
