"""Refunds: held at creation, sent by the worker, ended by the gateway's report."""

from opentill.refunds.model import (
    REFUNDABLE,
    BalanceTooLow,
    NotRefundable,
    Quote,
    Refund,
    RefundBody,
    RefundOut,
    TooMuch,
)
from opentill.refunds.service import (
    apply_outcome,
    create,
    end_manually,
    find,
    find_anywhere,
    find_by_number,
    look_for,
    of_order,
    orders_of,
    quote,
)

__all__ = [
    "REFUNDABLE",
    "BalanceTooLow",
    "NotRefundable",
    "Quote",
    "Refund",
    "RefundBody",
    "RefundOut",
    "TooMuch",
    "apply_outcome",
    "create",
    "end_manually",
    "find",
    "find_anywhere",
    "find_by_number",
    "look_for",
    "of_order",
    "orders_of",
    "quote",
]
