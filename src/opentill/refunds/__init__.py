"""Refunds: created here, sent by the worker and ended by the gateway's report.

Refunds that were made at the provider are only recorded here.
"""

from opentill.refunds.cases import count_unmatched, dismiss, list_open
from opentill.refunds.failures import list_failed, mark_handled
from opentill.refunds.imported import ImportedRefund
from opentill.refunds.imported import insert as insert_imported
from opentill.refunds.imported import split as split_imported
from opentill.refunds.model import (
    REFUNDABLE,
    BalanceTooLow,
    NewMadeAtGateway,
    NotRefundable,
    Quote,
    Refund,
    RefundBody,
    RefundCase,
    RefundCaseOut,
    RefundOut,
    TooMuch,
)
from opentill.refunds.reports import apply_report, check_manual, record_manually
from opentill.refunds.service import (
    apply_outcome,
    create,
    end_manually,
    find,
    find_anywhere,
    find_by_number,
    find_or_none,
    find_order_ids,
    list_for_order,
    list_of_orders,
    newest_of_orders,
    quote,
    reverse_manually,
)

__all__ = [
    "REFUNDABLE",
    "BalanceTooLow",
    "ImportedRefund",
    "NewMadeAtGateway",
    "NotRefundable",
    "Quote",
    "Refund",
    "RefundBody",
    "RefundCase",
    "RefundCaseOut",
    "RefundOut",
    "TooMuch",
    "apply_outcome",
    "apply_report",
    "check_manual",
    "count_unmatched",
    "create",
    "dismiss",
    "end_manually",
    "find",
    "find_anywhere",
    "find_by_number",
    "find_or_none",
    "find_order_ids",
    "insert_imported",
    "list_failed",
    "list_for_order",
    "list_of_orders",
    "list_open",
    "mark_handled",
    "newest_of_orders",
    "quote",
    "record_manually",
    "reverse_manually",
    "split_imported",
]
