"""The outbox: a row for each message and recipient, and how one is sent again."""

import hashlib
from collections.abc import Sequence
from email.utils import parseaddr
from typing import Final

import msgspec

from opentill.core import encryption, ids
from opentill.core.errors import Invalid, TooManyRequests, or_not_found
from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.mail import queries
from opentill.mail.model import (
    ASKED_PER_HOUR,
    STATUSES,
    Mail,
    NewMail,
    PutAside,
    Queue,
    Row,
    Status,
    TooManyMails,
)

_LONGEST_ADDRESS: Final = 254
_DAY_MS: Final = 86_400_000


async def queue(
    tx: Tx, settings: Settings, mails: Sequence[NewMail], now: int, *, secret: str | None = None
) -> list[Mail]:
    """Write messages that are to be sent, and return those that were not there before.

    Nothing is written where there is no mail server. ``secret`` is a path that only the recipient
    may know: it is kept encrypted, and removed once the message has left.
    """
    if not settings.sends_mail:
        return []
    rows = [
        _row(settings, one, secret) for one in mails if 0 < len(one.recipient) <= _LONGEST_ADDRESS
    ]
    return await _write(tx, rows, now)


async def _write(tx: Tx, rows: Sequence[Row], now: int) -> list[Mail]:
    if not rows:
        return []
    return await queries.QUEUE.all(tx, **columns(Row, rows), now=now)


def _row(settings: Settings, new: NewMail, secret: str | None) -> Row:
    mail_id = new_id("mail")
    return Row(
        merchant_id=new.merchant_id,
        id=mail_id,
        topic=new.topic,
        cause=new.cause,
        recipient=new.recipient,
        order_id=new.order_id,
        language=new.language,
        data=msgspec.json.encode(new.data).decode(),
        secret=None
        if secret is None
        else encryption.encrypt(settings.secret_key, purpose(mail_id), secret),
        message_id=_message_id(settings, mail_id),
    )


def purpose(mail_id: str) -> str:
    """Return what the secret of a mail is encrypted for."""
    return f"mail {mail_id}"


def _message_id(settings: Settings, mail_id: str) -> str:
    _, address = parseaddr(settings.mail_from)
    return f"<{mail_id}@{address.rpartition('@')[2]}>"


async def resend(
    tx: Tx, settings: Settings, merchant_id: str, mail_id: str, request_id: str, now: int
) -> Mail:
    """Send a message once more, as a row of its own; the same ``request_id`` does it once.

    A message that may have arrived keeps its Message-ID, by which a mailbox knows it again. Raises
    NotFound, Invalid for one that is still to be sent or whose link is gone, and TooManyMails.
    """
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    found = await find(tx, merchant_id, mail_id)
    if found.due_at is not None:
        raise Invalid("mail", "mail must have ended: this one is still to be sent")
    if found.topic in _ONCE:
        raise Invalid("mail", "mail must have no link that works once: make a new link instead")
    cause = f"{found.cause.partition('#')[0]}#{request_id}"
    row = msgspec.convert(found, Row, from_attributes=True)
    fresh = new_id("mail")
    same = found.status == "UNKNOWN"
    again = msgspec.structs.replace(
        row,
        id=fresh,
        cause=cause,
        secret=None,
        message_id=found.message_id if same else _message_id(settings, fresh),
    )
    for made in await _write(tx, [again], now):
        await count_asked(tx, made, now)
        return made
    where = {"merchant_id": merchant_id, "cause": cause, "recipient": found.recipient}
    return await queries.BY_CAUSE.one(tx, **where)


async def count_asked(tx: Tx, mail: Mail | NewMail, now: int) -> None:
    """Count a message that somebody has sent: a stolen login is to flood nobody's mailbox.

    Each merchant has a bound of its own for each recipient, and so have the staff: what one has
    sent keeps no other from writing to the same address. Raises TooManyMails.
    """
    pair = f"{mail.merchant_id} {mail.recipient}"
    subject = hashlib.sha256(pair.encode()).hexdigest()
    try:
        await rate_limits.hit_hourly(tx, "mails asked for", subject, ASKED_PER_HOUR, now)
    except TooManyRequests as problem:
        raise TooManyMails(problem.retry_after_s) from None


_ONCE: Final = ("invitation", "reset")  # topics whose messages have a link that works once


async def find(tx: Tx, merchant_id: str, mail_id: str) -> Mail:
    """Return a mail. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=mail_id))


async def find_anywhere(tx: Tx, mail_id: str) -> Mail:
    """Return a mail of whichever merchant, or of none. Raises NotFound."""
    return or_not_found(await queries.ANYWHERE.first(tx, id=mail_id), f"there is no mail {mail_id}")


async def of_merchant(
    tx: Tx,
    merchant_id: str,
    *,
    before: str = "",
    status: Status | None = None,
    recipient: str | None = None,
    limit: int,
) -> list[Mail]:
    """Return a merchant's mails, newest first, from before an id on."""
    wanted = {
        "merchant_id": merchant_id,
        "status": _statuses(status),
        "before": before or ids.LAST,
        "limit": limit,
    }
    if recipient is None:
        return await queries.LIST.all(tx, **wanted)
    return await queries.LIST_TO.all(tx, recipient=recipient, **wanted)


def _statuses(status: Status | None) -> list[Status]:
    return list(STATUSES) if status is None else [status]


async def of_order(tx: Tx, merchant_id: str, order_id: str, limit: int = 20) -> list[Mail]:
    """Return the mails about an order, newest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id, limit=limit)


async def newest(tx: Tx, merchant_id: str | None, status: Status | None, limit: int) -> list[Mail]:
    """Return mails of all merchants, the last changed first, or of one, the newest first."""
    if merchant_id is not None:
        return await of_merchant(tx, merchant_id, status=status, limit=limit)
    return await queries.NEWEST.all(tx, status=_statuses(status), limit=limit)


async def state(tx: Tx, now: int) -> Queue:
    """Return how much waits, and what of the last day is unknown or failed; up to 10,000 each."""
    return await queries.STATE.one(tx, since=now - _DAY_MS)


async def events_put_aside(tx: Tx, limit: int) -> list[PutAside]:
    """Return the events that no mail could be made of, the newest first, of all merchants."""
    return await queries.EVENTS_PUT_ASIDE.all(tx, limit=limit)


async def skip_waiting(tx: Tx, now: int) -> int:
    """Count every mail that waits as unknown, and return how many there were.

    After a restore: they may have been sent since the backup, and so may those of events that are
    not read yet, of which none is made any more. Each can be sent again.
    """
    await queries.SKIP_UNREAD.run(tx, now=now)
    return await queries.SKIP_WAITING.run(tx, now=now)


async def make_due(tx: Tx, now: int) -> None:
    """Make mails that are due later due now: the business clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)
