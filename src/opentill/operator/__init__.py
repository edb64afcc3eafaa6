"""What an operator moves by hand, beside payouts: freeze, unfreeze, recharge, correct, fee."""

from opentill.operator.model import MOVES, Ask, ByHand, ByHandOut, Kind, Move, Status
from opentill.operator.service import (
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
