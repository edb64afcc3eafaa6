"""Exact figures of merchants, counted by quarter hours after the commit."""

from opentill.figures.dispute_rates import DisputeRate, Limit, read_rates
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
    Period,
    Sums,
)
from opentill.figures.queries import RULES
from opentill.figures.service import (
    behind_since,
    find_coming,
    read,
    sum_by_day,
    sum_by_gateway,
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
    "Limit",
    "Period",
    "Statement",
    "Sums",
    "behind_since",
    "catch_up",
    "count_uncounted_entries",
    "find_coming",
    "read",
    "read_rates",
    "statements",
    "sum_by_day",
    "sum_by_gateway",
    "sum_range",
]
