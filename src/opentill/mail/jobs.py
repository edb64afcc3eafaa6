"""What happened becomes rows of the outbox: the worker reads it after the commit, each thing once.

A payment writes nothing for mail (decision 0084). Its event is read by its number, which is given
after the commit, so that nothing is skipped; how far the reading has come is written in the
transaction that writes the rows, and a row's cause is unique. Where there is no mail server nothing
of this runs.

An event, or an entry of the audit log, that no mail can be made of is put aside with the reason,
for staff to see, and those after it are read on (``aside.py``, decision 0103).
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import structlog

from opentill import figures, ledger, merchants, people, webhooks
from opentill.approvals import waiting
from opentill.context import App
from opentill.core import ids
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.figures.model import day_bounds, local
from opentill.mail import dead_letters, model, outbox, queries, topics, triggers
from opentill.mail.model import (
    HOUR_MS,
    KEEP_MS,
    OF_NOBODY,
    ApprovalContent,
    Audited,
    DeadlineContent,
    DigestDue,
    Head,
    LoggedIn,
    NearDeadline,
    NewMail,
)
from opentill.mail.topics import BY_NAME
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


async def find_start(db: Db, now: int) -> Head:
    """Return from when on what happens is mailed: since a mail server was there first."""

    async def work(tx: Tx) -> Head:
        found = await queries.HEAD.first(tx, merchant_id=OF_NOBODY)
        if found is not None:
            return found
        last = await queries.LAST_AUDITED.get(tx) or 0
        await queries.OPEN_HEAD.run(tx, merchant_id=OF_NOBODY, number=last, since=now)
        return await queries.HEAD.one(tx, merchant_id=OF_NOBODY)

    return await db.run(work)


async def queue_event_mails(db: Db, settings: Settings, now: int) -> int:
    """Read the events of all merchants that are not read, and return how many mails they made.

    Merchants whose events cannot be read now are passed over until the next time. Then it raises
    Unread, after all the others.
    """
    since, made, last = (await find_start(db, now)).since, 0, ""
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
        wanted = await triggers.event_mails(tx, settings, merchant_id, events, oldest)
        return len(await outbox.queue(tx, settings, wanted, now))

    async def put_aside(event: NumberedEvent, error: Exception) -> None:
        await dead_letters.store(tx, merchant_id, event.number, event.id, error, now)

    made = await dead_letters.make_each(tx, batch.events, make, put_aside)
    await queries.MOVE_HEAD.run(tx, merchant_id=merchant_id, number=batch.cursor)
    return made


async def queue_audit_mails(db: Db, settings: Settings, now: int) -> int:
    """Read what the audit log has that is not read, and return how many entries it was."""
    await find_start(db, now)

    async def work(tx: Tx) -> int:
        after = await queries.LOCK_HEAD.get(tx, merchant_id=OF_NOBODY) or 0
        entries = await queries.AUDITED.all(tx, after=after, limit=_ENTRIES)

        async def make(some: Sequence[Audited]) -> int:
            wanted = await triggers.audit_mails(tx, some, now - LATEST_MS)
            return len(await outbox.queue(tx, settings, wanted, now))

        async def put_aside(entry: Audited, error: Exception) -> None:
            await dead_letters.store(
                tx, OF_NOBODY, entry.number, f"audit {entry.number}", error, now
            )

        if entries:
            await dead_letters.make_each(tx, entries, make, put_aside)
            await queries.MOVE_HEAD.run(tx, merchant_id=OF_NOBODY, number=entries[-1].number)
        return len(entries)

    return await db.run(work)


_DAY_MS: Final = 24 * HOUR_MS
_MANY: Final = 500
_DIGEST_HOUR: Final = 7  # of the merchant's day
_STUCK_MS: Final = 15 * 60_000  # far longer than a gateway takes
_STUCK: Final = 3  # payments, from which on it is the gateway and not one of them
_VERSION: Final = re.compile(r"[\d._]+")
_LONGEST_DEVICE: Final = 120


async def queue_login_mails(db: Db, settings: Settings, now: int) -> int:
    """Write to people who logged in with a device, at an address, that they had not used before.

    What is known is what was written about: the cause of a mail is the person, the device without
    its version, and the address (of IPv6, its network).
    """
    since = max((await find_start(db, now)).since, now - people.BEGUN_MS)

    async def work(tx: Tx) -> int:
        found = await queries.LOGGED_IN.all(tx, since=since, limit=_MANY)
        await people.forget_begun(tx, [one.id for one in found])
        return len(await outbox.queue(tx, settings, [_login(one) for one in found], now))

    return await db.run(work)


def _login(login: LoggedIn) -> NewMail:
    place = (login.person_id, _VERSION.sub("", login.device), people.limit_subject(login.address))
    digest = hashlib.sha256(msgspec.json.encode(place)).hexdigest()[:32]
    return NewMail(
        merchant_id=OF_NOBODY,
        topic="new_login",
        cause=f"login {digest}",
        recipient=login.email,
        language=login.language,
        data=model.LoginContent(
            address=login.address, device=login.device[:_LONGEST_DEVICE], at=login.created_at
        ),
    )


async def queue_staff_alerts(db: Db, settings: Settings, now: int) -> int:
    """Write to staff about what is wrong with the books and gateways, once a day each."""

    async def work(tx: Tx) -> int:
        wanted: list[tuple[str, str, msgspec.Struct]] = []
        found = (await ledger.count_violations(tx)).violations
        if found:
            wanted.append(("books_violated", "books", model.ViolationsContent(found=found)))
        for one in await queries.STUCK.all(tx, before=now - _STUCK_MS, least=_STUCK):
            stuck = model.OutageContent(gateway=one.gateway, payments=one.payments, since=one.since)
            wanted.append(("gateway_away", f"gateway {one.gateway}", stuck))
        day = now // _DAY_MS
        mails: list[NewMail] = []
        for name, cause, said in wanted:
            topic = BY_NAME[name]
            readers = await topics.find_staff(tx, topic)
            mails += topics.mails_to_staff(readers, topic, f"{cause} {day}", said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


async def queue_digests(db: Db, settings: Settings, now: int) -> int:
    """Write what yesterday brought to members of the merchants that want to know."""
    async with db.connection() as tx:
        due = await queries.DIGESTS.all(tx)
    made = 0
    for one in due:
        made += await _digest(db, settings, one, now)
    return made


async def _digest(db: Db, settings: Settings, one: DigestDue, now: int) -> int:
    zone = ZoneInfo(one.time_zone)
    here = local(now, zone)
    if here.hour < _DIGEST_HOUR:
        return 0
    day = day_bounds(here.date() - timedelta(days=1), zone)
    cause = f"digest {day.date.isoformat()}"

    async with db.connection() as tx:
        if await queries.HAS_CAUSE.get(tx, merchant_id=one.merchant_id, cause=cause):
            return 0
    await figures.catch_up(db, one.merchant_id)

    async def work(tx: Tx) -> int:
        behind = await figures.behind_since(tx, one.merchant_id)
        if behind is not None and behind < day.until:  # it would be wrong: it is tried again
            return 0
        sums = await figures.sum_range(tx, one.merchant_id, day.since, day.until)
        said = model.DigestContent(
            merchant_id=one.merchant_id,
            at=day.since,
            days=[_day(each) for each in sums if any(_moved(each))],
        )
        topic = BY_NAME["digest"]
        to = await topics.find_members(tx, one.merchant_id, topic)
        mails = topics.mails_to_members(one.merchant_id, to, topic, cause, said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


def _moved(sums: figures.CurrencySums) -> tuple[int, ...]:
    return sums.payments, sums.refunds, sums.disputes, sums.fees_minor


def _day(sums: figures.CurrencySums) -> model.DigestDay:
    currency = sums.currency
    return model.DigestDay(
        payments=sums.payments,
        paid=(sums.paid_minor, currency),
        refunded=(sums.refunded_minor, currency),
        disputed=(sums.disputed_minor, currency),
        net=(sums.net_minor, currency),
    )


# Days before a deadline at which somebody is reminded, and until how many days before it.
STAGES: Final = ((3, 1), (1, 0))
_REMINDERS: Final = 200  # in one transaction


async def queue_approval_reminders(db: Db, settings: Settings, now: int) -> int:
    """Write to whoever may approve a request, but not to who asked for it; of each once."""
    oldest = max((await find_start(db, now)).since, now - LATEST_MS)

    async def work(tx: Tx) -> int:
        fresh = [one for one in await waiting(tx) if one.created_at >= oldest]
        if not fresh:
            return 0
        names = await merchants.names(tx, (one.merchant_id for one in fresh))
        topic = BY_NAME["approval_waiting"]
        readers = await topics.find_staff(tx, topic)
        mails: list[NewMail] = []
        for one in fresh:
            said = ApprovalContent(
                shop=names[one.merchant_id],
                kind=one.kind,
                amount=(one.amount_minor, one.currency),
                reason=one.reason,
                who=one.asked_by,
                at=one.created_at,
            )
            others = [
                reader
                for reader in readers
                if people.named(reader.email, reader.person_id) != one.asked_by
            ]
            mails += topics.mails_to_staff(others, topic, f"approval {one.id}", said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


async def queue_deadline_reminders(db: Db, settings: Settings, now: int) -> int:
    """Remind of open disputes three days and one day before their deadline, each time once.

    Members are reminded unless they have responded, staff unless they have noted something since.
    A dispute that was opened later than a reminder is due was mailed of when it was opened.
    """
    since = (await find_start(db, now)).since
    made = 0
    for days, end in STAGES:
        # What was due before `since` is left out: the deadline is at least `days` after it.
        after = max(now + end * _DAY_MS, since + days * _DAY_MS - 1)
        made += await _stage(db, settings, days, after, now)
    return made


async def _stage(db: Db, settings: Settings, days: int, after: int, now: int) -> int:
    made, last = 0, (after, ids.LAST)
    while True:

        async def work(tx: Tx, last: tuple[int, str] = last) -> tuple[int, list[NearDeadline]]:
            near = await queries.NEAR_DEADLINES.all(
                tx, after=last[0], after_id=last[1], until=now + days * _DAY_MS,
                length=days * _DAY_MS, stage=f"{days}d", limit=_REMINDERS,
            )  # fmt: skip
            mails = [mail for one in near for mail in await _reminders(tx, one, days)]
            return len(await outbox.queue(tx, settings, mails, now)), near

        noted, near = await db.run(work)
        made += noted
        if len(near) < _REMINDERS:
            return made
        last = near[-1].respond_by, near[-1].id


async def _reminders(tx: Tx, one: NearDeadline, days: int) -> list[NewMail]:
    cause = f"deadline {one.id} {one.respond_by} {days}d"
    said = DeadlineContent(
        shop=one.merchant_name,
        path=f"/dashboard/{one.merchant_id}/disputes/{one.id}",
        order_id=one.order_id,
        amount=(one.amount_minor, one.currency),
        reason=one.reason,
        respond_by=one.respond_by,
        days=days,
        responded=one.responded,
    )
    mails: list[NewMail] = []
    if not one.responded:
        topic = BY_NAME["dispute_deadline"]
        to = await topics.find_members(tx, one.merchant_id, topic)
        mails += topics.mails_to_members(one.merchant_id, to, topic, cause, said)
    if not one.handled:
        topic = BY_NAME["dispute_deadline_staff"]
        of_staff = msgspec.structs.replace(said, path=f"/console/disputes/{one.id}")
        mails += topics.mails_to_staff(await topics.find_staff(tx, topic), topic, cause, of_staff)
    return mails


_BATCH: Final = 500
_OTHERS: Final = (
    queue_audit_mails,
    queue_login_mails,
    queue_staff_alerts,
    queue_digests,
    queue_approval_reminders,
    queue_deadline_reminders,
)


async def note_events(app: App) -> int:
    """Note what happened to payments, disputes and payouts."""
    return await queue_event_mails(app.db, app.settings, app.clock())


async def note_others(app: App) -> int:
    """Note what the audit log has, logins, what staff need, and reminders.

    What fails does not stop the rest: it raises ExceptionGroup after all of them.
    """
    failed: list[Exception] = []
    for note in _OTHERS:
        try:
            await note(app.db, app.settings, app.clock())
        except Unavailable:
            raise  # nothing of the rest can be read, either
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one of them
            failed.append(error)
    if failed:
        message = "not all could be noted for mail"
        raise ExceptionGroup(message, failed)
    return 0  # so that it pauses


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of what ended long ago, mails and events put aside; return how many."""
    aside = await queries.PRUNE_PUT_ASIDE.run(tx, before=now - KEEP_MS, limit=_BATCH)
    return aside + await queries.PRUNE.run(tx, before=now - KEEP_MS, limit=_BATCH)
