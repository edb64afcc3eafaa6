"""Exact figures of merchants, counted by quarter hours after the commit."""

from opentill.figures.jobs import catch_up, waiting
from opentill.figures.model import (
    Attempts,
    AttemptsComparison,
    Coming,
    Comparison,
    CurrencyFigures,
    CurrencySums,
    Day,
    Expected,
    Figures,
    GatewaySums,
    Period,
    Standing,
    Sums,
)
from opentill.figures.queries import RULES
from opentill.figures.service import behind_since, by_gateway, coming, read, sums
from opentill.figures.statements import Statement, statements

__all__ = [
    "RULES",
    "Attempts",
    "AttemptsComparison",
    "Coming",
    "Comparison",
    "CurrencyFigures",
    "CurrencySums",
    "Day",
    "Expected",
    "Figures",
    "GatewaySums",
    "Period",
    "Standing",
    "Statement",
    "Sums",
    "behind_since",
    "by_gateway",
    "catch_up",
    "coming",
    "read",
    "statements",
    "sums",
    "waiting",
]
