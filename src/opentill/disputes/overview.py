"""Searches for disputes: of all merchants for staff, and the orders of many disputes."""

from collections.abc import Sequence

import msgspec

from opentill.core.errors import NotFound
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import STATUSES, Dispute, Status
from opentill.disputes.service import find_anywhere
from opentill.list_counts import FOREVER, page_values


class DisputeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for disputes of all merchants that were opened in a range of time (inclusive Unix ms).

    ``due`` (Unix ms) selects the open disputes whose deadline is not later, sorted by deadline;
    None selects disputes of ``statuses``, newest first. ``after`` is the id of the last dispute on
    the previous page, "" for the first page.
    """

    statuses: tuple[Status, ...] = STATUSES
    since: int = 0
    until: int = FOREVER
    due: int | None = None
    after: str = ""


async def search_all(tx: Tx, criteria: DisputeFilter, limit: int) -> list[Dispute]:
    """Return disputes of all merchants; ``after`` is ignored if no dispute has this id."""
    last = await _find_last(tx, criteria.after)
    if criteria.due is not None:
        return await queries.DUE.all(
            tx,
            since=criteria.since,
            until=criteria.until,
            due=criteria.due,
            after_at=0 if last is None else last.respond_by or 0,
            after_id="" if last is None else last.id,
            limit=limit,
        )
    days = criteria.since, criteria.until
    return await queries.OF_ALL.all(tx, **page_values(criteria.statuses, days, last, limit))


async def list_unforwarded(tx: Tx, limit: int) -> list[Dispute]:
    """Return open disputes of all merchants whose response waits for staff, oldest response first.

    A response waits until staff have added a note after it, which says what they sent.
    """
    return await queries.UNFORWARDED.all(tx, limit=limit)


async def _find_last(tx: Tx, dispute_id: str) -> Dispute | None:
    try:
        return await find_anywhere(tx, dispute_id) if dispute_id else None
    except NotFound:
        return None


async def find_order_ids(tx: Tx, merchant_id: str, dispute_ids: Sequence[str]) -> dict[str, str]:
    """Return the ids of disputes' orders, by the disputes' ids."""
    rows = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(dispute_ids))
    return {row.id: row.order_id for row in rows}
