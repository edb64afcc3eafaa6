"""The statement of a range of days: opening and closing balance and what moved, by currency.

It is a page, a CSV file with every movement, and a PDF for bookkeeping.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, ledger, merchants
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.dashboard import page_helpers
from opentill.dashboard.balance import ACCOUNTS
from opentill.dashboard.labels import BALANCE, CHANGE_REASON
from opentill.figures.model import local
from opentill.list_counts import FOREVER
from opentill.merchants import Merchant
from opentill.portal import downloads, lists, render
from opentill.portal.labels import ENTRY_TYPE
from opentill.portal.lists import Days
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.receipts import pdf
from opentill.receipts.pdf import NoFont
from opentill.receipts.sheet import Report, Table, font_files
from opentill.web.language import Localizer
from opentill.web.responses import attachment
from opentill.web.translations import N_


class StatementTexts(msgspec.Struct, frozen=True):
    """A statement in one currency; all amounts and numbers are text.

    ``accounts`` are name, opening, change and closing; ``changes`` are reason and amount.
    ``used`` are the accounts that were not empty all the time; ``types`` are entry type, number of
    entries, and their sum on each of these accounts and in total.
    """

    currency: str
    used: Sequence[str]
    entries: str
    opening: str
    closing: str
    accounts: Sequence[tuple[str, str, str, str]]
    changes: Sequence[tuple[str, str]] | None
    types: Sequence[tuple[str, str, list[str]]] | None


async def show(request: PageRequest) -> Response:
    """Show the statement of a range of days, by default of this month until today."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
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
        first=_day(request.localizer, days, days.first),
        last=_day(request.localizer, days, days.last),
        statements=[_texts(request.localizer, row) for row in statements],
        filters=urlencode({"from": days.first, "to": days.last}),
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

    # Accounts that stayed empty, and reasons for which nothing moved, are left out.
    used = [
        name
        for name in ACCOUNTS
        if row.opening[name]
        or row.closing[name]
        or any(getattr(type_, name) for type_ in row.types or ())
    ] or list(ACCOUNTS)
    types = None
    if row.types is not None:
        types = [
            (type_.type, localizer.number(type_.entries), list(map(amount, (*sums, sum(sums)))))
            for type_ in row.types
            for sums in [[getattr(type_, name) for name in used]]
        ]
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
            for name in used
            for opening, closing in [(row.opening[name], row.closing[name])]
        ],
        changes=changes,
        types=types,
    )


async def send_file(request: PageRequest) -> Response:
    """Send the statement of a range of days as CSV: every entry, and sums that add up."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    days = _statement_days(request, zone)
    if days.errors:
        return _redirect(request)
    since, until = days.range
    end = None if until == FOREVER else until
    db = request.app.replica.reading()
    chunks = ledger.statement_file(db, merchant.id, since or None, end, zone)
    return await downloads.table(days.filename("statement"), chunks)


async def send_pdf(request: PageRequest) -> Response:
    """Send the statement of a range of days as a PDF, or as text if no font has its letters."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    days = _statement_days(request, zone)
    if days.errors:
        return _redirect(request)
    db = request.app.replica.reading()
    statements = await figures.statements(db, merchant.id, days.range)
    report = _report(
        request,
        merchant,
        [_texts(request.localizer, row) for row in statements],
        (_day(request.localizer, days, days.first), _day(request.localizer, days, days.last)),
        await _find_logo(request, merchant),
    )
    name = f"statement {merchant.id} {days.first} {days.last} {report.language}"
    filename = days.filename("statement").removesuffix(".csv")
    try:
        content = await pdf.draw(name, report)
    except NoFont:
        return attachment(_plain_text(report).encode(), "text/plain; charset=utf-8",
                          f"{filename}.txt")  # fmt: skip
    return attachment(content, "application/pdf", f"{filename}.pdf")


async def _find_logo(request: PageRequest, merchant: Merchant) -> bytes | None:
    if merchant.logo_sha256 is None:
        return None
    try:
        async with request.app.db.connection() as tx:
            logo = await merchants.find_logo(tx, merchant.id, merchant.logo_sha256)
    except NotFound:  # replaced since the merchant was read
        return None
    return logo.content


def _report(
    request: PageRequest,
    merchant: Merchant,
    statements: Sequence[StatementTexts],
    days: tuple[str, str],
    logo: bytes | None,
) -> Report:
    """Return the contents of the PDF; ``days`` are the first and the last, "" for no limit."""
    localizer, zone = request.localizer, ZoneInfo(merchant.time_zone)

    def _(message: str, **values: object) -> str:
        return localizer.gettext(message, **values).unescape()

    tables: list[Table] = []
    notes: list[str] = []
    for statement in statements:
        if statement.changes is None:
            notes.append(
                _(
                    "Too many movements of these days are not counted yet for their sums. They "
                    "will be here soon; the CSV file has them already."
                )
            )
        else:
            changes = [[_(CHANGE_REASON[name]), amount] for name, amount in statement.changes]
            rows = [
                [_("Opening balance"), statement.opening],
                *changes,
                [_("Closing balance"), statement.closing],
            ]
            tables.append(
                Table(
                    _("Statement in {currency}", currency=statement.currency),
                    [_("Movement"), _("Amount")],
                    rows,
                    [0, len(rows) - 1],
                )
            )
        tables.append(
            Table(
                _("By account"),
                [_("Account"), _("Opening balance"),
                 localizer.pgettext("table heading", "Change").unescape(), _("Closing balance")],
                [[_(BALANCE[name]), *amounts] for name, *amounts in statement.accounts],
            )
        )  # fmt: skip
        if statement.types:
            tables.append(
                Table(
                    _("By type of movement: {number} in all", number=statement.entries),
                    [_("Movement"), localizer.pgettext("number of payments", "Number").unescape(),
                     *(_(BALANCE[name]) for name in statement.used), _("All accounts")],
                    [[_(ENTRY_TYPE[name]), number, *amounts]
                     for name, number, amounts in statement.types],
                )
            )  # fmt: skip
    if not statements:
        notes.append(_("No money has moved yet. The first payment will be listed here."))
    first, last = days
    return Report(
        language=localizer.language,
        title=_("Statement"),
        shop=merchant.display_name or merchant.name,
        logo=logo,
        mark="" if request.app.settings.livemode else _("Test mode – no real money"),
        facts=[
            (_("Merchant"), merchant.legal_name or merchant.name),
            (_("Merchant ID"), merchant.id),
            (_("Days"), f"{first or _('the first movement')} – {last or _('now')}"),
            (_("Created"), f"{localizer.moment_in(request.now, zone)} ({zone.key})"),
        ],
        tables=tables,
        notes=notes,
        fonts=font_files(request.app.settings.receipt_font, localizer.language),
    )


def _plain_text(report: Report) -> str:
    lines = [report.title, *(f"{label}: {value}" for label, value in report.facts)]
    for table in report.tables:
        lines += ["", table.heading, "\t".join(table.columns), *map("\t".join, table.rows)]
    return "\r\n".join([*lines, *report.notes])


def _redirect(request: PageRequest) -> Response:
    """Redirect to the page, which shows the errors of the days."""
    query = {name: request.query[name] for name in ("from", "to") if request.query.get(name)}
    return page_helpers.redirect(request, "balance", "statement", **query)


# The files need the permission of the page, since they contain the same data.
pages: Final = (
    Page("GET", f"{DASHBOARD_PATH}/balance/statement", "balance.read", show),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement.csv", "balance.read", send_file),
    Page("GET", f"{DASHBOARD_PATH}/balance/statement.pdf", "balance.read", send_pdf),
)
