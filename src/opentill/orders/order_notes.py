"""Notes on orders: remarks of the merchant's team and of the operator about a payment.

A note is never changed or removed. Events are in the order's history (``order_history.py``).
"""

from opentill.core.notes import MOST_NOTES, NotesFull, clean_note
from opentill.db.database import Tx
from opentill.orders import queries, service
from opentill.orders.model import Order, OrderNote


async def notes_of(tx: Tx, order: Order) -> list[OrderNote]:
    """Return the notes on an order, oldest first: at most ``MOST_NOTES``."""
    return await queries.NOTES.all(tx, merchant_id=order.merchant_id, order_id=order.id)


async def add_note(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    text: str,
    who: str,
    now: int,
    *,
    by_merchant: bool = False,
) -> OrderNote:
    """Append a note to an order.

    ``by_merchant``: a member of the merchant writes it. Raises NotFound, Invalid on ``note``, and
    NotesFull.
    """
    text = clean_note(text)
    # Locking the order keeps concurrent notes from getting the same number.
    order = await service.lock(tx, merchant_id, order_id)
    number = len(await notes_of(tx, order)) + 1
    if number > MOST_NOTES:
        raise NotesFull
    new = OrderNote(
        merchant_id=merchant_id,
        order_id=order_id,
        number=number,
        at=now,
        who=who,
        note=text,
        by_merchant=by_merchant,
    )
    await queries.ADD_NOTE.run(tx, new)
    return new
