"""The outbox: a row for each message and recipient, and how one is sent again."""

import hashlib
from collections.abc import Sequence
from email.utils import parseaddr
from typing import Final

import msgspec

from opentill import orders, people
from opentill.core import encryption, ids
from opentill.core.errors import Invalid, NotFound, TooManyRequests, or_not_found
from opentill.core.ids import new_id
from opentill.core.languages import Language
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.http import inputs
from opentill.mail import model, queries, topics, triggers
from opentill.mail.model import (
    ASKED_PER_HOUR,
    INVITED_BY_MERCHANT_PER_DAY,
    INVITED_PER_DAY,
    MINUTE_MS,
    OF_NOBODY,
    STATUSES,
    Mail,
    NewMail,
    Queue,
    Row,
    Status,
    TooManyInvitations,
    TooManyMails,
)
from opentill.merchants import Actor
from opentill.people import MerchantRole, NewLink, ShownTo, StaffRole, normalize_email

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


# In which one address gets one link to a new password, whoever asks for it and how often: nobody
# can use up what somebody else needs.
_PATIENCE_MS: Final = 12 * MINUTE_MS


class NewInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to invite, to a merchant or to the staff.

    ``by`` is who invites, as the mail says it. Without a ``language`` the mail is in the inviter's.
    ``shown``: the link is shown although it is mailed. ``by_member``: a member of the merchant
    invites, and sees it where it is not mailed.
    ``has_applied``: whom staff have approved; this is no invitation of theirs that is counted.
    """

    email: str
    by: str
    language: Language | None = None
    merchant_id: str | None = None
    role: MerchantRole | None = None
    staff_role: StaffRole | None = None
    shown: bool = False
    by_member: bool = False
    has_applied: bool = False


async def send_receipt(
    tx: Tx, settings: Settings, merchant_id: str, order_id: str, request_id: str, now: int
) -> Mail:
    """Send the receipt of a paid order, as it is now, once for each ``request_id``.

    Whether the merchant wants receipts does not matter: somebody asks for this one. Raises NotFound
    for an order that is not paid, Invalid if it cannot be sent, and TooManyMails.
    """
    order = await orders.find(tx, merchant_id, order_id)
    if order.paid_at is None:
        raise NotFound
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    if not order.customer_email:
        raise Invalid("email", "email must be known: this customer gave none")
    known = await orders.with_livemode(tx, order, deployment=settings.livemode)
    mail = await triggers.receipt(
        tx,
        order,
        f"receipt {order_id}#{request_id}",
        livemode=bool(known.livemode),
        otherwise=await topics.find_preferences(tx, merchant_id),
    )
    for made in await queue(tx, settings, [mail], now):
        await count_asked(tx, made, now)
        return made
    where = {"merchant_id": merchant_id, "cause": mail.cause, "recipient": mail.recipient}
    return await queries.BY_CAUSE.one(tx, **where)


async def invite(
    tx: Tx, settings: Settings, wanted: NewInvitation, actor: Actor, now: int
) -> tuple[NewLink, bool]:
    """Invite somebody, mail them the link where there is a mail server, and say whether it is.

    A link that is mailed is shown to nobody else (``NewLink.is_shown``). Raises what
    ``people.invite`` raises, TooManyMails and TooManyInvitations.
    """
    if not wanted.has_applied:
        await _count_invitation(tx, wanted.merchant_id, actor, now)
    made = await people.invite(
        tx,
        wanted.email,
        now,
        merchant_id=wanted.merchant_id,
        role=wanted.role,
        staff_role=wanted.staff_role,
        actor=actor,
        shown_to=link_shown_to(settings, shown=wanted.shown, by_member=wanted.by_member),
    )
    link = made.link
    mail = NewMail(
        merchant_id=link.merchant_id or OF_NOBODY,
        topic="invitation",
        cause=link.id,
        recipient=link.email,
        language=wanted.language or await people.language_of(tx, actor.who),
        data=model.InvitationContent(by=wanted.by, expires_at=link.expires_at),
    )
    return made, await _with_link(tx, settings, mail, made.path, now)


def link_shown_to(settings: Settings, *, shown: bool, by_member: bool = False) -> ShownTo:
    """Return who sees a link that is about to be made.

    ``shown``: it is shown although it is mailed; else it is only where there is no mail server.
    """
    if settings.sends_mail and not shown:
        return "nobody"
    return "member" if by_member else "operator"


async def _count_invitation(tx: Tx, merchant_id: str | None, actor: Actor, now: int) -> None:
    """Count an invitation of a person, and of their merchant. Raises TooManyInvitations.

    The machine's owner is no person, and is not counted.
    """
    inviter = people.person_named(actor.who)
    if inviter is None:
        return
    try:
        await rate_limits.hit_daily(tx, "invitations", inviter, INVITED_PER_DAY, now)
        if merchant_id is not None:
            most = INVITED_BY_MERCHANT_PER_DAY
            await rate_limits.hit_daily(tx, "invitations", merchant_id, most, now)
    except TooManyRequests as problem:
        raise TooManyInvitations(problem.limit, problem.retry_after_s) from None


async def offer_new_password(
    tx: Tx, settings: Settings, made: NewLink, language: Language, now: int
) -> bool:
    """Mail the way to a new password in the transaction that makes it; False without a mail server.

    Raises TooManyMails.
    """
    mail = NewMail(
        merchant_id=OF_NOBODY,
        topic="reset",
        cause=made.link.id,
        recipient=made.link.email,
        language=language,
        data=model.PasswordResetContent(at=now),
    )
    return await _with_link(tx, settings, mail, made.path, now)


async def _with_link(tx: Tx, settings: Settings, mail: NewMail, path: str, now: int) -> bool:
    written = await queue(tx, settings, [mail], now, secret=path)
    if written:
        await count_asked(tx, mail, now)
    return bool(written)


async def ask_for_new_password(
    tx: Tx, settings: Settings, email: str, language: Language, now: int
) -> None:
    """Note that somebody wants a new password; the same is done for every address.

    Whether anybody logs in with it is looked up when the message is made, long after the response.
    An address that was mailed such a link within the last minutes gets no other, and nothing says
    so.
    Raises Invalid for what is no address.
    """
    address = normalize_email(inputs.check_email("email", email))
    mail = NewMail(
        merchant_id=OF_NOBODY,
        topic="reset",
        cause=f"reset {now // _PATIENCE_MS}",
        recipient=address,
        language=language,
        data=model.PasswordResetContent(at=now),
    )
    where = {"merchant_id": mail.merchant_id, "cause": mail.cause, "recipient": address}
    if await queries.BY_CAUSE.first(tx, **where) is not None:
        return
    await queue(tx, settings, [mail], now)
