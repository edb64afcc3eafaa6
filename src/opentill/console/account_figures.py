"""The figures of one gateway account: success rate, volume, last payment, open differences."""

from typing import Any, Final

from opentill import figures, reconciliation
from opentill.console import home_figures
from opentill.console.gateway_accounts import LAST_PAYMENT_MS
from opentill.db.database import Tx
from opentill.orders import jobs as order_jobs
from opentill.portal import account_views
from opentill.portal.account_views import DAY_MS, QUARTER_MS
from opentill.portal.request import PageRequest
from opentill.web import charts, declines
from opentill.web.translations import N_

_RESPONSE_MS: Final = 15_000  # an attempt without an outcome counts as unanswered after this time
_NEWEST: Final = 50  # the last refusal is searched among this many attempts of each merchant
_MOST_DIFFERENCES: Final = 100  # open differences are counted up to this number


async def read(tx: Tx, request: PageRequest, account_id: str) -> dict[str, Any]:
    """Return what the templates with the figures and the differences of an account need."""
    now, localizer = request.now, request.localizer
    until, days = now - now % QUARTER_MS + QUARTER_MS, home_figures.last_days(request)
    day = await figures.sum_by_gateway(tx, until - DAY_MS, until)
    month = await figures.sum_by_gateway(tx, days.since, days.until + 1)
    last = await account_views.list_last_payments(tx, until - LAST_PAYMENT_MS)
    unanswered = await order_jobs.count_unanswered(tx, now - _RESPONSE_MS)
    refusals = await order_jobs.list_last_refused(tx, _NEWEST)
    differences = await reconciliation.list_differences(
        tx, account_id, _MOST_DIFFERENCES, resolved=False
    )
    periods: list[dict[str, Any]] = []
    for text, sums in ((N_("Last 24 hours"), day), (N_("Last 30 days"), month)):
        performance = account_views.performance(sums, account_id)
        periods.append(
            {
                "text": text,
                "rate": charts.percent(localizer, performance.rate).text,
                "attempts": localizer.number(performance.attempts),
                "volumes": account_views.volumes(localizer, sums, account_id),
            }
        )
    return {
        "periods": periods,
        "sums": [
            (row, home_figures.gateway_cells(localizer, row))
            for row in month
            if row.gateway == account_id
        ],
        "last_payment": last.get(account_id),
        "unanswered": next((row for row in unanswered if row.gateway == account_id), None),
        "refusal": next((row for row in refusals if row.gateway == account_id), None),
        "decline_of": declines.reason_of,
        "differences": len(differences),
        "most_differences": _MOST_DIFFERENCES,
    }
