"""The dispute rates of months as texts, for the pages of merchants and of staff."""

from collections.abc import Iterator, Sequence
from datetime import UTC
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal

import msgspec

from opentill import figures, orders
from opentill.db.database import Db, Tx
from opentill.figures import DisputeRate, Limit
from opentill.figures.dispute_rates import add_months
from opentill.figures.model import local
from opentill.portal.labels import PAYMENT_METHOD
from opentill.web.charts import Cell, Chart, Series
from opentill.web.charts import Row as ChartRow
from opentill.web.language import Localizer
from opentill.web.translations import N_

MONTHS: Final = 6  # months of a page, including this one
_NONE: Final = "–"
_FEWEST_COMBINED: Final = 2  # this many methods without disputes share a row
Tone = Literal["failed", "disputed", "paid"]
_SINGLE: Final = frozenset({"VAMP"})  # programs that are the only one of their brand


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: all payments of a month, or those by one method and card brand.

    ``verdict`` compares the rate with the limit of the card scheme, "" if there is no limit.
    ``warning`` is a sentence for the top of the page if the rate is above the limit, but there are
    too few disputes for it; else "".
    """

    month: str
    is_total: bool  # all payments of the month
    name: str
    cells: dict[str, str]  # by the names of ``RATE_COLUMN``; "limit" is "" if there is none
    verdict: str
    tone: Tone = "paid"  # the color of the verdict's badge
    warning: str = ""


async def read(
    db: Db, localizer: Localizer, merchant_id: str | None, now: int, months: int = MONTHS
) -> list[Row]:
    """Return the rows of the last months up to now; ``merchant_id`` None means all merchants."""
    return await db.read_snapshot(lambda tx: read_in(tx, localizer, merchant_id, now, months))


async def read_in(
    tx: Tx, localizer: Localizer, merchant_id: str | None, now: int, months: int = MONTHS
) -> list[Row]:
    """Like ``read``, in the snapshot of ``tx``."""
    rows, _ = await read_with_charts(tx, localizer, merchant_id, now, months)
    return rows


async def read_with_charts(
    tx: Tx, localizer: Localizer, merchant_id: str | None, now: int, months: int = MONTHS
) -> tuple[list[Row], list[Chart]]:
    """Return the rows of ``read``, and the charts of the months; none without payments."""
    this_month = local(now, UTC).date().replace(day=1)
    rates = await figures.read_rates_in(
        tx, merchant_id, add_months(this_month, 1 - months), this_month
    )
    rows = [
        row
        for _, of_month in groupby(rates, key=lambda rate: rate.month)
        for row in rows_of_month(localizer, list(of_month))
    ]
    return rows, _charts(localizer, rates)


def _charts(localizer: Localizer, rates: Sequence[DisputeRate]) -> list[Chart]:
    """Return a chart of each card brand that has a limit, beside it; else one of all payments.

    A limit of a card scheme is for the payments with its cards: the rate of other payments is never
    drawn beside it.
    """
    brands = dict.fromkeys(rate.brand for rate in rates if rate.limits)
    if not brands:
        return [
            _chart(
                localizer, "dispute-rate", localizer.gettext(N_("Dispute rate by month")), of_all
            )
            for of_all in [[rate for rate in rates if rate.method is None]]
            if of_all
        ]
    return [
        _chart(
            localizer,
            f"dispute-rate-{brand}",
            localizer.gettext(
                N_("Dispute rate of {brand} by month"), brand=orders.brand_name(brand or "")
            ),
            [rate for rate in rates if rate.limits and rate.brand == brand],
        )
        for brand in brands
    ]


def _chart(localizer: Localizer, chart_id: str, title: str, rates: Sequence[DisputeRate]) -> Chart:
    """Return the chart of rates of the same payments by month, beside their lowest limit."""
    months = sorted(rates, key=lambda rate: rate.month)

    def cell(share: Decimal | None) -> Cell:
        return Cell(_NONE) if share is None else Cell(localizer.rate(share), f"{share * 100:.3f}")

    _ = localizer.gettext
    series = [Series(_("Dispute rate"), "bars", "percent")]
    if limits := next((rate.limits for rate in reversed(months) if rate.limits), ()):
        name = _(
            "Limit, from {number} disputes a month", number=localizer.number(limits[0].disputes)
        )
        series.append(Series(name, "line", "percent"))
    return Chart(
        id=chart_id,
        title=title,
        summary=_(
            "{rate} in {month}: {disputes} of {payments} payments were disputed.",
            rate=_percent(localizer, months[-1].rate),
            month=localizer.month(months[-1].month),
            disputes=localizer.number(months[-1].opened),
            payments=localizer.number(months[-1].payments),
        ),
        about=_("Month"),
        series=series,
        rows=[
            ChartRow(
                localizer.month(rate.month),
                localizer.month(rate.month),
                (cell(rate.rate), cell(rate.limits[0].rate if rate.limits else None))[
                    : len(series)
                ],
            )
            for rate in months
        ],
    )


def rows_of_month(localizer: Localizer, rates: Sequence[DisputeRate]) -> Iterator[Row]:
    """Yield the rows of a month; methods without disputes and limits share the last row."""
    quiet = [
        rate
        for rate in rates
        if rate.method is not None and not rate.limits and not _has_disputes(rate)
    ]
    if len(quiet) < _FEWEST_COMBINED:
        quiet = []
    for rate in rates:
        if rate not in quiet:
            yield _row(localizer, rate, _name(localizer, rate))
    if quiet:
        combined = msgspec.structs.replace(quiet[0], payments=sum(rate.payments for rate in quiet))
        yield _row(localizer, combined, ", ".join(_name(localizer, rate) for rate in quiet))


def _has_disputes(rate: DisputeRate) -> bool:
    return bool(rate.opened or rate.won or rate.lost)


def _row(localizer: Localizer, rate: DisputeRate, name: str) -> Row:
    verdict, tone = _verdict(localizer, rate)
    return Row(
        month=localizer.month(rate.month),
        is_total=rate.method is None,
        name=name,
        cells={
            "payments": localizer.number(rate.payments),
            "opened": localizer.number(rate.opened),
            "won": localizer.number(rate.won),
            "lost": localizer.number(rate.lost),
            "rate": _percent(localizer, rate.rate),
            "volume": _volume(localizer, rate),
            "limit": _limits(localizer, rate),
        },
        verdict=verdict,
        tone=tone,
        warning=_warning(localizer, rate),
    )


def _verdict(localizer: Localizer, rate: DisputeRate) -> tuple[str, Tone]:
    """Return how the rate compares with the limits, and the color of that. "" without limits.

    A high rate of few disputes has no consequences yet, so its color is that of a warning.
    """
    if not rate.limits:
        return "", "paid"
    if rate.exceeded is not None:
        program = _program(rate.exceeded)
        text = localizer.gettext(N_("Over the {program} limit"), program=program)
        return text, "failed"
    if (limit := rate.rate_exceeded) is not None:
        text = localizer.gettext(
            N_("Rate above {rate}, too few disputes"), rate=localizer.rate(limit.rate)
        )
        return text, "disputed"
    return localizer.gettext(N_("Within the limit")), "paid"


def _warning(localizer: Localizer, rate: DisputeRate) -> str:
    limit = rate.rate_exceeded
    if limit is None:
        return ""
    return localizer.gettext(
        N_(
            "{brand}: the dispute rate of {month} is {rate}, above the limit of {limit}. There are "
            "too few disputes for the limit of {number}: {disputes}."
        ),
        brand=_name(localizer, rate),
        month=localizer.month(rate.month),
        rate=_percent(localizer, rate.rate),
        limit=localizer.rate(limit.rate),
        number=localizer.number(limit.disputes),
        disputes=localizer.number(rate.opened),
    )


def _name(localizer: Localizer, rate: DisputeRate) -> str:
    if rate.method is None:
        return localizer.gettext(N_("All payments"))
    method = localizer.gettext(PAYMENT_METHOD[rate.method]) if rate.method else _NONE
    brand = orders.brand_name(rate.brand or "")
    return brand or (
        localizer.gettext(N_("Other cards")) if rate.method == "CREDIT_CARD" else method
    )


def _percent(localizer: Localizer, share: Decimal | None) -> str:
    return _NONE if share is None else localizer.rate(share)


def _volume(localizer: Localizer, rate: DisputeRate) -> str:
    """Return the rate by volume; with several currencies one for each, with its code."""
    if len(rate.volumes) == 1:
        return _percent(localizer, rate.volumes[0].rate)
    rates = (f"{one.currency} {_percent(localizer, one.rate)}" for one in rate.volumes)
    return ", ".join(rates) or _NONE


def _limits(localizer: Localizer, rate: DisputeRate) -> str:
    return "; ".join(_limit(localizer, limit) for limit in rate.limits)


def _limit(localizer: Localizer, limit: Limit) -> str:
    """Return a limit as text, with the program's name if the card brand has several."""
    text = (
        N_("{rate} from {number} disputes a month")
        if limit.program in _SINGLE
        else N_("{program}: {rate} from {number} disputes a month")
    )
    return localizer.gettext(
        text,
        program=limit.program,
        rate=localizer.rate(limit.rate),
        number=localizer.number(limit.disputes),
    )


def _program(limit: Limit) -> str:
    """Return the name of a limit: the card brand, with the program if the brand has several."""
    brand = orders.brand_name(limit.brand)
    return brand if limit.program in _SINGLE else f"{brand} {limit.program}"
