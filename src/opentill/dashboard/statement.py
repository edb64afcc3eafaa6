"""The statement of a range of days: opening and closing balance and what moved, by currency.

It is a page and a CSV file with every movement; ``statement_pdf.py`` has the PDF.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, ledger
from opentill.core.money import Money
from opentill.dashboard import page_helpers
from opentill.dashboard.balance import ACCOUNTS
from opentill.figures.model import local
from opentill.ledger import TypeSum
from opentill.list_counts import FOREVER
from opentill.portal import downloads, lists, render
from opentill.portal.lists import Days
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

# The types of movements in the order of the changes of the balance, then the others.
_FIRST_TYPES: Final[tuple[ledger.Type, ...]] = ("PAYMENT", "REFUND", "FEE")
_FUTURE: Final = N_("This day is in the future. A statement goes until today at the latest")
_MONTHS: Final = 36  # months that the page offers by name
_TYPES: Final = (*_FIRST_TYPES, *(name for name in ledger.TYPES if name not in _FIRST_TYPES))


class TypeTexts(msgspec.Struct, frozen=True):
    """The movements of one type: their number, and their sums by account and in total.

    ``amounts`` has a text for each account of ``StatementTexts.used``, "" for one without a change.
    ``filters`` is the query of the list of these movements.
    """

    type: str
    entries: str
    amounts: Sequence[str]
    total: str
    filters: str


class StatementTexts(msgspec.Struct, frozen=True):
    """A statement in one currency; all amounts and numbers are text.

    ``accounts`` are name, opening, change and closing of the accounts with money at either end;
    ``changes`` are reason and amount. ``used`` are the accounts that were not empty all the time.
    ``types`` begin with those that change the balance; the others move money between accounts.
    """

    currency: str
    used: Sequence[str]
    entries: str
    opening: str
    closing: str
    accounts: Sequence[tuple[str, str, str, str]]
    changes: Sequence[tuple[str, str]] | None
    types: Sequence[TypeTexts] | None


async def show(request: PageRequest) -> Response:
    """Show the statement of a range of days, by default of this month until today."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    days = read_days(request, zone)
    db = request.app.replica.reading()
    statements: Sequence[figures.Statement] = (
        () if days.errors else await figures.statements(db, merchant.id, days.range)
    )
    first_day = local(merchant.created_at, zone).date()
    return render.page(
        request,
        "statement.html",
        errors=days.errors,
        zone=zone,
        days=days,
        months=[month for month in lists.months(request, zone, _MONTHS) if month.end >= first_day],
        merchant=merchant,
        first=day_text(request.localizer, days, days.first),
        last=day_text(request.localizer, days, days.last),
        has_moved=bool(statements),
        statements=texts(request.localizer, days, statements),
        filters=urlencode({"from": days.first, "to": days.last}),
    )


def read_days(request: PageRequest, zone: ZoneInfo) -> Days:
    """Return the days in the query, by default this month's until today.

    Days after today are refused: nobody can know yet what moves in them.
    """
    days = lists.days(request, zone, _month_until_today(request, zone))
    today = local(request.now, zone).date()
    future = {
        field: _FUTURE
        for field, day in (("from", days.start), ("to", days.end))
        if day is not None and day > today
    }
    if not future:
        return days
    return msgspec.structs.replace(days, errors=days.errors | future, start=None, end=None)


def _month_until_today(request: PageRequest, zone: ZoneInfo) -> tuple[date, date]:
    today = local(request.now, zone).date()
    return today.replace(day=1), today


def day_text(localizer: Localizer, days: Days, text: str) -> str:
    """Format the first or the last day of the range; "" if the range is open there or invalid."""
    return "" if days.errors or not text else localizer.day(date.fromisoformat(text))


def texts(
    localizer: Localizer, days: Days, statements: Sequence[figures.Statement]
) -> list[StatementTexts]:
    """Format the statements, without currencies that had no movement and no money."""
    return [
        _format(localizer, days, row)
        for row in statements
        if row.entries or any(row.opening.values())
    ]


def _format(localizer: Localizer, days: Days, row: figures.Statement) -> StatementTexts:
    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, row.currency))

    def type_texts(type_: TypeSum) -> TypeTexts:
        sums = [getattr(type_, name) for name in used]
        return TypeTexts(
            type_.type,
            localizer.number(type_.entries),
            [amount(minor) if minor else "" for minor in sums],
            amount(sum(sums)),
            urlencode({"type": type_.type, "from": days.first, "to": days.last}),
        )

    # Accounts that stayed empty, and reasons for which nothing moved, are left out.
    with_money = [name for name in ACCOUNTS if row.opening[name] or row.closing[name]]
    used = [
        name
        for name in ACCOUNTS
        if name in with_money or any(getattr(type_, name) for type_ in row.types or ())
    ]
    types = None
    if row.types is not None:
        by_effect = sorted(
            row.types,
            key=lambda type_: (type_.type in ledger.TRANSFERS, _TYPES.index(type_.type)),
        )
        types = [type_texts(type_) for type_ in by_effect]
    changes = None
    if row.changes is not None:
        changes = [(reason, amount(minor)) for reason, minor in row.changes.items() if minor]
    return StatementTexts(
        currency=row.currency,
        used=used,
        entries=localizer.number(row.entries),
        opening=amount(row.opening_minor),
        closing=amount(row.closing_minor),
        accounts=[
            (name, amount(opening), amount(closing - opening), amount(closing))
            for name in with_money or used
            for opening, closing in [(row.opening[name], row.closing[name])]
        ],
        changes=changes,
        types=types,
    )


async def send_file(request: PageRequest) -> Response:
    """Send the statement of a range of days as CSV: every entry, and sums that add up."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    days = read_days(request, zone)
    if days.errors:
        return redirect_to_errors(request)
    since, until = days.range
    end = None if until == FOREVER else until
    db = request.app.replica.reading()
    chunks = ledger.statement_file(db, merchant.id, since or None, end, zone)
    return await downloads.table(days.filename("statement"), chunks)


def redirect_to_errors(request: PageRequest) -> Response:
    """Redirect to the page, which shows the errors of the days."""
    query = {name: request.query[name] for name in ("from", "to") if request.query.get(name)}
    return page_helpers.redirect(request, "balance", "statement", **query)


# The files need the permission of the page, since they contain the same data.
pages: Final = (
    Page(
        "GET",
        f"{DASHBOARD_PATH}/balance/statement",
        "balance.read",
        show,
        menu=N_("Statement"),
        group="money",
    ),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement.csv", "balance.read", send_file),
)
