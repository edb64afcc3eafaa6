"""A shop's program on the client of openapi-python-client: one stage of a purchase for each run."""

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
    OrderPaidEvent,
    OrderStatus,
    ProductBody,
    ProductBodyMetadataType0,
    RefundBody,
    SessionBody,
)

CLIENT = AuthenticatedClient(
    base_url=os.environ["TILL_URL"],
    token=os.environ["TILL_KEY"],
    prefix="",
    auth_header_name="x-api-key",
    raise_on_unexpected_status=True,
)


def done(answer: Any) -> Any:
    """Return the data of an answer."""
    if answer is None or isinstance(answer, Failure):
        sys.exit(f"refused: {answer}")
    return answer.data


def opened() -> dict[str, Any]:
    """Make a product and open a session."""
    metadata = ProductBodyMetadataType0.from_dict({"sku": "TEA"})
    body = ProductBody(name="Tea", price="9.99", currency="USD", metadata=metadata)
    product = done(create_product.sync(client=CLIENT, body=body))
    wanted = SessionBody(
        product_id=product.id,
        success_url="https://shop.example.com/thanks",
        display_merchant_name="The tea shop",
    )
    session = done(
        create_checkout_session.sync(client=CLIENT, body=wanted, idempotency_key=product.id)
    )
    read = done(get_checkout_session.sync(session.id, client=CLIENT))
    return {"session": session.id, "order": read.order_id, "expiresAt": session.expires_at}


def refunded(order_id: str) -> dict[str, Any]:
    """Read and list the order, and give some of it back."""
    order = done(get_order.sync(order_id, client=CLIENT))
    found = list_orders.sync(
        client=CLIENT,
        status=OrderStatus.PAID,
        start_date=order.created_at,
        end_date=order.created_at,
        size=10,
    )
    listed = done(found)
    body = RefundBody(amount="2.00", reason="One was broken")
    given = done(create_refund.sync(order_id, client=CLIENT, body=body))
    return {
        "status": order.status,
        "paidAt": order.paid_at,
        "method": order.payment_method,
        "settledAt": order.settled_at,
        "listed": [one.id for one in listed.items],
        "total": listed.pagination.total,
        "refund": given.id,
    }


def looked(refund_id: str) -> dict[str, Any]:
    """See what became of the refund, what moved on the balance, and what is refused."""
    refund = done(get_refund.sync(refund_id, client=CLIENT))
    moves = done(list_balance_transactions.sync(client=CLIENT))
    unknown = get_order.sync("order_unknown", client=CLIENT)
    return {
        "status": refund.status,
        "amount": refund.amount,
        "succeededAt": refund.succeeded_at,
        "types": [one.type_ for one in moves.items],
        "csv": export_orders.sync(client=CLIENT),
        "unknown": unknown.code if isinstance(unknown, Failure) else None,
    }


def heard(body: str) -> dict[str, Any]:
    """Read the body of an event."""
    event = OrderPaidEvent.from_dict(json.loads(body))
    return {
        "event": event.id,
        "createdAt": event.created_at,
        "order": event.data.order_id,
        "amount": event.data.amount,
        "paidAt": event.data.paid_at,
    }


STAGES = {"open": opened, "refund": refunded, "look": looked, "hear": heard}
json.dump(STAGES[sys.argv[1]](*sys.argv[2:]), sys.stdout)
