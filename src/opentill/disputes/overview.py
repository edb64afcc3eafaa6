"""Disputes of all merchants, as staff look through them."""

import msgspec

from opentill.core import ids
from opentill.core.errors import NotFound
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import STATUSES, Dispute, Status
from opentill.disputes.service import find_anywhere
from opentill.list_counts import FOREVER


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which disputes of all merchants: those opened in a range of time (inclusive Unix ms).

    ``due``: only open ones that are to be responded to by then, the first deadline first; otherwise
    they are listed newest first. ``after``: only such as follow the dispute of this id in the list.
    """

    statuses: tuple[Status, ...] = STATUSES
    since: int = 0
    until: int = FOREVER
    due: int | None = None
    after: str = ""


async def of_all(tx: Tx, sought: Sought, limit: int) -> list[Dispute]:
    """Return disputes of all merchants; all that are sought where ``after`` is no dispute."""
    last = await _last(tx, sought.after)
    if sought.due is not None:
        return await queries.DUE.all(
            tx,
            since=sought.since,
            until=sought.until,
            due=sought.due,
            after_at=0 if last is None else last.respond_by or 0,
            after_id="" if last is None else last.id,
            limit=limit,
        )
    return await queries.OF_ALL.all(
        tx,
        status=list(sought.statuses),
        since=sought.since,
        until=sought.until,
        before_at=FOREVER if last is None else last.created_at,
        before_id=ids.LAST if last is None else last.id,
        limit=limit,
    )


async def _last(tx: Tx, dispute_id: str) -> Dispute | None:
    try:
        return await find_anywhere(tx, dispute_id) if dispute_id else None
    except NotFound:
        return None
