"""How many rows the long lists have: exact totals that cost the same however many there are."""

from opentill.totals.model import FOREVER, ListKey
from opentill.totals.queries import lists
from opentill.totals.service import Rows, of_all_time, total

__all__ = ["FOREVER", "ListKey", "Rows", "lists", "of_all_time", "total"]
