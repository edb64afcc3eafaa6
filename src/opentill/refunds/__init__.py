"""Refunds: held at creation, sent by the worker, ended by the gateway's report."""

from opentill.refunds.model import Quote, Refund, RefundBody, RefundOut
from opentill.refunds.service import (
    apply_outcome,
    create,
    find,
    find_anywhere,
    find_by_number,
    look_for,
    orders_of,
    quote,
)

__all__ = [
    "Quote",
    "Refund",
    "RefundBody",
    "RefundOut",
    "apply_outcome",
    "create",
    "find",
    "find_anywhere",
    "find_by_number",
    "look_for",
    "orders_of",
    "quote",
]
