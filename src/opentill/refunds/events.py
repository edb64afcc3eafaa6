"""Event payloads about refunds (contract.md#event-types)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from opentill import orders
from opentill.core import money
from opentill.orders import Order
from opentill.orders.events import Livemode, Metadata, OrderId, ProductId
from opentill.refunds.model import EMITS, Refund, Source
from opentill.webhooks import Event, Type
from opentill.webhooks.fields import Amount, Currency

RefundId = Annotated[str, Meta(description="The refund's id.")]
RefundReason = Annotated[str, Meta(description="The reason that was given with the refund.")]


class OrderRefundedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund has succeeded, in full or in part."""

    order_id: OrderId
    product_id: ProductId
    refund_id: RefundId
    refund_status: Annotated[
        Literal["PARTIAL", "FULL"],
        Meta(description="How much of the order is refunded by now."),
    ]
    amount: Annotated[Amount, Meta(description="What this refund gives back.")]
    refunded_amount: Annotated[
        Amount, Meta(description="What was refunded of the order so far, with this refund.")
    ]
    original_amount: Annotated[Amount, Meta(description="What the customer had paid.")]
    currency: Currency
    reason: RefundReason
    source: Annotated[
        Source | msgspec.UnsetType,
        Meta(
            description="REQUEST: refunded here. GATEWAY: directly at the payment provider. Not "
            "there in events of older versions."
        ),
    ] = msgspec.UNSET
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class RefundFailedData(msgspec.Struct, frozen=True, kw_only=True):
    """A refund failed for good or was reversed. Its money is back in the balance."""

    order_id: OrderId
    product_id: ProductId
    refund_id: RefundId
    amount: Annotated[Amount, Meta(description="What was to be refunded.")]
    currency: Currency
    reason: RefundReason
    error_message: Annotated[str, Meta(description="Why it failed.")]
    reversed: Annotated[
        bool | msgspec.UnsetType,
        Meta(
            description="true: the refund had succeeded before, and the bank could not deliver it "
            "after all. Not there in events of older versions."
        ),
    ] = msgspec.UNSET
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


PAYLOADS: Final[dict[Type, type[msgspec.Struct]]] = {
    "order.refunded": OrderRefundedData,
    "refund.failed": RefundFailedData,
}


def event_of(order: Order, refund: Refund, at: int) -> Event:
    """Return the event of a refund that has ended; ``order`` is its order before the end."""
    return Event(refund.merchant_id, EMITS[refund.status], _data(order, refund), at)


def _data(order: Order, refund: Refund) -> msgspec.Struct:
    base: dict[str, Any] = {
        "order_id": order.id,
        "product_id": order.product_id,
        "refund_id": refund.id,
        "amount": money.show(refund.amount_minor, refund.currency),
        "currency": refund.currency,
        "reason": refund.reason,
        "livemode": orders.livemode_of(order),
        "metadata": orders.metadata(order),
    }
    if refund.status != "SUCCEEDED":
        return RefundFailedData(
            **base, error_message=refund.error_message or "", reversed=refund.was_reversed
        )
    refunded = order.refunded_minor + refund.amount_minor
    return OrderRefundedData(
        **base,
        source=refund.source,
        refund_status="FULL" if refunded == order.amount_minor else "PARTIAL",
        refunded_amount=money.show(refunded, refund.currency),
        original_amount=money.show(order.amount_minor, refund.currency),
    )
