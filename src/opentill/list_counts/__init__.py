"""How many rows the long lists have: exact totals that cost the same however many there are."""

from opentill.list_counts.model import FOREVER, ListKey, PartCount
from opentill.list_counts.queries import ListStatements, lists
from opentill.list_counts.service import Paginator, count, of_all_time, of_parts, respond

__all__ = [
    "FOREVER",
    "ListKey",
    "ListStatements",
    "Paginator",
    "PartCount",
    "count",
    "lists",
    "of_all_time",
    "of_parts",
    "respond",
]
