"""Finds the receipt of a paid order."""

from collections.abc import Sequence
from typing import Final
from zoneinfo import ZoneInfo

from opentill import disputes, merchants, orders, refunds
from opentill.checkouts import Session
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.receipts.model import Chargeback, Receipt, ReceiptRefund
from opentill.receipts.tax import refunded_taxes

MOST_REFUNDS: Final = 100  # a receipt lists only the newest refunds, at most this many


async def find(tx: Tx, order: Order, session: Session) -> Receipt:
    """Return the receipt of an order that was paid, and whose ``livemode`` is set.

    The seller's details are those that were in force when the order was paid.
    """
    merchant = await merchants.find(tx, order.merchant_id)
    paid_at = order.paid_at or order.updated_at
    seller = await merchants.seller_at(tx, order.merchant_id, paid_at)
    newest_refunds = await refunds.list_for_order(tx, order.merchant_id, order.id, MOST_REFUNDS)
    all_disputes = await disputes.list_for_order(tx, order.merchant_id, order.id)
    card = await orders.card_of(tx, order)
    amount = Money(order.amount_minor, order.currency)
    refunded = Money(order.refunded_minor, order.currency)
    listed = [refund for refund in reversed(newest_refunds) if refund.status == "SUCCEEDED"]
    amounts = [Money(refund.amount_minor, order.currency) for refund in listed]
    taxes: list[Money] | list[None] = [None] * len(listed)
    if seller.rate is not None:
        listed_minor = sum(each.minor for each in amounts)
        earlier_minor = max(0, refunded.minor - listed_minor)  # refunds that are not listed
        before = Money(max(0, amount.minor - earlier_minor), order.currency)
        taxes = refunded_taxes(before, amounts, seller.rate)
    return Receipt(
        merchant_id=order.merchant_id,
        logo_sha256=merchant.logo_sha256,
        number=orders.receipt_number(order.id),
        session_id=order.checkout_id,
        order_id=order.id,
        shop=session.display_merchant_name,
        item=order.product_name,
        quantity=order.quantity or 1,
        amount=amount,
        paid_at=paid_at,
        shop_zone=ZoneInfo(merchant.time_zone),
        livemode=bool(order.livemode),
        method=order.payment_method,
        card=orders.format_card(card) if card else "",
        email=order.customer_email,
        name=order.customer_name or "",
        reference=order.client_reference or "",
        refunded=refunded,
        refunds=[
            ReceiptRefund(each, refund.succeeded_at or refund.updated_at, its_tax)
            for each, refund, its_tax in zip(amounts, listed, taxes, strict=True)
        ],
        chargebacks=chargebacks_of(all_disputes),
        seller=seller,
        contact=[text for text in (merchant.support_email, merchant.support_url) if text],
        accent=merchant.accent_color,
    )


def chargebacks_of(all_disputes: Sequence[disputes.Dispute]) -> list[Chargeback]:
    """Return what lost disputes returned to the customer, oldest first; a recovered one is none."""
    lost = [dispute for dispute in all_disputes if dispute.outcome == "LOST"]
    return [
        Chargeback(
            Money(dispute.amount_minor, dispute.currency), dispute.closed_at or dispute.updated_at
        )
        for dispute in sorted(lost, key=lambda dispute: dispute.closed_at or dispute.updated_at)
    ]


async def find_logo(tx: Tx, receipt: Receipt) -> bytes | None:
    """Return the logo of a receipt's shop as it was uploaded, None if there is none."""
    if receipt.logo_sha256 is None:
        return None
    try:
        logo = await merchants.find_logo(tx, receipt.merchant_id, receipt.logo_sha256)
    except NotFound:  # replaced since the merchant was read
        return None
    return logo.content
