"""Orders in responses of the API."""

from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from opentill.core import money, structs
from opentill.gateways.model import Card, Method
from opentill.http.fields import CreatedAt, DecimalText, MetadataShown, UpdatedAt
from opentill.orders.model import Order, RefundState, ReserveStatus
from opentill.orders.statuses import Status


class OrderOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order in a list (contract.md#order-fields)."""

    id: Annotated[str, Meta(description="The order's id.")]
    checkout_session_id: Annotated[
        str, Meta(description="The session that the order was opened with.")
    ]
    product_id: Annotated[str, Meta(description="The product that was sold.")]
    customer_email: Annotated[
        str,
        Meta(description="The customer's email address. Empty until the customer has entered it."),
    ]
    customer_name: Annotated[
        str | None, Meta(description="The customer's name. Null if none was given.")
    ]
    amount: Annotated[DecimalText, Meta(description="What the customer pays, with two decimals.")]
    currency: Annotated[
        str, Meta(description="The currency that the customer pays in, an ISO 4217 code.")
    ]
    platform_fee_rate: Annotated[
        DecimalText,
        Meta(
            description="The operator's share of the amount: `0.04` is 4 %. It is frozen when the"
            " session is opened."
        ),
    ]
    platform_fee: Annotated[
        DecimalText,
        Meta(
            description="The operator's fee, in `currency`: the amount times the rate, plus a "
            "fixed part where your terms have one."
        ),
    ]
    net_amount: Annotated[
        DecimalText, Meta(description="What is left of the amount after the fee, in `currency`.")
    ]
    settled_amount: Annotated[
        DecimalText,
        Meta(
            description="The net amount in your settlement currency, before refunds and disputes."
        ),
    ]
    settled_currency: Annotated[
        str, Meta(description="Your settlement currency, which your balance is in.")
    ]
    exchange_rate: Annotated[
        DecimalText,
        Meta(
            description="What one unit of `currency` is worth in `settledCurrency`. `1` where "
            "nothing is converted."
        ),
    ]
    hkd_exchange_rate: Annotated[
        DecimalText | None,
        Meta(
            description="What one unit of `currency` is worth in HKD. Null unless the gateway "
            "that took the payment clears in HKD."
        ),
    ]
    payment_method: Annotated[
        Method | None, Meta(description="How it was paid. Null until that is known.")
    ]
    status: Annotated[
        Status, Meta(description="Where the order stands. Deliver when it is `PAID` or `SETTLED`.")
    ]
    paid_at: Annotated[
        int | None, Meta(description="When the payment was confirmed, Unix ms. Null until then.")
    ]
    settled_at: Annotated[
        int | None, Meta(description="When the money became available, Unix ms. Null until then.")
    ]
    metadata: MetadataShown
    created_at: CreatedAt
    livemode: Annotated[
        bool,
        Meta(description="false: paid, or to be paid, in test mode"),
    ]
    quantity: Annotated[int, Meta(ge=1, le=99, description="How many were sold, 1 to 99.")]
    client_reference: Annotated[
        str | None,
        Meta(description="Your own number, as the session was opened with it. Null if none."),
    ]
    payment_link_id: Annotated[
        str | None,
        Meta(description="The payment link that opened the session. Null if none did."),
    ]

    @classmethod
    def from_order(cls, order: Order) -> Self:
        """Convert an order whose ``livemode`` is filled in."""
        return structs.convert(order, cls, **_listed_fields(order))


class OrderDetail(OrderOut, frozen=True, kw_only=True, rename="camel"):
    """An order with all its details (contract.md#order-detail)."""

    base_amount: Annotated[
        DecimalText,
        Meta(
            description="The price that the session was opened with. There are no discounts, so "
            "it is the same as `amount`."
        ),
    ]
    payable_amount: Annotated[
        DecimalText, Meta(description="What the customer was asked to pay: the same as `amount`.")
    ]
    refund_status: Annotated[
        RefundState,
        Meta(description="How much has been refunded: nothing, a part, or all of it."),
    ]
    refunded_amount: Annotated[
        DecimalText,
        Meta(description="What has been refunded so far, in `currency`. `0` if nothing has."),
    ]
    payer_ip: Annotated[
        str, Meta(description="The internet address that the customer paid from. Empty until then.")
    ]
    updated_at: UpdatedAt
    rolling_reserve_rate: Annotated[
        DecimalText,
        Meta(description="The share of the settled amount that is held back against losses."),
    ]
    rolling_reserve_amount: Annotated[
        DecimalText, Meta(description="What is held back of this order, in `settledCurrency`.")
    ]
    rolling_reserve_status: Annotated[
        ReserveStatus,
        Meta(
            description="`NONE`: nothing was held back. `HELD`: it is held. `OFFSET`: it covered "
            "a chargeback. `RELEASED`: you have it."
        ),
    ]
    rolling_reserve_release_at: Annotated[
        int | None, Meta(description="When it is released, Unix ms. Null if nothing is held.")
    ]
    card_brand: Annotated[
        str | None,
        Meta(
            description="The brand of the card that it was paid with, such as `visa`. Null unless"
            " the gateway says so."
        ),
    ]
    card_last4: Annotated[
        str | None,
        Meta(description="The card's last four digits. Null unless the gateway says so."),
    ]

    @classmethod
    def from_order(cls, order: Order, card: Card | None = None) -> Self:
        """Convert an order whose ``livemode`` is filled in; ``card`` paid it, None if unknown."""
        fields = _listed_fields(order)
        refunded = order.refunded_minor
        return structs.convert(
            order,
            cls,
            **fields,
            base_amount=fields["amount"],
            payable_amount=fields["amount"],
            refunded_amount=money.show(refunded, order.currency) if refunded else "0",
            rolling_reserve_rate=money.rate_text(order.reserve_rate),
            rolling_reserve_amount=money.show(order.reserve_minor, order.settled_currency),
            rolling_reserve_status=order.reserve_status,
            rolling_reserve_release_at=order.reserve_release_at,
            card_brand=None if card is None else card.brand or None,
            card_last4=None if card is None else card.last4,
        )


def _listed_fields(order: Order) -> dict[str, Any]:
    """Return the fields of a listed order that differ from the stored ones."""
    if order.livemode is None:
        raise AssertionError  # the caller must fill in ``livemode``
    hkd = order.hkd_exchange_rate
    net = order.amount_minor - order.platform_fee_minor
    return {
        "checkout_session_id": order.checkout_id,
        "quantity": order.quantity or 1,
        "amount": money.show(order.amount_minor, order.currency),
        "platform_fee_rate": money.rate_text(order.platform_fee_rate),
        "platform_fee": money.show(order.platform_fee_minor, order.currency),
        "net_amount": money.show(net, order.currency),
        "settled_amount": money.show(order.net_settled_minor, order.settled_currency),
        "exchange_rate": money.rate_text(order.exchange_rate),
        "hkd_exchange_rate": None if hkd is None else money.rate_text(hkd),
        "metadata": msgspec.Raw(order.metadata.encode()),
    }
