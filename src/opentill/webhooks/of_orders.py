"""The events about one order, and what became of them.

Events have no index by their order: it would be written with every payment, for the sake of a page
that is seldom opened (decision 0069). Their ids begin with the real time at which they were made,
and the order's history says when it had some. So what is read is what followed each such moment, up
to as many events as it had.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from opentill.core.ids import creation_time, first_id
from opentill.db import clock
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.model import EventDelivery, OrderEvent

# An event is made after the moment that it has as its time: later in the transaction, or in the
# round of a job. The clocks of two machines differ a little.
_SKEW_MS: Final = 5_000
_ROUND_MS: Final = 15 * 60_000
_LOOKED_AT: Final = 20_000  # events after one moment, at most
# Nearly always it is among the next few: so there is looked first.
_NEAR_SKEW_MS: Final = 50
_NEAR: Final = 500
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
    near = await _within(tx, merchant_id, order_id, _ranges(counts, _NEAR_SKEW_MS), _NEAR)
    if len(near) >= counts.total():
        return near
    ranges = _ranges(counts, _SKEW_MS)
    if movable:
        ranges.append(_Range(_made_at(order_id), _EVER_MS, counts.total()))
    return await _within(tx, merchant_id, order_id, ranges, _LOOKED_AT)


class _Range(NamedTuple):
    """From when until when events were made (real time, Unix ms), and how many of the order."""

    since: int
    until: int
    expected: int


def _ranges(counts: Mapping[int, int], skew_ms: int) -> list[_Range]:
    """Return where the events of each moment are: perhaps behind those of moments before it."""
    return [
        _Range(
            at - skew_ms,
            at + _ROUND_MS,
            sum(count for other, count in counts.items() if 0 <= at - other <= skew_ms + _ROUND_MS),
        )
        for at in counts
    ]


async def _within(
    tx: Tx, merchant_id: str, order_id: str, ranges: Sequence[_Range], looked_at: int
) -> list[OrderEvent]:
    return await queries.OF_ORDER.all(
        tx,
        merchant_id=merchant_id,
        order_id=order_id,
        since=[first_id("evt", one.since) for one in ranges],
        until=[first_id("evt", one.until) for one in ranges],
        expected=[one.expected for one in ranges],
        looked_at=looked_at,
    )


def _made_at(order_id: str) -> int:
    try:
        return creation_time(order_id) - _SKEW_MS
    except ValueError:
        return 0


async def deliveries_of(tx: Tx, merchant_id: str, event_ids: Sequence[str]) -> list[EventDelivery]:
    """Return the deliveries of some events, by event and then by endpoint, oldest first."""
    return await queries.OF_EVENTS.all(tx, merchant_id=merchant_id, event_ids=list(event_ids))
