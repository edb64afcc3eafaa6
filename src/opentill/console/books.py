"""The books: the incremental check, how far it is with each balance, and the rows that disagree."""

from typing import Final

from starlette.responses import Response

from opentill import ledger, merchants
from opentill.console.zone import ZONE
from opentill.core.ids import is_id
from opentill.portal import lists, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

_MOST: Final = 200  # balances that are listed


def _progress(localizer: Localizer, one: ledger.BalanceCheck) -> str:
    """Return how much of a balance the pass that runs has checked; "" if none runs."""
    if not one.checked_to:
        return ""
    return localizer.percent(min(1, one.checked_to / max(one.entries, 1)))


async def show(request: PageRequest) -> Response:
    """Show the passes of the check by balance, and what they found."""
    localizer, merchant_id = request.localizer, lists.text(request, "merchant", 64)
    errors = dict[str, str]()
    if merchant_id and not is_id(merchant_id):
        errors["merchant"] = N_("Enter the id of a merchant, such as mer_…, or nothing")
    whose = None if errors else merchant_id or None
    async with request.app.db.connection() as tx:
        passes = await ledger.summarize_passes(tx)
        checked = await ledger.count_violations(tx)
        rows = await ledger.list_checks(tx, whose, _MOST)
        names = await merchants.names(tx, (one.merchant_id for one in rows))
    return render.page(
        request,
        "books.html",
        passes=passes,
        checked=checked,
        rows=[(one, _progress(localizer, one)) for one in rows],
        wrong=[(one.currency, found) for one in rows for found in one.wrong],
        names=names,
        merchant=merchant_id,
        errors=errors,
        most=_MOST,
        may_verify=request.may("audit.read"),
        zone=ZONE,
    )


pages: Final = (Page("GET", f"{CONSOLE_PATH}/books", "balance.read", show, menu=N_("Books")),)
