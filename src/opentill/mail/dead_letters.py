"""Events and audit entries that could not be turned into mail, kept until staff retry them.

The worker reads on after a dead letter, so that one bad row, or a defect of ours, cannot hold up
the mails of others (decision 0103).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import asyncpg
import msgspec
import structlog

from opentill import merchants, webhooks
from opentill.core import log
from opentill.core.errors import Invalid, Unavailable, or_not_found
from opentill.core.settings import Settings
from opentill.db.connection import COLLIDED
from opentill.db.database import Db, Tx
from opentill.mail import outbox, queries, triggers
from opentill.mail.model import MAX_RESULT_LENGTH, NO_MERCHANT, DeadLetter, NewMail
from opentill.merchants import Actor

_log: Final = structlog.get_logger()
_T = TypeVar("_T")
_BATCH: Final = 500  # one transaction retries at most this many dead letters
_BEFORE_FIRST: Final = DeadLetter("", -1, "", "", 0)
# These errors come from the database or the network and not from an event, so that no dead letter
# is stored: the next run tries again.
_TEMPORARY: Final = (
    *COLLIDED,
    Unavailable,
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.OperatorInterventionError,  # raised, for example, when PostgreSQL shuts down
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,
)


class RetryResult(msgspec.Struct, frozen=True):
    """How many dead letters were read again, how many mails they caused, and how many remain."""

    read: int = 0
    mails: int = 0
    put_aside: int = 0


async def process_each(
    tx: Tx,
    items: Sequence[_T],
    process: Callable[[Sequence[_T]], Awaitable[int]],
    store_failed: Callable[[_T, Exception], Awaitable[None]],
) -> int:
    """Call ``process`` with all items; return how many mails it queued.

    If it fails, it is called with each item alone. ``store_failed`` gets each item that fails
    alone, and the error.
    """
    try:
        async with tx.transaction():  # a savepoint, so that ``tx`` can go on after an error
            return await process(items)
    except _TEMPORARY:
        raise
    except Exception as error:  # noqa: BLE001 - an event must not hold up those after it
        if len(items) == 1:
            await store_failed(items[0], error)
            return 0
    mails = 0
    for item in items:
        mails += await process_each(tx, [item], process, store_failed)
    return mails


async def store(
    tx: Tx, merchant_id: str, number: int, event_id: str, error: Exception, now: int
) -> None:
    """Store an event, or an entry of the audit log (``NO_MERCHANT``), as a dead letter."""
    reason = log.redact(f"{type(error).__name__}: {error}")
    _log.error("mail_event_put_aside", merchant=merchant_id, event_id=event_id, why=reason)
    await queries.STORE_DEAD_LETTER.run(
        tx,
        merchant_id=merchant_id,
        number=number,
        event_id=event_id,
        reason=reason[:MAX_RESULT_LENGTH],
        now=now,
    )


async def list_dead_letters(tx: Tx, limit: int) -> list[DeadLetter]:
    """Return the dead letters of all merchants, newest first."""
    return await queries.DEAD_LETTERS.all(tx, limit=limit)


async def retry_dead_letters(
    db: Db, settings: Settings, merchant_id: str | None, actor: Actor, now: int
) -> RetryResult:
    """Retry the dead letters of one merchant (None: of all), whatever their age.

    Those that can be read now cause their mails and are deleted; the others remain, with the new
    reason. Each batch and its entry in the audit log are one transaction, so that other writers of
    the audit log wait for one batch at most. Raises Invalid without a mail server.
    """
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    total, last = RetryResult(), _BEFORE_FIRST
    while True:

        async def retry(tx: Tx, after: DeadLetter = last) -> tuple[RetryResult, DeadLetter | None]:
            # To avoid deadlocks, every transaction locks the audit log before rows like these.
            await merchants.lock_audit_log(tx)
            result, last_read = await _retry_batch(tx, settings, merchant_id, after, now)
            if last_read or after is _BEFORE_FIRST:
                subject = (
                    f"{result.read} read, {result.mails} mails, {result.put_aside} still put aside"
                )
                await merchants.record_audit(
                    tx, actor, "mail reread", merchant_id or "", subject, now
                )
            return result, last_read

        result, last_read = await db.run(retry)
        total = RetryResult(
            total.read + result.read,
            total.mails + result.mails,
            total.put_aside + result.put_aside,
        )
        if last_read is None:
            return total
        last = last_read


async def _retry_batch(
    tx: Tx, settings: Settings, merchant_id: str | None, after: DeadLetter, now: int
) -> tuple[RetryResult, DeadLetter | None]:
    """Read the next batch again; return its result and its last row, None if there is none."""
    head = await queries.HEAD.first(tx, merchant_id=NO_MERCHANT)
    since = now if head is None else head.since
    put_aside = 0

    async def process(rows: Sequence[DeadLetter]) -> int:
        mails: list[NewMail] = []
        for row in rows:
            # A concurrent retry of the same row waits for this deletion, and then deletes nothing.
            if await queries.DELETE_DEAD_LETTER.run(
                tx, merchant_id=row.merchant_id, number=row.number
            ):
                mails += await _mails(tx, row, since)
        return len(await outbox.queue(tx, settings, mails, now))

    async def store_failed(row: DeadLetter, error: Exception) -> None:
        nonlocal put_aside
        put_aside += 1
        await store(tx, row.merchant_id, row.number, row.event_id, error, now)

    rows = await queries.DEAD_LETTERS_AFTER.all(
        tx,
        only_merchant_id=merchant_id,
        merchant_id=after.merchant_id,
        number=after.number,
        limit=_BATCH,
    )
    if not rows:
        return RetryResult(), None
    mails = await process_each(tx, rows, process, store_failed)
    return RetryResult(len(rows), mails, put_aside), rows[-1]


async def _mails(tx: Tx, row: DeadLetter, since: int) -> list[NewMail]:
    """Return the mails of a dead letter. Raises NotFound if its event is no longer stored."""
    if row.merchant_id == NO_MERCHANT:
        entries = await queries.AUDIT_ENTRIES.all(tx, after=row.number - 1, limit=1)
        return await triggers.audit_mails(tx, entries, since)
    event = or_not_found(
        await webhooks.find_numbered(tx, row.merchant_id, row.number),
        f"the event {row.event_id} is not kept any more",
    )
    return await triggers.event_mails(tx, row.merchant_id, [event], since)
