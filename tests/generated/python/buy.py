"""A shop that uses the client of openapi-python-client; each run is one stage of a purchase."""

import json
import os
import sys
from typing import Any

from till import AuthenticatedClient
from till.api.balance import list_balance_transactions
from till.api.checkouts import create_checkout_session, get_checkout_session
from till.api.orders import export_orders, get_order, list_orders
from till.api.products import create_product
from till.api.refunds import create_refund, get_refund
from till.models import (
    Failure,
    MetadataFilter,
    OrderPaidEvent,
    OrderStatus,
    ProductBody,
    ProductBodyMetadataType0,
    RefundBody,
    SessionBody,
    SessionBodyMetadataType0,
)

CLIENT = AuthenticatedClient(
    base_url=os.environ["TILL_URL"],
    token=os.environ["TILL_KEY"],
    prefix="",
    auth_header_name="x-api-key",
    raise_on_unexpected_status=True,
)


def read_data(response: Any) -> Any:
    """Return the data of a response; exit if it is an error."""
    if response is None or isinstance(response, Failure):
        sys.exit(f"refused: {response}")
    return response.data


def open_session() -> dict[str, Any]:
    """Create a product and open a session."""
    metadata = ProductBodyMetadataType0.from_dict({"sku": "TEA"})
    body = ProductBody(name="Tea", price="9.99", currency="USD", metadata=metadata)
    product = read_data(create_product.sync(client=CLIENT, body=body))
    session_body = SessionBody(
        product_id=product.id,
        success_url="https://shop.example.com/thanks",
        display_merchant_name="The tea shop",
        metadata=SessionBodyMetadataType0.from_dict({"cart": "17 & 4"}),
    )
    session = read_data(
        create_checkout_session.sync(client=CLIENT, body=session_body, idempotency_key=product.id)
    )
    stored_session = read_data(get_checkout_session.sync(session.id, client=CLIENT))
    return {
        "session": session.id,
        "order": stored_session.order_id,
        "expiresAt": session.expires_at,
    }


def refund_order(order_id: str) -> dict[str, Any]:
    """Read and list the order, and refund a part of it."""
    order = read_data(get_order.sync(order_id, client=CLIENT))
    page = list_orders.sync(
        client=CLIENT,
        status=OrderStatus.PAID,
        start_date=order.created_at,
        end_date=order.created_at,
        size=10,
    )
    orders = read_data(page)
    filters = [MetadataFilter.from_dict({"metadata[cart]": cart}) for cart in ("17 & 4", "18")]
    carts = [read_data(list_orders.sync(client=CLIENT, metadata=each)) for each in filters]
    body = RefundBody(amount="2.00", reason="One was broken")
    refund = read_data(create_refund.sync(order_id, client=CLIENT, body=body))
    return {
        "status": order.status,
        "paidAt": order.paid_at,
        "method": order.payment_method,
        "settledAt": order.settled_at,
        "listed": [row.id for row in orders.items],
        "total": orders.pagination.total,
        "carts": [page.pagination.total for page in carts],
        "refund": refund.id,
    }


def read_results(refund_id: str) -> dict[str, Any]:
    """Read the refund, the balance transactions, the export, and an unknown order."""
    refund = read_data(get_refund.sync(refund_id, client=CLIENT))
    transactions = read_data(list_balance_transactions.sync(client=CLIENT))
    unknown = get_order.sync("order_unknown", client=CLIENT)
    return {
        "status": refund.status,
        "amount": refund.amount,
        "succeededAt": refund.succeeded_at,
        "types": [row.type_ for row in transactions.items],
        "csv": export_orders.sync(client=CLIENT),
        "unknown": unknown.code if isinstance(unknown, Failure) else None,
    }


def parse_event(body: str) -> dict[str, Any]:
    """Parse the body of an event."""
    event = OrderPaidEvent.from_dict(json.loads(body))
    return {
        "event": event.id,
        "createdAt": event.created_at,
        "order": event.data.order_id,
        "amount": event.data.amount,
        "paidAt": event.data.paid_at,
    }


STAGES = {
    "open": open_session,
    "refund": refund_order,
    "read": read_results,
    "event": parse_event,
}
json.dump(STAGES[sys.argv[1]](*sys.argv[2:]), sys.stdout)
