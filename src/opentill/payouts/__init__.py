"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.accounts import HoldRule, require_source_account
from opentill.payouts.accounts import change as change_account
from opentill.payouts.accounts import confirm as confirm_account
from opentill.payouts.accounts import find as find_account
from opentill.payouts.accounts import find_held_since as account_held_since
from opentill.payouts.accounts import find_of_payouts as find_accounts_of
from opentill.payouts.bankfile import MEDIA_TYPES, file_name
from opentill.payouts.bankfile import make as make_file
from opentill.payouts.model import (
    BANK_REFERENCE,
    FORMS,
    STATUSES,
    TRANSITIONS,
    DuePayout,
    FileRequest,
    Form,
    InRun,
    Payout,
    PayoutOut,
    PayoutRequest,
    PayoutTotal,
    Run,
    RunOfPayout,
    RunRequest,
    RunSums,
    RunView,
    Status,
    StoredAccount,
    Transition,
    WaitingPayout,
    names_account,
)
from opentill.payouts.overview import (
    PayoutFilter,
    find_first_since,
    find_runs_of_payouts,
    search_all,
    sum_paid,
    sum_pending,
)
from opentill.payouts.requests import (
    approve,
    find_request,
    list_decided_requests,
    list_requests,
    reject,
    request,
)
from opentill.payouts.runs import describe as describe_run
from opentill.payouts.runs import find as find_run
from opentill.payouts.runs import find_by_reference as find_run_by_reference
from opentill.payouts.runs import list_newest as list_runs
from opentill.payouts.runs import list_payouts as list_payouts_of_run
from opentill.payouts.runs import list_waiting as list_waiting_runs
from opentill.payouts.runs import needs_second as run_needs_second
from opentill.payouts.runs import pay as pay_run
from opentill.payouts.runs import payouts_in_file
from opentill.payouts.runs import perform as perform_run
from opentill.payouts.runs import send as send_run
from opentill.payouts.runs import start as start_run
from opentill.payouts.runs import view as view_run
from opentill.payouts.service import (
    LONGEST_BANK_REFERENCE,
    MOST_FAILED,
    create,
    fail,
    failed_since,
    find,
    find_anywhere,
    find_many,
    list_due,
    list_matching,
    list_newest,
    list_newest_of_status,
    list_of_bank_reference,
    list_of_reference,
    page,
    pay,
    record_return,
    returned_since,
    search,
)

__all__ = [
    "BANK_REFERENCE",
    "FORMS",
    "LONGEST_BANK_REFERENCE",
    "MEDIA_TYPES",
    "MOST_FAILED",
    "STATUSES",
    "TRANSITIONS",
    "DuePayout",
    "FileRequest",
    "Form",
    "HoldRule",
    "InRun",
    "Payout",
    "PayoutFilter",
    "PayoutOut",
    "PayoutRequest",
    "PayoutTotal",
    "Run",
    "RunOfPayout",
    "RunRequest",
    "RunSums",
    "RunView",
    "Status",
    "StoredAccount",
    "Transition",
    "WaitingPayout",
    "account_held_since",
    "approve",
    "change_account",
    "confirm_account",
    "create",
    "describe_run",
    "fail",
    "failed_since",
    "file_name",
    "find",
    "find_account",
    "find_accounts_of",
    "find_anywhere",
    "find_first_since",
    "find_many",
    "find_request",
    "find_run",
    "find_run_by_reference",
    "find_runs_of_payouts",
    "list_decided_requests",
    "list_due",
    "list_matching",
    "list_newest",
    "list_newest_of_status",
    "list_of_bank_reference",
    "list_of_reference",
    "list_payouts_of_run",
    "list_requests",
    "list_runs",
    "list_waiting_runs",
    "make_file",
    "names_account",
    "page",
    "pay",
    "pay_run",
    "payouts_in_file",
    "perform_run",
    "record_return",
    "reject",
    "request",
    "require_source_account",
    "returned_since",
    "run_needs_second",
    "search",
    "search_all",
    "send_run",
    "start_run",
    "sum_paid",
    "sum_pending",
    "view_run",
]
