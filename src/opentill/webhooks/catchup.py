"""Read a merchant's events in order, for receivers that missed some.

The cursor is the number of the last event that was read. Events are numbered after their commit
(``catchup_queries.NUMBER``), so that the event of a long transaction gets a later number and is
never skipped. A number is derived from the real time at which it is assigned and always exceeds
the previous one, so that a cursor from before a restored backup still precedes every event that
follows the restore (decision 0017).
"""

import re
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db import clock
from opentill.db.database import Db, Tx
from opentill.webhooks import catchup_queries as queries
from opentill.webhooks.event_types import Type
from opentill.webhooks.model import NumberedEvent

_MAX_SCANNED: Final = 5000  # one call reads at most this many events, even if few match the type
_BATCH: Final = 1000  # one transaction numbers at most this many events
_SKEW_MS: Final = 60_000  # the clocks of two machines may differ by this much
# The numbers of events count from 2024-01-01, so that they fit into a double until the year 2309.
_EPOCH_MS: Final = 1_704_067_200_000
_NUMBERS_PER_MS: Final = 1000
_CURSOR: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
LATEST: Final = "latest"


class EventBatch(msgspec.Struct, frozen=True):
    """A batch of events, the cursor after it, and whether more can be read now."""

    events: list[NumberedEvent]
    cursor: int
    more: bool


def parse_cursor(text: str) -> int:
    """Return the number of a cursor; "0" is the beginning. Raises Invalid."""
    if _CURSOR.fullmatch(text) is None:
        raise Invalid("cursor", "cursor must be the cursor of an earlier response, or absent")
    return int(text)


def number_at(at: int) -> int:
    """Return the lower bound of the numbers assigned at a real time (Unix ms)."""
    return (at - _EPOCH_MS) * _NUMBERS_PER_MS


async def read(
    db: Db,
    merchant_id: str,
    after: int,
    type_: Type | None,
    limit: int,
    *,
    with_resends: bool = False,
) -> EventBatch:
    """Return up to ``limit`` events after a cursor, oldest first. Raises Invalid.

    ``with_resends``: an event that was resent is returned again, at the place of its resend.
    A cursor above the last number is valid if the clock could have assigned it: it was issued
    before a backup was restored, and no event follows it yet.
    """
    async with db.connection() as tx:
        # The head is read second, so that it includes the numbers that another reader has given
        # meanwhile.
        waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
        head = await queries.HEAD.get(tx, merchant_id=merchant_id) or 0
    if waiting:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
    if after > max(head, number_at(clock.now_ms() + _SKEW_MS)):
        raise Invalid("cursor", "cursor must be the cursor of an earlier response, or absent")
    scope, last = {"merchant_id": merchant_id, "after": after}, head
    async with db.connection() as tx:
        # Read the bound before the events: otherwise pruning between the two reads could move the
        # bound past an event that was not returned.
        if type_ is not None:
            scanned_to = await queries.EVENTS_READ_TO.get(
                tx, **scope, last=head, max_scanned=_MAX_SCANNED
            )
            last = head if scanned_to is None else scanned_to
            if with_resends:
                resends_to = await queries.RESENDS_READ_TO.get(
                    tx, **scope, last=last, max_scanned=_MAX_SCANNED
                )
                last = last if resends_to is None else resends_to
        statement = queries.EVENTS_AND_RESENDS if with_resends else queries.EVENTS
        events = await statement.all(tx, **scope, last=last, type=type_, limit=limit)
    cursor = events[-1].number if len(events) == limit else max(after, last)
    return EventBatch(events, cursor, cursor < head or bool(waiting))


async def find_numbered(tx: Tx, merchant_id: str, number: int) -> NumberedEvent | None:
    """Return the event with a number; None if it was pruned."""
    return await queries.EVENTS.first(
        tx, merchant_id=merchant_id, after=number - 1, last=number, type=None, limit=1
    )


async def number(tx: Tx, merchant_id: str, most: int = _BATCH) -> int:
    """Number up to ``most`` unnumbered events of a merchant; return the last number assigned."""
    floor = await lock_head(tx, merchant_id)
    return await queries.NUMBER.get(tx, merchant_id=merchant_id, floor=floor, limit=most) or 0


async def lock_head(tx: Tx, merchant_id: str) -> int:
    """Lock the head of a merchant's numbers, and return the lower bound of the next number."""
    await queries.OPEN_HEAD.run(tx, merchant_id=merchant_id)
    await queries.LOCK_HEAD.get(tx, merchant_id=merchant_id)
    return number_at(clock.now_ms())


async def newest_cursor(db: Db, merchant_id: str) -> int:
    """Return the cursor after the newest event."""
    while True:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            if not await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id):
                return head
