"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.model import (
    STATUSES,
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
    page,
    pay,
    search,
)

__all__ = [
    "STATUSES",
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
    "page",
    "pay",
    "search",
]
