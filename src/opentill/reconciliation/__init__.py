"""Reconciliation: what gateways and the bank report against what our books say, item by item."""

from opentill.reconciliation.bank import SOURCE as BANK
from opentill.reconciliation.bank import apply as apply_bank_report
from opentill.reconciliation.inbox import (
    bookings,
    count_open,
    files,
    opened,
    reject_adjustment,
    resolve,
)
from opentill.reconciliation.inbox import find as find_difference
from opentill.reconciliation.model import (
    BankResult,
    Difference,
    OpenDifference,
    Result,
    StoredFile,
    WaitingLine,
)
from opentill.reconciliation.service import Report, is_known, reconcile, reconcile_file

__all__ = [
    "BANK",
    "BankResult",
    "Difference",
    "OpenDifference",
    "Report",
    "Result",
    "StoredFile",
    "WaitingLine",
    "apply_bank_report",
    "bookings",
    "count_open",
    "files",
    "find_difference",
    "is_known",
    "opened",
    "reconcile",
    "reconcile_file",
    "reject_adjustment",
    "resolve",
]
