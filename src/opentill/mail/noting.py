"""What happened becomes rows of the outbox: the worker reads it after the commit, each thing once.

A payment writes nothing for mail (decision 0084). Its event is read by its number, which is given
after the commit, so that nothing is skipped; how far the reading has come is written in the
transaction that writes the rows, and a row's cause is unique. Where there is no mail server nothing
of this runs.

An event that no mail can be made of is put aside with the reason, for staff to see, and those after
it are read on (decision 0103).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import asyncpg
import structlog

from opentill import webhooks
from opentill.core import log
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.connection import COLLIDED
from opentill.db.database import Db, Tx
from opentill.mail import of_events, outbox, queries, recipients
from opentill.mail.model import HOUR_MS, LONGEST_RESULT, OF_NOBODY, Head, NewMail
from opentill.mail.topics import BY_NAME, Entry
from opentill.webhooks import EventBatch, NumberedEvent

_log: Final = structlog.get_logger()
LATEST_MS: Final = 24 * HOUR_MS  # what is older when it is read is not mailed any more
_EVENTS: Final = 500  # read at once
_BATCHES: Final = 20  # of one merchant, before it is another's turn
_MERCHANTS: Final = 200
_ENTRIES: Final = 500
_AUDITED: Final = {  # action → topic
    "webhooks disable": "endpoint_disabled",
    "keys create": "key_changed",
    "keys regenerate": "key_changed",
    "keys revoke": "key_changed",
    "payouts account": "account_changed",
}
# What is no event's fault, and goes away by itself: it is tried again.
_PASSING: Final = (
    *COLLIDED,
    Unavailable,
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.OperatorInterventionError,  # such as a server that shuts down
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,
)


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
    """Read the events of all merchants that are not read, and return how many mails they made."""
    since, made, last = (await begin(db, now)).since, 0, ""
    while True:
        async with db.connection() as tx:
            behind = await queries.BEHIND.all(tx, after=last, limit=_MERCHANTS)
        for merchant in behind:
            made += await _of_merchant(
                db, settings, merchant.merchant_id, merchant.number, since, now
            )
        if len(behind) < _MERCHANTS:
            return made
        last = behind[-1].merchant_id


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
    reading = _Reading(tx, settings, merchant_id, max(since, now - LATEST_MS), now)
    made = await reading.read(batch.events)
    await queries.MOVE_HEAD.run(tx, merchant_id=merchant_id, number=batch.cursor)
    return made


class _Reading:
    """Makes mails of a merchant's events, in the caller's transaction."""

    def __init__(self, tx: Tx, settings: Settings, merchant_id: str, oldest: int, now: int) -> None:
        self._tx = tx
        self._settings = settings
        self._merchant_id = merchant_id
        self._oldest = oldest
        self._now = now

    async def read(self, events: Sequence[NumberedEvent]) -> int:
        """Return how many mails were made, each event by itself where not all could be read."""
        try:
            return await self._make(events)
        except _PASSING:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one event
            if len(events) == 1:
                await self._put_aside(events[0], error)
                return 0
        made = 0
        for event in events:
            made += await self.read([event])
        return made

    async def _make(self, events: Sequence[NumberedEvent]) -> int:
        async with self._tx.transaction():  # what PostgreSQL refuses takes back this much
            wanted = await of_events.mails(
                self._tx, self._settings, self._merchant_id, events, self._oldest
            )
            return len(await outbox.queue(self._tx, self._settings, wanted, self._now))

    async def _put_aside(self, event: NumberedEvent, error: Exception) -> None:
        reason = log.redact(f"{type(error).__name__}: {error}")
        _log.error(
            "mail_event_put_aside", merchant=self._merchant_id, event_id=event.id, why=reason
        )
        await queries.PUT_ASIDE.run(
            self._tx,
            merchant_id=self._merchant_id,
            number=event.number,
            event_id=event.id,
            reason=reason[:LONGEST_RESULT],
            now=self._now,
        )


async def audit_log(db: Db, settings: Settings, now: int) -> int:
    """Read what the audit log has that is not read, and return how many entries it was."""
    await begin(db, now)

    async def work(tx: Tx) -> int:
        after = await queries.LOCK_HEAD.get(tx, merchant_id=OF_NOBODY) or 0
        entries = await queries.AUDITED.all(tx, after=after, limit=_ENTRIES)
        for entry in entries:
            name = _AUDITED.get(entry.action)
            if name is None or entry.at < now - LATEST_MS:
                continue
            said = Entry(
                merchant_id=entry.merchant_id,
                action=entry.action,
                who=entry.who,
                subject=entry.subject,
                at=entry.at,
            )
            to = await recipients.members(tx, entry.merchant_id, BY_NAME[name])
            wanted = [
                NewMail(
                    merchant_id=entry.merchant_id,
                    topic=name,
                    cause=f"audit {entry.number}",
                    recipient=email,
                    language=to.language,
                    data=said,
                )
                for email in to.emails
            ]
            await outbox.queue(tx, settings, wanted, now)
        if entries:
            await queries.MOVE_HEAD.run(tx, merchant_id=OF_NOBODY, number=entries[-1].number)
        return len(entries)

    return await db.run(work)
