"""What nobody has written down as an event: logins, the day's figures, what staff should know.

It is looked for again and again; the cause of a row says what it is about, so that it is mailed
once.
"""

import hashlib
import re
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import figures, ledger, people
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.figures.model import day_bounds, local
from opentill.mail import contents, noting, outbox, queries, recipients
from opentill.mail.model import HOUR_MS, OF_NOBODY, DigestDue, LoggedIn, NewMail
from opentill.mail.topics import BY_NAME

_DAY_MS: Final = 24 * HOUR_MS
_MANY: Final = 500
_DIGEST_HOUR: Final = 7  # of the merchant's day
_STUCK_MS: Final = 15 * 60_000  # far longer than a gateway takes
_STUCK: Final = 3  # payments, from which on it is the gateway and not one of them
_VERSION: Final = re.compile(r"[\d._]+")
_LONGEST_DEVICE: Final = 120


async def logins(db: Db, settings: Settings, now: int) -> int:
    """Write to people who logged in with a device, at an address, that they had not used before.

    What is known is what was written about: the cause of a mail is the person, the device without
    its version, and the address (of IPv6, its network).
    """
    since = max((await noting.begin(db, now)).since, now - people.BEGUN_MS)

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
        data=contents.Login(
            address=login.address, device=login.device[:_LONGEST_DEVICE], at=login.created_at
        ),
    )


async def for_staff(db: Db, settings: Settings, now: int) -> int:
    """Write to staff about what is wrong with the books and gateways, once a day each."""

    async def work(tx: Tx) -> int:
        wanted: list[tuple[str, str, msgspec.Struct]] = []
        found = (await ledger.count_violations(tx)).violations
        if found:
            wanted.append(("books_violated", "books", contents.Violated(found=found)))
        for one in await queries.STUCK.all(tx, before=now - _STUCK_MS, least=_STUCK):
            stuck = contents.Stuck(gateway=one.gateway, payments=one.payments, since=one.since)
            wanted.append(("gateway_away", f"gateway {one.gateway}", stuck))
        day = now // _DAY_MS
        mails: list[NewMail] = []
        for name, cause, said in wanted:
            topic = BY_NAME[name]
            readers = await recipients.staff(tx, topic)
            mails += recipients.to_staff(readers, topic, f"{cause} {day}", said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


async def digests(db: Db, settings: Settings, now: int) -> int:
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
        said = contents.Digest(
            merchant_id=one.merchant_id,
            at=day.since,
            days=[_day(each) for each in sums if any(_moved(each))],
        )
        topic = BY_NAME["digest"]
        to = await recipients.members(tx, one.merchant_id, topic)
        mails = recipients.to_members(one.merchant_id, to, topic, cause, said)
        return len(await outbox.queue(tx, settings, mails, now))

    return await db.run(work)


def _moved(sums: figures.CurrencySums) -> tuple[int, ...]:
    return sums.payments, sums.refunds, sums.disputes, sums.fees_minor


def _day(sums: figures.CurrencySums) -> contents.Day:
    currency = sums.currency
    return contents.Day(
        payments=sums.payments,
        paid=(sums.paid_minor, currency),
        refunded=(sums.refunded_minor, currency),
        disputed=(sums.disputed_minor, currency),
        net=(sums.net_minor, currency),
    )
