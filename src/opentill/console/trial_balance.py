"""The trial balance at the end of a day, in total and by merchant; the general ledger's file."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import ledger, merchants
from opentill.console import filters
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger.postings import ACCOUNTS
from opentill.list_counts import FOREVER
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

# The list shows at most this many balances; `opentill ledger accounts` lists all.
_MOST_BALANCES: Final = 200


class TrialBalanceTable(msgspec.Struct, frozen=True):
    """The trial balance of a currency as a table.

    ``accounts`` are rows of account, debit and credit; a side without an amount is "".
    """

    currency: str
    accounts: list[tuple[str, str, str]]
    debits: str
    credits: str


async def show_trial_balance(request: PageRequest) -> Response:
    """Show the balance of each account at the end of a day, or now."""
    localizer, days = request.localizer, lists.days(request, ZONE)
    # The page has two forms, and only the form of the general ledger has a first day (`from`).
    # Errors are shown at the form that was sent.
    is_ledger_form = "from" in request.query
    prefix = "ledger-" if is_ledger_form else ""
    at = days.until if days.last and not days.errors else None
    async with request.app.db.snapshot() as tx:
        typed, merchant, errors = await filters.find_merchant(tx, request)
        errors |= {prefix + name: text for name, text in days.errors.items()}
        sums: list[ledger.TrialBalance] = []
        balances: list[ledger.Balance] = []
        if not errors:
            sums, balances = await _read_balances(tx, at, merchant.id if merchant else None)
        names = await merchants.names(tx, (balance.merchant_id for balance in balances))

    def cells(row: ledger.Balance) -> list[str]:
        return [localizer.amount(Money(getattr(row, name), row.currency)) for name in ACCOUNTS]

    return render.page(
        request,
        "trial_balance.html",
        accounts=ACCOUNTS,
        sums=[_debits_and_credits(localizer, row) for row in sums],
        balances=[(row, cells(row)) for row in balances],
        names=names,
        most=_MOST_BALANCES,
        day=days.last,
        ledger=days if is_ledger_form else Days(0, FOREVER, "", "", {}),
        merchant=typed,
        errors=errors,
        zone=ZONE,
        file=f"{request.base}{PLACE}/ledger.csv",
    )


async def _read_balances(
    tx: Tx, at: int | None, merchant_id: str | None
) -> tuple[list[ledger.TrialBalance], list[ledger.Balance]]:
    """Return the trial balance of each currency, and the first balances that have entries.

    ``at`` is Unix ms, inclusive, None for now; without ``merchant_id`` they are of all merchants.
    """
    if at is None:
        sums = await ledger.trial_balance(tx, merchant_id)
    else:
        sums = await ledger.trial_balance_at(tx, at, merchant_id)
    balances: list[ledger.Balance] = []
    async for balance in ledger.balances_at(tx, at, merchant_id):
        if balance.entries:
            balances.append(balance)
        if len(balances) == _MOST_BALANCES:
            break
    return sums, balances


def _debits_and_credits(localizer: Localizer, row: ledger.TrialBalance) -> TrialBalanceTable:
    """Return the table of a currency. An account that is below zero has a debit balance."""
    sums = {name: getattr(row, name) for name in ACCOUNTS}

    def text(minor: int) -> str:
        return localizer.amount(Money(minor, row.currency)) if minor else ""

    def total(minors: Iterable[int]) -> str:
        return localizer.amount(Money(sum(minors), row.currency))

    return TrialBalanceTable(
        row.currency,
        [(name, text(max(-minor, 0)), text(max(minor, 0))) for name, minor in sums.items()],
        total(max(-minor, 0) for minor in sums.values()),
        total(max(minor, 0) for minor in sums.values()),
    )


async def export_general_ledger(request: PageRequest) -> Response:
    """Stream the general ledger of a range of days. Errors in the filters are shown by the page."""
    days = lists.days(request, ZONE)
    async with request.app.db.connection() as tx:
        _, merchant, errors = await filters.find_merchant(tx, request)
    if days.errors or errors:
        return render.see_other(request, f"{PLACE}?{urlencode(request.query)}")
    chunks = ledger.general_ledger_file(
        request.app.replica.reading(), days.since, days.until, merchant.id if merchant else None
    )
    return await downloads.table(days.filename("general_ledger"), chunks)


PLACE: Final = f"{CONSOLE_PATH}/trial-balance"
pages: Final = (
    Page("GET", PLACE, "balance.read", show_trial_balance, menu=N_("Trial balance"), group="money"),
    Page("GET", f"{PLACE}/ledger.csv", "balance.read", export_general_ledger),
)
