"""Entries of the ledger as rows of a page: amounts, balances after them, links to their causes."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import disputes, orders, refunds
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import MERCHANT_ACCOUNTS, Entry
from opentill.orders import Order
from opentill.web.language import Localizer

# Maps the cause of an entry to its page; * stands for the cause's id.
_PAGES: Final = {
    "order": "/payments/*",
    "refund": "/payments/*",
    "dispute": "/disputes/*",
    "payout": "/payouts/*",
}


class Movement(msgspec.Struct, frozen=True):
    """An entry as a row of the page; a payment and its fee are one row.

    ``page`` is the path of the page of the entry's cause, with * in place of the id; "" for none.
    """

    entry: Entry  # of a payment with a fee, the entry of the payment
    gross: str
    fee: str  # "" if none was taken with it
    amount: str
    balances: tuple[tuple[str, str], ...]  # the accounts that changed, and their balances after it
    page: str
    id: str
    is_transfer: bool  # between accounts of the merchant, so that their sum stays: without a sign
    customer: str
    product: str


async def rows(
    tx: Tx,
    localizer: Localizer,
    merchant_id: str,
    entries: Sequence[Entry],
    fees: Sequence[Entry] = (),
    *,
    with_customers: bool,
) -> list[Movement]:
    """Return a merchant's entries, newest first, as rows in the same order.

    ``fees`` of payments are shown in the rows of the payments. ``with_customers``: whether the
    person may see payments, and so their customers.
    """

    def ids_of(cause: str) -> list[str]:
        return sorted({entry.source_id for entry in entries if entry.source_type == cause})

    order_ids = {order_id: order_id for order_id in ids_of("order")}
    if refund_ids := ids_of("refund"):
        order_ids |= await refunds.find_order_ids(tx, merchant_id, refund_ids)
    if dispute_ids := ids_of("dispute"):
        order_ids |= await disputes.find_order_ids(tx, merchant_id, dispute_ids)
    orders_by_id: dict[str, Order] = {}
    if with_customers:
        orders_by_id = await orders.find_many(tx, merchant_id, sorted(set(order_ids.values())))

    def row(entry: Entry, fee: Entry | None) -> Movement:
        def amount(minor: int) -> str:
            return localizer.amount(Money(minor, entry.currency))

        order = orders_by_id.get(order_ids.get(entry.source_id, ""))
        last = fee or entry
        changed = {entry.from_account, entry.to_account}
        is_dispute = entry.source_type == "dispute"
        is_transfer = changed <= set(MERCHANT_ACCOUNTS)
        return Movement(
            entry=entry,
            gross=amount(entry.amount_minor if is_transfer else entry.shown_minor),
            fee=amount(fee.shown_minor) if fee else "",
            amount=amount(entry.shown_minor + (fee.shown_minor if fee else 0)),
            balances=tuple(
                (name, amount(getattr(last, f"{name}_after")))
                for name in MERCHANT_ACCOUNTS
                if name in changed
            ),
            page=_PAGES.get(entry.source_type, ""),
            id=entry.source_id if is_dispute else order_ids.get(entry.source_id, entry.source_id),
            is_transfer=is_transfer,
            customer=(order.customer_email or order.customer_name or "") if order else "",
            product=order.product_name if order else "",
        )

    by_order = {fee.source_id: fee for fee in fees}
    return [
        row(entry, by_order.get(entry.source_id) if entry.type == "PAYMENT" else None)
        for entry in entries
    ]
