"""Exact figures of merchants, counted by quarter hours after the commit."""

from opentill.figures.dispute_rates import DisputeRate, Limit, read_rates, read_rates_in
from opentill.figures.jobs import catch_up, count_uncounted_entries
from opentill.figures.model import (
    SPANS,
    Attempts,
    AttemptsComparison,
    BalanceProgress,
    Coming,
    Comparison,
    CurrencyFigures,
    CurrencySums,
    Day,
    DaySums,
    Expected,
    Figures,
    GatewaySums,
    Hour,
    Period,
    Sums,
)
from opentill.figures.payout_contents import (
    PayoutContents,
    all_payout_items,
    find_payout_contents,
    list_payout_items,
)
from opentill.figures.payout_model import PayoutItem, PayoutSum
from opentill.figures.queries import RULES
from opentill.figures.service import (
    behind_since,
    find_coming,
    list_last_payments,
    read,
    sum_by_day,
    sum_by_gateway,
    sum_by_merchant,
    sum_range,
)
from opentill.figures.statements import Statement, statements

__all__ = [
    "RULES",
    "SPANS",
    "Attempts",
    "AttemptsComparison",
    "BalanceProgress",
    "Coming",
    "Comparison",
    "CurrencyFigures",
    "CurrencySums",
    "Day",
    "DaySums",
    "DisputeRate",
    "Expected",
    "Figures",
    "GatewaySums",
    "Hour",
    "Limit",
    "PayoutContents",
    "PayoutItem",
    "PayoutSum",
    "Period",
    "Statement",
    "Sums",
    "all_payout_items",
    "behind_since",
    "catch_up",
    "count_uncounted_entries",
    "find_coming",
    "find_payout_contents",
    "list_last_payments",
    "list_payout_items",
    "read",
    "read_rates",
    "read_rates_in",
    "statements",
    "sum_by_day",
    "sum_by_gateway",
    "sum_by_merchant",
    "sum_range",
]
