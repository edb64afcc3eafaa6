"""The trial balance at the end of a day, in total and by merchant; the general ledger's file."""

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import ledger, merchants
from opentill.console import filters
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.ledger.postings import ACCOUNTS
from opentill.list_counts import FOREVER
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The list shows at most this many balances; `opentill ledger accounts` lists all.
_MOST_BALANCES: Final = 200


async def show_trial_balance(request: PageRequest) -> Response:
    """Show the balance of each account at the end of a day, or now."""
    localizer, days = request.localizer, lists.days(request, ZONE)
    merchant_id, errors = filters.merchant_id(request)
    if errors:
        merchant_id = ""
    # The page has two forms, and only the form of the general ledger has a first day (`from`).
    # Errors are shown at the form that was sent.
    is_ledger_form = "from" in request.query
    prefix = "ledger-" if is_ledger_form else ""
    errors |= {prefix + name: text for name, text in days.errors.items()}
    at = days.until if days.last and not days.errors else None
    async with request.app.db.snapshot() as tx:
        if at is None:
            sums = await ledger.trial_balance(tx, merchant_id or None)
        else:
            sums = await ledger.trial_balance_at(tx, at, merchant_id or None)
        balances: list[ledger.Balance] = []
        async for balance in ledger.balances_at(tx, at, merchant_id or None):
            if balance.entries:
                balances.append(balance)
            if len(balances) == _MOST_BALANCES:
                break
        names = await merchants.names(tx, (balance.merchant_id for balance in balances))

    def cells(row: ledger.TrialBalance | ledger.Balance) -> list[str]:
        return [localizer.amount(Money(getattr(row, name), row.currency)) for name in ACCOUNTS]

    return render.page(
        request,
        "trial_balance.html",
        accounts=ACCOUNTS,
        sums=[(row, cells(row)) for row in sums],
        balances=[(row, cells(row)) for row in balances],
        names=names,
        most=_MOST_BALANCES,
        day=days.last,
        ledger=days if is_ledger_form else Days(0, FOREVER, "", "", {}),
        merchant=merchant_id,
        errors=errors,
        zone=ZONE,
        file=f"{request.base}{PLACE}/ledger.csv",
    )


async def export_general_ledger(request: PageRequest) -> Response:
    """Stream the general ledger of a range of days. Errors in the filters are shown by the page."""
    days, (merchant_id, errors) = lists.days(request, ZONE), filters.merchant_id(request)
    if days.errors or errors:
        return render.see_other(request, f"{PLACE}?{urlencode(request.query)}")
    chunks = ledger.general_ledger_file(
        request.app.replica.reading(), days.since, days.until, merchant_id or None
    )
    return await downloads.table(days.filename("general_ledger"), chunks)


PLACE: Final = f"{CONSOLE_PATH}/trial-balance"
pages: Final = (
    Page("GET", PLACE, "balance.read", show_trial_balance, menu=N_("Trial balance"), group="money"),
    Page("GET", f"{PLACE}/ledger.csv", "balance.read", export_general_ledger),
)
