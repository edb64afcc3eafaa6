"""The worker's jobs of mail, except sending: they turn what happened into rows of the outbox.

A payment writes nothing for mail (decision 0084). The worker reads events by their numbers, which
they get after the commit, so that none is skipped. The last number that was read is stored in the
transaction that queues the mails, and a mail's cause is unique, so that no mail is queued twice.
Without a mail server no job does anything.

Logins, digests, alerts and reminders are not events. Their jobs look for them at each run. The
cause of a mail identifies what it reports, so that it is queued once.
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

from opentill import figures, ledger, orders, people, webhooks
from opentill.context import App
from opentill.core import ids
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.figures.model import day_bounds, local
from opentill.gateways import accounts as gateway_accounts
from opentill.mail import approval_reminders, dead_letters, outbox, queries, topics, triggers
from opentill.mail.alert_model import PausedAccountContent
from opentill.mail.digest_model import DigestContent, DigestDay, DigestMerchant
from opentill.mail.model import (
    DAY_MS,
    MINUTE_MS,
    NO_MERCHANT,
    RETENTION_MS,
    AuditEntry,
    DeadlineContent,
    Head,
    LoginContent,
    NearDeadline,
    NewLogin,
    NewMail,
    OutageContent,
    ViolationsContent,
)
from opentill.webhooks import EventBatch, NumberedEvent

_log: Final = structlog.get_logger()
_MAX_AGE_MS: Final = DAY_MS  # older events, audit log entries and requests cause no mail
_BATCH: Final = 500  # one transaction reads or deletes at most this many rows
_EVENT_BATCHES: Final = 20  # a run reads at most this many batches of one merchant's events
_MERCHANTS: Final = 200  # one query returns at most this many merchants with unread events
_DISPUTES: Final = 200  # one transaction reminds of at most this many disputes
_DIGEST_HOUR: Final = 7  # the hour at which digests are sent, in the merchant's time zone
# Staff are alerted if at least _OUTAGE_THRESHOLD payments have been waiting for a gateway's
# response for longer than _OUTAGE_MS.
_OUTAGE_MS: Final = 15 * MINUTE_MS
_OUTAGE_THRESHOLD: Final = 3
_VERSION: Final = re.compile(r"[\d._]+")
_MAX_DEVICE_LENGTH: Final = 120
# Each stage has one reminder. It begins and ends these numbers of days before the deadline.
_REMINDER_STAGES: Final = ((3, 1), (1, 0))


class UnreadMerchants(Exception):
    """The events of some merchants could not be read; the log says why."""

    def __init__(self, count: int) -> None:
        """``count`` is the number of merchants."""
        super().__init__(f"the events of {count} merchants are not read for mail")


# ── events and the audit log ───────────────────────────────────────────────────────────────────


async def find_start(db: Db, now: int) -> Head:
    """Return the head of the audit log; create it if mail has just been set up."""

    async def work(tx: Tx) -> Head:
        head = await queries.HEAD.first(tx, merchant_id=NO_MERCHANT)
        if head is not None:
            return head
        number = await queries.LAST_AUDIT_NUMBER.get(tx) or 0
        await queries.OPEN_HEAD.run(tx, merchant_id=NO_MERCHANT, number=number, since=now)
        return await queries.HEAD.one(tx, merchant_id=NO_MERCHANT)

    return await db.run(work)


async def queue_event_mails(db: Db, settings: Settings, now: int) -> int:
    """Read the unread events of all merchants; return how many mails they caused.

    Merchants whose events cannot be read are skipped until the next run, and reported by
    UnreadMerchants after all others.
    """
    since, mails, last = (await find_start(db, now)).since, 0, ""
    skipped = 0
    while True:
        async with db.connection() as tx:
            unread = await queries.UNREAD_MERCHANTS.all(tx, after=last, limit=_MERCHANTS)
        for merchant in unread:
            try:
                mails += await _read_events(
                    db, settings, merchant.merchant_id, merchant.number, since, now
                )
            except Unavailable:
                raise  # no database connection: the other merchants would fail too
            except Exception:  # noqa: BLE001 - one merchant must not hold up the others
                _log.exception("mail_merchant_passed_over", merchant=merchant.merchant_id)
                skipped += 1
        if len(unread) < _MERCHANTS:
            break
        last = unread[-1].merchant_id
    if skipped:
        raise UnreadMerchants(skipped)
    return mails


async def _read_events(
    db: Db, settings: Settings, merchant_id: str, after: int, since: int, now: int
) -> int:
    """Read a merchant's events after a number; return how many mails they caused."""
    mails = 0
    for _ in range(_EVENT_BATCHES):
        batch = await webhooks.read(db, merchant_id, after, None, _BATCH)
        work = partial(
            _queue_batch, settings=settings, merchant_id=merchant_id, after=after, batch=batch,
            since=since, now=now,
        )  # fmt: skip
        queued = await db.run(work)
        if queued is None:
            break
        mails, after = mails + queued, batch.cursor
        if not batch.more:
            break
    return mails


async def _queue_batch(
    tx: Tx,
    *,
    settings: Settings,
    merchant_id: str,
    after: int,
    batch: EventBatch,
    since: int,
    now: int,
) -> int | None:
    """Queue the mails of a batch; return how many, None if another worker read the batch."""
    await queries.OPEN_HEAD.run(tx, merchant_id=merchant_id, number=0, since=since)
    if await queries.LOCK_HEAD.get(tx, merchant_id=merchant_id) != after:
        return None
    oldest = max(since, now - _MAX_AGE_MS)

    async def process(events: Sequence[NumberedEvent]) -> int:
        mails = await triggers.event_mails(tx, merchant_id, events, oldest)
        return len(await outbox.queue(tx, settings, mails, now))

    async def store_failed(event: NumberedEvent, error: Exception) -> None:
        await dead_letters.store(tx, merchant_id, event.number, event.id, error, now)

    queued = await dead_letters.process_each(tx, batch.events, process, store_failed)
    await queries.MOVE_HEAD.run(tx, merchant_id=merchant_id, number=batch.cursor)
    return queued


async def queue_audit_mails(db: Db, settings: Settings, now: int) -> int:
    """Read the unread entries of the audit log, and return how many were read."""
    await find_start(db, now)

    async def work(tx: Tx) -> int:
        after = await queries.LOCK_HEAD.get(tx, merchant_id=NO_MERCHANT) or 0
        entries = await queries.AUDIT_ENTRIES.all(tx, after=after, limit=_BATCH)

        async def process(unread: Sequence[AuditEntry]) -> int:
            mails = await triggers.audit_mails(tx, unread, now - _MAX_AGE_MS)
            return len(await outbox.queue(tx, settings, mails, now))

        async def store_failed(entry: AuditEntry, error: Exception) -> None:
            event_id = f"audit {entry.number}"
            await dead_letters.store(tx, NO_MERCHANT, entry.number, event_id, error, now)

        if entries:
            await dead_letters.process_each(tx, entries, process, store_failed)
            await queries.MOVE_HEAD.run(tx, merchant_id=NO_MERCHANT, number=entries[-1].number)
        return len(entries)

    return await db.run(work)


# ── logins ─────────────────────────────────────────────────────────────────────────────────────


async def queue_login_mails(db: Db, settings: Settings, now: int) -> int:
    """Mail people who logged in from a new device or address; return how many mails are queued.

    A person's known devices and addresses are the causes of earlier mails. A login that lacks its
    second factor is mailed as such once it can no longer prove it, and does not make its device
    and address known.
    """
    since = max((await find_start(db, now)).since, now - people.NEW_LOGIN_MAIL_MS)

    async def work(tx: Tx) -> int:
        logins = await queries.NEW_LOGINS.all(
            tx, since=since, pending_until=now - people.PENDING_MS, limit=_BATCH
        )
        await people.forget_begun(tx, [login.id for login in logins])
        mails = [_login_mail(login) for login in logins]
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


def _login_mail(login: NewLogin) -> NewMail:
    """Return the mail about a login. A new device version or IPv6 host causes no new mail."""
    origin = (login.person_id, _VERSION.sub("", login.device), people.limit_subject(login.address))
    digest = hashlib.sha256(msgspec.json.encode(origin)).hexdigest()[:32]
    return NewMail(
        merchant_id=NO_MERCHANT,
        topic="new_login",
        cause=f"password {digest}" if login.pending else f"login {digest}",
        recipient=login.email,
        language=login.language,
        data=LoginContent(
            address=login.address,
            device=login.device[:_MAX_DEVICE_LENGTH],
            at=login.created_at,
            pending=login.pending,
        ),
    )


# ── alerts to staff ────────────────────────────────────────────────────────────────────────────


async def queue_staff_alerts(db: Db, settings: Settings, now: int) -> int:
    """Alert staff to violations in the ledger and outages of gateways, each once a day."""

    async def work(tx: Tx) -> int:
        alerts: list[tuple[str, str, msgspec.Struct]] = []
        violations = (await ledger.count_violations(tx)).violations
        if violations:
            alerts.append(("books_violated", "books", ViolationsContent(violations=violations)))
        before = now - _OUTAGE_MS
        account_names = await gateway_accounts.list_names(tx)
        for outage in await queries.OUTAGES.all(tx, before=before, least=_OUTAGE_THRESHOLD):
            outage_content = OutageContent(
                gateway=account_names.get(outage.gateway, outage.gateway),
                payments=outage.payments,
                since=outage.since,
            )
            alerts.append(("gateway_away", f"gateway {outage.gateway}", outage_content))
        for account in await gateway_accounts.list_broken(tx):
            paused = PausedAccountContent(
                account=account.name,
                reason=account.broken_reason or "",
                at=account.broken_at or now,
                retry_at=account.retry_at or now,
            )
            alerts.append(("account_paused", f"account {account.id}", paused))
        mails: list[NewMail] = []
        for topic, cause, content in alerts:
            mails += await topics.mails_to_staff(tx, topic, f"{cause} {now // DAY_MS}", content)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


# ── digests ────────────────────────────────────────────────────────────────────────────────────


async def queue_digests(db: Db, settings: Settings, now: int) -> int:
    """Mail yesterday's figures to members of merchants that get a digest."""
    async with db.connection() as tx:
        digest_merchants = await queries.DIGEST_MERCHANTS.all(tx)
    mails = 0
    for merchant in digest_merchants:
        mails += await _queue_digest(db, settings, merchant, now)
    return mails


async def _queue_digest(db: Db, settings: Settings, merchant: DigestMerchant, now: int) -> int:
    merchant_id, zone = merchant.merchant_id, ZoneInfo(merchant.time_zone)
    local_time = local(now, zone)
    if local_time.hour < _DIGEST_HOUR:
        return 0
    day = day_bounds(local_time.date() - timedelta(days=1), zone)
    cause = f"digest {day.date.isoformat()}"
    async with db.connection() as tx:
        if await queries.HAS_CAUSE.get(tx, merchant_id=merchant_id, cause=cause):
            return 0
    await figures.catch_up(db, merchant_id)

    async def work(tx: Tx) -> int:
        behind_since = await figures.behind_since(tx, merchant_id)
        if behind_since is not None and behind_since < day.until:
            return 0  # the figures do not include the whole day yet; the next run tries again
        sums = await figures.sum_range(tx, merchant_id, day.since, day.until)
        content = DigestContent(
            merchant_id=merchant_id,
            at=day.since,
            days=[_digest_day(currency) for currency in sums if currency.has_movements],
            pending_refunds=await orders.count_by_refunds(tx, merchant_id, "REFUND_PENDING"),
            failed_refunds=await orders.count_by_refunds(tx, merchant_id, "REFUND_FAILED"),
        )
        mails = await topics.mails_to_members(tx, merchant_id, "digest", cause, content)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


def _digest_day(sums: figures.CurrencySums) -> DigestDay:
    currency, refunded = sums.currency, sums.direct_refunded_minor
    return DigestDay(
        payments=sums.all_payments,
        paid=(sums.paid_minor, currency),
        refunded=(sums.refunded_minor, currency),
        disputed=(sums.disputed_minor, currency),
        net=(sums.net_minor, currency),
        fees=(sums.fees_minor, currency),
        direct_payments=sums.direct_payments,
        direct=(sums.direct_minor, currency) if sums.direct_payments else None,
        direct_refunded=(refunded, currency) if refunded else None,
    )


# ── reminders ──────────────────────────────────────────────────────────────────────────────────


async def queue_approval_reminders(db: Db, settings: Settings, now: int) -> int:
    """Mail waiting requests and payout runs to staff who may approve them; each once.

    Requests from before mail was set up, or before a restore, are not mailed.
    """
    oldest = max((await find_start(db, now)).since, now - _MAX_AGE_MS)

    async def work(tx: Tx) -> int:
        mails = await approval_reminders.reminders(tx, settings.approval_above, oldest, now)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


async def queue_deadline_reminders(db: Db, settings: Settings, now: int) -> int:
    """Send reminders of open disputes three days and one day before their deadline, once each.

    Members are reminded until they have responded. Staff are reminded until they have added a note
    after the response. A dispute that was opened after a stage had begun gets no reminder of that
    stage.
    """
    since = (await find_start(db, now)).since
    mails = 0
    for days, end in _REMINDER_STAGES:
        # A stage that began before mail was set up, at `since`, gets no reminder. Its deadline is
        # less than `days` days after `since`.
        after = max(now + end * DAY_MS, since + days * DAY_MS - 1)
        mails += await _queue_reminders(db, settings, days, after, now)
    return mails


async def _queue_reminders(db: Db, settings: Settings, days: int, after: int, now: int) -> int:
    """Queue the reminders of one stage, of disputes with a deadline later than ``after``."""
    mails, last = 0, (after, ids.LAST)
    while True:

        async def work(tx: Tx, last: tuple[int, str] = last) -> tuple[int, list[NearDeadline]]:
            disputes = await queries.NEAR_DEADLINES.all(
                tx, after=last[0], after_id=last[1], until=now + days * DAY_MS,
                length=days * DAY_MS, stage=f"{days}d", limit=_DISPUTES,
            )  # fmt: skip
            reminders = [
                mail for dispute in disputes for mail in await _reminders(tx, dispute, days)
            ]
            return len(await outbox.queue(tx, settings, reminders, now)), disputes

        queued, disputes = await db.run(work)
        mails += queued
        if len(disputes) < _DISPUTES:
            return mails
        last = disputes[-1].respond_by, disputes[-1].id


async def _reminders(tx: Tx, dispute: NearDeadline, days: int) -> list[NewMail]:
    cause = f"deadline {dispute.id} {dispute.respond_by} {days}d"
    content = DeadlineContent(
        shop=dispute.merchant_name,
        path=f"/dashboard/{dispute.merchant_id}/disputes/{dispute.id}",
        order_id=dispute.order_id,
        amount=(dispute.amount_minor, dispute.currency),
        reason=dispute.reason,
        respond_by=dispute.respond_by,
        days=days,
        responded=dispute.responded,
    )
    mails: list[NewMail] = []
    if not dispute.responded:
        mails += await topics.mails_to_members(
            tx, dispute.merchant_id, "dispute_deadline", cause, content
        )
    if not dispute.handled:
        staff_content = msgspec.structs.replace(content, path=f"/console/disputes/{dispute.id}")
        mails += await topics.mails_to_staff(tx, "dispute_deadline_staff", cause, staff_content)
    return mails


# ── the worker's entries ───────────────────────────────────────────────────────────────────────

_OTHER_JOBS: Final = (
    queue_audit_mails,
    queue_login_mails,
    queue_staff_alerts,
    queue_digests,
    queue_approval_reminders,
    queue_deadline_reminders,
)


async def read_events(app: App) -> int:
    """Queue the mails of payments, refunds, disputes and payouts."""
    return await queue_event_mails(app.db, app.settings, app.clock())


async def queue_other_mails(app: App) -> int:
    """Queue the mails of the audit log, logins, alerts, digests and reminders.

    Runs all of them even if some fail, and then raises ExceptionGroup.
    """
    errors: list[Exception] = []
    for job in _OTHER_JOBS:
        try:
            await job(app.db, app.settings, app.clock())
        except Unavailable:
            raise  # no database connection: the other jobs would fail too
        except Exception as error:  # noqa: BLE001 - a failed job must not stop the others
            errors.append(error)
    if errors:
        message = "some mails could not be queued"
        raise ExceptionGroup(message, errors)
    return 0  # 0 means that the worker waits until the next interval


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of mails that ended long ago and of old dead letters; return how many."""
    before = now - RETENTION_MS
    deleted = await queries.PRUNE_DEAD_LETTERS.run(tx, before=before, limit=_BATCH)
    return deleted + await queries.PRUNE.run(tx, before=before, limit=_BATCH)
