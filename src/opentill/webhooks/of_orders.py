"""The events about one order, and what became of them.

Events have no index by their order: it would be written with every payment, for the sake of a page
that is seldom opened (decision 0069). Their ids begin with the real time at which they were made,
and the order's history says when it had some. So what is read is what followed each such moment, up
to as many events as it had.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from opentill.core.ids import first_id, made_at
from opentill.db import clock
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.model import EventDelivery, OrderEvent

# An event is made after the moment that it has as its time: later in the transaction, or in the
# round of a job. The clocks of two machines differ a little.
_SKEW_MS: Final = 5_000
_ROUND_MS: Final = 15 * 60_000
_LOOKED_AT: Final = 20_000  # events after one moment, at most
_EVER_MS: Final = 2**47


async def of_order(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    moments: Iterable[int],
    *,
    movable: bool,
) -> list[OrderEvent]:
    """Return the events about an order, oldest first.

    ``moments`` are when it had one, each as often as it had some (Unix ms, business time). Where
    that can be moved (``movable``) nobody knows how far ahead it was then: there, what followed the
    order itself is looked at too.
    """
    ahead_ms = await clock.ahead_ms(tx) if movable else 0
    counts = Counter(moment - ahead_ms for moment in moments)
    ranges = [
        (first_id("evt", at - _SKEW_MS), first_id("evt", at + _ROUND_MS), expected)
        for at, expected in counts.items()
    ]
    if movable and counts:
        began = _made_at(order_id)
        everything = (first_id("evt", began), first_id("evt", _EVER_MS), counts.total())
        ranges.append(everything)
    since, until, expected = ([one[place] for one in ranges] for place in range(3))
    return await queries.OF_ORDER.all(
        tx,
        merchant_id=merchant_id,
        order_id=order_id,
        since=since,
        until=until,
        expected=expected,
        looked_at=_LOOKED_AT,
    )


def _made_at(order_id: str) -> int:
    try:
        return made_at(order_id) - _SKEW_MS
    except ValueError:
        return 0


async def deliveries_of(tx: Tx, merchant_id: str, event_ids: Sequence[str]) -> list[EventDelivery]:
    """Return the deliveries of some events, by event and then by endpoint, oldest first."""
    return await queries.OF_EVENTS.all(tx, merchant_id=merchant_id, event_ids=list(event_ids))
