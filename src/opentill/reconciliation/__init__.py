"""Reconciliation: compare the reports of gateways and the bank with our books, item by item."""

from opentill.reconciliation.bank import SOURCE as BANK
from opentill.reconciliation.bank import apply as apply_bank_report
from opentill.reconciliation.bank import payout_id_of, run_id_of
from opentill.reconciliation.bank_lines import COLUMNS as BANK_COLUMNS
from opentill.reconciliation.fetching import account_number, reconcile_fetched
from opentill.reconciliation.inbox import (
    count_open,
    list_bookings,
    list_differences,
    list_files,
    list_of_reference,
    reject_adjustment,
    resolve,
)
from opentill.reconciliation.inbox import find as find_difference
from opentill.reconciliation.items import find_item, is_settled
from opentill.reconciliation.model import (
    BankResult,
    Difference,
    OpenDifference,
    ReportOfAnotherAccount,
    ReportWithoutPeriod,
    Result,
    StoredFile,
    WaitingLine,
)
from opentill.reconciliation.service import Report, has_payments, reconcile, reconcile_file

__all__ = [
    "BANK",
    "BANK_COLUMNS",
    "BankResult",
    "Difference",
    "OpenDifference",
    "Report",
    "ReportOfAnotherAccount",
    "ReportWithoutPeriod",
    "Result",
    "StoredFile",
    "WaitingLine",
    "account_number",
    "apply_bank_report",
    "count_open",
    "find_difference",
    "find_item",
    "has_payments",
    "is_settled",
    "list_bookings",
    "list_differences",
    "list_files",
    "list_of_reference",
    "payout_id_of",
    "reconcile",
    "reconcile_fetched",
    "reconcile_file",
    "reject_adjustment",
    "resolve",
    "run_id_of",
]
