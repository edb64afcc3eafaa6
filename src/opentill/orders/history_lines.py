"""Lines of the history of orders, where they are not written with what they explain.

Where tables are distributed, an order and its history are written by two statements of one
transaction (decision 0118).
"""

from collections.abc import Sequence

import msgspec

from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.orders import transition_queries


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the history."""

    merchant_id: str
    order_id: str
    number: int
    at: int
    event: str
    from_status: str
    to_status: str
    cause: str


async def note(tx: Tx, lines: Sequence[Noted]) -> None:
    """Write lines of one merchant's orders."""
    await transition_queries.NOTED.run(tx, **columns(Noted, lines))
