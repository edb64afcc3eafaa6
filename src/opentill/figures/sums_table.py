"""The sums of a range of time as rows of a table, for files and the command line."""

from typing import Final

from opentill.core import money
from opentill.figures.model import CurrencySums

COLUMNS: Final = (
    "currency",
    "payments",
    "paid",
    "refunds",
    "refunded",
    "disputes",
    "disputed",
    "fees",
    "directPayments",
    "paidDirectly",
    "directRefunds",
    "refundedDirectly",
)


def row(sums: CurrencySums) -> dict[str, str | int]:
    """Return the cells of a currency's row by column."""
    return {
        "currency": sums.currency,
        "payments": sums.payments,
        "paid": money.show(sums.paid_minor, sums.currency),
        "refunds": sums.refunds,
        "refunded": money.show(sums.refunded_minor, sums.currency),
        "disputes": sums.disputes,
        "disputed": money.show(sums.disputed_minor, sums.currency),
        "fees": money.show(sums.fees_minor, sums.currency),
        "directPayments": sums.direct_payments,
        "paidDirectly": money.show(sums.direct_minor, sums.currency),
        "directRefunds": sums.direct_refunds,
        "refundedDirectly": money.show(sums.direct_refunded_minor, sums.currency),
    }
