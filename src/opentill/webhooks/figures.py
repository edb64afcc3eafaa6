"""Figures of the latest deliveries: delivered and failed by day, and the servers' response time.

The cost is bounded: of each endpoint the newest 5,000 deliveries are counted, and the newest 1,000
attempts are timed, which the primary keys find without reading others.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.db.database import Tx
from opentill.webhooks import figure_queries
from opentill.webhooks.figure_queries import Counts

MAX_COUNTED: Final = 5_000
_MAX_TIMED: Final = 1_000


class DeliveryFigures(msgspec.Struct, frozen=True):
    """Deliveries of events by day; test events are counted apart as ``tests``.

    ``failed`` includes the ``retrying`` deliveries, which will be attempted again. ``is_partial``:
    there are more deliveries than were counted. ``median_ms`` is None without a response.
    """

    delivered: tuple[int, ...]
    failed: tuple[int, ...]
    retrying: int
    pending: int
    tests: int
    is_partial: bool
    median_ms: int | None

    @property
    def total(self) -> int:
        """The number of deliveries, whatever their result."""
        return sum(self.delivered) + sum(self.failed) + self.pending


async def summarize_deliveries(
    tx: Tx, merchant_id: str, days: Sequence[int], endpoint_id: str | None = None
) -> tuple[DeliveryFigures, dict[str, DeliveryFigures]]:
    """Return the figures of all endpoints together, and of each that has deliveries, by its id.

    ``days`` are the beginnings of days, Unix ms, ascending; ``endpoint_id`` selects one endpoint.
    """
    scope = {"merchant_id": merchant_id, "endpoint_id": endpoint_id}
    counts = await figure_queries.COUNTS.all(tx, **scope, days=list(days), newest=MAX_COUNTED)
    times = await figure_queries.RESPONSE_TIMES.all(tx, **scope, since=days[0], newest=_MAX_TIMED)
    medians = {row.endpoint_id: row.median_ms for row in times}
    by_endpoint: dict[str, list[Counts]] = {}
    for row in counts:
        by_endpoint.setdefault(row.endpoint_id, []).append(row)
    each = {id_: _summarize(rows, len(days), medians.get(id_)) for id_, rows in by_endpoint.items()}
    total = DeliveryFigures(
        tuple(map(sum, zip(*(one.delivered for one in each.values()), strict=True)))
        or (0,) * len(days),
        tuple(map(sum, zip(*(one.failed for one in each.values()), strict=True)))
        or (0,) * len(days),
        sum(one.retrying for one in each.values()),
        sum(one.pending for one in each.values()),
        sum(one.tests for one in each.values()),
        any(one.is_partial for one in each.values()),
        medians.get(None),
    )
    return total, each


def _summarize(rows: Sequence[Counts], days: int, median_ms: int | None) -> DeliveryFigures:
    by_day = {row.day: row for row in rows}
    listed = [by_day.get(day) for day in range(1, days + 1)]
    return DeliveryFigures(
        tuple(row.delivered if row else 0 for row in listed),
        tuple(row.failed if row else 0 for row in listed),
        sum(row.retrying for row in listed if row),
        sum(row.pending for row in listed if row),
        sum(row.tests for row in listed if row),
        # Whoever has read the allowed number, and nothing older, may have missed some.
        0 not in by_day and sum(row.scanned for row in rows) >= MAX_COUNTED,
        median_ms,
    )
