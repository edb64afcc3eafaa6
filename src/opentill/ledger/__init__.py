"""The ledger: every movement of a merchant's money, with the balances after it."""

from opentill.ledger.general import balances_at, trial_balance_at
from opentill.ledger.general import chunks as general_ledger_file
from opentill.ledger.history import MOST as MOST_SUMMED
from opentill.ledger.history import of_cause, page, sums_by_type
from opentill.ledger.model import (
    Balance,
    BalanceCheck,
    Entry,
    Held,
    Movement,
    TrialBalance,
    TypeSum,
    Violation,
)
from opentill.ledger.postings import (
    BY_MOVE,
    MERCHANT_ACCOUNTS,
    POSTINGS,
    TYPES,
    Account,
    Cause,
    Type,
)
from opentill.ledger.queries import rule_text
from opentill.ledger.service import (
    balance,
    caused_by,
    checked,
    checks,
    count,
    count_overdue,
    passes,
    post,
    post_many,
    rules,
    trial_balance,
    violated,
)
from opentill.ledger.statement import Span, StatementError, movements, spans
from opentill.ledger.statement import chunks as statement_file

__all__ = [
    "BY_MOVE",
    "MERCHANT_ACCOUNTS",
    "MOST_SUMMED",
    "POSTINGS",
    "TYPES",
    "Account",
    "Balance",
    "BalanceCheck",
    "Cause",
    "Entry",
    "Held",
    "Movement",
    "Span",
    "StatementError",
    "TrialBalance",
    "Type",
    "TypeSum",
    "Violation",
    "balance",
    "balances_at",
    "caused_by",
    "checked",
    "checks",
    "count",
    "count_overdue",
    "general_ledger_file",
    "movements",
    "of_cause",
    "page",
    "passes",
    "post",
    "post_many",
    "rule_text",
    "rules",
    "spans",
    "statement_file",
    "sums_by_type",
    "trial_balance",
    "trial_balance_at",
    "violated",
]
