"""The item of our books that a difference is about."""

from opentill.db.database import Tx
from opentill.reconciliation import queries
from opentill.reconciliation.model import SETTLED, Item, OpenDifference


async def find_item(tx: Tx, difference: OpenDifference) -> Item | None:
    """Return the item to which the reference of a gateway's difference belongs; None without one.

    An item of the difference's own kind comes first: a chargeback of a report may name the payment.
    """
    items = await queries.NAMED.all(
        tx, gateway=difference.source, names=[difference.reference], at_once=False
    )
    return min(items, key=lambda item: _rank(item, difference), default=None)


def is_settled(item: Item) -> bool:
    """Whether the money of an item has moved in our books."""
    return item.status in SETTLED[item.kind]


def _rank(item: Item, difference: OpenDifference) -> tuple[bool, bool]:
    return item.kind != difference.kind, not is_settled(item)
