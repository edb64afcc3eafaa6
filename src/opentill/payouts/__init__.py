"""Payouts: the merchant's available money, sent to its bank by the operator."""

from opentill.payouts.accounts import HoldRule, check_from
from opentill.payouts.accounts import change as change_account
from opentill.payouts.accounts import confirm as confirm_account
from opentill.payouts.accounts import current as account
from opentill.payouts.accounts import current_held_since as account_held_since
from opentill.payouts.bankfile import MEDIA_TYPES
from opentill.payouts.bankfile import filename as file_name
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
    Run,
    RunRequest,
    RunSums,
    RunView,
    Status,
    StoredAccount,
    Transition,
    WaitingPayout,
    names_account,
)
from opentill.payouts.requests import approve, find_request, reject, request, waiting
from opentill.payouts.runs import described as describe_run
from opentill.payouts.runs import find as find_run
from opentill.payouts.runs import in_file as in_file_of_run
from opentill.payouts.runs import needs_second as run_needs_second
from opentill.payouts.runs import newest as newest_runs
from opentill.payouts.runs import pay as pay_run
from opentill.payouts.runs import payouts_of
from opentill.payouts.runs import perform as perform_run
from opentill.payouts.runs import send as send_run
from opentill.payouts.runs import start as start_run
from opentill.payouts.runs import view as view_run
from opentill.payouts.service import (
    LONGEST_BANK_REFERENCE,
    MOST_FAILED,
    create,
    due,
    fail,
    failed_since,
    find,
    find_anywhere,
    named,
    newest,
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
    "PayoutOut",
    "PayoutRequest",
    "Run",
    "RunRequest",
    "RunSums",
    "RunView",
    "Status",
    "StoredAccount",
    "Transition",
    "WaitingPayout",
    "account",
    "account_held_since",
    "approve",
    "change_account",
    "check_from",
    "confirm_account",
    "create",
    "describe_run",
    "due",
    "fail",
    "failed_since",
    "file_name",
    "find",
    "find_anywhere",
    "find_request",
    "find_run",
    "in_file_of_run",
    "make_file",
    "named",
    "names_account",
    "newest",
    "newest_runs",
    "page",
    "pay",
    "pay_run",
    "payouts_of",
    "perform_run",
    "record_return",
    "reject",
    "request",
    "returned_since",
    "run_needs_second",
    "search",
    "send_run",
    "start_run",
    "view_run",
    "waiting",
]
