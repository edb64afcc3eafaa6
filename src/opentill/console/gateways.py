"""How the gateways do: attempts, success, latency, the last refusal, and what they have not said.

Nothing is called here: each leads to a test payment (``gateway_tests.py``).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import figures
from opentill.console.zone import ZONE
from opentill.core import metrics
from opentill.figures import GatewaySums
from opentill.gateways.routing import Gateways
from opentill.orders import PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.orders.payments.model import UnansweredAttempts
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_

_QUARTER_MS: Final = 900_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_RESPONSE_MS: Final = 15_000  # after which an attempt without a response is asked for
NEWEST: Final = 50  # attempts of each merchant among which the last refusal is looked for


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway as the page shows it."""

    name: str
    away: bool
    spans: list[tuple[str, str, str]]  # of the last hour and day: key, attempts, success rate
    calls: list[tuple[str, str, str]]  # operation, how many, mean duration in ms
    unanswered: UnansweredAttempts | None
    refused: PaymentAttempt | None


def _span(
    localizer: Localizer, key: str, name: str, sums: Sequence[GatewaySums]
) -> tuple[str, str, str]:
    mine = [one for one in sums if one.gateway == name]
    paid, failed = sum(one.payments for one in mine), sum(one.failed for one in mine)
    share = paid / (paid + failed) if paid + failed else None
    return key, localizer.number(paid + failed), charts.percent(localizer, share).text


def _calls(localizer: Localizer, name: str) -> list[tuple[str, str, str]]:
    return [
        (operation, localizer.number(calls), localizer.number(round(seconds / calls * 1000)))
        for (gateway, operation), (calls, seconds) in sorted(metrics.gateway_calls().items())
        if gateway == name and calls
    ]


async def show(request: PageRequest) -> Response:
    """Show each configured gateway, in the order of preference."""
    localizer, gateways, now = request.localizer, request.app.gateways, request.now
    until = now - now % _QUARTER_MS + _QUARTER_MS
    async with request.app.db.connection() as tx:
        of_hour = await figures.sum_by_gateway(tx, until - _HOUR_MS, until)
        of_day = await figures.sum_by_gateway(tx, until - _DAY_MS, until)
        unanswered = {
            one.gateway: one for one in await order_jobs.count_unanswered(tx, now - _RESPONSE_MS)
        }
        refused = {one.gateway: one for one in await order_jobs.list_last_refused(tx, NEWEST)}
    behind = await figures.waiting(request.app.db)
    return render.page(
        request,
        "gateways.html",
        gateways=[
            Shown(
                name=name,
                away=isinstance(gateways, Gateways) and gateways.is_unreachable(name),
                spans=[
                    _span(localizer, N_("Last hour"), name, of_hour),
                    _span(localizer, NC_("gateway figures", "Last day"), name, of_day),
                ],
                calls=_calls(localizer, name),
                unanswered=unanswered.get(name),
                refused=refused.get(name),
            )
            for name in gateways
        ],
        behind=localizer.number(behind) if behind else "",
        newest=NEWEST,
        zone=ZONE,
    )


pages: Final = (
    Page("GET", f"{CONSOLE_PATH}/gateways", "deployment.read", show, menu=N_("Gateways")),
)
