"""Reads a merchant's events in their order, for receivers that missed some.

The cursor is the number of the last event that was read. Numbers are given after the commit
(``queries.NUMBER``), so that an event whose transaction took long comes later and is never skipped.
"""

import re
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.webhooks import queries
from opentill.webhooks.model import NumberedEvent, Type

_LOOKED_AT: Final = 5000  # events that one call reads at most, however few are of the type
_BATCH: Final = 1000  # events that are numbered at a time
_CURSOR: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class EventBatch(msgspec.Struct, frozen=True):
    """A batch of events, the cursor of the next one, and whether there are more now."""

    events: list[NumberedEvent]
    cursor: int
    more: bool


def parse_cursor(text: str) -> int:
    """Return the number of a cursor; "0" is the beginning. Raises Invalid."""
    if _CURSOR.fullmatch(text) is None:
        raise Invalid("cursor", "cursor must be the cursor of an earlier response, or absent")
    return int(text)


async def read(db: Db, merchant_id: str, after: int, type_: Type | None, limit: int) -> EventBatch:
    """Return up to ``limit`` events after a cursor, oldest first. Raises Invalid."""
    async with db.connection() as tx:
        # In this order, so that what another reader numbers in between is below the head.
        waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
        head = await queries.HEAD.get(tx, merchant_id=merchant_id) or 0
    if waiting and head < after + _LOOKED_AT:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
    if after > head:
        raise Invalid("cursor", "cursor must be the cursor of an earlier response, or absent")
    last = min(head, after + _LOOKED_AT)
    async with db.connection() as tx:
        found = await queries.EVENTS.all(
            tx, merchant_id=merchant_id, after=after, last=last, type=type_, limit=limit
        )
    cursor = found[-1].number if len(found) == limit else last
    return EventBatch(found, cursor, cursor < head or bool(waiting))


async def numbered(tx: Tx, merchant_id: str, number: int) -> NumberedEvent | None:
    """Return the event of a number, None for one that is not kept any more."""
    return await queries.EVENTS.first(
        tx, merchant_id=merchant_id, after=number - 1, last=number, type=None, limit=1
    )


async def number(tx: Tx, merchant_id: str, most: int = _BATCH) -> int:
    """Number up to ``most`` of a merchant's unnumbered events; return the last number given."""
    await queries.OPEN_HEAD.run(tx, merchant_id=merchant_id)
    await queries.LOCK_HEAD.get(tx, merchant_id=merchant_id)
    return await queries.NUMBER.get(tx, merchant_id=merchant_id, limit=most) or 0


async def end(db: Db, merchant_id: str) -> int:
    """Return the cursor after the newest event."""
    while True:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            if not await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id):
                return head
