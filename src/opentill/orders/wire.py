"""The shapes of orders on the wire."""

from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from opentill.core import money, structs
from opentill.gateways.model import Method
from opentill.orders.model import Order, RefundState, ReserveStatus, Status

Metadata = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class OrderOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An order in a list (contract.md#order-fields)."""

    id: str
    checkout_session_id: str
    product_id: str
    customer_email: str
    customer_name: str | None
    amount: str
    currency: str
    platform_fee_rate: str
    platform_fee: str
    net_amount: str
    settled_amount: str
    settled_currency: str
    exchange_rate: str
    hkd_exchange_rate: str | None
    payment_method: Method | None
    status: Status
    paid_at: int | None
    settled_at: int | None
    metadata: Metadata
    created_at: int
    livemode: Annotated[
        bool,
        Meta(description="false: paid, or to be paid, in test mode"),
    ]

    @classmethod
    def of(cls, order: Order) -> Self:
        """Show an order, whose ``livemode`` is known."""
        return structs.convert(order, cls, **_listed(order))


class OrderDetail(OrderOut, frozen=True, kw_only=True, rename="camel"):
    """An order with everything (contract.md#order-detail)."""

    base_amount: str
    payable_amount: str
    refund_status: RefundState
    refunded_amount: str
    payer_ip: str
    updated_at: int
    rolling_reserve_rate: str
    rolling_reserve_amount: str
    rolling_reserve_status: ReserveStatus
    rolling_reserve_release_at: int | None

    @classmethod
    def of(cls, order: Order) -> Self:
        """Show an order, whose ``livemode`` is known, with everything."""
        shown = _listed(order)
        refunded = order.refunded_minor
        return structs.convert(
            order,
            cls,
            **shown,
            base_amount=shown["amount"],
            payable_amount=shown["amount"],
            refunded_amount=money.show(refunded, order.currency) if refunded else "0",
            rolling_reserve_rate=money.rate_text(order.reserve_rate),
            rolling_reserve_amount=money.show(order.reserve_minor, order.settled_currency),
            rolling_reserve_status=order.reserve_status,
            rolling_reserve_release_at=order.reserve_release_at,
        )


def _listed(order: Order) -> dict[str, Any]:
    """Return what a list shows otherwise than it is stored."""
    if order.livemode is None:
        raise AssertionError  # livemode.known comes first
    hkd = order.hkd_exchange_rate
    net = order.amount_minor - order.platform_fee_minor
    return {
        "checkout_session_id": order.checkout_id,
        "amount": money.show(order.amount_minor, order.currency),
        "platform_fee_rate": money.rate_text(order.platform_fee_rate),
        "platform_fee": money.show(order.platform_fee_minor, order.currency),
        "net_amount": money.show(net, order.currency),
        "settled_amount": money.show(order.net_settled_minor, order.settled_currency),
        "exchange_rate": money.rate_text(order.exchange_rate),
        "hkd_exchange_rate": None if hkd is None else money.rate_text(hkd),
        "metadata": msgspec.Raw(order.metadata.encode()),
    }
