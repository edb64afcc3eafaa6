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
    RowCounts,
    TrialBalance,
    TypeSum,
    Violation,
)
from opentill.ledger.postings import (
    BY_MOVE,
    MERCHANT_ACCOUNTS,
    POSTINGS,
    TRANSFERS,
    TYPES,
    Account,
    Cause,
    Type,
)
from opentill.ledger.prepaid import LEVELS as PREPAID_LEVELS
from opentill.ledger.prepaid import PrepaidLevel, PrepaidState, find_highest_top_up
from opentill.ledger.prepaid import find_free as find_free_prepaid
from opentill.ledger.prepaid import find_state as find_prepaid_state
from opentill.ledger.prepaid import list_newest as list_newest_of_prepaid
from opentill.ledger.prepaid import release as release_prepaid
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
    "PREPAID_LEVELS",
    "STATEMENT_COLUMNS",
    "TRANSFERS",
    "TYPES",
    "Account",
    "Balance",
    "BalanceCheck",
    "Cause",
    "Entry",
    "EntryRange",
    "Held",
    "Movement",
    "PrepaidLevel",
    "PrepaidState",
    "RowCounts",
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
    "find_free_prepaid",
    "find_highest_top_up",
    "find_prepaid_state",
    "find_ranges",
    "general_ledger_file",
    "list_checks",
    "list_entries",
    "list_entries_of",
    "list_fees",
    "list_newest_of_prepaid",
    "list_rows",
    "list_types",
    "list_violated",
    "movements_file",
    "post",
    "post_many",
    "release_prepaid",
    "rule_sql",
    "rules",
    "statement_file",
    "summarize_passes",
    "sums_by_type",
    "trial_balance",
    "trial_balance_at",
]
