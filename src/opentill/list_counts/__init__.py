"""Exact totals of long lists, at a cost that does not depend on the number of rows."""

from opentill.list_counts.model import FOREVER, ListKey, PartCount
from opentill.list_counts.queries import (
    ListStatements,
    lists,
    newest_by_status,
    page_values,
)
from opentill.list_counts.service import (
    EVER,
    Paginator,
    Range,
    count,
    count_all,
    count_kinds,
    count_kinds_within,
    count_parts,
    respond,
)

__all__ = [
    "EVER",
    "FOREVER",
    "ListKey",
    "ListStatements",
    "Paginator",
    "PartCount",
    "Range",
    "count",
    "count_all",
    "count_kinds",
    "count_kinds_within",
    "count_parts",
    "lists",
    "newest_by_status",
    "page_values",
    "respond",
]
