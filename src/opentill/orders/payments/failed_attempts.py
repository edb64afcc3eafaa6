"""Counting failed payment attempts, each once, in the quarter hour in which it ended.

The attempt's row says in which quarter hour it is counted, and is marked in the transaction that
counts it. An index finds attempts of any server, whenever their transactions commit. An attempt
whose money arrives after all is removed from the count.
"""

from collections.abc import Sequence

from opentill.db.database import Tx
from opentill.orders.payments import queries
from opentill.orders.payments.model import FailedAttempts


async def count_failed(tx: Tx, merchant_id: str, most: int) -> Sequence[FailedAttempts]:
    """Mark up to ``most`` of a merchant's attempts as counted; return by how many counts change.

    The caller adds the changes to its counts in the same transaction.
    """
    return await queries.COUNT_FAILED.all(tx, merchant_id=merchant_id, limit=most)


async def with_uncounted(tx: Tx, after: str, most: int) -> list[str]:
    """Return up to ``most`` merchants after one that have attempts to be counted."""
    found = await queries.UNCOUNTED_MERCHANTS.all(tx, after=after, limit=most)
    return [merchant.merchant_id for merchant in found]


async def uncounted_since(tx: Tx, merchant_id: str) -> int | None:
    """Return when a merchant's first attempt ended that is to be counted (Unix ms), or None."""
    return await queries.UNCOUNTED_SINCE.get(tx, merchant_id=merchant_id)
