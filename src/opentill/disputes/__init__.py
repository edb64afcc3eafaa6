"""Disputes: a customer takes a payment back through the bank, and how that ends."""

from opentill.disputes.model import Dispute, DisputeDetail, DisputeOut, Note
from opentill.disputes.service import (
    add_note,
    decide,
    find,
    find_anywhere,
    hear,
    notes,
    open_by_hand,
    search,
)

__all__ = [
    "Dispute",
    "DisputeDetail",
    "DisputeOut",
    "Note",
    "add_note",
    "decide",
    "find",
    "find_anywhere",
    "hear",
    "notes",
    "open_by_hand",
    "search",
]
