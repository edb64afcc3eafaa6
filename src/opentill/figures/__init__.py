"""Exact figures of merchants, counted by quarter hours after the commit."""

from opentill.figures.model import (
    Attempts,
    AttemptsComparison,
    Comparison,
    CurrencyFigures,
    CurrencySums,
    Day,
    Figures,
    Period,
    Standing,
    Sums,
)
from opentill.figures.queries import RULES
from opentill.figures.service import read, sums

__all__ = [
    "RULES",
    "Attempts",
    "AttemptsComparison",
    "Comparison",
    "CurrencyFigures",
    "CurrencySums",
    "Day",
    "Figures",
    "Period",
    "Standing",
    "Sums",
    "read",
    "sums",
]
