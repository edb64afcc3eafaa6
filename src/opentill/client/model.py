"""Resources of the API. Amounts are ``Decimal``, times Unix milliseconds.

Fields that a newer server adds are ignored. Statuses and types are plain text for the same
reason: a program that reads them must not break when a new one appears.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from decimal import Decimal
from typing import Any

import msgspec

Metadata = dict[str, Any]


class Agreement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The agreement in force. Digests are SHA-256 in lower-case hexadecimal.

    ``template_sha256`` is the digest of the template's bytes, ``rendered_document_sha256`` the
    digest of ``markdown_content`` as UTF-8.
    """

    agreement_version: str
    effective_date: str
    effective_date_display: str
    template_sha256: str
    rendered_document_sha256: str
    markdown_content: str
    acceptance_statement: str
    action_label: str
    document_url: str


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A product, for which checkout sessions are opened."""

    id: str
    name: str
    description: str
    image: str | None = None
    price: Decimal
    currency: str
    status: str  # one of ACTIVE, ARCHIVED
    metadata: Metadata
    created_at: int
    updated_at: int


class NewCheckout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The response to opening a session: all but the id of its order.

    An optional field is included only if the request had it.
    """

    id: str
    product_id: str
    amount: Decimal
    currency: str
    status: str  # one of COMPLETE, EXPIRED, OPEN
    url: str
    expires_at: int
    created_at: int
    quantity: int = 1
    payment_methods: list[str] | None = None
    locale: str | None = None  # one of de, en, es, fr, ja, pt, zh-Hans, zh-Hant
    client_reference: str | None = None


class Checkout(NewCheckout, frozen=True, kw_only=True, rename="camel"):
    """A session, with its order."""

    order_id: str


class PaymentLinkItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The item that a payment link sells, if it sells no product."""

    name: str
    currency: str
    price: Decimal | None = None
    min_amount: Decimal | None = None
    max_amount: Decimal | None = None
    description: str
    image: str | None = None


class PaymentLinkSales(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The sales through a payment link in one currency."""

    currency: str
    payments: int
    amount: Decimal


class PaymentLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payment link."""

    id: str
    url: str
    status: str  # one of ACTIVE, EXPIRED, INACTIVE, USED_UP
    active: bool
    product_id: str | None = None
    item: PaymentLinkItem | None = None
    max_quantity: int
    expires_at: int | None = None
    max_uses: int | None = None
    open_sessions: int
    payments: int
    sales: list[PaymentLinkSales]
    success_url: str | None = None
    payment_methods: list[str] | None = None
    locale: str | None = None  # one of de, en, es, fr, ja, pt, zh-Hans, zh-Hant
    client_reference: str | None = None
    metadata: Metadata
    created_at: int
    updated_at: int


class Order(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order in a list."""

    id: str
    checkout_session_id: str
    product_id: str
    customer_email: str
    customer_name: str | None = None
    amount: Decimal
    currency: str
    platform_fee_rate: Decimal
    platform_fee: Decimal
    net_amount: Decimal
    settled_amount: Decimal
    settled_currency: str
    exchange_rate: Decimal
    hkd_exchange_rate: Decimal | None = None
    payment_method: str | None = None
    status: str
    paid_at: int | None = None
    settled_at: int | None = None
    metadata: Metadata
    created_at: int
    livemode: bool
    quantity: int = 1
    client_reference: str | None = None
    payment_link_id: str | None = None


class OrderDetail(Order, frozen=True, kw_only=True, rename="camel"):
    """An order with all its details."""

    base_amount: Decimal
    payable_amount: Decimal
    refund_status: str  # one of FULL, NONE, PARTIAL
    refunded_amount: Decimal
    payer_ip: str
    updated_at: int
    rolling_reserve_rate: Decimal
    rolling_reserve_amount: Decimal
    rolling_reserve_status: str  # one of HELD, NONE, OFFSET, RELEASED
    rolling_reserve_release_at: int | None = None
    card_brand: str | None = None
    card_last4: str | None = None


class Refund(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refund of an order."""

    id: str
    merchant_id: str
    order_id: str
    refund_no: str | None = None
    status: str  # one of FAILED, PROCESSING, SUCCEEDED
    source: str  # one of GATEWAY, REQUEST
    amount: Decimal
    currency: str
    user_refund_amount_usd: Decimal
    merchant_debit_usd: Decimal
    reason: str
    error_message: str | None = None
    created_at: int
    updated_at: int
    succeeded_at: int | None = None
    failed_at: int | None = None


class Dispute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A dispute in a list. Losing it takes ``debit`` and ``fee`` from the balance."""

    id: str
    order_id: str
    status: str  # one of LOST, OPEN, RECOVERED, WON
    amount: Decimal
    currency: str
    debit: Decimal
    fee: Decimal
    debit_currency: str
    reason: str
    respond_by: int | None = None
    created_at: int
    updated_at: int
    closed_at: int | None = None


class DisputeNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A note about a dispute."""

    at: int
    note: str


class DisputeDetail(Dispute, frozen=True, kw_only=True, rename="camel"):
    """A single dispute, with its notes, oldest first."""

    notes: list[DisputeNote]


class Payout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payout: money that is sent to the merchant's bank."""

    id: str
    status: str  # one of FAILED, PAID, PENDING
    amount: Decimal
    fee: Decimal
    currency: str
    bank_reference: str | None = None
    failure_reason: str | None = None
    created_at: int
    updated_at: int
    paid_at: int | None = None
    failed_at: int | None = None


class Transaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A movement on the balance, with the balances after it."""

    id: str
    type: str
    amount: Decimal
    currency: str
    available_after: Decimal
    pending_after: Decimal
    frozen_after: Decimal
    source_type: str
    source_id: str
    description: str
    created_at: int


class Balance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The balance in the settlement currency."""

    available: Decimal
    pending: Decimal
    frozen: Decimal
    currency: str
    updated_at: int | None = None


class WebhookEndpointWithSecret(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint with its new secret, which is shown once."""

    id: str
    url: str
    description: str
    events: list[str]
    status: str  # one of DISABLED, ENABLED
    disabled_reason: str | None = None
    old_secret_until: int | None = None
    created_at: int
    updated_at: int
    secret: str


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook endpoint, to which events are sent."""

    id: str
    url: str
    description: str
    events: list[str]
    status: str  # one of DISABLED, ENABLED
    disabled_reason: str | None = None
    old_secret_until: int | None = None
    created_at: int
    updated_at: int


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt: the request without the event's body, and the head of the response."""

    number: int
    at: int
    duration_ms: int
    outcome: str  # one of delivered, forbidden, no_answer, refused, unreachable
    http_status: int | None = None
    request: str
    response: str = msgspec.field(name="answer")
    error: str
    fault: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event for one endpoint, with its newest attempts, oldest first."""

    event_id: str
    type: str
    status: str  # one of FAILED, PENDING, SUCCEEDED
    next_attempt_at: int | None = None
    attempts: list[DeliveryAttempt]
    created_at: int
    updated_at: int

    @property
    def id(self) -> str:
        """The event's id: an endpoint gets each event once."""
        return self.event_id


class Resent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of events that are sent again, and where the next call continues."""

    resent: int
    next: str | None = None
