"""What a reversed refund does to its order: its amount is paid again."""

from typing import Final

import msgspec

from opentill.db.database import Tx
from opentill.orders import notes
from opentill.orders.model import Order, Status
from opentill.orders.transitions import Change, transition

_EVENT: Final = "refund_reversed"


async def reverse_refund(
    tx: Tx, order: Order, amount_minor: int, debit_minor: int, cause: str, now: int
) -> Order:
    """Take a refund back that had succeeded, and return the order, which the caller has locked.

    ``amount_minor`` is in minor units of the order, ``debit_minor`` of the settled currency. A
    REFUNDED order is PAID again as long as its money is in pending, else SETTLED.
    """
    if order.status != "REFUNDED":
        return await notes.uncount_refund(tx, order, amount_minor, debit_minor, cause, now)
    paid_again = msgspec.structs.replace(
        order,
        refunded_minor=order.refunded_minor - amount_minor,
        refund_held_minor=order.refund_held_minor - amount_minor,
        refund_debit_minor=order.refund_debit_minor - debit_minor,
    )
    back_to: Status = "PAID" if order.stands_in == "pending" else "SETTLED"
    return await transition(tx, Change(paid_again, _EVENT, cause, back_to=back_to), now)
