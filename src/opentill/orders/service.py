"""Reading, locking and placing orders, and reading their payment attempts."""

from collections.abc import Sequence

from opentill.core import money
from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.gateways.model import Method, OfAnotherGateway
from opentill.orders import queries, transition_queries
from opentill.orders.model import HistoryRow, NewOrder, Order, PaymentAttempt


async def find(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Return an order. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=order_id))


async def find_many(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Order]:
    """Return the merchant's orders among some ids, by id."""
    orders = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(ids))
    return {order.id: order for order in orders}


async def list_newest(tx: Tx, merchant_id: str, limit: int) -> list[Order]:
    """Return the newest orders of a merchant, newest first."""
    return await queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)


async def exists(tx: Tx, merchant_id: str, order_id: str) -> bool:
    """Whether a merchant has an order."""
    return bool(await queries.EXISTS.get(tx, merchant_id=merchant_id, id=order_id))


async def find_anywhere(tx: Tx, order_id: str) -> Order:
    """Return an order of any merchant, for the operator. Raises NotFound."""
    order = await queries.ANYWHERE.first(tx, id=order_id)
    return or_not_found(order, f"there is no order {order_id}")


async def history(tx: Tx, merchant_id: str, order_id: str) -> list[HistoryRow]:
    """Return the history of an order, oldest row first."""
    return await queries.HISTORY.all(tx, merchant_id=merchant_id, order_id=order_id)


async def last_attempt(tx: Tx, merchant_id: str, order_id: str) -> PaymentAttempt | None:
    """Return the latest attempt to pay an order, None if there is none."""
    return await queries.LAST_ATTEMPT.first(tx, merchant_id=merchant_id, order_id=order_id)


async def decisive_attempts(
    tx: Tx, merchant_id: str, orders: Sequence[Order]
) -> dict[str, PaymentAttempt]:
    """Return by order the attempt that paid it, of an unpaid one the last. Some may have none."""
    rows = await queries.ATTEMPTS_OF_ORDERS.all(
        tx,
        merchant_id=merchant_id,
        order_id=[order.id for order in orders],
        attempt_id=[order.paid_attempt_id for order in orders],
    )
    return {row.order_id: row for row in rows}


async def attempts(tx: Tx, merchant_id: str, order_id: str) -> list[PaymentAttempt]:
    """Return all attempts to pay an order, oldest first: at most fifty (decision 0030)."""
    return await queries.ATTEMPTS.all(tx, merchant_id=merchant_id, order_id=order_id)


async def find_attempt(tx: Tx, merchant_id: str, attempt_id: str) -> PaymentAttempt:
    """Return an attempt. Raises NotFound."""
    return or_not_found(await queries.ATTEMPT.first(tx, merchant_id=merchant_id, id=attempt_id))


async def find_reported_attempt(
    tx: Tx, gateway: str, merchant_id: str, attempt_id: str
) -> PaymentAttempt:
    """Return the attempt about which a gateway reports.

    Every report about a payment, refund or dispute is checked here (decision 0032). Raises
    NotFound, and OfAnotherGateway for an attempt that went through another gateway.
    """
    attempt = await find_attempt(tx, merchant_id, attempt_id)
    if attempt.gateway != gateway:
        raise OfAnotherGateway(gateway, attempt.gateway)
    return attempt


async def lock(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Lock an order until the end of ``tx`` and return it. Raises NotFound."""
    return or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=order_id))


async def place(tx: Tx, new: NewOrder, now: int) -> bool:
    """Place an order, PENDING, with its session, OPEN.

    Returns False, and places nothing, if the merchant may not charge.
    """
    return bool(await transition_queries.PLACE.run(tx, new, now=now))


async def set_payment_link(tx: Tx, merchant_id: str, order_id: str, link_id: str) -> None:
    """Store which payment link opened the session of an order that was just placed."""
    await queries.SET_PAYMENT_LINK.run(
        tx, merchant_id=merchant_id, id=order_id, payment_link_id=link_id
    )


async def set_method(tx: Tx, merchant_id: str, checkout_id: str, method: Method | None) -> None:
    """Set the only method by which a session can be paid; None: the customer chooses."""
    await queries.SET_METHOD.run(
        tx, merchant_id=merchant_id, checkout_id=checkout_id, method=method
    )


async def merchant_of(tx: Tx, public_id: str) -> str:
    """Return the merchant of a session, an attempt or a payment link's slug. Raises NotFound."""
    return or_not_found(await queries.MERCHANT_OF.get(tx, id=public_id))


def settled_share(order: Order, amount_minor: int) -> int:
    """Convert a part of an order's amount to the settled currency, in minor units."""
    currencies = order.currency, order.settled_currency
    return money.times(amount_minor, order.exchange_rate, *currencies)
