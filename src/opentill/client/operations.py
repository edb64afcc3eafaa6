"""Operations of the API: each is one typed function that makes its request.

``asynchronous.py`` and ``blocking.py`` make their methods of these functions, so that both
clients send the same.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .event import Event
from .event_reading import EventList
from .model import (
    Agreement,
    Balance,
    Checkout,
    Delivery,
    Dispute,
    DisputeDetail,
    NewCheckout,
    Order,
    OrderDetail,
    PaymentLink,
    Payout,
    Product,
    Refund,
    Resent,
    Transaction,
    WebhookEndpoint,
    WebhookEndpointWithSecret,
)
from .pages import Page
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

CheckoutStatus = Literal["COMPLETE", "EXPIRED", "OPEN"]
DeliveryStatus = Literal["FAILED", "PENDING", "SUCCEEDED"]
DisputeStatus = Literal["LOST", "OPEN", "RECOVERED", "WON"]
EndpointStatus = Literal["DISABLED", "ENABLED"]
Locale = Literal["de", "en", "es", "fr", "ja", "pt", "zh-Hans", "zh-Hant"]
OrderStatus = Literal[
    "CHARGEBACK",
    "CLOSED",
    "CREATING",
    "DISPUTED",
    "FAILED",
    "PAID",
    "PENDING",
    "REFUNDED",
    "REVOKED",
    "SETTLED",
]
PayoutStatus = Literal["FAILED", "PAID", "PENDING"]
ProductStatus = Literal["ACTIVE", "ARCHIVED"]


def get_agreement() -> Request[Agreement]:
    """Get the merchant services agreement.

    Needs no API key. Reading the agreement neither signs it nor changes the account's agreement
    status.
    """
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
    """Create a product.

    A product has one price in one currency. Checkout sessions are opened for products. If the
    currency is not your settlement currency, you can create the product at any time, but no
    session can be opened for it until the operator has set an exchange rate. Scope:
    ``products:write``.
    """
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
    """List products.

    Products are listed newest first, with archived ones unless ``status`` says otherwise.
    Scope: ``products:read``.
    """
    return get("/v1/products", Page[Product], status=status, page=page, size=size)


def get_product(product_id: str) -> Request[Product]:
    """Get a product.

    An archived product can be read like any other. Scope: ``products:read``.
    """
    return get(f"/v1/products/{checked_id(product_id)}", Product)


def update_product(
    product_id: str,
    *,
    name: str | UnsetType = UNSET,
    price: Amount | UnsetType = UNSET,
    currency: str | UnsetType = UNSET,
    description: str | UnsetType | None = UNSET,
    image: str | UnsetType | None = UNSET,
    metadata: Mapping[str, Any] | UnsetType | None = UNSET,
) -> Request[Product]:
    """Update a product.

    Only the fields that are sent change; open sessions keep the price they were opened with.
    Scope: ``products:write``.
    """
    return patch(
        f"/v1/products/{checked_id(product_id)}",
        Product,
        name=name,
        price=price if isinstance(price, UnsetType) else decimal_text(price),
        currency=currency,
        description=description,
        image=image,
        metadata=metadata,
    )


def archive_product(product_id: str) -> Request[None]:
    """Archive a product.

    The product stays readable, and no new checkout sessions can use it. Scope:
    ``products:write``.
    """
    return delete(f"/v1/products/{checked_id(product_id)}")


def create_checkout(
    product_id: str | None = None,
    *,
    success_url: str | None = None,
    cancel_url: str | None = None,
    customer_email: str | None = None,
    customer_name: str | None = None,
    display_merchant_name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    item: Mapping[str, Any] | None = None,
    quantity: int | None = None,
    expires_in: int | None = None,
    payment_methods: Sequence[str] | None = None,
    locale: Locale | None = None,
    client_reference: str | None = None,
    idempotency_key: str | None = None,
) -> Request[NewCheckout]:
    """Create a checkout session.

    Send the customer to the ``url`` of the response. The session lasts 24 hours, or
    ``expires_in``. It sells a product, or an ``item`` with a price of its own, such as a cart's
    total. Anyone with the ``url`` can see the prefilled values. ``display_merchant_name`` and
    ``customer_name`` are accepted as other spellings. Scope: ``checkouts:write``.
    """
    return post(
        "/v1/checkouts",
        NewCheckout,
        idempotency_key,
        product_id=product_id,
        success_url=success_url,
        cancel_url=cancel_url,
        customer_email=customer_email,
        customer_name=customer_name,
        display_merchant_name=display_merchant_name,
        metadata=metadata,
        item=None if item is None else item_fields(item),
        quantity=quantity,
        expires_in=expires_in,
        payment_methods=None if payment_methods is None else list(payment_methods),
        locale=locale,
        client_reference=client_reference,
    )


def list_checkouts(
    *,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    status: CheckoutStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Checkout]]:
    """List checkout sessions.

    Newest first. ``start_date`` and ``end_date`` are about when sessions were created, both
    inclusive; ``customer_email`` is the email of the session's order, given by you or by its
    customer. Scope: ``checkouts:read``.
    """
    return get(
        "/v1/checkouts",
        Page[Checkout],
        start_date=millis(start_date),
        end_date=millis(end_date),
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        page=page,
        size=size,
    )


def get_checkout(checkout_id: str) -> Request[Checkout]:
    """Get a checkout session.

    The response has the id of the session's order, which exists from the beginning. Scope:
    ``checkouts:read``.
    """
    return get(f"/v1/checkouts/{checked_id(checkout_id)}", Checkout)


def expire_checkout(checkout_id: str, *, idempotency_key: str | None = None) -> Request[Checkout]:
    """Expire a checkout session.

    Ends an open session: nobody can pay it any more. Scope: ``checkouts:write``.
    """
    return post(f"/v1/checkouts/{checked_id(checkout_id)}/expire", Checkout, idempotency_key)


def create_payment_link(
    product_id: str | None = None,
    *,
    item: Mapping[str, Any] | None = None,
    max_quantity: int | None = None,
    expires_at: Moment | None = None,
    max_uses: int | None = None,
    success_url: str | None = None,
    payment_methods: Sequence[str] | None = None,
    locale: Locale | None = None,
    client_reference: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Request[PaymentLink]:
    """Create a payment link.

    Give the ``url`` to any number of customers: each customer who continues gets a checkout
    session of their own. A link sells a product, or an ``item`` with a price or with bounds for
    the amount that the customer enters. Scope: ``payment-links:write``.
    """
    return post(
        "/v1/payment-links",
        PaymentLink,
        idempotency_key,
        product_id=product_id,
        item=None if item is None else item_fields(item),
        max_quantity=max_quantity,
        expires_at=millis(expires_at),
        max_uses=max_uses,
        success_url=success_url,
        payment_methods=None if payment_methods is None else list(payment_methods),
        locale=locale,
        client_reference=client_reference,
        metadata=metadata,
    )


def list_payment_links(
    *, active: bool | None = None, page: int = 1, size: int = 100
) -> Request[Page[PaymentLink]]:
    """List payment links.

    Payment links are listed newest first. Scope: ``payment-links:read``.
    """
    return get("/v1/payment-links", Page[PaymentLink], active=active, page=page, size=size)


def get_payment_link(payment_link_id: str) -> Request[PaymentLink]:
    """Get a payment link.

    The response has what the link has sold. Scope: ``payment-links:read``.
    """
    return get(f"/v1/payment-links/{checked_id(payment_link_id)}", PaymentLink)


def update_payment_link(
    payment_link_id: str,
    *,
    active: bool | UnsetType = UNSET,
    item: Mapping[str, Any] | UnsetType = UNSET,
    max_quantity: int | UnsetType = UNSET,
    expires_at: Moment | UnsetType | None = UNSET,
    max_uses: int | UnsetType | None = UNSET,
    success_url: str | UnsetType | None = UNSET,
    client_reference: str | UnsetType | None = UNSET,
    metadata: Mapping[str, Any] | UnsetType | None = UNSET,
) -> Request[PaymentLink]:
    """Update a payment link.

    Only the fields that are sent change. The product or item and its price stay the same, but
    an item can get another name. Open sessions do not change. Scope: ``payment-links:write``.
    """
    return patch(
        f"/v1/payment-links/{checked_id(payment_link_id)}",
        PaymentLink,
        active=active,
        item=item if isinstance(item, UnsetType) else item_fields(item),
        max_quantity=max_quantity,
        expires_at=expires_at if isinstance(expires_at, UnsetType) else millis(expires_at),
        max_uses=max_uses,
        success_url=success_url,
        client_reference=client_reference,
        metadata=metadata,
    )


def list_orders(
    *,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    status: OrderStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    amount: Amount | None = None,
    metadata: Mapping[str, str] | None = None,
    query: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Order]]:
    """List orders.

    Newest first. ``start_date`` and ``end_date`` are about when orders were created, both
    inclusive. Orders match all of the filters. ``query`` searches customers, amounts, cards,
    ids, numbers and metadata, and finds an order as soon as it exists. Scope: ``orders:read``.
    """
    return get(
        "/v1/orders",
        Page[Order],
        start_date=millis(start_date),
        end_date=millis(end_date),
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        amount=None if amount is None else decimal_text(amount),
        metadata=metadata,
        query=query,
        page=page,
        size=size,
    )


def export_orders(
    *,
    start_date: Moment | None = None,
    end_date: Moment | None = None,
    status: OrderStatus | None = None,
    product_id: str | None = None,
    customer_email: str | None = None,
    amount: Amount | None = None,
    metadata: Mapping[str, str] | None = None,
    query: str | None = None,
    bom: bool | None = None,
) -> Request[File]:
    """Export orders.

    UTF-8 CSV (RFC 4180) with a header row, oldest order first. ``start_date`` and ``end_date``
    are about when orders were created, both inclusive. A merchant can run four exports at the
    same time; one more gets 429 with Retry-After. The filters are the same as those of the
    list. Scope: ``orders:export``.
    """
    return get(
        "/v1/orders/export",
        File,
        start_date=millis(start_date),
        end_date=millis(end_date),
        status=status,
        product_id=product_id,
        customer_email=customer_email,
        amount=None if amount is None else decimal_text(amount),
        metadata=metadata,
        query=query,
        bom=bom,
    )


def get_order(order_id: str) -> Request[OrderDetail]:
    """Get an order.

    An order by its id, or by its Epay ``trade_no``. Fulfill the order when its ``status`` is
    PAID or SETTLED. Scope: ``orders:read``.
    """
    return get(f"/v1/orders/{checked_id(order_id)}", OrderDetail)


def create_refund(
    order_id: str,
    *,
    amount: Amount | None = None,
    reason: str | None = None,
    refund_no: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Refund]:
    """Create a refund.

    Refunds a payment in full or in part. Without ``amount``, everything that has not been
    refunded yet is refunded. The amount is held at once; the refund is PROCESSING until the
    bank confirms or refuses it. Scope: ``refunds:write``.
    """
    return post(
        f"/v1/orders/{checked_id(order_id)}/refunds",
        Refund,
        idempotency_key,
        amount=None if amount is None else decimal_text(amount),
        reason=reason,
        refund_no=refund_no,
    )


def list_refunds(order_id: str, *, page: int = 1, size: int = 100) -> Request[Page[Refund]]:
    """List an order's refunds.

    Refunds are listed newest first, with those that failed. Scope: ``refunds:read``.
    """
    return get(f"/v1/orders/{checked_id(order_id)}/refunds", Page[Refund], page=page, size=size)


def get_refund(refund_id: str) -> Request[Refund]:
    """Get a refund.

    ``status`` says whether the bank has sent the money. Scope: ``refunds:read``.
    """
    return get(f"/v1/refunds/{checked_id(refund_id)}", Refund)


def list_disputes(
    *,
    status: DisputeStatus | None = None,
    order_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Dispute]]:
    """List disputes.

    Disputes are listed newest first. ``debit`` and ``fee`` are what losing the dispute takes
    from the balance, in ``debit_currency``. Scope: ``disputes:read``.
    """
    return get(
        "/v1/disputes", Page[Dispute], status=status, order_id=order_id, page=page, size=size
    )


def get_dispute(dispute_id: str) -> Request[DisputeDetail]:
    """Get a dispute.

    The response has the notes of the operator and of your team, oldest first. Scope:
    ``disputes:read``.
    """
    return get(f"/v1/disputes/{checked_id(dispute_id)}", DisputeDetail)


def list_payouts(
    *, status: PayoutStatus | None = None, page: int = 1, size: int = 100
) -> Request[Page[Payout]]:
    """List payouts.

    Payouts are listed newest first. The operator creates them: a payout is PENDING until the
    bank has sent it; the amount and fee of one that FAILED are on the balance again. Scope:
    ``payouts:read``.
    """
    return get("/v1/payouts", Page[Payout], status=status, page=page, size=size)


def get_payout(payout_id: str) -> Request[Payout]:
    """Get a payout.

    The response has the bank's reference once the bank has sent the payout. Scope:
    ``payouts:read``.
    """
    return get(f"/v1/payouts/{checked_id(payout_id)}", Payout)


def list_balance_transactions(
    *, type: str | None = None, page: int = 1, size: int = 100
) -> Request[Page[Transaction]]:
    """List balance transactions.

    All transactions, newest first, each with the balances after it. Scope: ``balance:read``.
    """
    return get("/v1/balance/transactions", Page[Transaction], type=type, page=page, size=size)


def export_statement(
    *, start_date: Moment | None = None, end_date: Moment | None = None, bom: bool | None = None
) -> Request[File]:
    """Export a statement.

    For each currency and account, the file has the opening balance, every movement with the
    balances after it, the sums by type and the closing balance: UTF-8 CSV (RFC 4180) with a
    header row. If the sums do not add up, the file ends early. Scope: ``balance:read``.
    """
    return get(
        "/v1/balance/statement.csv",
        File,
        start_date=millis(start_date),
        end_date=millis(end_date),
        bom=bom,
    )


def get_balance() -> Request[Balance]:
    """Get the balance.

    ``updated_at`` is null before the first movement. Scope: ``balance:read``.
    """
    return get("/v1/balance", Balance)


def create_endpoint(
    url: str,
    *,
    description: str | None = None,
    events: Sequence[str] | None = None,
    idempotency_key: str | None = None,
) -> Request[WebhookEndpointWithSecret]:
    """Create a webhook endpoint.

    Events are sent to the ``url``, signed with the ``secret``, which is shown only here.
    Respond with 2xx within 30 seconds; otherwise an event is sent again after 1 min, 5 min, 30
    min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h. Scope: ``webhooks:write``.
    """
    return post(
        "/v1/webhook-endpoints",
        WebhookEndpointWithSecret,
        idempotency_key,
        url=url,
        description=description,
        events=None if events is None else list(events),
    )


def list_endpoints(*, page: int = 1, size: int = 100) -> Request[Page[WebhookEndpoint]]:
    """List webhook endpoints.

    Endpoints are listed newest first, without their secrets. Scope: ``webhooks:read``.
    """
    return get("/v1/webhook-endpoints", Page[WebhookEndpoint], page=page, size=size)


def get_endpoint(endpoint_id: str) -> Request[WebhookEndpoint]:
    """Get a webhook endpoint.

    ``disabled_reason`` says why the service has disabled the endpoint. Scope:
    ``webhooks:read``.
    """
    return get(f"/v1/webhook-endpoints/{checked_id(endpoint_id)}", WebhookEndpoint)


def update_endpoint(
    endpoint_id: str,
    *,
    url: str | UnsetType = UNSET,
    description: str | UnsetType = UNSET,
    events: Sequence[str] | UnsetType = UNSET,
    status: EndpointStatus | UnsetType = UNSET,
) -> Request[WebhookEndpoint]:
    """Update a webhook endpoint.

    Nothing is sent to an endpoint while it is DISABLED, and events of that time are not sent
    later: read them from ``/v1/events``, or resend them. Scope: ``webhooks:write``.
    """
    return patch(
        f"/v1/webhook-endpoints/{checked_id(endpoint_id)}",
        WebhookEndpoint,
        url=url,
        description=description,
        events=events if isinstance(events, UnsetType) else list(events),
        status=status,
    )


def delete_endpoint(endpoint_id: str) -> Request[None]:
    """Delete a webhook endpoint.

    Deliveries that wait for the endpoint are not sent. Scope: ``webhooks:write``.
    """
    return delete(f"/v1/webhook-endpoints/{checked_id(endpoint_id)}")


def rotate_secret(
    endpoint_id: str, *, idempotency_key: str | None = None
) -> Request[WebhookEndpointWithSecret]:
    """Rotate a webhook secret.

    For 24 hours both secrets sign: ``webhook-signature`` has both, ``X-Svc-Signature`` is by
    the new one and ``X-Svc-Signature-Old`` by the one before (a deployment may have another
    prefix than ``X-Svc-``: see the headers of the webhooks). Scope: ``webhooks:write``.
    """
    return post(
        f"/v1/webhook-endpoints/{checked_id(endpoint_id)}/rotate-secret",
        WebhookEndpointWithSecret,
        idempotency_key,
    )


def list_deliveries(
    endpoint_id: str,
    *,
    status: DeliveryStatus | None = None,
    type: str | None = None,
    event_id: str | None = None,
    page: int = 1,
    size: int = 100,
) -> Request[Page[Delivery]]:
    """List webhook deliveries.

    Lists every event that was or will be sent to the endpoint, newest first, with its last 20
    attempts. Deliveries are kept for 30 days. Scope: ``events:read``.
    """
    return get(
        f"/v1/webhook-endpoints/{checked_id(endpoint_id)}/deliveries",
        Page[Delivery],
        status=status,
        type=type,
        event_id=event_id,
        page=page,
        size=size,
    )


def resend_events(
    endpoint_id: str,
    *,
    event_id: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    type: str | None = None,
    failed_only: bool | None = None,
    after: str | None = None,
    idempotency_key: str | None = None,
) -> Request[Resent]:
    """Resend events.

    Resends one event by ``event_id``, or all events since a time, 1,000 in a call: continue
    with ``after`` set to ``next`` until that is null. The calls of a minute are limited. Scope:
    ``events:write``.
    """
    return post(
        f"/v1/webhook-endpoints/{checked_id(endpoint_id)}/resend",
        Resent,
        idempotency_key,
        event_id=event_id,
        since=millis(since),
        until=millis(until),
        type=type,
        failed_only=failed_only,
        after=after,
    )


def send_test_event(endpoint_id: str, *, idempotency_key: str | None = None) -> Request[Delivery]:
    """Send a test event.

    Sends a ``webhook.test`` to this endpoint alone, whatever types it subscribes to, signed
    like any event and attempted once. No list of events has it, because nothing has happened.
    The deliveries show its result, by ``event_id``. The calls of a minute are limited, together
    with those that resend events. Scope: ``events:write``.
    """
    return post(f"/v1/webhook-endpoints/{checked_id(endpoint_id)}/test", Delivery, idempotency_key)


def list_events(
    *,
    cursor: str | None = None,
    type: str | None = None,
    resent: bool | None = None,
    size: int = 100,
) -> Request[EventList]:
    """List events.

    Events are listed oldest first, as they are delivered, and kept for 90 days. Store the
    ``cursor`` and send it with the next request: no event is ever skipped. Begin with
    ``latest`` to read only what happens from now on. Scope: ``events:read``.
    """
    return get("/v1/events", EventList, cursor=cursor, type=type, resent=resent, size=size)


def get_event(event_id: str) -> Request[Event]:
    """Get an event.

    The response has the same bytes as the delivery of the event. Scope: ``events:read``.
    """
    return get(f"/v1/events/{checked_id(event_id)}", Event)
