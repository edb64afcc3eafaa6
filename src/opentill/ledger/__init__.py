"""The ledger: every movement of a merchant's money, with the balances after it."""

from opentill.ledger.model import Balance, Entry, Held, Movement, TrialBalance, Violation
from opentill.ledger.postings import BY_MOVE, POSTINGS, Account, Type
from opentill.ledger.service import balance, checked, count, post, post_many, rules, trial_balance

__all__ = [
    "BY_MOVE",
    "POSTINGS",
    "Account",
    "Balance",
    "Entry",
    "Held",
    "Movement",
    "TrialBalance",
    "Type",
    "Violation",
    "balance",
    "checked",
    "count",
    "post",
    "post_many",
    "rules",
    "trial_balance",
]
