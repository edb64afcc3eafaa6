"""Orders that were paid, or not, on another server, and come over as they are.

The money of a paid one is part of its merchant's opening balance. Therefore it has no entries, no
events and one row of history; a refund debits the merchant's balance like that of any settled order
(decision 0175).
"""

from collections.abc import Sequence
from typing import Final

from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.orders import imported_queries
from opentill.orders.imported_model import ImportedOrder, ImportedState

EVENT: Final = "imported"


async def find_states(tx: Tx, keys: Sequence[tuple[str, str]]) -> list[ImportedState]:
    """Return which orders, by merchant and id, exist."""
    return await imported_queries.STATES.all(
        tx, merchant_id=[key[0] for key in keys], id=[key[1] for key in keys]
    )


async def insert(tx: Tx, orders: Sequence[ImportedOrder], cause: str, now: int) -> None:
    """Store orders with their sessions, payment attempts and history; none of them may exist."""
    await imported_queries.INSERT.run(
        tx, **columns(ImportedOrder, orders), event=EVENT, cause=cause, now=now
    )
