"""Event payloads about orders and sessions (contract.md#event-types)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from opentill.core import money, structs
from opentill.orders.model import Order
from opentill.webhooks import Event, Type
from opentill.webhooks.fields import Amount, Currency

# A payload does not contain these fields if the order has no value for them.
_OPTIONAL: Final = ("livemode", "quantity", "client_reference", "payment_link_id")
ClosedStatus = Literal["FAILED", "CLOSED", "REVOKED"]
OrderId = Annotated[str, Meta(description="The order's id.")]
ProductId = Annotated[str, Meta(description="The id of the product that the order is for.")]
SessionId = Annotated[str, Meta(description="The checkout session's id.")]
OrderAmount = Annotated[Amount, Meta(description="What the customer pays, in decimal text.")]
NetAmount = Annotated[Amount, Meta(description="The amount less the platform fee.")]
Livemode = Annotated[
    bool | msgspec.UnsetType,
    Meta(
        description="Whether real money was paid: false for payments through the sandbox bank, "
        "and for those that the operator of a test deployment confirms. Absent until it is paid."
    ),
]
Quantity = Annotated[
    Annotated[int, Meta(ge=1, le=99)] | msgspec.UnsetType,
    Meta(description="The quantity. Absent if it is 1."),
]
ClientReference = Annotated[
    str | msgspec.UnsetType,
    Meta(description="The shop's own number of the order. Absent if the session has none."),
]
PaymentLinkId = Annotated[
    str | msgspec.UnsetType,
    Meta(description="The payment link that opened the session. Absent if there is none."),
]
Metadata = Annotated[
    msgspec.Raw,
    Meta(
        description="The metadata that the session was opened with. Of an Epay order: its "
        "`out_trade_no`, its `trade_no` and, if it has one, its `param`.",
        extra_json_schema={"type": "object"},
    ),
]


class OrderPaidData(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid: fulfill it."""

    order_id: OrderId
    product_id: ProductId
    customer_email: Annotated[str, Meta(description="The customer's email, empty if unknown.")]
    amount: OrderAmount
    currency: Currency
    net_amount: NetAmount
    paid_at: Annotated[int, Meta(description="When it was paid, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata
    quantity: Quantity = msgspec.UNSET
    client_reference: ClientReference = msgspec.UNSET
    payment_link_id: PaymentLinkId = msgspec.UNSET


class OrderClosedData(msgspec.Struct, frozen=True, kw_only=True):
    """An order will not be paid."""

    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    status: Annotated[
        ClosedStatus,
        Meta(description="FAILED: refused for good; CLOSED: never paid; REVOKED: voided."),
    ]
    reason: Annotated[str, Meta(description="Why, in a few words.")]
    closed_at: Annotated[int, Meta(description="When it was closed, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata
    quantity: Quantity = msgspec.UNSET
    client_reference: ClientReference = msgspec.UNSET
    payment_link_id: PaymentLinkId = msgspec.UNSET


class OrderSettledData(msgspec.Struct, frozen=True, kw_only=True):
    """An order's money is available."""

    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    net_amount: NetAmount
    settled_amount: Annotated[
        Amount,
        Meta(
            description="The net amount in the currency that it settles in, before refunds, "
            "whose part of it does not become available."
        ),
    ]
    settled_currency: Annotated[
        str, Meta(description="The ISO 4217 code of the currency that it settles in.")
    ]
    settled_at: Annotated[int, Meta(description="When it settled, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata
    quantity: Quantity = msgspec.UNSET
    client_reference: ClientReference = msgspec.UNSET
    payment_link_id: PaymentLinkId = msgspec.UNSET


class CheckoutCompletedData(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout session was paid."""

    checkout_session_id: SessionId
    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    completed_at: Annotated[int, Meta(description="When it was completed, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata
    quantity: Quantity = msgspec.UNSET
    client_reference: ClientReference = msgspec.UNSET
    payment_link_id: PaymentLinkId = msgspec.UNSET


class CheckoutExpiredData(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout session can no longer be paid."""

    checkout_session_id: SessionId
    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    expired_at: Annotated[int, Meta(description="When it expired, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata
    quantity: Quantity = msgspec.UNSET
    client_reference: ClientReference = msgspec.UNSET
    payment_link_id: PaymentLinkId = msgspec.UNSET


PAYLOADS: Final[dict[Type, type[msgspec.Struct]]] = {
    "order.paid": OrderPaidData,
    "order.closed": OrderClosedData,
    "order.settled": OrderSettledData,
    "checkout.completed": CheckoutCompletedData,
    "checkout.expired": CheckoutExpiredData,
}


def metadata(order: Order) -> msgspec.Raw:
    """Return an order's metadata as the JSON object that the merchant sent."""
    return msgspec.Raw(order.metadata.encode())


def livemode_of(order: Order) -> bool | msgspec.UnsetType:
    """Return whether a paid order's money is real; UNSET if that is not stored."""
    return msgspec.UNSET if order.livemode is None else order.livemode


def event_of(order: Order, type_: Type, reason: str, at: int) -> Event:
    """Return an event of an order's transition; ``reason`` says why the order was closed."""
    return Event(order.merchant_id, type_, _data(order, type_, reason, at), at)


def _data(order: Order, type_: Type, reason: str, at: int) -> msgspec.Struct:
    """Build a payload. Fields that are not computed here are copied from the order, by name."""
    optional = {
        name: msgspec.UNSET if getattr(order, name) is None else getattr(order, name)
        for name in _OPTIONAL
    }
    computed: dict[str, Any] = {
        **optional,
        "order_id": order.id,
        "amount": money.show(order.amount_minor, order.currency),
        "metadata": metadata(order),
        **_fields_of_type(order, type_, reason, at),
    }
    return structs.convert(order, PAYLOADS[type_], **computed)


def _fields_of_type(order: Order, type_: Type, reason: str, at: int) -> dict[str, Any]:
    """Compute the fields that only payloads of this type have."""
    net = money.show(order.amount_minor - order.platform_fee_minor, order.currency)
    match type_:
        case "order.paid":
            return {"net_amount": net, "paid_at": at if order.paid_at is None else order.paid_at}
        case "order.closed":
            return {"reason": reason, "closed_at": at}
        case "order.settled":
            settled = money.show(order.net_settled_minor, order.settled_currency)
            return {"net_amount": net, "settled_amount": settled, "settled_at": at}
        case "checkout.completed":
            return {"checkout_session_id": order.checkout_id, "completed_at": at}
        case "checkout.expired":
            return {"checkout_session_id": order.checkout_id, "expired_at": at}
        case _:
            msg = f"{type_} is another feature's event"
            raise ValueError(msg)
