"""Dispute rates by month, payment method and card brand, beside the limits of card schemes.

The rate of a month is the number of disputes opened in it, divided by the number of payments made
in it; the rate by volume is the same of their amounts, in the currency that customers paid in.
Months are those of UTC. A dispute counts however it ends, and is usually about a payment of an
earlier month.

A scheme puts a merchant into its monitoring program if both the number and the rate of a month
reach its limits:

- Visa, VAMP, "excessive" merchant: 1,500 disputes, and 2.20 % from June 2025, 1.50 % from April
  2026 (all regions except the Middle East and North Africa). Visa adds reports of fraud (TC40),
  which OpenTill does not know, so that Visa's rate is at least the one here.
  https://support.checkout.com/hc/en-us/articles/23330844282514, read in November 2026.
- Mastercard, Excessive Chargeback Program, in force since October 2019: ECM from 100 chargebacks
  and 1.50 %, HECM from 300 and 3.00 %. Mastercard divides by the payments of the month before.
  https://developer.paypal.com/braintree/articles/risk-and-security/card-brand-monitoring-programs/
  mastercard-programs/excessive-chargeback-program, read in November 2026.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from opentill.db.database import Db, Tx
from opentill.figures import brand_queries
from opentill.figures.model import MonthOfDisputes, MonthOfPayments, local, millis


class Limit(NamedTuple):
    """A limit of a card scheme from a month on: at least so many disputes and so high a rate."""

    brand: str
    program: str
    since: date
    disputes: int
    rate: Decimal


LIMITS: Final = (
    Limit("visa", "VAMP", date(2025, 6, 1), 1500, Decimal("0.0220")),
    Limit("visa", "VAMP", date(2026, 4, 1), 1500, Decimal("0.0150")),
    Limit("mastercard", "ECM", date(2019, 10, 1), 100, Decimal("0.0150")),
    Limit("mastercard", "HECM", date(2019, 10, 1), 300, Decimal("0.0300")),
)


class Volume(msgspec.Struct, frozen=True):
    """Payments and disputes in one currency; minor units."""

    currency: str
    paid_minor: int
    disputed_minor: int

    @property
    def rate(self) -> Decimal | None:
        """The disputed share of the volume; None if there were no payments."""
        return _share(self.disputed_minor, self.paid_minor)


class DisputeRate(msgspec.Struct, frozen=True, kw_only=True):
    """Payments and disputes of a month, by one method and card brand or by all.

    ``method`` and ``brand`` are None for all together; ``brand`` is "" if it is unknown or there is
    none. ``limits`` are those of the brand in that month, the lowest first.
    """

    month: date
    method: str | None
    brand: str | None
    payments: int
    opened: int
    won: int
    lost: int
    volumes: tuple[Volume, ...]
    limits: tuple[Limit, ...] = ()

    @property
    def rate(self) -> Decimal | None:
        """The disputes opened in the month per payment; None if there were no payments."""
        return _share(self.opened, self.payments)

    @property
    def exceeded(self) -> Limit | None:
        """The highest limit that is reached, None if none is."""
        rate = self.rate
        reached = [
            limit
            for limit in self.limits
            if rate is not None and self.opened >= limit.disputes and rate >= limit.rate
        ]
        return reached[-1] if reached else None

    @property
    def rate_exceeded(self) -> Limit | None:
        """The lowest limit whose rate is reached, but not its number of disputes; None if none is.

        None also if another limit is reached.
        """
        rate = self.rate
        if rate is None or self.exceeded is not None:
            return None
        return next((limit for limit in self.limits if rate >= limit.rate), None)


def _share(part: int, whole: int) -> Decimal | None:
    return None if not whole else Decimal(part) / Decimal(whole)


def month_of(at: int) -> date:
    """Return the first day of the month (UTC) of a time in Unix ms."""
    return local(at, UTC).date().replace(day=1)


def month_start(month: date) -> int:
    """Return the first millisecond of a month, Unix ms."""
    return millis(datetime(month.year, month.month, 1, tzinfo=UTC))


def add_months(month: date, number: int) -> date:
    """Return the first day of the month ``number`` months later, or earlier if it is below 0."""
    years, index = divmod(month.year * 12 + month.month - 1 + number, 12)
    return date(years, index + 1, 1)


def limits_of(brand: str | None, month: date) -> tuple[Limit, ...]:
    """Return the limits of a brand's scheme in a month, the lowest first."""
    in_force = {
        limit.program: limit for limit in LIMITS if limit.brand == brand and limit.since <= month
    }
    return tuple(sorted(in_force.values(), key=lambda limit: limit.disputes))


async def read_rates(db: Db, merchant_id: str | None, first: date, last: date) -> list[DisputeRate]:
    """Return the rates of the months from ``first`` to ``last``, newest first.

    Each month with payments or disputes has a row for all of them, then one for each method and
    brand. ``merchant_id`` None means all merchants. Payments that are not counted yet are missing.
    """
    return await db.read_snapshot(lambda tx: read_rates_in(tx, merchant_id, first, last))


async def read_rates_in(
    tx: Tx, merchant_id: str | None, first: date, last: date
) -> list[DisputeRate]:
    """Like ``read_rates``, in the snapshot of ``tx``."""
    bounds = {"since": month_start(first), "until": month_start(add_months(last, 1))}
    if merchant_id is None:
        payments = await brand_queries.PAYMENTS_OF_ALL.all(tx, **bounds)
        return _rates(payments, await brand_queries.DISPUTES_OF_ALL.all(tx, **bounds))
    of_merchant = {"merchant_id": merchant_id, **bounds}
    payments = await brand_queries.PAYMENTS.all(tx, **of_merchant)
    return _rates(payments, await brand_queries.DISPUTES.all(tx, **of_merchant))


_Key = tuple[date, str | None, str | None]


class _Sums:
    """The sums of one row, while it is added up."""

    def __init__(self) -> None:
        self.payments = self.opened = self.won = self.lost = 0
        self.paid: defaultdict[str, int] = defaultdict(int)
        self.disputed: defaultdict[str, int] = defaultdict(int)

    def rate(self, key: _Key) -> DisputeRate:
        month, method, brand = key
        return DisputeRate(
            month=month,
            method=method,
            brand=brand,
            payments=self.payments,
            opened=self.opened,
            won=self.won,
            lost=self.lost,
            volumes=tuple(
                Volume(currency, self.paid[currency], self.disputed[currency])
                for currency in sorted({*self.paid, *self.disputed})
            ),
            limits=limits_of(brand, month),
        )


def _rates(
    payments: Sequence[MonthOfPayments], disputes: Sequence[MonthOfDisputes]
) -> list[DisputeRate]:
    sums: defaultdict[_Key, _Sums] = defaultdict(_Sums)

    def sums_of(row: MonthOfPayments | MonthOfDisputes) -> tuple[_Sums, _Sums]:
        month = month_of(row.month)
        return sums[month, None, None], sums[month, row.method, row.brand]

    for paid in payments:
        for each in sums_of(paid):
            each.payments += paid.payments
            each.paid[paid.currency] += paid.volume_minor
    for disputed in disputes:
        for each in sums_of(disputed):
            each.opened += disputed.opened
            each.won += disputed.won
            each.lost += disputed.lost
            each.disputed[disputed.currency] += disputed.opened_minor
    rates = [added.rate(key) for key, added in sums.items()]
    # Newest month first; in it all payments first, then the methods and brands with most payments.
    return sorted(
        rates,
        key=lambda row: (
            -row.month.toordinal(), row.method is not None, -row.payments, row.method or "",
            row.brand or "",
        ),
    )  # fmt: skip
