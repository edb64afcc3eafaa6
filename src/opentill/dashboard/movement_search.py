"""The movements that a text leads to: those of a payment, of a customer, or of a payout."""

from collections.abc import Sequence
from typing import Final

from opentill import disputes, ledger, orders, payouts, refunds
from opentill.core.errors import NotFound
from opentill.core.ids import is_id
from opentill.db.database import Db, Tx
from opentill.ledger import Cause, Entry

_MOST_ORDERS: Final = 50  # of a customer
_MOST_REFUNDS: Final = 200
MOST_FOUND: Final = 200  # movements


async def find(db: Db, merchant_id: str, text: str, within: tuple[int, int]) -> list[Entry]:
    """Return the newest movements that a text leads to, newest first.

    The text is the id of a payment or a payout, a part of a payout's reference, an amount paid
    out, or a customer's email address. ``within`` is inclusive Unix ms.
    """
    order_ids: Sequence[str] = ()
    if "@" in text:
        newest = await orders.newest_of_customer(db, merchant_id, text, _MOST_ORDERS)
        order_ids = [order.id for order in newest]

    async def read(tx: Tx) -> list[Entry]:
        causes = await _causes(tx, merchant_id, text, order_ids)
        return await ledger.find_entries(tx, merchant_id, causes) if causes else []

    since, until = within
    entries = [entry for entry in await db.read(read) if since <= entry.created_at <= until]
    entries.sort(key=lambda entry: (entry.created_at, entry.number), reverse=True)
    return entries[:MOST_FOUND]


async def _causes(
    tx: Tx, merchant_id: str, text: str, order_ids: Sequence[str]
) -> list[tuple[Cause, str]]:
    if text.startswith("order_") and is_id(text):
        order_ids = await _order_id(tx, merchant_id, text)
    causes: list[tuple[Cause, str]] = [("order", order_id) for order_id in order_ids]
    if order_ids:
        of_orders = await refunds.list_of_orders(tx, merchant_id, order_ids, _MOST_REFUNDS)
        causes.extend(("refund", refund.id) for refund in of_orders)
        newest = await disputes.newest_of_orders(tx, merchant_id, order_ids)
        causes.extend(("dispute", dispute.id) for dispute in newest.values())
    elif "@" not in text:
        matching = await payouts.list_matching(tx, merchant_id, text)
        causes.extend(("payout", payout.id) for payout in matching)
    return causes


async def _order_id(tx: Tx, merchant_id: str, text: str) -> list[str]:
    try:
        return [(await orders.find(tx, merchant_id, text)).id]
    except NotFound:
        return []
