"""Checking the books: the ledger's own rules, and that orders and refunds explain their entries."""

from opentill import ledger
from opentill.core.db import Tx
from opentill.ledger import Violation


async def check_books(tx: Tx) -> tuple[int, list[Violation]]:
    """Check every rule. Returns how many entries there are and where a rule does not hold.

    Meant to run in one repeatable-read transaction, so that it sees the books of one moment.
    """
    return await ledger.check(tx)
