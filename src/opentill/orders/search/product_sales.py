"""What customers paid for a product: a sum of its newest paid orders, of a bounded number."""

from typing import Final

import msgspec

from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.orders import queries
from opentill.orders.statuses import PAID_STATUSES

MOST_SUMMED: Final = 10_000  # newest orders of each status: some 20 milliseconds
_STATUSES: Final = (*PAID_STATUSES, "REFUNDED", "DISPUTED", "CHARGEBACK")


class GrossSales(msgspec.Struct, frozen=True):
    """What was paid for a product, by currency, and whether older orders were left out."""

    amounts: tuple[Money, ...]
    orders: int
    is_bounded: bool


async def sum_product_sales(tx: Tx, merchant_id: str, product_id: str, since: int) -> GrossSales:
    """Return what was paid for a product by orders created since a time (Unix ms).

    Refunds and fees are not subtracted.
    """
    rows = await queries.PRODUCT_SUMS.all(
        tx,
        merchant_id=merchant_id,
        product_id=product_id,
        status=list(_STATUSES),
        since=since,
        limit=MOST_SUMMED,
    )
    number = sum(row.orders for row in rows)
    return GrossSales(
        tuple(Money(row.amount_minor, row.currency) for row in rows), number, number >= MOST_SUMMED
    )
