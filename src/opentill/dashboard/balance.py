"""The balance: what is where and when it becomes available, every movement, and statements."""

from collections.abc import AsyncGenerator, Sequence
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, ledger, merchants
from opentill.core.money import Money
from opentill.dashboard import expected, movements
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

# The merchant's accounts in the order of the pages: what people ask for first comes first.
_ACCOUNTS: Final = ("available", "pending", "frozen", "reserve")


class Account(msgspec.Struct, frozen=True):
    """One of the merchant's accounts, and how much is on it; the keys say what it is."""

    name: str
    amount: str


class StatementShown(msgspec.Struct, frozen=True):
    """A statement in one currency; all amounts are text.

    ``accounts`` are name, opening, change and closing; ``changes`` the key of a reason and an
    amount; ``types`` a type, how many, and what it moved on each account and in all.
    """

    currency: str
    entries: str
    opening: str
    closing: str
    accounts: Sequence[tuple[str, str, str, str]]
    changes: Sequence[tuple[str, str]] | None
    types: Sequence[tuple[str, str, list[str]]] | None


async def show(request: PageRequest) -> Response:
    """Show each account, what becomes available when, and the movements, newest first."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    merchant, zone = await _merchant(request)
    db = request.app.replica.reading()
    days = lists.days(request, zone)
    kind = lists.choice(request, "type", ledger.TYPES)
    number = lists.page_number(request)
    found, total = await ledger.list_entries(db, merchant_id, kind, number, lists.SIZE, days.range)
    await figures.catch_up(request.app.db, merchant_id)
    coming = await figures.find_coming(request.app.db, merchant_id, zone, request.now)
    rows = await db.read(lambda tx: movements.rows(tx, localizer, merchant_id, found))
    currencies = [
        (
            one.balance.currency,
            _accounts(localizer, one),
            expected.chart(localizer, coming.days, one),
        )
        for one in coming.currencies
    ]
    return render.page(
        request,
        "balance.html",
        scripts=True,
        errors=days.errors,
        zone=zone,
        days=days,
        kind=kind,
        types=[(one, localizer.gettext(ENTRY_TYPE[one])) for one in ledger.TYPES],
        pager=Pager(number, total),
        behind=coming.as_of if coming.as_of < request.now else None,
        currencies=currencies,
        settlement_currency=merchant.settlement_currency,
        nothing=localizer.amount(Money(0, merchant.settlement_currency)),
        accounts=_ACCOUNTS,
        rows=rows,
        filters=_filters(request, "from", "to", "type"),
        days_only=_filters(request, "from", "to"),
    )


def _accounts(localizer: Localizer, one: figures.Expected) -> list[Account]:
    standing = one.balance
    return [
        Account(name, localizer.amount(Money(getattr(standing, name), standing.currency)))
        for name in _ACCOUNTS
    ]


async def _merchant(request: PageRequest) -> tuple[Merchant, ZoneInfo]:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.access.merchant_id)
    return merchant, ZoneInfo(merchant.time_zone)


def _filters(request: PageRequest, *names: str) -> str:
    """Return a query with those fields of this one's that are not empty, "" for none."""
    query = {name: request.query[name] for name in names if request.query.get(name)}
    return f"?{urlencode(query)}" if query else ""


async def statement(request: PageRequest) -> Response:
    """Show the statement of a range of days: by default, of this month until today."""
    merchant, zone = await _merchant(request)
    days = _statement_days(request, zone)
    db = request.app.replica.reading()
    found = () if days.errors else await figures.statements(db, merchant.id, days.range)
    today = local(request.now, zone).date()
    before = today.replace(day=1) - timedelta(days=1)
    return render.page(
        request,
        "statement.html",
        errors=days.errors,
        zone=zone,
        days=days,
        merchant=merchant,
        months={N_("This month until today"): _month(today), N_("Last month"): _month(before)},
        accounts=_ACCOUNTS,
        first=_day(request.localizer, days, days.first),
        last=_day(request.localizer, days, days.last),
        statements=[_shown(request.localizer, one) for one in found],
        filters=f"?{urlencode({'from': days.first, 'to': days.last})}",
    )


def _statement_days(request: PageRequest, zone: ZoneInfo) -> Days:
    """Return the days that are asked for; without any, this month's until today."""
    today = local(request.now, zone).date()
    return lists.days(request, zone, (today.replace(day=1), today))


def _month(last: date) -> str:
    """Return the query for a month until one of its days."""
    return urlencode({"from": last.replace(day=1).isoformat(), "to": last.isoformat()})


def _day(localizer: Localizer, days: Days, text: str) -> str:
    """Write one of the days, "" for an open side."""
    return "" if days.errors or not text else localizer.day(date.fromisoformat(text))


def _shown(localizer: Localizer, one: figures.Statement) -> StatementShown:
    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, one.currency))

    types = None
    if one.types is not None:
        types = [
            (each.type, localizer.number(each.entries), list(map(amount, (*moved, sum(moved)))))
            for each in one.types
            for moved in [[getattr(each, name) for name in _ACCOUNTS]]
        ]
    changes = None
    if one.changes is not None:
        changes = [(name, amount(minor)) for name, minor in one.changes.items()]
    return StatementShown(
        currency=one.currency,
        entries=localizer.number(one.entries),
        opening=amount(one.opening_minor),
        closing=amount(one.closing_minor),
        accounts=[
            (name, amount(before), amount(after - before), amount(after))
            for name in _ACCOUNTS
            for before, after in [(one.opening[name], one.closing[name])]
        ],
        changes=changes,
        types=types,
    )


async def statement_file(request: PageRequest) -> Response:
    """Send the statement of a range of days as CSV: every entry, and sums that add up."""
    merchant, zone = await _merchant(request)
    days = _statement_days(request, zone)
    if days.errors:
        return _back(request, "balance/statement")
    since, until = days.range
    end = None if until == FOREVER else until
    db = request.app.replica.reading()
    chunks = ledger.statement_file(db, merchant.id, since or None, end, zone)
    return await _file("statement", days, chunks)


async def movements_file(request: PageRequest) -> Response:
    """Send the movements that the list shows as CSV, all of its pages."""
    merchant, zone = await _merchant(request)
    days = lists.days(request, zone)
    if days.errors:
        return _back(request, "balance")
    kind = lists.choice(request, "type", ledger.TYPES)
    db = request.app.replica.reading()
    return await _file(
        "balance", days, ledger.movements_file(db, merchant.id, kind, days.range, zone)
    )


def _back(request: PageRequest, below: str) -> Response:
    """Lead to the page that these filters belong to, which says what is wrong with them."""
    filters = _filters(request, "from", "to", "type")
    return render.see_other(request, f"/dashboard/{request.merchant_id}/{below}{filters}")


async def _file(name: str, days: Days, chunks: AsyncGenerator[bytes, None]) -> Response:
    return await downloads.table(days.filename(name), chunks)


# Both files hold what the pages show to whoever has the permission, and nothing about customers:
# so they need no more than the pages (payments.export is for files with customers' addresses).
pages: Final = (
    Page("GET", f"{DASHBOARD_PATH}/balance", "balance.read", show, menu=N_("Balance")),
    Page("GET", f"{DASHBOARD_PATH}/balance.csv", "balance.read", movements_file),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement", "balance.read", statement),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement.csv", "balance.read", statement_file),
)
