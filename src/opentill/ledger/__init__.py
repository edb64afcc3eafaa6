"""The ledger: every movement of a merchant's money, with the balances after it."""

from opentill.ledger.general import balances_at, trial_balance_at
from opentill.ledger.general import chunks as general_ledger_file
from opentill.ledger.history import (
    MAX_SUMMED,
    list_entries,
    list_entries_of,
    list_fees,
    list_rows,
    list_types,
    sums_by_type,
)
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
from opentill.ledger.queries import rule_sql
from opentill.ledger.service import (
    count_entries,
    count_overdue,
    count_violations,
    find_balance,
    find_balances,
    find_entries,
    list_checks,
    list_violated,
    post,
    post_many,
    rules,
    summarize_passes,
    trial_balance,
)
from opentill.ledger.statement import COLUMNS as STATEMENT_COLUMNS
from opentill.ledger.statement import EntryRange, StatementError, find_ranges, movements_file
from opentill.ledger.statement import chunks as statement_file

__all__ = [
    "BY_MOVE",
    "MAX_SUMMED",
    "MERCHANT_ACCOUNTS",
    "POSTINGS",
    "STATEMENT_COLUMNS",
    "TYPES",
    "Account",
    "Balance",
    "BalanceCheck",
    "Cause",
    "Entry",
    "EntryRange",
    "Held",
    "Movement",
    "StatementError",
    "TrialBalance",
    "Type",
    "TypeSum",
    "Violation",
    "balances_at",
    "count_entries",
    "count_overdue",
    "count_violations",
    "find_balance",
    "find_balances",
    "find_entries",
    "find_ranges",
    "general_ledger_file",
    "list_checks",
    "list_entries",
    "list_entries_of",
    "list_fees",
    "list_rows",
    "list_types",
    "list_violated",
    "movements_file",
    "post",
    "post_many",
    "rule_sql",
    "rules",
    "statement_file",
    "summarize_passes",
    "sums_by_type",
    "trial_balance",
    "trial_balance_at",
]
