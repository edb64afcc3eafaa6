"""The dispute rates of months as texts, for the pages of merchants and of staff."""

from datetime import UTC
from decimal import Decimal
from typing import Final

import msgspec

from opentill import figures, orders
from opentill.db.database import Db
from opentill.figures import DisputeRate, Limit
from opentill.figures.dispute_rates import add_months
from opentill.figures.model import local
from opentill.portal.labels import PAYMENT_METHOD
from opentill.web.language import Localizer
from opentill.web.translations import N_

MONTHS: Final = 6  # months of a page, including this one
_NONE: Final = "–"
_SINGLE: Final = frozenset({"VAMP"})  # programs that are the only one of their brand


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: all payments of a month, or those by one method and card brand.

    ``exceeded`` is the name of the program whose limit is reached, "" if none is.
    """

    month: str
    is_total: bool  # all payments of the month
    name: str
    cells: dict[str, str]  # by the names of ``RATE_COLUMN``; "limit" is "" if there is none
    exceeded: str


async def read(
    db: Db, localizer: Localizer, merchant_id: str | None, now: int, months: int = MONTHS
) -> list[Row]:
    """Return the rows of the last months up to now; ``merchant_id`` None means all merchants."""
    this_month = local(now, UTC).date().replace(day=1)
    rates = await figures.read_rates(
        db, merchant_id, add_months(this_month, 1 - months), this_month
    )
    return [_row(localizer, rate) for rate in rates]


def _row(localizer: Localizer, rate: DisputeRate) -> Row:
    exceeded = rate.exceeded
    return Row(
        month=localizer.month(rate.month),
        is_total=rate.method is None,
        name=_name(localizer, rate),
        cells={
            "payments": localizer.number(rate.payments),
            "opened": localizer.number(rate.opened),
            "won": localizer.number(rate.won),
            "lost": localizer.number(rate.lost),
            "rate": _percent(localizer, rate.rate),
            "volume": _volume(localizer, rate),
            "limit": _limits(localizer, rate),
        },
        exceeded="" if exceeded is None else _program(exceeded),
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
    texts = (
        localizer.gettext(
            N_("{program}: {rate}, from {number} disputes a month"),
            program=_program(limit),
            rate=localizer.rate(limit.rate),
            number=localizer.number(limit.disputes),
        )
        for limit in rate.limits
    )
    return "; ".join(texts)


def _program(limit: Limit) -> str:
    """Return the name of a limit: the card brand, with the program if the brand has several."""
    brand = orders.brand_name(limit.brand)
    return brand if limit.program in _SINGLE else f"{brand} {limit.program}"
