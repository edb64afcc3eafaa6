"""The ``data`` of each type of event (contract.md#event-types), and what its fields mean.

The structs are what is sent, and the schemas under ``webhooks`` in the OpenAPI document are theirs.
Fields are only ever added: receivers are asked to ignore those that they do not know.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from opentill.webhooks.model import Type

ClosedStatus = Literal["FAILED", "CLOSED", "REVOKED"]
_DECIMAL: Final = {"pattern": r"^-?[0-9]+\.[0-9]{2}$"}
Millis = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
OrderId = Annotated[str, Meta(description="The order's id.")]
ProductId = Annotated[str, Meta(description="The id of the product that the order is for.")]
SessionId = Annotated[str, Meta(description="The checkout session's id.")]
RefundId = Annotated[str, Meta(description="The refund's id.")]
Currency = Annotated[str, Meta(description="The ISO 4217 code of the currency of the amounts.")]
OrderAmount = Annotated[
    str, Meta(description="What the customer pays, in decimal text.", extra_json_schema=_DECIMAL)
]
NetAmount = Annotated[
    str, Meta(description="The amount less the platform fee.", extra_json_schema=_DECIMAL)
]
RefundAmount = Annotated[
    str, Meta(description="What this refund gives back.", extra_json_schema=_DECIMAL)
]
RefundReason = Annotated[str, Meta(description="The reason that was given with the refund.")]
Livemode = Annotated[
    bool | msgspec.UnsetType,
    Meta(
        description="false: not real money, since the sandbox bank took it, or an operator where "
        "there is no other gateway; not there before it is paid."
    ),
]
Metadata = Annotated[
    msgspec.Raw,
    Meta(
        description="The metadata that the session was opened with. Of an Epay order: its "
        "`out_trade_no`, its `trade_no` and, if it has one, its `param`.",
        extra_json_schema={"type": "object"},
    ),
]


class OrderPaid(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid: fulfil it."""

    order_id: OrderId
    product_id: ProductId
    customer_email: Annotated[str, Meta(description="The customer's e-mail, empty if unknown.")]
    amount: OrderAmount
    currency: Currency
    net_amount: NetAmount
    paid_at: Annotated[Millis, Meta(description="When it was paid, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class OrderRefunded(msgspec.Struct, frozen=True, kw_only=True):
    """A refund has succeeded, in full or in part."""

    order_id: OrderId
    product_id: ProductId
    refund_id: RefundId
    refund_status: Annotated[
        Literal["PARTIAL", "FULL"],
        Meta(description="How much of the order is given back by now."),
    ]
    amount: RefundAmount
    refunded_amount: Annotated[
        str,
        Meta(
            description="What was given back of the order so far, with this refund.",
            extra_json_schema=_DECIMAL,
        ),
    ]
    original_amount: Annotated[
        str, Meta(description="What the customer had paid.", extra_json_schema=_DECIMAL)
    ]
    currency: Currency
    reason: RefundReason
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class OrderClosed(msgspec.Struct, frozen=True, kw_only=True):
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
    closed_at: Annotated[Millis, Meta(description="When it was closed, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class OrderSettled(msgspec.Struct, frozen=True, kw_only=True):
    """An order's money is available."""

    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    net_amount: NetAmount
    settled_amount: Annotated[
        str,
        Meta(
            description="The net amount in the currency that it settles in.",
            extra_json_schema=_DECIMAL,
        ),
    ]
    settled_currency: Annotated[
        str, Meta(description="The ISO 4217 code of the currency that it settles in.")
    ]
    settled_at: Annotated[Millis, Meta(description="When it settled, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class RefundFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A refund was refused for good: its money is the merchant's again."""

    order_id: OrderId
    product_id: ProductId
    refund_id: RefundId
    amount: Annotated[
        str, Meta(description="What was to be given back.", extra_json_schema=_DECIMAL)
    ]
    currency: Currency
    reason: RefundReason
    error_message: Annotated[str, Meta(description="Why it was refused.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute was opened, or decided: closed once, and again if a loss is recovered."""

    dispute_id: Annotated[str, Meta(description="The dispute's id.")]
    order_id: OrderId
    status: Annotated[
        Literal["OPEN", "WON", "LOST", "RECOVERED"], Meta(description="Where the dispute stands.")
    ]
    amount: Annotated[
        str, Meta(description="What the customer disputes.", extra_json_schema=_DECIMAL)
    ]
    currency: Currency
    debit: Annotated[
        str,
        Meta(description="What it takes from the balance if lost.", extra_json_schema=_DECIMAL),
    ]
    fee: Annotated[str, Meta(description="The fee of a loss, on top.", extra_json_schema=_DECIMAL)]
    debit_currency: Annotated[
        str, Meta(description="The ISO 4217 code of the currency of `debit` and `fee`.")
    ]
    reason: Annotated[str, Meta(description="Why the customer disputes, in the bank's words.")]
    opened_at: Annotated[Millis, Meta(description="When it was opened, Unix ms.")]
    closed_at: Annotated[
        Millis | None,
        Meta(description="When it was decided, Unix ms; null while OPEN."),
    ]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class CheckoutCompleted(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout session was paid."""

    checkout_session_id: SessionId
    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    completed_at: Annotated[Millis, Meta(description="When it was completed, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class CheckoutExpired(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout session can no longer be paid."""

    checkout_session_id: SessionId
    order_id: OrderId
    product_id: ProductId
    amount: OrderAmount
    currency: Currency
    expired_at: Annotated[Millis, Meta(description="When it expired, Unix ms.")]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


class PayoutPaid(msgspec.Struct, frozen=True, kw_only=True):
    """A payout has left for the merchant's bank."""

    payout_id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[Literal["PAID"], Meta(description="PAID.")]
    amount: Annotated[str, Meta(description="What is paid out.", extra_json_schema=_DECIMAL)]
    fee: Annotated[str, Meta(description="The fee, on top.", extra_json_schema=_DECIMAL)]
    currency: Currency
    bank_reference: Annotated[str, Meta(description="The bank's name of the transfer.")]
    paid_at: Annotated[Millis, Meta(description="When it was paid, Unix ms.")]


class PayoutFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A payout could not be sent: its money is available again."""

    payout_id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[Literal["FAILED"], Meta(description="FAILED.")]
    amount: Annotated[str, Meta(description="What was to be paid.", extra_json_schema=_DECIMAL)]
    fee: Annotated[str, Meta(description="The fee, given back.", extra_json_schema=_DECIMAL)]
    currency: Currency
    failure_reason: Annotated[str, Meta(description="Why the bank could not send it.")]
    failed_at: Annotated[Millis, Meta(description="When it failed, Unix ms.")]


PAYLOADS: Final[dict[Type, type[msgspec.Struct]]] = {
    "order.paid": OrderPaid,
    "order.refunded": OrderRefunded,
    "order.closed": OrderClosed,
    "order.settled": OrderSettled,
    "refund.failed": RefundFailed,
    "dispute.created": Dispute,
    "dispute.closed": Dispute,
    "checkout.completed": CheckoutCompleted,
    "checkout.expired": CheckoutExpired,
    "payout.paid": PayoutPaid,
    "payout.failed": PayoutFailed,
}
