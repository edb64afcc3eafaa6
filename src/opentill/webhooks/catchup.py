"""Reads a merchant's events in their order, for receivers that missed some.

The cursor is the number of the last event that was read. Numbers are given after the commit
(``catchup_queries.NUMBER``), so that an event whose transaction took long comes later and is never
skipped. They are of the real time at which they are given, and never below one given before, so
that a reader whose cursor is of before a restored backup is given all that happens after it
(decision 0017).
"""

import re
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db import clock
from opentill.db.database import Db, Tx
from opentill.webhooks import catchup_queries as queries
from opentill.webhooks.model import NumberedEvent, Type

_LOOKED_AT: Final = 5000  # events that one call reads at most, however few are of the type
_BATCH: Final = 1000  # events that are numbered at a time
_SKEW_MS: Final = 60_000  # by which the clocks of two machines may differ
_EPOCH_MS: Final = 1_704_067_200_000  # 2024-01-01: numbers fit into a double until the year 2309
_IN_A_MS: Final = 1000  # numbers
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


def number_at(at: int) -> int:
    """Return what the numbers given at a real time (Unix ms) are above."""
    return (at - _EPOCH_MS) * _IN_A_MS


async def read(db: Db, merchant_id: str, after: int, type_: Type | None, limit: int) -> EventBatch:
    """Return up to ``limit`` events after a cursor, oldest first. Raises Invalid.

    A cursor above the last number is one of before a restored backup, as long as the clock can have
    given it: there is nothing after it yet.
    """
    async with db.connection() as tx:
        # In this order, so that what another reader numbers in between is below the head.
        waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
        head = await queries.HEAD.get(tx, merchant_id=merchant_id) or 0
    if waiting:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            waiting = await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id)
    if after > max(head, number_at(clock.now_ms() + _SKEW_MS)):
        raise Invalid("cursor", "cursor must be the cursor of an earlier response, or absent")
    own, last = {"merchant_id": merchant_id, "after": after}, head
    async with db.connection() as tx:
        if type_ is not None:  # first, so that what is pruned meanwhile moves nothing past it
            seen = await queries.EVENTS_READ_TO.get(tx, **own, last=head, looked_at=_LOOKED_AT)
            last = head if seen is None else seen
        found = await queries.EVENTS.all(tx, **own, last=last, type=type_, limit=limit)
    cursor = found[-1].number if len(found) == limit else max(after, last)
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
    floor = number_at(clock.now_ms())
    return await queries.NUMBER.get(tx, merchant_id=merchant_id, floor=floor, limit=most) or 0


async def end(db: Db, merchant_id: str) -> int:
    """Return the cursor after the newest event."""
    while True:
        head = await db.run(lambda tx: number(tx, merchant_id))
        async with db.connection() as tx:
            if not await queries.HAS_UNNUMBERED.get(tx, merchant_id=merchant_id):
                return head
