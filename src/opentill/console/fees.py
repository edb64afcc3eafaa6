"""The fees of a range of days, by settlement currency, as a page and as CSV.

The figures are those of ``opentill figures show``.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import figures
from opentill.console import home_figures
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.figures import CurrencySums, sums_table
from opentill.figures.model import Sums, local
from opentill.http import csvfile
from opentill.portal import downloads, headlines, lists, render
from opentill.portal.headlines import Headline
from opentill.portal.lists import Days
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_


class CurrencyTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a settlement currency as text; ``share`` is that of the fees in the volume.

    ``direct`` is the part of the volume that went to merchants' own accounts, and
    ``direct_refunded`` what was given back from there, which ``refunded`` does not contain.
    """

    currency: str
    payments: str
    volume: str
    direct: str
    refunded: str
    direct_refunded: str
    disputed: str
    fees: str
    share: str


async def show_fees(request: PageRequest) -> Response:
    """Show the fees of a range of days, by default of this month until today."""
    days, localizer = _read_days(request), request.localizer
    sums: list[CurrencySums] = []
    previous: list[CurrencySums] | None = None
    if not days.errors:
        range_before = home_figures.range_before(days, request.now)
        async with request.app.db.connection() as tx:
            sums = await _read_sums(tx, days)
            if range_before:
                previous = await figures.sum_range(tx, None, *range_before)
    return render.page(
        request,
        "fees.html",
        errors=days.errors,
        zone=ZONE,
        days=days,
        months=lists.months(request, ZONE),
        behind=await figures.count_uncounted_entries(request.app.db) > 0,
        headlines=_headlines(request, days, sums, previous),
        rows=[_format(localizer, row) for row in sums],
        file=f"{request.base}{PLACE}.csv?{urlencode({'from': days.first, 'to': days.last})}",
    )


def _read_days(request: PageRequest) -> Days:
    """Read the range of days from the query. The default is this month until today."""
    today = local(request.now, ZONE).date()
    return lists.days(request, ZONE, (today.replace(day=1), today))


async def _read_sums(tx: Tx, days: Days) -> list[CurrencySums]:
    """Return the sums of all merchants in the currencies in which anything happened."""
    rows = await figures.sum_range(tx, None, days.since, days.until + 1)
    return [row for row in rows if row.has_movements]


def _headlines(
    request: PageRequest,
    days: Days,
    sums: Sequence[CurrencySums],
    previous: Sequence[CurrencySums] | None,
) -> list[Headline]:
    """Return the fees of each currency, compared with those of the range before.

    A single currency also has its volume and its number of payments.
    """
    localizer = request.localizer
    by_currency = {row.currency: row for row in previous or ()}

    payments_before = sum(row.all_payments for row in previous or ())

    def headline(name: str, now: int, before: int, write: Callable[[int], str]) -> Headline:
        compared, change = "", ""
        if previous is not None:
            compared = home_figures.compare(localizer, days, request.now, write(before))
        if home_figures.is_comparable(payments_before):
            change = headlines.change(localizer, now, before)
        return Headline(name, write(now), compared, change)

    result: list[Headline] = []
    for row in sums:
        before = by_currency.get(row.currency, Sums())

        def amount(minor: int, currency: str = row.currency) -> str:
            return localizer.amount(Money(minor, currency))

        result.append(headline(N_("Fees"), row.fees_minor, before.fees_minor, amount))
        if len(sums) == 1:
            result += [
                headline(N_("Volume"), row.volume_minor, before.volume_minor, amount),
                headline(N_("Payments"), row.all_payments, before.all_payments, localizer.number),
            ]
    return result


def _format(localizer: Localizer, row: CurrencySums) -> CurrencyTexts:
    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, row.currency))

    share = ""
    if row.volume_minor and row.fees_minor >= 0:
        share = localizer.rate(Decimal(row.fees_minor) / row.volume_minor)
    return CurrencyTexts(
        currency=row.currency,
        payments=localizer.number(row.all_payments),
        volume=amount(row.volume_minor),
        direct=amount(row.direct_minor),
        refunded=amount(row.refunded_minor),
        direct_refunded=amount(row.direct_refunded_minor),
        disputed=amount(row.disputed_minor),
        fees=amount(row.fees_minor),
        share=share,
    )


async def send_file(request: PageRequest) -> Response:
    """Send the sums of a range of days as CSV. Errors in the days are shown by the page."""
    days = _read_days(request)
    if days.errors:
        return render.see_other(request, f"{PLACE}?{urlencode(request.query)}")
    async with request.app.db.connection() as tx:
        sums = await _read_sums(tx, days)

    async def rows() -> AsyncIterator[list[str]]:
        for row in sums:
            yield [csvfile.format_cell(cell) for cell in sums_table.row(row).values()]

    chunks = csvfile.encode_rows(sums_table.COLUMNS, rows())
    return await downloads.table(days.filename("fees"), chunks)


PLACE: Final = f"{CONSOLE_PATH}/fees"
pages: Final = (
    Page("GET", PLACE, "balance.read", show_fees, menu=N_("Fees"), group="money"),
    Page("GET", f"{PLACE}.csv", "balance.read", send_file),
)
