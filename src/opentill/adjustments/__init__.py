"""Adjustments: what an operator moves beside payouts, as the table ``model.MOVES`` allows."""

from opentill.adjustments.model import (
    KINDS,
    MOVES,
    Adjustment,
    AdjustmentOut,
    Ask,
    Kind,
    Move,
    Status,
)
from opentill.adjustments.service import (
    approve,
    ask,
    find_anywhere,
    frozen_manually,
    reject,
    waiting,
)

__all__ = [
    "KINDS",
    "MOVES",
    "Adjustment",
    "AdjustmentOut",
    "Ask",
    "Kind",
    "Move",
    "Status",
    "approve",
    "ask",
    "find_anywhere",
    "frozen_manually",
    "reject",
    "waiting",
]
