"""Entries of the ledger as rows of a page: amounts, balances after them, links to their causes."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import refunds
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import Entry
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
    available: str
    pending: str
    held: str  # sum of frozen money and reserve
    page: str
    id: str


async def rows(
    tx: Tx, localizer: Localizer, merchant_id: str, entries: Sequence[Entry]
) -> list[Movement]:
    """Return a merchant's entries as rows, in the same order."""
    ids = {entry.source_id for entry in entries if entry.source_type == "refund"}
    orders = await refunds.find_order_ids(tx, merchant_id, sorted(ids)) if ids else {}

    def row(entry: Entry) -> Movement:
        def amount(minor: int) -> str:
            return localizer.amount(Money(minor, entry.currency))

        return Movement(
            entry=entry,
            amount=amount(entry.shown_minor),
            available=amount(entry.available_after),
            pending=amount(entry.pending_after),
            held=amount(entry.frozen_after + entry.reserve_after),
            page=_PAGES.get(entry.source_type, ""),
            id=orders.get(entry.source_id, entry.source_id),
        )

    return [row(entry) for entry in entries]
