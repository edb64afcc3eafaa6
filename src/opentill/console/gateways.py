"""The gateways: volume of a range of days, success rate, latency, last refusal, unknown outcomes.

The page calls no gateway; each has a link to a test payment (``gateway_tests.py``).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import figures
from opentill.console import home_figures
from opentill.console.zone import ZONE
from opentill.core import metrics
from opentill.core.money import Money
from opentill.figures import Attempts, GatewaySums
from opentill.gateways import accounts as gateway_accounts
from opentill.gateways.account import AccountStatus
from opentill.gateways.routing import Gateways
from opentill.orders import PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.orders.payments.model import UnansweredAttempts
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts, declines
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_

_QUARTER_MS: Final = 900_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_RESPONSE_MS: Final = 15_000  # an attempt without an outcome counts as unanswered after this time
NEWEST: Final = 50  # the last refusal is searched among this many newest attempts of each merchant

_CALL_NAMES: Final = {
    "pay": NC_("gateway call", "payments"),
    "find_payment": NC_("gateway call", "status checks"),
    "expire": NC_("gateway call", "cancellations"),
    "refund": NC_("gateway call", "refunds"),
}


class GatewayState(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway on the page."""

    name: str
    volumes: list[str]  # the amounts of the chosen days, one for each currency
    payments: str
    failed: str
    success_rate: str
    is_paused: bool  # staff have paused it
    is_retired: bool
    is_unreachable: bool
    broken_reason: str  # why the account has paused itself, "" if it has not
    retry_at: int | None  # when it is tried again, Unix ms
    # The text of each period, its number of attempts and its success rate.
    periods: list[tuple[str, str, str]]
    # Each operation, its number of calls and their mean duration in ms.
    calls: list[tuple[str, str, str]]
    is_used: bool  # whether it had attempts within the last day
    unanswered: UnansweredAttempts | None
    refusal: PaymentAttempt | None


def _period_cells(
    localizer: Localizer, text: str, name: str, sums: Sequence[GatewaySums]
) -> tuple[str, str, str]:
    paid = sum(row.payments for row in sums if row.gateway == name)
    attempts = paid + sum(row.failed for row in sums if row.gateway == name)
    success_rate = paid / attempts if attempts else None
    return text, localizer.number(attempts), charts.percent(localizer, success_rate).text


def _sum_up(localizer: Localizer, name: str, sums: Sequence[GatewaySums]) -> dict[str, Any]:
    """Return the figures of a gateway on the chosen days: the fields of ``GatewayState``."""
    rows = [row for row in sums if row.gateway == name]
    minors: Counter[str] = Counter()
    for row in rows:
        minors[row.currency] += row.volume_minor
    attempts = Attempts(sum(row.payments for row in rows), sum(row.failed for row in rows))
    return {
        "volumes": [
            localizer.amount(Money(minor, currency)) for currency, minor in minors.most_common()
        ],
        "payments": localizer.number(attempts.payments),
        "failed": localizer.number(attempts.failed),
        "success_rate": charts.percent(localizer, attempts.success_rate).text,
    }


def _call_rows(localizer: Localizer, name: str) -> list[tuple[str, str, str]]:
    return [
        (operation, localizer.number(calls), localizer.number(round(seconds / calls * 1000)))
        for (gateway, operation), (calls, seconds) in sorted(metrics.gateway_calls().items())
        if gateway == name and calls
    ]


def _has_status(gateways: Gateways, name: str, status: AccountStatus) -> bool:
    """Whether an account of the database has a status."""
    account = gateways.accounts.get(name)
    return account is not None and account.status == status


async def show_gateways(request: PageRequest) -> Response:
    """Show each gateway in the order of preference, with its volume on a range of days."""
    localizer, gateways, now = request.localizer, request.app.gateways, request.now
    days = home_figures.read_days(request)
    until = now - now % _QUARTER_MS + _QUARTER_MS
    async with request.app.db.connection() as tx:
        chosen = await figures.sum_by_gateway(tx, days.since, days.until + 1)
        last_hour = await figures.sum_by_gateway(tx, until - _HOUR_MS, until)
        last_day = await figures.sum_by_gateway(tx, until - _DAY_MS, until)
        unanswered = {
            row.gateway: row for row in await order_jobs.count_unanswered(tx, now - _RESPONSE_MS)
        }
        broken = {account.id: account for account in await gateway_accounts.list_broken(tx)}
        refusals = {row.gateway: row for row in await order_jobs.list_last_refused(tx, NEWEST)}
    behind = await figures.count_uncounted_entries(request.app.db)
    return render.page(
        request,
        "gateways.html",
        gateways=[
            GatewayState(
                name=name,
                **_sum_up(localizer, name, chosen),
                is_paused=isinstance(gateways, Gateways)
                and (name in gateways.paused or _has_status(gateways, name, "PAUSED")),
                is_retired=isinstance(gateways, Gateways)
                and _has_status(gateways, name, "RETIRED"),
                is_unreachable=isinstance(gateways, Gateways) and gateways.is_unreachable(name),
                broken_reason=broken[name].broken_reason or "" if name in broken else "",
                retry_at=broken[name].retry_at if name in broken else None,
                periods=[
                    _period_cells(localizer, N_("Last hour"), name, last_hour),
                    _period_cells(localizer, N_("Last 24 hours"), name, last_day),
                ],
                calls=_call_rows(localizer, name),
                is_used=any(row.gateway == name and row.payments + row.failed for row in last_day),
                unanswered=unanswered.get(name),
                refusal=refusals.get(name),
            )
            for name in gateways
        ],
        days=days,
        sums=[(row, home_figures.gateway_cells(localizer, row)) for row in chosen],
        behind=localizer.number(behind) if behind else "",
        call_names=_CALL_NAMES,
        decline_of=declines.reason_of,
        zone=ZONE,
    )


pages: Final = (
    Page(
        "GET",
        f"{CONSOLE_PATH}/gateways",
        "deployment.read",
        show_gateways,
        menu=N_("Gateways"),
        group="system",
    ),
)
