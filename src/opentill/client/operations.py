"""The operations of the API: each is one function that makes its call.

Both clients are made of these functions, so that they cannot differ: ``blocking.py`` and
``asynchronous.py`` say how a call is sent, and nothing about what it says.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from opentill.client.calls import (
    Amount,
    Call,
    File,
    Moment,
    asked,
    decimal_text,
    given,
    millis,
    sent,
)
from opentill.client.calls import identified as of
from opentill.client.model import (
    Agreement,
    Balance,
    Checkout,
    Dispute,
    DisputeDetail,
    NewCheckout,
    Order,
    OrderDetail,
    Page,
    Payout,
    Product,
    Refund,
    Transaction,
)

ProductStatus = Literal["ACTIVE", "ARCHIVED"]
OrderStatus = Literal[
    "CREATING",
    "PENDING",
    "PAID",
    "SETTLED",
    "REFUNDED",
    "DISPUTED",
    "CHARGEBACK",
    "FAILED",
    "CLOSED",
    "REVOKED",
]
DisputeStatus = Literal["OPEN", "WON", "LOST", "RECOVERED"]
PayoutStatus = Literal["PENDING", "PAID", "FAILED"]


def read_agreement() -> Call[Agreement]:
    """Read the merchant services agreement in force. Needs no key and signs nothing."""
    path = "/v1/config/legal/merchant-services-agreement"
    return Call(verb="GET", path=path, answer=Agreement)


def create_product(
    *,
    name: str,
    price: Amount,
    currency: str,
    description: str | None = None,
    image: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Product]:
    """Make a product."""
    body = given(
        name=name,
        price=decimal_text(price),
        currency=currency,
        description=description,
        image=image,
        metadata=metadata,
    )
    return Call(verb="POST", path="/v1/products", answer=Product, body=body, key=idempotency_key)


def list_products(
    *, status: ProductStatus | None = None, page: int = 1, size: int = 100
) -> Call[Page[Product]]:
    """List products, newest first."""
    query = asked(status=status, page=page, size=size)
    return Call(verb="GET", path="/v1/products", answer=Page[Product], query=query)


def read_product(product_id: str) -> Call[Product]:
    """Read a product, an archived one too."""
    return Call(verb="GET", path=f"/v1/products/{of(product_id)}", answer=Product)


def change_product(
    product_id: str,
    *,
    name: str | UnsetType = UNSET,
    price: Amount | UnsetType = UNSET,
    currency: str | UnsetType = UNSET,
    description: str | UnsetType | None = UNSET,
    image: str | UnsetType | None = UNSET,
    metadata: Mapping[str, Any] | UnsetType = UNSET,
) -> Call[Product]:
    """Change what is given of a product; None takes a description or image away."""
    body = sent(
        name=name,
        price=price if price is UNSET else decimal_text(price),
        currency=currency,
        description=description,
        image=image,
        metadata=metadata,
    )
    return Call(verb="PATCH", path=f"/v1/products/{of(product_id)}", answer=Product, body=body)


def archive_product(product_id: str) -> Call[None]:
    """Archive a product: nobody can open a session for it any more."""
    return Call(verb="DELETE", path=f"/v1/products/{of(product_id)}", answer=None)


def open_checkout(  # noqa: PLR0913 - the fields of a session
    product_id: str,
    *,
    success_url: str | None = None,
    cancel_url: str | None = None,
    customer_email: str | None = None,
    customer_name: str | None = None,
    display_merchant_name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[NewCheckout]:
    """Open a checkout session. Send the customer to the answer's ``url``."""
    body = given(
        product_id=product_id,
        success_url=success_url,
        cancel_url=cancel_url,
        customer_email=customer_email,
        customer_name=customer_name,
        display_merchant_name=display_merchant_name,
        metadata=metadata,
    )
    return Call(
        verb="POST", path="/v1/checkouts", answer=NewCheckout, body=body, key=idempotency_key
    )


def read_checkout(checkout_id: str) -> Call[Checkout]:
    """Read a checkout session with its order's id."""
    return Call(verb="GET", path=f"/v1/checkouts/{of(checkout_id)}", answer=Checkout)


def expire_checkout(checkout_id: str, *, idempotency_key: str | None = None) -> Call[Checkout]:
    """Expire a checkout session: nobody can pay it any more."""
    path = f"/v1/checkouts/{of(checkout_id)}/expire"
    return Call(verb="POST", path=path, answer=Checkout, key=idempotency_key)


def list_orders(
    *,
    status: OrderStatus | None = None,
    product_id: str | None = None,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    page: int = 1,
    size: int = 100,
) -> Call[Page[Order]]:
    """List orders, newest first; both dates are inclusive."""
    query = asked(
        status=status,
        product_id=product_id,
        start_date=millis(start_date),
        end_date=millis(end_date),
        page=page,
        size=size,
    )
    return Call(verb="GET", path="/v1/orders", answer=Page[Order], query=query)


def read_order(order_id: str) -> Call[OrderDetail]:
    """Read an order with everything."""
    return Call(verb="GET", path=f"/v1/orders/{of(order_id)}", answer=OrderDetail)


def export_orders(
    *, start_date: Moment | None = None, end_date: Moment | None = None
) -> Call[File]:
    """Export orders as CSV, oldest first; both dates are inclusive."""
    query = asked(start_date=millis(start_date), end_date=millis(end_date))
    return Call(verb="GET", path="/v1/orders/export", answer=File, query=query)


def refund_order(
    order_id: str,
    *,
    amount: Amount | None = None,
    reason: str | None = None,
    refund_no: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Refund]:
    """Refund an order; without an amount, all that is left."""
    path = f"/v1/orders/{of(order_id)}/refunds"
    part = None if amount is None else decimal_text(amount)
    body = given(amount=part, reason=reason, refund_no=refund_no)
    return Call(verb="POST", path=path, answer=Refund, body=body, key=idempotency_key)


def list_refunds(order_id: str, *, page: int = 1, size: int = 100) -> Call[Page[Refund]]:
    """List an order's refunds, newest first."""
    path = f"/v1/orders/{of(order_id)}/refunds"
    return Call(verb="GET", path=path, answer=Page[Refund], query=asked(page=page, size=size))


def read_refund(refund_id: str) -> Call[Refund]:
    """Read a refund."""
    return Call(verb="GET", path=f"/v1/refunds/{of(refund_id)}", answer=Refund)


def list_disputes(
    *,
    status: DisputeStatus | None = None,
    order_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Call[Page[Dispute]]:
    """List disputes, newest first."""
    query = asked(status=status, order_id=order_id, page=page, size=size)
    return Call(verb="GET", path="/v1/disputes", answer=Page[Dispute], query=query)


def read_dispute(dispute_id: str) -> Call[DisputeDetail]:
    """Read a dispute with its notes."""
    return Call(verb="GET", path=f"/v1/disputes/{of(dispute_id)}", answer=DisputeDetail)


def list_payouts(
    *, status: PayoutStatus | None = None, page: int = 1, size: int = 100
) -> Call[Page[Payout]]:
    """List payouts, newest first."""
    query = asked(status=status, page=page, size=size)
    return Call(verb="GET", path="/v1/payouts", answer=Page[Payout], query=query)


def read_payout(payout_id: str) -> Call[Payout]:
    """Read a payout."""
    return Call(verb="GET", path=f"/v1/payouts/{of(payout_id)}", answer=Payout)


def read_balance() -> Call[Balance]:
    """Read the balance."""
    return Call(verb="GET", path="/v1/balance", answer=Balance)


def list_transactions(
    *,
    type: str | None = None,  # noqa: A002 - the contract's word
    page: int = 1,
    size: int = 100,
) -> Call[Page[Transaction]]:
    """List the movements on the balance, newest first."""
    query = asked(type=type, page=page, size=size)
    return Call(verb="GET", path="/v1/balance/transactions", answer=Page[Transaction], query=query)


def export_statement(
    *, start_date: Moment | None = None, end_date: Moment | None = None
) -> Call[File]:
    """Export a statement as CSV; it adds up, or it breaks off. Both dates are inclusive."""
    query = asked(start_date=millis(start_date), end_date=millis(end_date))
    return Call(verb="GET", path="/v1/balance/statement.csv", answer=File, query=query)
