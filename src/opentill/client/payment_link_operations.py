"""The operations of payment links, as ``operations.py`` has those of all else."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from .model import Page, PaymentLink
from .operations import Locale
from .request import (
    Moment,
    Request,
    checked_id,
    get,
    item_fields,
    millis,
    patch,
    post,
)


def create_payment_link(  # noqa: PLR0913 - the fields of a payment link
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
    """Create a payment link. Give the response's ``url`` to any number of customers.

    In place of a product, ``item`` is what is sold: ``name``, ``currency`` and ``price``, or
    ``min_amount`` and ``max_amount`` where the customer enters the amount.
    """
    return post(
        "/v1/payment-links",
        PaymentLink,
        idempotency_key,
        product_id=product_id,
        item=item and item_fields(item),
        max_quantity=max_quantity,
        expires_at=millis(expires_at),
        max_uses=max_uses,
        success_url=success_url,
        payment_methods=payment_methods and list(payment_methods),
        locale=locale,
        client_reference=client_reference,
        metadata=metadata,
    )


def list_payment_links(
    *, active: bool | None = None, page: int = 1, size: int = 100
) -> Request[Page[PaymentLink]]:
    """List payment links, newest first."""
    return get("/v1/payment-links", Page[PaymentLink], active=active, page=page, size=size)


def get_payment_link(payment_link_id: str) -> Request[PaymentLink]:
    """Get a payment link with what it has sold."""
    return get(f"/v1/payment-links/{checked_id(payment_link_id)}", PaymentLink)


def update_payment_link(  # noqa: PLR0913 - the fields of a payment link
    payment_link_id: str,
    *,
    active: bool | UnsetType = UNSET,
    item: Mapping[str, Any] | UnsetType = UNSET,
    max_quantity: int | UnsetType = UNSET,
    expires_at: Moment | UnsetType | None = UNSET,
    max_uses: int | UnsetType | None = UNSET,
    success_url: str | UnsetType | None = UNSET,
    client_reference: str | UnsetType | None = UNSET,
    metadata: Mapping[str, Any] | UnsetType = UNSET,
) -> Request[PaymentLink]:
    """Update the given fields of a payment link; None removes what is optional.

    Of an ``item``, ``name`` and ``description`` can change.
    """
    return patch(
        f"/v1/payment-links/{checked_id(payment_link_id)}",
        PaymentLink,
        active=active,
        item=item if isinstance(item, UnsetType) else dict(item),
        max_quantity=max_quantity,
        expires_at=expires_at if isinstance(expires_at, UnsetType) else millis(expires_at),
        max_uses=max_uses,
        success_url=success_url,
        client_reference=client_reference,
        metadata=metadata,
    )
