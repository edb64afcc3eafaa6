"""The incremental check of the books: its progress with each balance, and its findings."""

from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import ledger, merchants
from opentill.console import filters
from opentill.console.zone import ZONE
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

_CHECK: Final = Markup("<code>opentill ledger check</code>")
_MOST_BALANCES: Final = 200  # the list shows at most this many balances


def _progress(localizer: Localizer, check: ledger.BalanceCheck) -> str:
    """Return the share of a balance that the running pass has checked, "" if none runs."""
    if not check.checked_to:
        return ""
    return localizer.percent(min(1, check.checked_to / max(check.entries, 1)))


async def show_books(request: PageRequest) -> Response:
    """Show the passes of the check by balance, and its findings."""
    localizer = request.localizer
    async with request.app.db.connection() as tx:
        typed, merchant, errors = await filters.find_merchant(tx, request)
        passes = await ledger.summarize_passes(tx)
        counts = await ledger.count_violations(tx)
        checks: list[ledger.BalanceCheck] = []
        if not errors:
            merchant_id = merchant.id if merchant else None
            checks = await ledger.list_checks(tx, merchant_id, _MOST_BALANCES)
        names = await merchants.names(tx, (check.merchant_id for check in checks))
    return render.page(
        request,
        "books.html",
        passes=passes,
        counts=counts,
        checks=[(check, _progress(localizer, check)) for check in checks],
        findings=[(check.currency, finding) for check in checks for finding in check.wrong],
        names=names,
        merchant=typed,
        errors=errors,
        most=_MOST_BALANCES,
        command=_CHECK,
        zone=ZONE,
    )


pages: Final = (
    Page(
        "GET",
        f"{CONSOLE_PATH}/books",
        "balance.read",
        show_books,
        menu=N_("Ledger checks"),
        group="money",
    ),
)
