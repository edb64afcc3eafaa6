"""Worker jobs of webhooks other than sending: pruning of old rows, and queue metrics."""

from typing import Any, Final

from opentill.core.ids import first_id
from opentill.db.database import Db, Tx
from opentill.webhooks import catchup, dispatch_queries, queries

KEEP_DELIVERIES_MS: Final = 30 * 86_400_000
KEEP_EVENTS_MS: Final = 90 * 86_400_000
# Rows of deleted endpoints and of unused hosts are kept for this time, because a transaction that
# began earlier may still use them.
_DELETED_MS: Final = 86_400_000
_BATCH: Final = 500  # a statement deletes at most this many rows of each endpoint or merchant


async def prune(db: Db, now: int) -> int:
    """Remove a batch of old attempts, deliveries and events; return the number of rows.

    Deliveries are kept for 30 days after their last update, resends for 30 days and events for 90,
    by the time in their ids or numbers. That is real time, and so is ``now``: advancing business
    time removes nothing.
    """
    removed = 0
    since = now - KEEP_DELIVERIES_MS
    deliveries, events = first_id("evt", since), first_id("evt", now - KEEP_EVENTS_MS)
    old: dict[str, Any] = {
        "keep_from": deliveries, "kept_since": since, "first_event": events, "limit": _BATCH,
    }  # fmt: skip
    for statement, values in (
        (queries.PRUNE_ATTEMPTS, old),
        (queries.PRUNE_DELIVERIES, old),
        (queries.PRUNE_RESENDS, {"before": max(catchup.number_at(since), 1), "limit": _BATCH}),
        (queries.PRUNE_EVENTS, {"keep_from": events, "limit": _BATCH}),
        (queries.PRUNE_ENDPOINTS, {"before": now - _DELETED_MS}),
        (queries.PRUNE_HOSTS, {"before": now - _DELETED_MS}),
    ):
        async with db.connection() as tx:
            removed += await statement.run(tx, **values)
    return removed


async def make_due(tx: Tx, now: int) -> None:
    """Make all pending deliveries due now, after the business clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)


async def measure_backlog(tx: Tx, now: int) -> tuple[int, int]:
    """Count the pending deliveries, up to 10,000; return also the longest delay in ms.

    Only deliveries to healthy endpoints count as delayed, so that a delay means that no worker
    runs.
    """
    oldest = await dispatch_queries.OLDEST.get(tx, now=now)
    count = await dispatch_queries.WAITING.get(tx) or 0
    return count, 0 if oldest is None else now - oldest
