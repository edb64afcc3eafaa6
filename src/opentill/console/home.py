"""The home page of the console: what needs attention, the volume, and where the money is."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from opentill import adjustments, figures, ledger, merchants, orders, queues
from opentill.console import home_figures, open_needs
from opentill.console.needs import Need
from opentill.console.open_needs import OpenNeed
from opentill.console.queues import LATE_MS
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import MERCHANT_ACCOUNTS, TrialBalance
from opentill.orders import Order
from opentill.portal import dispute_rates, lists, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

_MOST_SUMS: Final = 2  # currencies of a line of what needs attention
_NEWEST: Final = 12  # payments of all merchants


async def show_home(request: PageRequest) -> Response:
    """Show what needs attention, the volume of a range of days, and the sums of all balances."""
    days, localizer = home_figures.read_days(request), request.localizer
    range_before = home_figures.range_before(days, request.now)
    async with request.app.db.connection() as tx:
        current_needs = await open_needs.count_all(tx, request)
        volumes = await figures.sum_range(tx, None, days.since, days.until + 1)
        gateways = await figures.sum_by_gateway(tx, days.since, days.until + 1)
        previous = await figures.sum_by_gateway(tx, *range_before) if range_before else None
        by_day = await figures.sum_by_day(tx, home_figures.chart_days(days, request.now))
        balances = await ledger.trial_balance(tx)
        recharges = await adjustments.sum_recharges(tx)
        newest = await _read_newest(tx, request)
        concerned = [item.merchant_id for each in current_needs for item in each.items]
        names = await merchants.names(tx, [*concerned, *(order.merchant_id for order in newest)])
    behind = await figures.count_uncounted_entries(request.app.db)
    late_queues = [
        row for row in await queues.read(request.app.db, request.now) if (row.age_ms or 0) > LATE_MS
    ]
    disputes = []
    if request.may("disputes.read"):
        disputes = await dispute_rates.read(request.app.db, localizer, None, request.now, months=1)
    texts = home_figures.FigureTexts(localizer, days, request.now, by_day, gateways, previous)
    shown_chart = lists.choice(request, "chart", tuple(home_figures.CHARTS)) or "volume"
    return render.page(
        request,
        "home.html",
        scripts=True,
        needs=[
            (
                each,
                _need_count(localizer, each.need, each.count),
                _need_details(request, each, names),
            )
            for each in current_needs
        ],
        zone=ZONE,
        days=days,
        behind=localizer.number(behind) if behind else "",
        volumes=[
            (volume.currency, _volume_cells(localizer, volume))
            for volume in volumes
            if volume.has_movements
        ],
        headlines=texts.headlines(),
        charts=texts.charts(shown_chart),
        chart_choices=home_figures.CHARTS.items(),
        shown_chart=shown_chart,
        gateways=[
            (gateway, home_figures.gateway_cells(localizer, gateway)) for gateway in gateways
        ],
        late_queues=late_queues,
        disputes=disputes,
        newest=[
            (order, localizer.amount(Money(order.amount_minor, order.currency))) for order in newest
        ],
        names=names,
        balances=[
            (balance.currency, _amounts(localizer, balance, recharges.get(balance.currency, 0)))
            for balance in balances
        ],
    )


async def _read_newest(tx: Tx, request: PageRequest) -> list[Order]:
    """Return the newest payments of all merchants, if the person may see payments."""
    if not request.may("payments.read"):
        return []
    return await orders.list_newest_of_all(
        tx, _NEWEST, status=None, since=0, before=(request.now + 1, "")
    )


def _need_count(localizer: Localizer, need: Need, count: int) -> str:
    """Format a count, with a plus sign if counting stopped at the limit."""
    text = localizer.number(count)
    return f"{text}+" if count == need.limit else text


def _need_details(request: PageRequest, need: OpenNeed, names: Mapping[str, str]) -> list[str]:
    """Return the sum of a kind's items, the merchant or their number, and the first deadline."""
    localizer = request.localizer
    details = [localizer.amount(money) for money in need.sums[:_MOST_SUMS]]
    concerned = {item.merchant_id for item in need.items if item.merchant_id}
    if len(concerned) == 1:
        merchant_id = next(iter(concerned))
        details.append(names.get(merchant_id, merchant_id))
    elif concerned:
        text = N_("{number} merchants")
        details.append(localizer.gettext(text, number=localizer.number(len(concerned))))
    if need.deadline is not None:
        day = localizer.recent_date(need.deadline, ZONE, request.now)
        details.append(localizer.gettext(N_("respond by {day}"), day=day))
    return details


def _volume_cells(localizer: Localizer, sums: figures.CurrencySums) -> tuple[str, ...]:
    minors = (
        sums.volume_minor,
        sums.direct_minor,
        sums.refunded_minor,
        sums.direct_refunded_minor,
        sums.fees_minor,
    )
    amounts = (localizer.amount(Money(minor, sums.currency)) for minor in minors)
    return (localizer.number(sums.all_payments), *amounts)


def _amounts(localizer: Localizer, balance: TrialBalance, recharged: int) -> list[tuple[str, str]]:
    """Return the amounts that came from gateways and by recharges, and where that money is now.

    What was collected and recharged equals what is owed, paid out and earned, since each posting
    adds up to zero. The ledger's bank account contains payouts less recharges.
    """
    minors = {
        N_("Collected by gateways"): -balance.gateway,
        N_("Owed to merchants"): sum(getattr(balance, name) for name in MERCHANT_ACCOUNTS),
        N_("Pending"): balance.pending,
        N_("Available"): balance.available,
        N_("On hold"): balance.frozen,
        N_("In reserve"): balance.reserve,
        N_("Prepaid"): balance.prepaid,
        N_("Paid out or on its way"): balance.bank + recharged,
        N_("Earned"): balance.platform,
    }
    if recharged:
        minors[N_("Recharged by merchants")] = recharged
    currency = balance.currency
    return [(name, localizer.amount(Money(minor, currency))) for name, minor in minors.items()]


pages: Final = (Page("GET", CONSOLE_PATH, "console.read", show_home, menu=N_("Home")),)
