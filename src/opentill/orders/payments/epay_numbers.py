"""Orders that share a number of an Epay shop: the first one that is paid counts (decision 0143).

A number has several orders if its session ended unpaid and the shop submitted the number again
(decision 0125). The payment of a second order is sent back like any second payment.
"""

from collections.abc import Collection

from opentill.db.database import Tx
from opentill.orders.model import Order
from opentill.orders.payments import queries


async def lock_number(tx: Tx, merchant_id: str, order_id: str) -> None:
    """Lock all orders with the number of an Epay order, oldest first, as a new submission does.

    To avoid a deadlock, call this before locking one of these orders alone. An order of another API
    is not locked.
    """
    await queries.LOCK_NUMBER.all(tx, merchant_id=merchant_id, id=order_id)


async def find_other_paid_order(tx: Tx, order: Order) -> str | None:
    """Return the id of another paid order with the same Epay number, None if there is none.

    That order may have been refunded meanwhile. The caller must have locked the number.
    """
    if order.source != "EPAY":
        return None
    return await queries.OTHER_PAID_ORDER.get(tx, merchant_id=order.merchant_id, id=order.id)


async def find_sharing_number(tx: Tx, orders: Collection[Order]) -> set[tuple[str, str]]:
    """Return (merchant id, order id) of the orders whose Epay number other orders have too.

    The caller must have locked the orders.
    """
    epay_orders = [order for order in orders if order.source == "EPAY"]
    if not epay_orders:
        return set()
    shared = await queries.SHARED_NUMBERS.all(
        tx,
        merchant_id=[order.merchant_id for order in epay_orders],
        id=[order.id for order in epay_orders],
    )
    return {(row.merchant_id, row.id) for row in shared}
