"""The movements that a text leads to: of a payment, a customer, a product, or a payout."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import disputes, ledger, orders, payouts, products, refunds
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id
from opentill.db.database import Db, Tx
from opentill.ledger import Cause, Entry
from opentill.orders import OrdersQuery

MOST_ORDERS: Final = 50  # the newest payments that a text leads to
_MOST_PRODUCTS: Final = 5  # products with the text in their names
_MOST_REFUNDS: Final = 200
MOST_FOUND: Final = 200  # movements


class Found(msgspec.Struct, frozen=True):
    """Movements, newest first. ``is_cut``: further payments match, but are too old to be read."""

    entries: list[Entry]
    is_cut: bool


async def find(
    db: Db, merchant_id: str, text: str, within: tuple[int, int], *, with_customers: bool
) -> Found:
    """Return the newest movements that a text leads to.

    The text is the id of a payment or a payout, a part of a payout's reference, an amount paid
    out, or a customer's email address. ``with_customers``: whether the person may see payments, and
    so finds them by the other words in their rows too: a customer's name, or a product.
    ``within`` is inclusive Unix ms.
    """
    order_ids: Sequence[str] = ()
    if "@" in text:
        newest = await orders.newest_of_customer(db, merchant_id, text, MOST_ORDERS + 1)
        order_ids = [order.id for order in newest]
    elif with_customers and not is_id(text):
        order_ids = await _orders_by_words(db, merchant_id, text)
    is_cut = len(order_ids) > MOST_ORDERS
    order_ids = order_ids[:MOST_ORDERS]

    async def read(tx: Tx) -> list[Entry]:
        causes = await _causes(tx, merchant_id, text, order_ids)
        return await ledger.find_entries(tx, merchant_id, causes) if causes else []

    since, until = within
    entries = [entry for entry in await db.read(read) if since <= entry.created_at <= until]
    entries.sort(key=lambda entry: (entry.created_at, entry.number), reverse=True)
    return Found(entries[:MOST_FOUND], is_cut or len(entries) > MOST_FOUND)


async def _orders_by_words(db: Db, merchant_id: str, text: str) -> list[str]:
    """Return the ids of the newest orders by a customer's name, or else by a product's name."""
    try:
        page, _ = await orders.list_page(
            db, merchant_id, OrdersQuery(query=text, page=1, size=MOST_ORDERS + 1)
        )
    except Invalid:  # too many customers match
        page = []
    if not page:
        named = await db.read(lambda tx: products.search(tx, merchant_id, text))
        for product in named[:_MOST_PRODUCTS]:
            query = OrdersQuery(product_id=product.id, page=1, size=MOST_ORDERS + 1)
            page += (await orders.list_page(db, merchant_id, query))[0]
        page.sort(key=lambda order: (order.created_at, order.id), reverse=True)
    return [order.id for order in page]


async def _causes(
    tx: Tx, merchant_id: str, text: str, order_ids: Sequence[str]
) -> list[tuple[Cause, str]]:
    if text.startswith("order_") and is_id(text):
        order_ids = await _order_id(tx, merchant_id, text)
    causes: list[tuple[Cause, str]] = [("order", order_id) for order_id in order_ids]
    if order_ids:
        of_orders = await refunds.list_of_orders(tx, merchant_id, order_ids, _MOST_REFUNDS)
        causes.extend(("refund", refund.id) for refund in of_orders)
        newest = await disputes.newest_of_orders(tx, merchant_id, order_ids)
        causes.extend(("dispute", dispute.id) for dispute in newest.values())
    if "@" not in text and not text.startswith("order_"):
        matching = await payouts.list_matching(tx, merchant_id, text)
        causes.extend(("payout", payout.id) for payout in matching)
    return causes


async def _order_id(tx: Tx, merchant_id: str, text: str) -> list[str]:
    try:
        return [(await orders.find(tx, merchant_id, text)).id]
    except NotFound:
        return []
