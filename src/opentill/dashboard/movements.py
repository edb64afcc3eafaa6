"""Entries of the ledger as rows of a page: amounts, balances after them, links to their causes."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from opentill import disputes, orders, refunds
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import MERCHANT_ACCOUNTS, Entry, list_entries_of
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
    is_transfer: bool  # between accounts of the merchant, so that their sum stays
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
    """Return a merchant's entries, newest first, as rows in the same order.

    ``with_customers``: whether the person may see payments, and so their customers.
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
        return Movement(
            entry=entry,
            gross=amount(entry.shown_minor),
            fee=amount(fee.shown_minor) if fee else "",
            amount=amount(entry.shown_minor + (fee.shown_minor if fee else 0)),
            balances=tuple(
                (name, amount(getattr(last, f"{name}_after")))
                for name in MERCHANT_ACCOUNTS
                if name in changed
            ),
            page=_PAGES.get(entry.source_type, ""),
            id=entry.source_id if is_dispute else order_ids.get(entry.source_id, entry.source_id),
            is_transfer=changed <= set(MERCHANT_ACCOUNTS),
            customer=(order.customer_email or order.customer_name or "") if order else "",
            product=order.product_name if order else "",
        )

    return [row(entry, fee) for entry, fee in _pair_fees(entries)]


def _pair_fees(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry | None]]:
    """Yield each entry, and a payment's entry with that of its fee, which follows it."""
    pending: Entry | None = None
    for entry in entries:
        if pending is not None and not _is_fee_of(pending, entry):
            yield pending, None
            pending = None
        if pending is None and entry.type == "FEE":
            pending = entry
        else:
            yield entry, pending
            pending = None
    if pending is not None:
        yield pending, None


def _is_fee_of(fee: Entry, payment: Entry) -> bool:
    return (
        (fee.type, payment.type) == ("FEE", "PAYMENT")
        and fee.source_id == payment.source_id
        and fee.number == payment.number + 1
    )


async def keep_payments_whole(
    tx: Tx, merchant_id: str, entries: list[Entry], *, is_first_page: bool
) -> list[Entry]:
    """Return a page of entries, newest first, in which no payment is parted from its fee.

    A payment whose fee is the last entry of the page before is shown there.
    """
    if entries and not is_first_page and entries[0].type == "PAYMENT":
        others = await list_entries_of(tx, merchant_id, "order", entries[0].source_id)
        if any(_is_fee_of(other, entries[0]) for other in others):
            entries = entries[1:]
    if entries and entries[-1].type == "FEE" and entries[-1].source_type == "order":
        others = await list_entries_of(tx, merchant_id, "order", entries[-1].source_id)
        entries = [*entries, *(other for other in others if _is_fee_of(entries[-1], other))]
    return entries
