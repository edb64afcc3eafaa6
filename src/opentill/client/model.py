"""The resources of the API, typed. Amounts are ``Decimal``, times Unix milliseconds.

Fields that a newer server adds are ignored. Statuses and types are plain text for the same reason:
a program that reads them must not break when a new one appears.
"""

from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec

from . import events

T = TypeVar("T")
Metadata = dict[str, Any]


class Pagination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a page stands in its list."""

    page: int
    size: int
    total: int
    total_pages: int


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list, newest first."""

    items: list[T]
    pagination: Pagination


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A product."""

    id: str
    name: str
    description: str
    image: str | None
    price: Decimal
    currency: str
    status: str  # ACTIVE ARCHIVED
    metadata: Metadata
    created_at: int
    updated_at: int


class NewCheckout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that was just opened; send the customer to ``url``."""

    id: str
    product_id: str
    amount: Decimal
    currency: str
    status: str  # OPEN COMPLETE EXPIRED
    url: str
    expires_at: int
    created_at: int
    quantity: int = 1
    payment_methods: list[str] | None = None  # the only ones; None: all on offer
    locale: str | None = None  # en zh-Hans zh-Hant
    client_reference: str | None = None  # your own number


class Checkout(NewCheckout, frozen=True, kw_only=True, rename="camel"):
    """A checkout session with its order."""

    order_id: str


class PaymentLinkItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a payment link sells without a product, at a price or between two bounds."""

    name: str
    currency: str
    price: Decimal | None
    min_amount: Decimal | None
    max_amount: Decimal | None
    description: str
    image: str | None


class PaymentLinkSales(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a payment link has brought in one currency."""

    currency: str
    payments: int
    amount: Decimal


class PaymentLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payment link; give ``url`` to customers. ``url`` and ``/qr.svg`` is its QR code."""

    id: str
    url: str
    status: str  # ACTIVE INACTIVE EXPIRED USED_UP
    active: bool
    product_id: str | None
    item: PaymentLinkItem | None = None  # where it sells no product
    max_quantity: int
    expires_at: int | None
    max_uses: int | None
    open_sessions: int
    payments: int
    sales: list[PaymentLinkSales]
    success_url: str | None
    payment_methods: list[str] | None
    locale: str | None
    client_reference: str | None
    metadata: Metadata
    created_at: int
    updated_at: int


class Order(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order as a list shows it."""

    id: str
    checkout_session_id: str
    product_id: str
    customer_email: str
    customer_name: str | None
    amount: Decimal
    currency: str
    platform_fee_rate: Decimal
    platform_fee: Decimal
    net_amount: Decimal
    settled_amount: Decimal
    settled_currency: str
    exchange_rate: Decimal
    hkd_exchange_rate: Decimal | None
    payment_method: str | None  # CREDIT_CARD ALIPAY WECHAT_PAY PAYNOW CRYPTO BANK_TRANSFER
    status: str  # fulfil at PAID or SETTLED
    paid_at: int | None
    settled_at: int | None
    metadata: Metadata
    created_at: int
    livemode: bool  # False: the sandbox bank, no real money
    quantity: int = 1
    client_reference: str | None = None  # your own number
    payment_link_id: str | None = None  # that opened its session


class OrderDetail(Order, frozen=True, kw_only=True, rename="camel"):
    """A single order with everything."""

    base_amount: Decimal
    payable_amount: Decimal
    refund_status: str  # NONE PARTIAL FULL
    refunded_amount: Decimal
    payer_ip: str
    updated_at: int
    rolling_reserve_rate: Decimal
    rolling_reserve_amount: Decimal
    rolling_reserve_status: str  # NONE HELD OFFSET RELEASED
    rolling_reserve_release_at: int | None
    card_brand: str | None = None  # where the gateway says so, such as visa
    card_last4: str | None = None


class Refund(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refund of a part or all of an order."""

    id: str
    merchant_id: str
    order_id: str
    refund_no: str | None
    status: str  # PROCESSING SUCCEEDED FAILED
    amount: Decimal
    currency: str
    user_refund_amount_usd: Decimal
    merchant_debit_usd: Decimal
    reason: str
    error_message: str | None
    created_at: int
    updated_at: int
    succeeded_at: int | None
    failed_at: int | None


class Dispute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A dispute as a list shows it; losing it takes ``debit`` and ``fee``."""

    id: str
    order_id: str
    status: str  # OPEN WON LOST RECOVERED
    amount: Decimal
    currency: str
    debit: Decimal
    fee: Decimal
    debit_currency: str
    reason: str
    respond_by: int | None = None  # until when evidence counts
    created_at: int
    updated_at: int
    closed_at: int | None


class DisputeNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was noted about a dispute."""

    at: int
    note: str


class DisputeDetail(Dispute, frozen=True, kw_only=True, rename="camel"):
    """A single dispute with its notes, oldest first."""

    notes: list[DisputeNote]


class Payout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was or will be sent to your bank."""

    id: str
    status: str  # PENDING PAID FAILED
    amount: Decimal
    fee: Decimal
    currency: str
    bank_reference: str | None
    failure_reason: str | None
    created_at: int
    updated_at: int
    paid_at: int | None
    failed_at: int | None


class Balance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The balance in your settlement currency; ``frozen`` includes the rolling reserve."""

    available: Decimal
    pending: Decimal
    frozen: Decimal
    currency: str
    updated_at: int | None


class Transaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A movement on the balance, signed from your view, with the balances after it."""

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


class Agreement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The merchant services agreement in force; digests are SHA-256 in hexadecimal."""

    agreement_version: str
    effective_date: str
    effective_date_display: str
    template_sha256: str = msgspec.field(name="templateSha256")
    rendered_document_sha256: str = msgspec.field(name="renderedDocumentSha256")
    markdown_content: str
    acceptance_statement: str
    action_label: str
    document_url: str


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where events are sent to; ``events`` are the types, none for all."""

    id: str
    url: str
    description: str
    events: list[str]
    status: str  # ENABLED DISABLED
    disabled_reason: str | None
    old_secret_until: int | None
    created_at: int
    updated_at: int


class WebhookEndpointWithSecret(WebhookEndpoint, frozen=True, kw_only=True, rename="camel"):
    """An endpoint with its new secret, which is shown once: keep it for ``verify_webhook``."""

    secret: str


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt to deliver: what was sent but for the body, and the head of the response."""

    number: int
    at: int
    duration_ms: int
    outcome: str
    http_status: int | None
    request: str
    response: str = msgspec.field(name="answer")
    error: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event for one endpoint, with its newest attempts, oldest first."""

    event_id: str
    type: str
    status: str  # PENDING SUCCEEDED FAILED
    next_attempt_at: int | None
    attempts: list[DeliveryAttempt]
    created_at: int
    updated_at: int

    @property
    def id(self) -> str:
        """The event's id: an endpoint gets each event once."""
        return self.event_id


class Resent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many events are sent again, and what to go on ``after``; None: there are no more."""

    resent: int
    next: str | None


class EventList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events, oldest first. Keep ``cursor`` and come back with it: none is ever skipped."""

    raw: list[msgspec.Raw] = msgspec.field(name="items")
    cursor: str
    has_more: bool

    @property
    def items(self) -> "list[events.Event]":
        """The events, typed as webhooks are."""
        return [events.read(bytes(item)) for item in self.raw]
