"""Adjustments that an operator makes, beside payouts: freeze, unfreeze, recharge, correct, fee."""

from opentill.adjustments.model import MOVES, Adjustment, AdjustmentOut, Ask, Kind, Move, Status
from opentill.adjustments.service import (
    approve,
    ask,
    find_anywhere,
    frozen_manually,
    reject,
    waiting,
)

__all__ = [
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
