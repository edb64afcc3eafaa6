"""Counting failed attempts and direct payments, each once, in the quarter hour of its end.

An attempt that the customer canceled is marked as counted but adds nothing: no bank declined it.

``counted_at`` in an attempt's row is the quarter hour in which it is counted, and is set in the
transaction that counts it. An index finds uncounted attempts, in whatever order their transactions
commit. An attempt whose money arrives after all is removed from the count.

Other payments are counted from the ledger's entries. A direct payment may have none there, so it is
counted in the same way as failed attempts, with ``direct_counted_at``.
"""

from collections.abc import Sequence

from opentill.db.database import Tx
from opentill.orders.payments import direct_queries, queries
from opentill.orders.payments.model import DirectPayments, FailedAttempts


async def count_failed(tx: Tx, merchant_id: str, most: int) -> Sequence[FailedAttempts]:
    """Mark up to ``most`` of a merchant's attempts as counted; return the changes of the counts.

    The caller adds the changes to its counts in the same transaction.
    """
    return await queries.COUNT_FAILED.all(tx, merchant_id=merchant_id, limit=most)


async def count_direct(tx: Tx, merchant_id: str, most: int) -> Sequence[DirectPayments]:
    """Mark up to ``most`` of a merchant's direct payments as counted; return their sums.

    The caller adds the sums to its figures in the same transaction.
    """
    return await direct_queries.COUNT_DIRECT.all(tx, merchant_id=merchant_id, limit=most)


async def list_uncounted_merchants(tx: Tx, after: str, most: int) -> list[str]:
    """Return the ids of the next ``most`` merchants after an id with uncounted attempts."""
    failed = await queries.UNCOUNTED_MERCHANTS.all(tx, after=after, limit=most)
    direct = await direct_queries.UNCOUNTED_MERCHANTS.all(tx, after=after, limit=most)
    return sorted({merchant.merchant_id for merchant in (*failed, *direct)})[:most]


async def find_uncounted_since(tx: Tx, merchant_id: str) -> int | None:
    """Return when a merchant's first uncounted attempt ended (Unix ms), None if all are counted."""
    ends = [
        await queries.UNCOUNTED_SINCE.get(tx, merchant_id=merchant_id),
        await direct_queries.UNCOUNTED_SINCE.get(tx, merchant_id=merchant_id),
    ]
    return min((end for end in ends if end is not None), default=None)
