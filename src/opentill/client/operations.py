"""The operations of the API: each is one typed function that makes its request.

``asynchronous.py`` and ``blocking.py`` make their methods of these functions, so that both
clients send the same. The operations of webhooks stand in ``webhook_operations.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .model import (
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
from .request import (
    Amount,
    File,
    Moment,
    Request,
    checked_id,
    decimal_text,
    delete,
    get,
    item_fields,
    millis,
    patch,
    post,
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
Locale = Literal["en", "zh-Hans", "zh-Hant"]
CheckoutStatus = Literal["OPEN", "COMPLETE", "EXPIRED"]
DisputeStatus = Literal["OPEN", "WON", "LOST", "RECOVERED"]
PayoutStatus = Literal["PENDING", "PAID", "FAILED"]


def get_agreement() -> Request[Agreement]:
    """Get the merchant services agreement in force. Needs no key and signs nothing."""
    return get("/v1/config/legal/merchant-services-agreement", Agreement)


def create_product(
    *,
    name: str,
    price: Amount,
    currency: str,
    description: str | None = None,
    image: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Request[Product]:
    """Create a product."""
    return post(
        "/v1/products",
        Product,
        idempotency_key,
        name=name,
        price=decimal_text(price),
        currency=currency,
        description=description,
        image=image,
        metadata=metadata,
    )


def list_products(
    *, status: ProductStatus | None = None, page: int = 1, size: int = 100
) -> Request[Page[Product]]:
    """List products, newest first."""
    return get("/v1/products", Page[Product], status=status, page=page, size=size)


def get_product(product_id: str) -> Request[Product]:
    """Get a product, an archived one too."""
    return get(f"/v1/products/{checked_id(product_id)}", Product)


def update_product(
    product_id: str,
    *,
    name: str | UnsetType = UNSET,
    price: Amount | UnsetType = UNSET,
    currency: str | UnsetType = UNSET,
    description: str | UnsetType | None = UNSET,
    image: str | UnsetType | None = UNSET,
    metadata: Mapping[str, Any] | UnsetType = UNSET,
) -> Request[Product]:
    """Update the given fields of a product; None removes a description or image."""
    return patch(
        f"/v1/products/{checked_id(product_id)}",
        Product,
        name=name,
        price=price if price is UNSET else decimal_text(price),
        currency=currency,
        description=description,
        image=image,
        metadata=metadata,
    )


def archive_product(product_id: str) -> Request[None]:
    """Archive a product: no session can be created for it any more."""
    return delete(f"/v1/products/{checked_id(product_id)}")


def create_checkout(  # noqa: PLR0913 - the fields of a session
    product_id: str | None = None,
    *,
    item: Mapping[str, Any] | None = None,
    quantity: int | None = None,
    success_url: str | None = None,
    cancel_url: str | None = None,
    customer_email: str | None = None,
    customer_name: str | None = None,
    display_merchant_name: str | None = None,
    expires_in: int | None = None,
    payment_methods: Sequence[str] | None = None,
    locale: Locale | None = None,
    client_reference: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Request[NewCheckout]:
    """Create a checkout session. Send the customer to the response's ``url``.

    In place of a product, ``item`` is what is sold: ``name``, ``price``, ``currency`` and, if you
    like, ``description`` and ``image``. ``expires_in`` is in milliseconds.
    """
    return post(
        "/v1/checkouts",
        NewCheckout,
        idempotency_key,
        product_id=product_id,
        item=item and item_fields(item),
        quantity=quantity,
        success_url=success_url,
        cancel_url=cancel_url,
        customer_email=customer_email,
        customer_name=customer_name,
        display_merchant_name=display_merchant_name,
        expires_in=expires_in,
        payment_methods=payment_methods and list(payment_methods),
        locale=locale,
        client_reference=client_reference,
        metadata=metadata,
    )


def get_checkout(checkout_id: str) -> Request[Checkout]:
    """Get a checkout session with its order's id."""
    return get(f"/v1/checkouts/{checked_id(checkout_id)}", Checkout)


def expire_checkout(checkout_id: str, *, idempotency_key: str | None = None) -> Request[Checkout]:
    """Expire a checkout session: it cannot be paid any more."""
    return post(f"/v1/checkouts/{checked_id(checkout_id)}/expire", Checkout, idempotency_key)


def list_checkouts(
    *,
    status: CheckoutStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Checkout]]:
    """List checkout sessions, newest first; both dates are inclusive."""
    return get(
        "/v1/checkouts",
        Page[Checkout],
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        start_date=millis(start_date),
        end_date=millis(end_date),
        page=page,
        size=size,
    )


def list_orders(  # noqa: PLR0913 - the filters of the list
    *,
    status: OrderStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    amount: Amount | None = None,
    metadata: Mapping[str, str] | None = None,
    query: str | None = None,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Order]]:
    """List orders, newest first; both dates are inclusive.

    ``metadata`` are keys with their values. ``query`` is an id, a number, an e-mail, your own
    reference, a value of the metadata or an amount.
    """
    return get(
        "/v1/orders",
        Page[Order],
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        amount=None if amount is None else decimal_text(amount),
        metadata=metadata,
        query=query,
        start_date=millis(start_date),
        end_date=millis(end_date),
        page=page,
        size=size,
    )


def get_order(order_id: str) -> Request[OrderDetail]:
    """Get an order with all its fields."""
    return get(f"/v1/orders/{checked_id(order_id)}", OrderDetail)


def export_orders(  # noqa: PLR0913 - likewise
    *,
    status: OrderStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    amount: Amount | None = None,
    metadata: Mapping[str, str] | None = None,
    query: str | None = None,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    bom: bool | None = None,
) -> Request[File]:
    """Export orders as CSV, oldest first; both dates are inclusive. Filters as ``list_orders``.

    ``bom``: it begins with a byte order mark, for spreadsheets.
    """
    return get(
        "/v1/orders/export",
        File,
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        amount=None if amount is None else decimal_text(amount),
        metadata=metadata,
        query=query,
        start_date=millis(start_date),
        end_date=millis(end_date),
        bom=bom,
    )


def create_refund(
    order_id: str,
    *,
    amount: Amount | None = None,
    reason: str | None = None,
    refund_no: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Refund]:
    """Refund an order; without an amount, all that is left."""
    return post(
        f"/v1/orders/{checked_id(order_id)}/refunds",
        Refund,
        idempotency_key,
        amount=None if amount is None else decimal_text(amount),
        reason=reason,
        refund_no=refund_no,
    )


def list_refunds(order_id: str, *, page: int = 1, size: int = 100) -> Request[Page[Refund]]:
    """List an order's refunds, newest first."""
    return get(f"/v1/orders/{checked_id(order_id)}/refunds", Page[Refund], page=page, size=size)


def get_refund(refund_id: str) -> Request[Refund]:
    """Get a refund."""
    return get(f"/v1/refunds/{checked_id(refund_id)}", Refund)


def list_disputes(
    *,
    status: DisputeStatus | None = None,
    order_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Dispute]]:
    """List disputes, newest first."""
    return get(
        "/v1/disputes",
        Page[Dispute],
        status=status,
        order_id=order_id,
        page=page,
        size=size,
    )


def get_dispute(dispute_id: str) -> Request[DisputeDetail]:
    """Get a dispute with its notes."""
    return get(f"/v1/disputes/{checked_id(dispute_id)}", DisputeDetail)


def list_payouts(
    *, status: PayoutStatus | None = None, page: int = 1, size: int = 100
) -> Request[Page[Payout]]:
    """List payouts, newest first."""
    return get("/v1/payouts", Page[Payout], status=status, page=page, size=size)


def get_payout(payout_id: str) -> Request[Payout]:
    """Get a payout."""
    return get(f"/v1/payouts/{checked_id(payout_id)}", Payout)


def get_balance() -> Request[Balance]:
    """Get the balance."""
    return get("/v1/balance", Balance)


def list_balance_transactions(
    *,
    type: str | None = None,  # noqa: A002 - the contract's word
    page: int = 1,
    size: int = 100,
) -> Request[Page[Transaction]]:
    """List balance transactions, newest first."""
    return get("/v1/balance/transactions", Page[Transaction], type=type, page=page, size=size)


def export_statement(
    *,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    bom: bool | None = None,
) -> Request[File]:
    """Export a statement as CSV; it adds up, or it breaks off. Both dates are inclusive.

    ``bom``: it begins with a byte order mark, for spreadsheets.
    """
    return get(
        "/v1/balance/statement.csv",
        File,
        start_date=millis(start_date),
        end_date=millis(end_date),
        bom=bom,
    )
