"""The balance: its accounts, awaited money, movements and statements."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, ledger
from opentill.core.money import Money
from opentill.dashboard import awaited, movements, page_helpers
from opentill.dashboard.labels import BALANCE
from opentill.figures.model import local
from opentill.list_counts import FOREVER
from opentill.merchants import Merchant
from opentill.portal import downloads, lists, render
from opentill.portal.labels import ENTRY_TYPE
from opentill.portal.lists import Days, Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

_ACCOUNTS: Final = tuple(BALANCE)  # the merchant's accounts in the order of the pages


class Account(msgspec.Struct, frozen=True):
    """One of the merchant's accounts, with its balance as text."""

    name: str
    amount: str


class StatementTexts(msgspec.Struct, frozen=True):
    """A statement in one currency; all amounts and numbers are text.

    ``accounts`` are name, opening, change and closing; ``changes`` are reason and amount;
    ``types`` are entry type, number of entries, and their sum on each account and in total.
    """

    currency: str
    entries: str
    opening: str
    closing: str
    accounts: Sequence[tuple[str, str, str, str]]
    changes: Sequence[tuple[str, str]] | None
    types: Sequence[tuple[str, str, list[str]]] | None


async def show(request: PageRequest) -> Response:
    """Show each account, awaited money by day, and the movements, newest first."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    merchant, zone = await _merchant(request)
    db = request.app.replica.reading()
    days = lists.days(request, zone)
    kind = lists.choice(request, "type", ledger.TYPES)
    number = lists.page_number(request)
    entries, total = await ledger.list_entries(
        db, merchant_id, kind, number, lists.SIZE, days.range
    )
    await figures.catch_up(request.app.db, merchant_id)
    coming = await figures.find_coming(request.app.db, merchant_id, zone, request.now)
    with_customers = request.access.may("payments.read")
    rows = await db.read(
        lambda tx: movements.rows(
            tx, localizer, merchant_id, entries, with_customers=with_customers
        )
    )
    currencies = [
        (
            schedule.balance.currency,
            _accounts(localizer, schedule),
            awaited.chart(localizer, coming.days, schedule),
        )
        for schedule in coming.currencies
    ]
    return render.page(
        request,
        "balance.html",
        scripts=True,
        errors=days.errors,
        zone=zone,
        days=days,
        kind=kind,
        types=[(name, localizer.gettext(ENTRY_TYPE[name])) for name in ledger.TYPES],
        pager=Pager(number, total),
        behind=coming.as_of if coming.as_of < request.now else None,
        currencies=currencies,
        settlement_currency=merchant.settlement_currency,
        zero=localizer.amount(Money(0, merchant.settlement_currency)),
        accounts=_ACCOUNTS,
        rows=rows,
        filters=_query(_filters(request)),
        days_only=_query(_filters(request, "from", "to")),
    )


def _accounts(localizer: Localizer, schedule: figures.Expected) -> list[Account]:
    balance = schedule.balance
    return [
        Account(name, localizer.amount(Money(getattr(balance, name), balance.currency)))
        for name in _ACCOUNTS
    ]


async def _merchant(request: PageRequest) -> tuple[Merchant, ZoneInfo]:
    merchant = await page_helpers.find_merchant(request)
    return merchant, ZoneInfo(merchant.time_zone)


def _filters(request: PageRequest, *names: str) -> dict[str, str]:
    """Return the filters of the request that are not empty; without ``names``, all of them."""
    names = names or ("from", "to", "type")
    return {name: request.query[name] for name in names if request.query.get(name)}


def _query(filters: dict[str, str]) -> str:
    return f"?{urlencode(filters)}" if filters else ""


async def statement(request: PageRequest) -> Response:
    """Show the statement of a range of days, by default of this month until today."""
    merchant, zone = await _merchant(request)
    days = _statement_days(request, zone)
    db = request.app.replica.reading()
    statements = () if days.errors else await figures.statements(db, merchant.id, days.range)
    today = local(request.now, zone).date()
    last_month = today.replace(day=1) - timedelta(days=1)
    return render.page(
        request,
        "statement.html",
        errors=days.errors,
        zone=zone,
        days=days,
        merchant=merchant,
        months={N_("This month until today"): _month(today), N_("Last month"): _month(last_month)},
        accounts=_ACCOUNTS,
        first=_day(request.localizer, days, days.first),
        last=_day(request.localizer, days, days.last),
        statements=[_texts(request.localizer, row) for row in statements],
        filters=_query({"from": days.first, "to": days.last}),
    )


def _statement_days(request: PageRequest, zone: ZoneInfo) -> Days:
    """Return the days in the query, by default this month's until today."""
    today = local(request.now, zone).date()
    return lists.days(request, zone, (today.replace(day=1), today))


def _month(last: date) -> str:
    """Return the query string for the days from the first of the month until ``last``."""
    return urlencode({"from": last.replace(day=1).isoformat(), "to": last.isoformat()})


def _day(localizer: Localizer, days: Days, text: str) -> str:
    """Format the first or the last day of the range; "" if the range is open there or invalid."""
    return "" if days.errors or not text else localizer.day(date.fromisoformat(text))


def _texts(localizer: Localizer, row: figures.Statement) -> StatementTexts:
    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, row.currency))

    types = None
    if row.types is not None:
        types = [
            (type_.type, localizer.number(type_.entries), list(map(amount, (*sums, sum(sums)))))
            for type_ in row.types
            for sums in [[getattr(type_, name) for name in _ACCOUNTS]]
        ]
    changes = None
    if row.changes is not None:
        changes = [(reason, amount(minor)) for reason, minor in row.changes.items()]
    return StatementTexts(
        currency=row.currency,
        entries=localizer.number(row.entries),
        opening=amount(row.opening_minor),
        closing=amount(row.closing_minor),
        accounts=[
            (name, amount(opening), amount(closing - opening), amount(closing))
            for name in _ACCOUNTS
            for opening, closing in [(row.opening[name], row.closing[name])]
        ],
        changes=changes,
        types=types,
    )


async def statement_file(request: PageRequest) -> Response:
    """Send the statement of a range of days as CSV: every entry, and sums that add up."""
    merchant, zone = await _merchant(request)
    days = _statement_days(request, zone)
    if days.errors:
        return page_helpers.redirect(request, "balance", "statement", **_filters(request))
    since, until = days.range
    end = None if until == FOREVER else until
    db = request.app.replica.reading()
    chunks = ledger.statement_file(db, merchant.id, since or None, end, zone)
    return await downloads.table(days.filename("statement"), chunks)


async def movements_file(request: PageRequest) -> Response:
    """Send all pages of the list of movements as CSV."""
    merchant, zone = await _merchant(request)
    days = lists.days(request, zone)
    if days.errors:  # redirect to the page, which shows the errors
        return page_helpers.redirect(request, "balance", **_filters(request))
    kind = lists.choice(request, "type", ledger.TYPES)
    db = request.app.replica.reading()
    chunks = ledger.movements_file(db, merchant.id, kind, days.range, zone)
    return await downloads.table(days.filename("balance"), chunks)


# The files need the permission of the pages, since they contain the same data. The permission
# payments.export is for files that contain the addresses of customers.
pages: Final = (
    Page(
        "GET", f"{DASHBOARD_PATH}/balance", "balance.read", show, menu=N_("Balance"), group="money"
    ),
    Page("GET", f"{DASHBOARD_PATH}/balance.csv", "balance.read", movements_file),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement", "balance.read", statement),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement.csv", "balance.read", statement_file),
)
