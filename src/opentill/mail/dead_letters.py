"""What no mail can be made of: put aside, until staff have it read again.

What comes after it is read, so that one row that is wrong, or one defect of ours, keeps nobody
else's mail from being made (decision 0103).
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
from opentill.mail.model import LONGEST_RESULT, OF_NOBODY, DeadLetter, NewMail
from opentill.merchants import Actor

_log: Final = structlog.get_logger()
_T = TypeVar("_T")
_ROWS: Final = 500  # that are read at once
_FIRST: Final = DeadLetter("", -1, "", "", 0)  # before all
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


class RetryResult(msgspec.Struct, frozen=True):
    """How many were read again, how many mails they made, and how many are still put aside."""

    read: int = 0
    mails: int = 0
    put_aside: int = 0


async def make_each(
    tx: Tx,
    found: Sequence[_T],
    make: Callable[[Sequence[_T]], Awaitable[int]],
    put_aside: Callable[[_T, Exception], Awaitable[None]],
) -> int:
    """Return how many mails ``make`` made, of each by itself where not all could be read.

    One that cannot be read by itself goes to ``put_aside`` with the reason.
    """
    try:
        async with tx.transaction():  # what PostgreSQL refuses takes back this much
            return await make(found)
    except _PASSING:
        raise
    except Exception as error:  # noqa: BLE001 - an event must not hold up those after it
        if len(found) == 1:
            await put_aside(found[0], error)
            return 0
    made = 0
    for one in found:
        made += await make_each(tx, [one], make, put_aside)
    return made


async def store(
    tx: Tx, merchant_id: str, number: int, event_id: str, error: Exception, now: int
) -> None:
    """Put an event aside, or an entry of the audit log, which is nobody's (``OF_NOBODY``)."""
    reason = log.redact(f"{type(error).__name__}: {error}")
    _log.error("mail_event_put_aside", merchant=merchant_id, event_id=event_id, why=reason)
    await queries.PUT_ASIDE.run(
        tx,
        merchant_id=merchant_id,
        number=number,
        event_id=event_id,
        reason=reason[:LONGEST_RESULT],
        now=now,
    )


async def list_dead_letters(tx: Tx, limit: int) -> list[DeadLetter]:
    """Return the dead letters of all merchants, newest first."""
    return await queries.EVENTS_PUT_ASIDE.all(tx, limit=limit)


async def retry_dead_letters(
    db: Db, settings: Settings, merchant_id: str | None, actor: Actor, now: int
) -> RetryResult:
    """Read again what was put aside, of one merchant or of all, however long ago that was.

    What can be read now makes its mails and is put aside no more; the rest stays, with the reason
    of this time. It goes in portions, each with its entry in the audit log in one transaction, so
    that others who write there wait for one portion at most, and what was read before something
    failed stays read. Raises Invalid where there is no mail server.
    """
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    so_far, last = RetryResult(), _FIRST
    while True:

        async def portion(
            tx: Tx, after: DeadLetter = last
        ) -> tuple[RetryResult, DeadLetter | None]:
            await merchants.lock_audit_log(tx)  # first, as everywhere
            done, read_to = await _portion(tx, settings, merchant_id, after, now)
            if read_to or after is _FIRST:
                subject = f"{done.read} read, {done.mails} mails, {done.put_aside} still put aside"
                await merchants.record_audit(
                    tx, actor, "mail reread", merchant_id or "", subject, now
                )
            return done, read_to

        done, read_to = await db.run(portion)
        so_far = RetryResult(
            so_far.read + done.read,
            so_far.mails + done.mails,
            so_far.put_aside + done.put_aside,
        )
        if read_to is None:
            return so_far
        last = read_to


async def _portion(
    tx: Tx, settings: Settings, merchant_id: str | None, after: DeadLetter, now: int
) -> tuple[RetryResult, DeadLetter | None]:
    """Read the next rows again; return what came of them, and the last, None if there is none."""
    head = await queries.HEAD.first(tx, merchant_id=OF_NOBODY)
    since = now if head is None else head.since
    still = 0

    async def make(rows: Sequence[DeadLetter]) -> int:
        wanted: list[NewMail] = []
        for row in rows:
            # Another one who reads them now waits here, and then finds it gone.
            if await queries.TAKE_BACK.run(tx, merchant_id=row.merchant_id, number=row.number):
                wanted += await _mails(tx, settings, row, since)
        return len(await outbox.queue(tx, settings, wanted, now))

    async def keep(row: DeadLetter, error: Exception) -> None:
        nonlocal still
        still += 1
        await store(tx, row.merchant_id, row.number, row.event_id, error, now)

    rows = await queries.ASIDE_AFTER.all(
        tx, only=merchant_id, merchant_id=after.merchant_id, number=after.number, limit=_ROWS
    )
    if not rows:
        return RetryResult(), None
    made = await make_each(tx, rows, make, keep)
    return RetryResult(len(rows), made, still), rows[-1]


async def _mails(tx: Tx, settings: Settings, row: DeadLetter, since: int) -> list[NewMail]:
    """Return the mails of what was put aside. Raises NotFound for what is not kept any more."""
    if row.merchant_id == OF_NOBODY:
        entries = await queries.AUDITED.all(tx, after=row.number - 1, limit=1)
        return await triggers.audit_mails(tx, entries, since)
    event = or_not_found(
        await webhooks.find_numbered(tx, row.merchant_id, row.number),
        f"the event {row.event_id} is not kept any more",
    )
    return await triggers.event_mails(tx, settings, row.merchant_id, [event], since)
