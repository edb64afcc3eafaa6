"""Stripe's balance transactions, as rows of its itemised balance report.

They are listed by page instead of requested as a report of Stripe's Reporting API: such a report
has its data a day later, is made by a job that has to be queried, and is a file on another server.
The columns are those of "Balance change from activity", itemised
(https://docs.stripe.com/reports/report-types/balance-change-from-activity), with our ids from the
metadata, so that a fetched report and an exported one are read by the same code.
"""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import msgspec

from opentill.gateways.stripe.amounts import STRIPE_EXPONENTS
from opentill.gateways.stripe.wire import ATTEMPT, REFUND, Metadata

# A payment by a card may be on the balance up to an hour after it has succeeded
# (https://docs.stripe.com/payments/payment-intents/asynchronous-capture).
DELAY_MS: Final = 3_600_000
_DAY_S: Final = 86_400
_CENTS: Final = 2  # of currencies that only fees and transfers of the operator's own can have
_DISPUTE: Final = "dispute"
COLUMNS: Final = (
    "balance_transaction_id",
    "created_utc",
    "currency",
    "gross",
    "fee",
    "net",
    "reporting_category",
    "source_id",
    "customer_facing_amount",
    "customer_facing_currency",
    "payment_intent_id",
    "dispute_id",
    f"payment_metadata[{ATTEMPT}]",
    f"refund_metadata[{REFUND}]",
)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The charge, refund or dispute that moved money; other objects have only some fields."""

    id: str
    object: str = ""
    amount: int | None = None
    amount_captured: int | None = None
    currency: str | None = None
    payment_intent: str | None = None
    metadata: Metadata | None = None


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """A balance transaction. Amounts are in the currency of the balance."""

    id: str
    created: int
    amount: int
    fee: int
    net: int
    currency: str
    reporting_category: str
    source: Source | str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the report."""
        source = self.source if isinstance(self.source, Source) else None
        name = source.id if source else self.source if isinstance(self.source, str) else ""
        metadata = (source and source.metadata) or {}
        presentment = self._presentment(source)
        return (
            self.id,
            datetime.fromtimestamp(self.created, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            self.currency,
            _decimal(self.amount, self.currency),
            _decimal(self.fee, self.currency),
            _decimal(self.net, self.currency),
            self.reporting_category,
            name,
            *presentment,
            (source and source.payment_intent) or "",
            name if source and source.object == _DISPUTE else "",
            metadata.get(ATTEMPT, "") if source and source.object == "charge" else "",
            metadata.get(REFUND, ""),
        )

    def _presentment(self, source: Source | None) -> tuple[str, str]:
        """Return amount and currency that the customer saw, if they are not the balance's."""
        if source is None or source.currency is None or source.currency == self.currency:
            return "", ""
        amount = source.amount if source.amount_captured is None else source.amount_captured
        if amount is None:
            return "", ""
        return _decimal(-amount if self.amount < 0 else amount, source.currency), source.currency


def text(*rows: tuple[str, ...]) -> str:
    """Return rows as lines of CSV."""
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows(rows)
    return lines.getvalue()


def days(since: int, until: int) -> Iterator[tuple[int, int]]:
    """Yield the days of a range (Unix ms, inclusive) as first and last seconds, inclusive."""
    start, end = since // 1000, until // 1000
    while start <= end:
        yield start, min(start + _DAY_S - 1, end)
        start += _DAY_S


def _decimal(amount: int, currency: str) -> str:
    decimals = STRIPE_EXPONENTS.get(currency.upper(), _CENTS)
    return f"{Decimal(amount).scaleb(-decimals):f}"
