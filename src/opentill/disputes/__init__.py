"""Disputes: a customer takes a payment back through the bank, and how that ends."""

from opentill.disputes.model import (
    TRANSITIONS,
    Dispute,
    DisputeDetail,
    DisputeOut,
    Note,
    Unmatched,
    UnmatchedOut,
)
from opentill.disputes.service import (
    add_note,
    apply_outcome,
    count_open,
    decide,
    find,
    find_anywhere,
    notes,
    of_order,
    open_manually,
    search,
)
from opentill.disputes.unmatched import count_unmatched, dismiss, unmatched

__all__ = [
    "TRANSITIONS",
    "Dispute",
    "DisputeDetail",
    "DisputeOut",
    "Note",
    "Unmatched",
    "UnmatchedOut",
    "add_note",
    "apply_outcome",
    "count_open",
    "count_unmatched",
    "decide",
    "dismiss",
    "find",
    "find_anywhere",
    "notes",
    "of_order",
    "open_manually",
    "search",
    "unmatched",
]
