"""Manual actions of staff: above a limit, a second person must approve them."""

from opentill.approvals.model import (
    ActionRequest,
    Decided,
    RefundDetails,
    ReportLine,
    Rules,
    Waiting,
    WaitingAction,
    WaitingActionOut,
)
from opentill.approvals.service import (
    approve,
    check_run_taker,
    list_decided,
    list_waiting,
    perform,
    reject,
    waiting_of_reports,
    will_wait,
)

__all__ = [
    "ActionRequest",
    "Decided",
    "RefundDetails",
    "ReportLine",
    "Rules",
    "Waiting",
    "WaitingAction",
    "WaitingActionOut",
    "approve",
    "check_run_taker",
    "list_decided",
    "list_waiting",
    "perform",
    "reject",
    "waiting_of_reports",
    "will_wait",
]
