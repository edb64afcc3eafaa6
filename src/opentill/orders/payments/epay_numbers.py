"""Orders under one number of an Epay shop: the first that is paid counts (decision 0143).

A number has several orders where its session ended unpaid and the shop submitted it again
(decision 0125). The payment of a second one goes back like any second payment.
"""

from collections.abc import Collection

from opentill.db.database import Tx
from opentill.orders.model import Order
from opentill.orders.payments import queries


async def lock_number(tx: Tx, merchant_id: str, order_id: str) -> None:
    """Lock every order under the number of an order, oldest first, as a new submission does.

    To be called before any of them is locked alone. Locks nothing for an order of another API.
    """
    await queries.LOCK_NUMBER.all(tx, merchant_id=merchant_id, id=order_id)


async def find_paid_beside(tx: Tx, order: Order) -> str | None:
    """Return the id of another order under the number that was paid, refunded or not.

    The number is locked.
    """
    if order.source != "EPAY":
        return None
    return await queries.PAID_BESIDE.get(tx, merchant_id=order.merchant_id, id=order.id)


async def with_shared_numbers(tx: Tx, orders: Collection[Order]) -> set[tuple[str, str]]:
    """Return the merchants and ids of those of some locked orders whose number has several."""
    of_epay = [order for order in orders if order.source == "EPAY"]
    if not of_epay:
        return set()
    shared = await queries.SHARED_NUMBERS.all(
        tx,
        merchant_id=[order.merchant_id for order in of_epay],
        id=[order.id for order in of_epay],
    )
    return {(row.merchant_id, row.id) for row in shared}
