"""The contents of a payout for pages: its sums, and its entries as rows."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from opentill import orders, refunds
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.figures import PayoutContents, PayoutItem
from opentill.orders import Order
from opentill.payouts import Payout
from opentill.people import Permission
from opentill.web.language import Localizer
from opentill.web.translations import N_

# Kind of an entry of a payout, except payments, refunds and disputes, whose sums have parts.
_CONTENT: Final = {
    "reserve": N_("Reserve"),
    "payouts": N_("Returned payouts"),
    "adjustments": N_("Adjustments"),
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a payout as a row: ``page`` is the path of the page of what caused it."""

    item: PayoutItem
    page: str
    customer: str
    product: str
    gross: str
    fee: str
    refunded: str  # "" if nothing was refunded before the payment settled
    lost: str  # what a lost dispute took with its fee before the payment settled, "" if nothing
    amount: str


class Reader(msgspec.Struct, frozen=True):
    """The person who reads a page: language, and a function that says what they may read."""

    localizer: Localizer
    may: Callable[[Permission], bool]


def breakdown(
    contents: PayoutContents, payout: Payout, amount: Callable[[int], str]
) -> list[tuple[str, int, str]]:
    """Return the sums that make the payout: name, number of entries (0: not shown), amount."""
    payments = contents.sum_of("payments")
    lines = [
        (N_("Available before"), 0, contents.opening_minor),
        (N_("Payments"), payments.items, payments.gross_minor),
        (N_("Fees"), 0, -payments.fee_minor),
        (N_("Refunds"), contents.refunds, contents.refunds_minor),
        (N_("Disputes"), contents.disputes, contents.disputes_minor),
        (N_("Dispute fees"), contents.dispute_fees, contents.dispute_fees_minor),
        *(
            (name, contents.sum_of(kind).items, contents.sum_of(kind).amount_minor)
            for kind, name in _CONTENT.items()
        ),
        (N_("Payout fee"), 0, -payout.fee_minor),
        (N_("Left available"), 0, -contents.left_minor),
    ]
    return [(name, items, amount(minor)) for name, items, minor in lines if minor]


async def rows(
    tx: Tx, merchant_id: str, currency: str, items: Sequence[PayoutItem], reader: Reader
) -> list[Row]:
    """Return the entries as rows, with customer and product if the person may see payments."""
    refund_ids = sorted({one.source_id for one in items if one.source_type == "refund"})
    order_ids = await refunds.find_order_ids(tx, merchant_id, refund_ids) if refund_ids else {}
    order_ids |= {one.source_id: one.source_id for one in items if one.source_type == "order"}
    orders_by_id: dict[str, Order] = {}
    if reader.may("payments.read"):
        orders_by_id = await orders.find_many(tx, merchant_id, sorted(set(order_ids.values())))

    def amount(minor: int | None) -> str:
        return "" if minor is None else reader.localizer.amount(Money(minor, currency))

    def page_of(item: PayoutItem) -> str:
        if item.source_id in order_ids:
            return f"payments/{order_ids[item.source_id]}" if orders_by_id else ""
        if item.source_type == "dispute" and reader.may("disputes.read"):
            return f"disputes/{item.source_id}"
        return f"payouts/{item.source_id}" if item.source_type == "payout" else ""

    def row(item: PayoutItem) -> Row:
        order = orders_by_id.get(order_ids.get(item.source_id, ""))
        taken = item.lost_minor + item.dispute_fee_minor
        return Row(
            item=item,
            page=page_of(item),
            customer=(order.customer_email or order.customer_name or "") if order else "",
            product=order.product_name if order else "",
            gross=amount(item.gross_minor) or amount(item.amount_minor),
            fee=amount(-item.fee_minor) if item.fee_minor else "–",
            refunded=amount(item.refunded_minor) if item.refunded_minor else "",
            lost=amount(-taken) if taken else "",
            amount=amount(item.amount_minor),
        )

    return [row(item) for item in items]
