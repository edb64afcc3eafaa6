"""Entries of the ledger as rows of a page: amounts, balances after them, links to their causes."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import orders, refunds
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
    """An entry as a row of the page.

    ``page`` is the path of the page of the entry's cause, with * in place of the id; "" for none.
    """

    entry: Entry
    amount: str
    balances: tuple[tuple[str, str], ...]  # the accounts that changed, and their balances after it
    page: str
    id: str
    customer: str
    product: str


async def rows(
    tx: Tx,
    localizer: Localizer,
    merchant_id: str,
    entries: Sequence[Entry],
    *,
    with_customers: bool,
) -> list[Movement]:
    """Return a merchant's entries as rows, in the same order.

    ``with_customers``: whether the person may see payments, and so their customers.
    """
    ids = {entry.source_id for entry in entries if entry.source_type == "refund"}
    order_ids = await refunds.find_order_ids(tx, merchant_id, sorted(ids)) if ids else {}
    order_ids |= {one.source_id: one.source_id for one in entries if one.source_type == "order"}
    orders_by_id: dict[str, Order] = {}
    if with_customers:
        orders_by_id = await orders.find_many(tx, merchant_id, sorted(set(order_ids.values())))

    def row(entry: Entry) -> Movement:
        def amount(minor: int) -> str:
            return localizer.amount(Money(minor, entry.currency))

        order = orders_by_id.get(order_ids.get(entry.source_id, ""))
        changed = {entry.from_account, entry.to_account}
        return Movement(
            entry=entry,
            amount=amount(entry.shown_minor),
            balances=tuple(
                (name, amount(getattr(entry, f"{name}_after")))
                for name in MERCHANT_ACCOUNTS
                if name in changed
            ),
            page=_PAGES.get(entry.source_type, ""),
            id=order_ids.get(entry.source_id, entry.source_id),
            customer=(order.customer_email or order.customer_name or "") if order else "",
            product=order.product_name if order else "",
        )

    return [row(entry) for entry in entries]
