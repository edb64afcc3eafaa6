"""What an operator moves by hand, beside payouts: freeze, unfreeze, recharge, correct, fee."""

from opentill.adjustments.model import MOVES, Ask, ByHand, ByHandOut, Kind, Move, Status
from opentill.adjustments.service import (
    approve,
    ask,
    find_anywhere,
    frozen_by_hand,
    reject,
    waiting,
)

__all__ = [
    "MOVES",
    "Ask",
    "ByHand",
    "ByHandOut",
    "Kind",
    "Move",
    "Status",
    "approve",
    "ask",
    "find_anywhere",
    "frozen_by_hand",
    "reject",
    "waiting",
]
