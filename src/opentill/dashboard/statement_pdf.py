"""The statement of a range of days as a PDF for bookkeeping."""

from collections.abc import Callable, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import figures, merchants
from opentill.core.errors import NotFound
from opentill.dashboard import page_helpers
from opentill.dashboard.labels import BALANCE, CHANGE_REASON, PROFILE_FIELD
from opentill.dashboard.statement import (
    StatementTexts,
    day_text,
    read_days,
    redirect_to_errors,
    texts,
)
from opentill.merchants import Merchant
from opentill.portal.labels import ENTRY_TYPE
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.receipts import pdf
from opentill.receipts.pdf import NoFont
from opentill.receipts.sheet import Report, Table, font_files
from opentill.web.responses import attachment


async def send_pdf(request: PageRequest) -> Response:
    """Send the statement of a range of days as a PDF, or as text if no font has its letters."""
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    days = read_days(request, zone)
    if days.errors:
        return redirect_to_errors(request)
    db = request.app.replica.reading()
    statements = await figures.statements(db, merchant.id, days.range)
    report = _report(
        request,
        merchant,
        texts(request.localizer, days, statements),
        (
            day_text(request.localizer, days, days.first),
            day_text(request.localizer, days, days.last),
        ),
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

    first, last = days
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
                [", ".join(filter(None, (_("Opening balance"), first))), statement.opening],
                *changes,
                [", ".join(filter(None, (_("Closing balance"), last))), statement.closing],
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
                    [[_(ENTRY_TYPE[row.type]), row.entries,
                      *(text or "–" for text in row.amounts), row.total]
                     for row in statement.types],
                )
            )  # fmt: skip
    if not statements:
        notes.append(_("No money moved in these days, and the balance is zero."))
    return Report(
        language=localizer.language,
        title=_("Statement"),
        shop=merchant.display_name or merchant.name,
        logo=logo,
        mark="" if request.app.settings.livemode else _("Test mode – no real money"),
        facts=[
            (_("Merchant"), merchant.legal_name or merchant.display_name or merchant.name),
            (_("Merchant ID"), merchant.id),
            *_seller(merchant, _),
            (_("Issued by"), _issuer(request)),
            (_("Period"), f"{first or _('the first movement')} – {last or _('now')}"),
            (_("Created"), f"{localizer.moment_in(request.now, zone)} ({zone.key})"),
        ],
        tables=tables,
        notes=notes,
        fonts=font_files(request.app.settings.receipt_font, localizer.language),
    )


def _seller(merchant: Merchant, translate: Callable[[str], str]) -> list[tuple[str, str]]:
    facts = {
        "legal_address": ", ".join((merchant.legal_address or "").splitlines()),
        "tax_number": merchant.tax_number or "",
    }
    return [(translate(PROFILE_FIELD[name]), text) for name, text in facts.items() if text]


def _issuer(request: PageRequest) -> str:
    """Return the operator of the deployment with address and contact."""
    settings = request.app.settings
    parts = (settings.operator_name, settings.operator_address, settings.public_contact)
    return ", ".join(part for part in parts if part)


def _plain_text(report: Report) -> str:
    lines = [report.title, *(f"{label}: {value}" for label, value in report.facts)]
    for table in report.tables:
        lines += ["", table.heading, "\t".join(table.columns), *map("\t".join, table.rows)]
    return "\r\n".join([*lines, *report.notes])


pages: Final = (Page("GET", f"{DASHBOARD_PATH}/balance/statement.pdf", "balance.read", send_pdf),)
