"""The payments of products with a text in their names, as the searches of the dashboard find them.

The cost does not grow with the number of payments: a few products are found, and the payments of a
product are counted in blocks that are kept (``list_counts``).
"""

from typing import Final

import msgspec

from opentill import orders, products
from opentill.orders import Order, OrdersQuery
from opentill.portal.request import PageRequest
from opentill.products import Product

_PRODUCTS: Final = 5  # products whose payments are found


class ProductPayments(msgspec.Struct, frozen=True):
    """A product, its newest payments, and the number of all."""

    product: Product
    newest: list[Order]
    total: int


async def find(request: PageRequest, text: str, size: int) -> list[ProductPayments]:
    """Return the newest products with the text in their names that have payments.

    Each has at most ``size`` payments. Empty for a person who may not see products.
    """
    if not request.access.may("products.read"):
        return []
    async with request.app.db.connection() as tx:
        matches = (await products.search(tx, request.merchant_id, text))[:_PRODUCTS]
    db, rows = request.app.replica.reading(), list[ProductPayments]()
    for product in matches:
        query = OrdersQuery(product_id=product.id, page=1, size=size)
        newest, total = await orders.list_page(db, request.merchant_id, query)
        if total:
            rows.append(ProductPayments(product, newest, total))
    return rows
