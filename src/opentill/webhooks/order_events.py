"""The events about one order, and their deliveries.

Events have no index by order: every payment would write it, for a page that is seldom opened
(decision 0069). Event ids begin with the real time of their creation, and the order's history has
the times of its events. So a lookup reads the events that follow each such time, until it has
found as many as the history has.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from opentill.core.ids import creation_time, first_id
from opentill.db import clock
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.model import EventDelivery, OrderEvent

# An event is written after the moment that it reports: later in the same transaction or run of a
# job (at most _ROUND_MS). The clocks of two machines may differ by _SKEW_MS.
_SKEW_MS: Final = 5_000
_ROUND_MS: Final = 15 * 60_000
_MAX_SCANNED: Final = 20_000  # at most this many events are read after one moment
# A first search reads only the next few events after a moment, because the event is nearly always
# among them.
_NEAR_SKEW_MS: Final = 50
_MOST_NEAR: Final = 500
_EVER_MS: Final = 2**47


async def find_order_events(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    moments: Iterable[int],
    *,
    movable: bool,
) -> list[OrderEvent]:
    """Return the events about an order, oldest first.

    ``moments`` has the time of each of its events, Unix ms in business time. If business time can
    be moved (``movable``), its offset at that time is unknown: then all events since the creation
    of the order are searched too.
    """
    ahead_ms = await clock.ahead_ms(tx) if movable else 0
    counts = Counter(moment - ahead_ms for moment in moments)
    near = await _within(tx, merchant_id, order_id, _ranges(counts, _NEAR_SKEW_MS), _MOST_NEAR)
    if len(near) >= counts.total():
        return near
    ranges = _ranges(counts, _SKEW_MS)
    if movable:
        ranges.append(_Range(_made_at(order_id), _EVER_MS, counts.total()))
    return await _within(tx, merchant_id, order_id, ranges, _MAX_SCANNED)


class _Range(NamedTuple):
    """A range of creation times (real time, Unix ms) and the most events of the order in it."""

    since: int
    until: int
    expected: int


def _ranges(counts: Mapping[int, int], skew_ms: int) -> list[_Range]:
    """Return the range of each moment, with how many events of the order can be in it."""
    return [
        _Range(
            at - skew_ms,
            at + _ROUND_MS,
            sum(count for other, count in counts.items() if 0 <= at - other <= skew_ms + _ROUND_MS),
        )
        for at in counts
    ]


async def _within(
    tx: Tx, merchant_id: str, order_id: str, ranges: Sequence[_Range], max_scanned: int
) -> list[OrderEvent]:
    return await queries.OF_ORDER.all(
        tx,
        merchant_id=merchant_id,
        order_id=order_id,
        since=[first_id("evt", one.since) for one in ranges],
        until=[first_id("evt", one.until) for one in ranges],
        expected=[one.expected for one in ranges],
        max_scanned=max_scanned,
    )


def _made_at(order_id: str) -> int:
    try:
        return creation_time(order_id) - _SKEW_MS
    except ValueError:
        return 0


async def find_deliveries_of(
    tx: Tx, merchant_id: str, event_ids: Sequence[str]
) -> list[EventDelivery]:
    """Return the deliveries of events, by event and then by endpoint, oldest first."""
    return await queries.OF_EVENTS.all(tx, merchant_id=merchant_id, event_ids=list(event_ids))
