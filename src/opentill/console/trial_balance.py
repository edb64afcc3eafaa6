"""The trial balance after any day, of all merchants or by merchant; and the general ledger."""

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import ledger, merchants
from opentill.console.zone import ZONE
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.ledger.postings import ACCOUNTS
from opentill.list_counts import FOREVER
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_MOST: Final = 200  # merchants that are listed; the command line lists all


async def show(request: PageRequest) -> Response:
    """Show what each account held after a day; without one, now."""
    localizer, merchant_id = request.localizer, lists.text(request, "merchant", 64)
    days = lists.days(request, ZONE)
    # The form of the ledger alone has a first day: what is wrong is said at the form that was sent.
    of_ledger = "from" in request.query
    form = "ledger-" if of_ledger else ""
    errors = {form + name: sentence for name, sentence in days.errors.items()}
    if merchant_id and not is_id(merchant_id):
        errors["merchant"], merchant_id = (
            N_("Enter the id of a merchant, such as mer_…, or nothing"),
            "",
        )
    at = days.until if days.last and not days.errors else None
    async with request.app.db.snapshot() as tx:
        whose = merchant_id or None
        if at is None:
            sums = await ledger.trial_balance(tx, whose)
        else:
            sums = await ledger.trial_balance_at(tx, at, whose)
        each: list[ledger.Balance] = []
        async for one in ledger.balances_at(tx, at, whose):
            if one.entries:
                each.append(one)
            if len(each) == _MOST:
                break
        names = await merchants.names(tx, (one.merchant_id for one in each))

    def cells(one: ledger.TrialBalance | ledger.Balance) -> list[str]:
        return [localizer.amount(Money(getattr(one, name), one.currency)) for name in ACCOUNTS]

    return render.page(
        request,
        "trial_balance.html",
        accounts=ACCOUNTS,
        sums=[(one, cells(one)) for one in sums],
        each=[(one, cells(one)) for one in each],
        names=names,
        most=_MOST,
        day=days.last,
        ledger=days if of_ledger else Days(0, FOREVER, "", "", {}),
        merchant=merchant_id,
        errors=errors,
        zone=ZONE,
        file=f"{request.base}{PLACE}/ledger.csv",
    )


async def export(request: PageRequest) -> Response:
    """Stream the general ledger of some days."""
    days, merchant_id = lists.days(request, ZONE), lists.text(request, "merchant", 64)
    if days.errors or (merchant_id and not is_id(merchant_id)):  # the page says what is wrong
        return render.see_other(request, f"{PLACE}?{urlencode(request.query)}")
    chunks = ledger.general_ledger_file(
        request.app.replica.reading(), days.since, days.until, merchant_id or None
    )
    name = days.filename("general_ledger")
    return await downloads.table(name, chunks)


PLACE: Final = f"{CONSOLE_PATH}/trial-balance"
pages: Final = (
    Page("GET", PLACE, "balance.read", show, menu=N_("Trial balance")),
    Page("GET", f"{PLACE}/ledger.csv", "balance.read", export),
)
