"""Adjustments: an operator's postings other than payouts, as ``model.MOVES`` allows them."""

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
    list_decided,
    list_newest,
    list_of_order,
    list_waiting,
    quote,
    reject,
    request,
    sum_frozen_manually,
    sum_recharges,
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
    "list_decided",
    "list_newest",
    "list_of_order",
    "list_waiting",
    "quote",
    "reject",
    "request",
    "sum_frozen_manually",
    "sum_recharges",
]
