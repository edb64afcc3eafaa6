"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.model import TRANSITIONS, Payout, PayoutOut, PayoutRequest, Status, Transition
from opentill.payouts.service import (
    create,
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
    "Payout",
    "PayoutOut",
    "PayoutRequest",
    "Status",
    "Transition",
    "create",
    "fail",
    "failed_since",
    "find",
    "find_anywhere",
    "newest",
    "pay",
    "search",
]
