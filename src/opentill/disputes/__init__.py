"""Disputes: customers demand payments back through their banks."""

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
    Response,
    Status,
    Unmatched,
    UnmatchedOut,
    recovered_at,
)
from opentill.disputes.overview import DisputeFilter, search_all
from opentill.disputes.responses import respond
from opentill.disputes.service import (
    MOST_COUNTED,
    add_note,
    apply_outcome,
    count_open,
    decide,
    find,
    find_anywhere,
    list_for_order,
    list_notes,
    open_manually,
    page,
    search,
    set_deadline,
)
from opentill.disputes.unmatched import count_unmatched, dismiss, list_unmatched

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "MOST_COUNTED",
    "STATUSES",
    "TRANSITIONS",
    "Dispute",
    "DisputeDetail",
    "DisputeFilter",
    "DisputeOut",
    "Event",
    "Evidence",
    "EvidenceRefused",
    "Note",
    "Response",
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
    "list_for_order",
    "list_notes",
    "list_unmatched",
    "open_manually",
    "page",
    "read_evidence",
    "recovered_at",
    "respond",
    "search",
    "search_all",
    "set_deadline",
]
