"""The payment page of a session, and the form that opens another session like it."""

from urllib.parse import urlencode

from opentill import products
from opentill.checkouts import Session
from opentill.core.errors import NotFound
from opentill.orders import Order
from opentill.portal.request import PageRequest
from opentill.portal.unpaid import Unpaid


def payment_page(request: PageRequest, session: Session) -> str:
    """Return the URL of a session's payment page."""
    return f"{request.app.settings.public_url}/checkout/{session.id}"


async def form_of(request: PageRequest, order: Order, unpaid: Unpaid | None) -> str:
    """Return the address of the form for another session with the order's product and customer.

    "" if the order was paid or still can be, the person may not open sessions, or the product is
    not on sale.
    """
    if unpaid is None or unpaid.kind in ("OPEN", "RETRY", "WAITING"):
        return ""
    if not request.access.may("sessions.write"):
        return ""
    async with request.app.db.connection() as tx:
        try:
            product = await products.find(tx, order.merchant_id, order.product_id)
        except NotFound:  # the order of an item without a product
            return ""
    if product.status != "ACTIVE":
        return ""
    query = {"sheet": "new-session", "sell": product.id, "for": order.customer_email or ""}
    return f"{request.link('sessions')}?{urlencode({k: v for k, v in query.items() if v})}"
