"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.model import (
    TRANSITIONS,
    DuePayout,
    Payout,
    PayoutOut,
    PayoutRequest,
    Status,
    Transition,
)
from opentill.payouts.service import (
    create,
    due,
    fail,
    failed_since,
    find,
    find_anywhere,
    newest,
    pay,
    search,
)

__all__ = [
    "TRANSITIONS",
    "DuePayout",
    "Payout",
    "PayoutOut",
    "PayoutRequest",
    "Status",
    "Transition",
    "create",
    "due",
    "fail",
    "failed_since",
    "find",
    "find_anywhere",
    "newest",
    "pay",
    "search",
]
