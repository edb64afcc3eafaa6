"""Failed refunds need attention until a later refund or a person has handled them."""

from opentill import orders
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.refunds import queries
from opentill.refunds.model import Refund


async def handle_repeated(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    """Handle the failed refund that a refund which has succeeded repeats: one of the same amount.

    If nothing is left to refund, all failed refunds of the order are handled. A refund of another
    amount may concern other goods, so a person decides then.
    """
    if not order.refund_failed:
        return
    await queries.HANDLE_REPEATED.run(
        tx,
        merchant_id=order.merchant_id,
        order_id=order.id,
        id=refund.id,
        amount_minor=refund.amount_minor,
        created_at=refund.created_at,
        is_full=order.refunded_minor == order.amount_minor,
        now=now,
    )


async def mark_handled(
    tx: Tx, merchant_id: str, refund_id: str, *, who: str, how: str, now: int
) -> Refund:
    """Mark a failed refund as handled by a person, who returned the money in another way.

    ``how`` is written to the order's history. Raises NotFound, and Invalid for a refund that has
    not failed or is handled already.
    """
    key = {"merchant_id": merchant_id, "id": refund_id}
    before = or_not_found(await queries.BY_ID.first(tx, **key))
    order = await orders.lock(tx, merchant_id, before.order_id)
    refund = await queries.HANDLE.first(tx, **key, handled_by=who, now=now)
    if refund is None:
        raise Invalid("refund", "refund must be one that has failed and is not handled yet")
    await orders.note(tx, order, "refund_handled", f"{refund.id}: {how}", now)
    return refund


async def list_failed(tx: Tx, limit: int) -> list[Refund]:
    """Return failed refunds of all merchants that nobody has handled, the latest first.

    Reversed refunds are left out: their cases report them to staff.
    """
    return await queries.FAILED.all(tx, limit=limit)
