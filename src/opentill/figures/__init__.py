"""Exact figures of merchants, counted by quarter hours after the commit."""

from opentill.figures.jobs import catch_up
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
    Period,
    Standing,
    Sums,
)
from opentill.figures.queries import RULES
from opentill.figures.service import coming, read, sums
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
    "Period",
    "Standing",
    "Statement",
    "Sums",
    "catch_up",
    "coming",
    "read",
    "statements",
    "sums",
]
