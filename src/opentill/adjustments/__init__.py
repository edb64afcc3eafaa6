"""Adjustments: what an operator moves beside payouts, as the table ``model.MOVES`` allows."""

from opentill.adjustments.model import (
    KINDS,
    MOVES,
    Adjustment,
    AdjustmentOut,
    AdjustmentRequest,
    Kind,
    Move,
    Quote,
    Status,
)
from opentill.adjustments.service import (
    approve,
    find_anywhere,
    frozen_manually,
    newest,
    of_order,
    quote,
    reject,
    request,
    waiting,
)

__all__ = [
    "KINDS",
    "MOVES",
    "Adjustment",
    "AdjustmentOut",
    "AdjustmentRequest",
    "Kind",
    "Move",
    "Quote",
    "Status",
    "approve",
    "find_anywhere",
    "frozen_manually",
    "newest",
    "of_order",
    "quote",
    "reject",
    "request",
    "waiting",
]
