"""Imported orders: the fields to store, and what is stored of those that exist."""

import msgspec

from opentill.core.payment_methods import Method
from opentill.orders.statuses import Status


class ImportedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to import; amounts in minor units of the merchant's settlement currency."""

    merchant_id: str
    id: str
    checkout_id: str
    product_id: str
    name: str
    status: Status
    amount_minor: int
    refunded_minor: int
    created_at: int
    paid_at: int | None
    payment_method: Method | None
    attempt_id: str  # the number by which the provider knows the payment
    gateway: str
    provider_ref: str
    payer_ip: str
    client_reference: str
    metadata: str


class ImportedState(msgspec.Struct, frozen=True, kw_only=True):
    """An order that was imported before."""

    merchant_id: str
    id: str
    status: Status
    refunded_minor: int
