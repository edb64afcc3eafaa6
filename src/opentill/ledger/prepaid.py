"""The prepaid balance: what pays the fees of payments that went to the merchant directly.

A payment through an account of its merchant reserves its fee before it starts, and takes it when
it is paid (decision 0165). The reserved sum is a column of the balance's row, so that a reservation
and every posting wait for each other. The statement that records an attempt reserves its fee itself
(``orders.transition_queries``), because it is a transaction of its own.
"""

from collections.abc import Mapping
from typing import Final

from opentill.db.database import Tx
from opentill.ledger import prepaid_queries
from opentill.ledger.model import Entry

MAX_SUMMED: Final = 10_000


async def release(tx: Tx, reserved: Mapping[tuple[str, str], int]) -> None:
    """Give reserved fees back to prepaid balances, by merchant and currency; minor units.

    Locks the balances in the order of (merchant, currency).
    """
    keys = sorted(key for key, minor in reserved.items() if minor)
    for merchant_id, currency in keys:
        await prepaid_queries.RELEASE.run(
            tx,
            merchant_id=merchant_id,
            currency=currency,
            amount_minor=reserved[merchant_id, currency],
        )


async def find_free(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return the part of a prepaid balance that no payment has reserved; minor units."""
    free = await prepaid_queries.FREE.get(tx, merchant_id=merchant_id, currency=currency)
    return free or 0


async def sum_fees(tx: Tx, merchant_id: str, currency: str, since: int) -> int:
    """Return the fees that a prepaid balance has paid since a time (Unix ms), less returned ones.

    At most the newest 10,000 are summed.
    """
    key = {"merchant_id": merchant_id, "currency": currency}
    return await prepaid_queries.FEES.get(tx, **key, since=since, limit=MAX_SUMMED) or 0


async def list_newest(tx: Tx, merchant_id: str, limit: int) -> list[Entry]:
    """Return the newest entries of a merchant's prepaid balance, newest first."""
    return await prepaid_queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)
