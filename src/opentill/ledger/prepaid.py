"""The prepaid balance: what pays the fees of payments that went to the merchant directly.

A payment through an account of its merchant reserves its fee before it starts, and takes it when
it is paid (decision 0165). The reserved sum is a column of the balance's row, so that a reservation
and every posting wait for each other. The statement that records an attempt reserves its fee itself
(``orders.transition_queries``), because it is a transaction of its own.
"""

from collections.abc import Mapping

from opentill.db.database import Tx
from opentill.ledger import queries
from opentill.ledger.model import Entry


async def release(tx: Tx, reserved: Mapping[tuple[str, str], int]) -> None:
    """Give reserved fees back to prepaid balances, by merchant and currency; minor units.

    Locks the balances in the order of (merchant, currency).
    """
    keys = sorted(key for key, minor in reserved.items() if minor)
    for merchant_id, currency in keys:
        await queries.RELEASE_PREPAID.run(
            tx,
            merchant_id=merchant_id,
            currency=currency,
            amount_minor=reserved[merchant_id, currency],
        )


async def find_free(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return the part of a prepaid balance that no payment has reserved; minor units."""
    free = await queries.FREE_PREPAID.get(tx, merchant_id=merchant_id, currency=currency)
    return free or 0


async def list_newest(tx: Tx, merchant_id: str, limit: int) -> list[Entry]:
    """Return the newest entries of a merchant's prepaid balance, newest first."""
    return await queries.NEWEST_OF_PREPAID.all(tx, merchant_id=merchant_id, limit=limit)
