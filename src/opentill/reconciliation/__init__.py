"""Reconciliation: what a gateway says it settled against what our books say, item by item."""

from opentill.reconciliation.model import Difference, Result
from opentill.reconciliation.service import is_known, reconcile

__all__ = ["Difference", "Result", "is_known", "reconcile"]
