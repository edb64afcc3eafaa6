"""Disputes: a customer takes a payment back through the bank, and how that ends."""

from opentill.disputes.evidence import add_evidence, list_evidence, read_evidence
from opentill.disputes.evidence_model import MAX_BYTES, MAX_FILES, Evidence, EvidenceRefused
from opentill.disputes.export import chunks as export_csv
from opentill.disputes.model import (
    STATUSES,
    TRANSITIONS,
    Dispute,
    DisputeDetail,
    DisputeOut,
    Event,
    Note,
    Status,
    Unmatched,
    UnmatchedOut,
    recovered_at,
)
from opentill.disputes.overview import Sought, of_all
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
    page,
    search,
    set_deadline,
)
from opentill.disputes.unmatched import count_unmatched, dismiss, unmatched

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "STATUSES",
    "TRANSITIONS",
    "Dispute",
    "DisputeDetail",
    "DisputeOut",
    "Event",
    "Evidence",
    "EvidenceRefused",
    "Note",
    "Sought",
    "Status",
    "Unmatched",
    "UnmatchedOut",
    "add_evidence",
    "add_note",
    "apply_outcome",
    "count_open",
    "count_unmatched",
    "decide",
    "dismiss",
    "export_csv",
    "find",
    "find_anywhere",
    "list_evidence",
    "notes",
    "of_all",
    "of_order",
    "open_manually",
    "page",
    "read_evidence",
    "recovered_at",
    "search",
    "set_deadline",
    "unmatched",
]
