"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.model import STEPS, Payout, PayoutOut, Status, Step
from opentill.payouts.service import create, fail, find, find_anywhere, newest, pay, search

__all__ = [
    "STEPS",
    "Payout",
    "PayoutOut",
    "Status",
    "Step",
    "create",
    "fail",
    "find",
    "find_anywhere",
    "newest",
    "pay",
    "search",
]
