"""Approvals, and disputes before their deadline: whom they wait for is written to.

It is looked for again and again. The cause of a row says what it is about, so that it is mailed
once; what waited before there was a mail server, or before a restore, is not mailed.
"""

from typing import Final

import msgspec

from opentill import merchants, people
from opentill.approvals import waiting
from opentill.core import ids
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.mail import noting, outbox, queries, recipients
from opentill.mail.contents import Approval, Deadline
from opentill.mail.model import HOUR_MS, NearDeadline, NewMail
from opentill.mail.noting import LATEST_MS
from opentill.mail.topics import BY_NAME

_DAY_MS: Final = 24 * HOUR_MS
# Days before a deadline at which somebody is reminded, and until how many days before it.
STAGES: Final = ((3, 1), (1, 0))
_MANY: Final = 200  # in one transaction


async def approvals(db: Db, settings: Settings, now: int) -> int:
    """Write to whoever may approve a request, but not to who asked for it; of each once."""
    oldest = max((await noting.begin(db, now)).since, now - LATEST_MS)

    async def work(tx: Tx) -> int:
        fresh = [one for one in await waiting(tx) if one.created_at >= oldest]
        if not fresh:
            return 0
        names = await merchants.names(tx, (one.merchant_id for one in fresh))
        topic = BY_NAME["approval_waiting"]
        readers = await recipients.staff(tx, topic)
        mails: list[NewMail] = []
        for one in fresh:
            said = Approval(
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
            mails += recipients.to_staff(others, topic, f"approval {one.id}", said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


async def deadlines(db: Db, settings: Settings, now: int) -> int:
    """Remind of open disputes three days and one day before their deadline, each time once.

    Members are reminded unless they have responded, staff unless they have noted something since.
    A dispute that was opened later than a reminder is due was mailed of when it was opened.
    """
    since = (await noting.begin(db, now)).since
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
                length=days * _DAY_MS, stage=f"{days}d", limit=_MANY,
            )  # fmt: skip
            mails = [mail for one in near for mail in await _reminders(tx, one, days)]
            return len(await outbox.queue(tx, settings, mails, now)), near

        noted, near = await db.run(work)
        made += noted
        if len(near) < _MANY:
            return made
        last = near[-1].respond_by, near[-1].id


async def _reminders(tx: Tx, one: NearDeadline, days: int) -> list[NewMail]:
    cause = f"deadline {one.id} {one.respond_by} {days}d"
    said = Deadline(
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
        to = await recipients.members(tx, one.merchant_id, topic)
        mails += recipients.to_members(one.merchant_id, to, topic, cause, said)
    if not one.handled:
        topic = BY_NAME["dispute_deadline_staff"]
        of_staff = msgspec.structs.replace(said, path=f"/console/disputes/{one.id}")
        mails += recipients.to_staff(await recipients.staff(tx, topic), topic, cause, of_staff)
    return mails
