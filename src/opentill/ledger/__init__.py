"""The ledger: every movement of a merchant's money, with the balances after it."""

from opentill.ledger.model import Balance, Entry, Held, Movement, Violation
from opentill.ledger.postings import BY_MOVE, POSTINGS, Account, Cause, Type
from opentill.ledger.service import balance, caused_by, checked, count, post, post_many, rules

__all__ = [
    "BY_MOVE",
    "POSTINGS",
    "Account",
    "Balance",
    "Cause",
    "Entry",
    "Held",
    "Movement",
    "Type",
    "Violation",
    "balance",
    "caused_by",
    "checked",
    "count",
    "post",
    "post_many",
    "rules",
]
