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

    ``due``: only such as are to be responded to by then. ``before``: only such as come after the
    dispute of this id in the list.
    """

    statuses: tuple[Status, ...] = STATUSES
    since: int = 0
    until: int = FOREVER
    due: int | None = None
    before: str = ""


async def of_all(tx: Tx, sought: Sought, limit: int) -> list[Dispute]:
    """Return disputes of all merchants, newest first; all where ``before`` is no dispute."""
    at, last_id = FOREVER, ids.LAST
    if sought.before:
        try:
            last = await find_anywhere(tx, sought.before)
        except NotFound:
            pass
        else:
            at, last_id = last.created_at, last.id
    return await queries.OF_ALL.all(
        tx,
        status=list(sought.statuses),
        since=sought.since,
        until=sought.until,
        due=sought.due,
        before_at=at,
        before_id=last_id,
        limit=limit,
    )
