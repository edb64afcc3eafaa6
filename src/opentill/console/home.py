"""The home page of the console: what needs attention, the volume, and where the money is."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import figures, ledger, merchants, orders, queues
from opentill.console import needs
from opentill.console.needs import Need
from opentill.console.queues import LATE_MS
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.figures import Attempts
from opentill.figures.model import local
from opentill.ledger import MERCHANT_ACCOUNTS, TrialBalance
from opentill.orders import Order
from opentill.portal import lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.language import Localizer
from opentill.web.translations import N_

_DEFAULT_DAYS: Final = 30
_NEWEST: Final = 6  # payments of all merchants
_MOST_CURRENCIES: Final = 2  # volumes among the headline figures


def _read_days(request: PageRequest) -> Days:
    """Read the range of days from the query. The default is the last 30 days."""
    today = local(request.now, ZONE).date()
    return lists.days(request, ZONE, (today - timedelta(days=_DEFAULT_DAYS - 1), today))


async def show_home(request: PageRequest) -> Response:
    """Show what needs attention, the volume of a range of days, and the sums of all balances."""
    days, localizer = _read_days(request), request.localizer
    length = min(days.until + 1, request.now + 1) - days.since
    async with request.app.db.connection() as tx:
        open_needs = await needs.count_all(tx, request)
        previous = await figures.sum_by_gateway(tx, max(0, days.since - length), days.since)
        volumes = await figures.sum_range(tx, None, days.since, days.until + 1)
        gateways = await figures.sum_by_gateway(tx, days.since, days.until + 1)
        balances = await ledger.trial_balance(tx)
        newest = await _read_newest(tx, request)
        names = await merchants.names(tx, (order.merchant_id for order in newest))
    behind = await figures.count_uncounted_entries(request.app.db)
    late_queues = [
        row for row in await queues.read(request.app.db, request.now) if (row.age_ms or 0) > LATE_MS
    ]
    return render.page(
        request,
        "home.html",
        behind=localizer.number(behind) if behind else "",
        needs=[(need, _need_count(localizer, need, count)) for need, count in open_needs],
        days=days,
        errors=days.errors,
        zone=ZONE,
        volumes=[
            (volume.currency, _volume_cells(localizer, volume))
            for volume in volumes
            if volume.payments or volume.refunds or volume.fees_minor
        ],
        headlines=_headlines(localizer, gateways, previous if days.since else []),
        gateways=[(gateway, _gateway_cells(localizer, gateway)) for gateway in gateways],
        late_queues=late_queues,
        newest=[
            (order, localizer.amount(Money(order.amount_minor, order.currency))) for order in newest
        ],
        names=names,
        balances=[(balance.currency, _amounts(localizer, balance)) for balance in balances],
    )


async def _read_newest(tx: Tx, request: PageRequest) -> list[Order]:
    """Return the newest payments of all merchants, if the person may see payments."""
    if not request.may("payments.read"):
        return []
    return await orders.list_newest_of_all(
        tx, _NEWEST, status=None, since=0, before=(request.now + 1, "")
    )


class Headline(msgspec.Struct, frozen=True):
    """A figure at the top of the page, as text, and that of the equally long range before.

    ``name`` is a message id; ``before`` is "" if there is none.
    """

    name: str
    now: str
    before: str = ""


def _headlines(
    localizer: Localizer,
    sums: Sequence[figures.GatewaySums],
    previous: Sequence[figures.GatewaySums],
) -> list[Headline]:
    """Return the volume of each currency, the number of payments and the success rate."""

    def volumes(rows: Sequence[figures.GatewaySums]) -> dict[str, int]:
        by_currency: dict[str, int] = {}
        for row in rows:
            by_currency[row.currency] = by_currency.get(row.currency, 0) + row.volume_minor
        return by_currency

    def attempts(rows: Sequence[figures.GatewaySums]) -> Attempts:
        return Attempts(sum(row.payments for row in rows), sum(row.failed for row in rows))

    before = volumes(previous)
    by_volume = sorted(volumes(sums).items(), key=lambda pair: -pair[1])[:_MOST_CURRENCIES]
    headlines = [
        Headline(
            N_("Volume"),
            localizer.amount(Money(minor, currency)),
            localizer.amount(Money(before[currency], currency)) if currency in before else "",
        )
        for currency, minor in by_volume
    ]
    now, then = attempts(sums), attempts(previous)
    headlines.append(
        Headline(
            N_("Payments"),
            localizer.number(now.payments),
            localizer.number(then.payments) if previous else "",
        )
    )
    rates = [charts.percent(localizer, row.success_rate).text for row in (now, then)]
    headlines.append(Headline(N_("Success rate"), rates[0], rates[1] if previous else ""))
    return headlines


def _need_count(localizer: Localizer, need: Need, count: int) -> str:
    """Format a count, with a plus sign if counting stopped at the limit."""
    text = localizer.number(count)
    return f"{text}+" if count == need.limit else text


def _gateway_cells(localizer: Localizer, sums: figures.GatewaySums) -> tuple[str, ...]:
    return (
        localizer.number(sums.payments),
        localizer.number(sums.failed),
        charts.percent(localizer, sums.success_rate).text,
        localizer.amount(Money(sums.volume_minor, sums.currency)),
    )


def _volume_cells(localizer: Localizer, sums: figures.CurrencySums) -> tuple[str, ...]:
    minors = (sums.paid_minor, sums.refunded_minor, sums.fees_minor)
    amounts = (localizer.amount(Money(minor, sums.currency)) for minor in minors)
    return (localizer.number(sums.payments), *amounts)


def _amounts(localizer: Localizer, balance: TrialBalance) -> list[tuple[str, str]]:
    """Return the amounts that gateways collected, and where that money is now.

    What gateways collected equals what is owed, paid out and earned, since each posting adds up to
    zero.
    """
    minors = {
        N_("Taken in by gateways"): -balance.gateway,
        N_("Owed to merchants"): sum(getattr(balance, name) for name in MERCHANT_ACCOUNTS),
        N_("Pending"): balance.pending,
        N_("Available"): balance.available,
        N_("Frozen"): balance.frozen,
        N_("In reserve"): balance.reserve,
        N_("Paid out"): balance.bank,
        N_("Earned"): balance.platform,
    }
    currency = balance.currency
    return [(name, localizer.amount(Money(minor, currency))) for name, minor in minors.items()]


pages: Final = (Page("GET", CONSOLE_PATH, "console.read", show_home, menu=N_("Home")),)
