"""What happened becomes rows of the outbox: the worker reads it after the commit, each thing once.

A payment writes nothing for mail (decision 0084). Its event is read by its number, which is given
after the commit, so that nothing is skipped; how far the reading has come is written in the
transaction that writes the rows, and a row's cause is unique. Where there is no mail server nothing
of this runs.

An event, or an entry of the audit log, that no mail can be made of is put aside with the reason,
for staff to see, and those after it are read on (``aside.py``, decision 0103).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from opentill import webhooks
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.mail import aside, of_audit, of_events, outbox, queries
from opentill.mail.model import HOUR_MS, OF_NOBODY, Audited, Head
from opentill.webhooks import EventBatch, NumberedEvent

_log: Final = structlog.get_logger()
LATEST_MS: Final = 24 * HOUR_MS  # what is older when it is read is not mailed any more
_EVENTS: Final = 500  # read at once
_BATCHES: Final = 20  # of one merchant, before it is another's turn
_MERCHANTS: Final = 200
_ENTRIES: Final = 500


class Unread(Exception):
    """Events of some merchants could not be read now; the log says why."""

    def __init__(self, merchants: int) -> None:
        """``merchants`` is how many."""
        super().__init__(f"the events of {merchants} merchants are not read for mail")


async def begin(db: Db, now: int) -> Head:
    """Return from when on what happens is mailed: since a mail server was there first."""

    async def work(tx: Tx) -> Head:
        found = await queries.HEAD.first(tx, merchant_id=OF_NOBODY)
        if found is not None:
            return found
        last = await queries.LAST_AUDITED.get(tx) or 0
        await queries.OPEN_HEAD.run(tx, merchant_id=OF_NOBODY, number=last, since=now)
        return await queries.HEAD.one(tx, merchant_id=OF_NOBODY)

    return await db.run(work)


async def events(db: Db, settings: Settings, now: int) -> int:
    """Read the events of all merchants that are not read, and return how many mails they made.

    Merchants whose events cannot be read now are passed over until the next time. Then it raises
    Unread, after all the others.
    """
    since, made, last = (await begin(db, now)).since, 0, ""
    passed_over = 0
    while True:
        async with db.connection() as tx:
            behind = await queries.BEHIND.all(tx, after=last, limit=_MERCHANTS)
        for merchant in behind:
            try:
                made += await _of_merchant(
                    db, settings, merchant.merchant_id, merchant.number, since, now
                )
            except Unavailable:
                raise  # nothing can be read of the others, either
            except Exception:  # noqa: BLE001 - whatever is wrong with one merchant
                _log.exception("mail_merchant_passed_over", merchant=merchant.merchant_id)
                passed_over += 1
        if len(behind) < _MERCHANTS:
            break
        last = behind[-1].merchant_id
    if passed_over:
        raise Unread(passed_over)
    return made


async def _of_merchant(
    db: Db, settings: Settings, merchant_id: str, after: int, since: int, now: int
) -> int:
    made = 0
    for _ in range(_BATCHES):
        batch = await webhooks.read(db, merchant_id, after, None, _EVENTS)
        note = partial(
            _note, settings=settings, merchant_id=merchant_id, after=after, batch=batch,
            since=since, now=now,
        )  # fmt: skip
        noted = await db.run(note)
        if noted is None:  # another worker was faster
            return made
        made, after = made + noted, batch.cursor
        if not batch.more:
            break
    return made


async def _note(
    tx: Tx,
    *,
    settings: Settings,
    merchant_id: str,
    after: int,
    batch: EventBatch,
    since: int,
    now: int,
) -> int | None:
    await queries.OPEN_HEAD.run(tx, merchant_id=merchant_id, number=0, since=since)
    if await queries.LOCK_HEAD.get(tx, merchant_id=merchant_id) != after:
        return None
    oldest = max(since, now - LATEST_MS)

    async def make(events: Sequence[NumberedEvent]) -> int:
        wanted = await of_events.mails(tx, settings, merchant_id, events, oldest)
        return len(await outbox.queue(tx, settings, wanted, now))

    async def put_aside(event: NumberedEvent, error: Exception) -> None:
        await aside.put(tx, merchant_id, event.number, event.id, error, now)

    made = await aside.make_each(tx, batch.events, make, put_aside)
    await queries.MOVE_HEAD.run(tx, merchant_id=merchant_id, number=batch.cursor)
    return made


async def audit_log(db: Db, settings: Settings, now: int) -> int:
    """Read what the audit log has that is not read, and return how many entries it was."""
    await begin(db, now)

    async def work(tx: Tx) -> int:
        after = await queries.LOCK_HEAD.get(tx, merchant_id=OF_NOBODY) or 0
        entries = await queries.AUDITED.all(tx, after=after, limit=_ENTRIES)

        async def make(some: Sequence[Audited]) -> int:
            wanted = await of_audit.mails(tx, some, now - LATEST_MS)
            return len(await outbox.queue(tx, settings, wanted, now))

        async def put_aside(entry: Audited, error: Exception) -> None:
            await aside.put(tx, OF_NOBODY, entry.number, f"audit {entry.number}", error, now)

        if entries:
            await aside.make_each(tx, entries, make, put_aside)
            await queries.MOVE_HEAD.run(tx, merchant_id=OF_NOBODY, number=entries[-1].number)
        return len(entries)

    return await db.run(work)
