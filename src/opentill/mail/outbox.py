"""The outbox of mail: queues one row per message and recipient, lists rows, and resends them.

Mails that a person requests are queued in the transaction of the request: receipts, invitations and
links to a new password.
"""

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
from opentill.mail import queries, topics, triggers
from opentill.mail.decision_model import ApplicationContent
from opentill.mail.last_change import LAST_CHANGE, LastChange
from opentill.mail.model import (
    DAY_MS,
    EXAMPLE,
    INVITATIONS_OF_MERCHANT_PER_DAY,
    INVITATIONS_PER_DAY,
    MINUTE_MS,
    NO_MERCHANT,
    REQUESTED_PER_HOUR,
    STATUSES,
    InvitationContent,
    Mail,
    NewMail,
    NewRow,
    PasswordResetContent,
    QueueState,
    Status,
    TooManyInvitations,
    TooManyMails,
)
from opentill.merchants import Actor
from opentill.people import MerchantRole, NewLink, ShownTo, StaffRole, normalize_email

_MAX_ADDRESS_LENGTH: Final = 254
# An address gets at most one link to a new password in this time. Further requests change nothing,
# so that nobody can use up another person's limit.
_RESET_INTERVAL_MS: Final = 12 * MINUTE_MS
_ONE_TIME_TOPICS: Final = ("invitation", "reset")  # mails whose link works only once


async def queue(
    tx: Tx, settings: Settings, mails: Sequence[NewMail], now: int, *, secret: str | None = None
) -> list[Mail]:
    """Queue mails and return the new ones. A cause queues only one mail for each recipient.

    Without a mail server nothing is queued. ``secret`` is a path that only the recipient may know:
    it is stored encrypted, and deleted when the mail has ended.
    """
    if not settings.sends_mail:
        return []
    rows = [
        _new_row(settings, mail, secret)
        for mail in mails
        if 0 < len(mail.recipient) <= _MAX_ADDRESS_LENGTH
    ]
    return await _insert(tx, rows, now)


async def _insert(tx: Tx, rows: Sequence[NewRow], now: int) -> list[Mail]:
    if not rows:
        return []
    return await queries.QUEUE.all(tx, **columns(NewRow, rows), now=now)


def _new_row(settings: Settings, mail: NewMail, secret: str | None) -> NewRow:
    mail_id = new_id("mail")
    return NewRow(
        merchant_id=mail.merchant_id,
        id=mail_id,
        topic=mail.topic,
        cause=mail.cause,
        recipient=mail.recipient,
        order_id=mail.order_id,
        language=mail.language,
        data=msgspec.json.encode(mail.data).decode(),
        secret=None
        if secret is None
        else encryption.encrypt(settings.secret_key, encryption_purpose(mail_id), secret),
        message_id=_message_id(settings, mail_id),
    )


def encryption_purpose(mail_id: str) -> str:
    """Return the purpose for which the secret of a mail is encrypted."""
    return f"mail {mail_id}"


def _message_id(settings: Settings, mail_id: str) -> str:
    _, address = parseaddr(settings.mail_from)
    return f"<{mail_id}@{address.rpartition('@')[2]}>"


# ── requested mails ────────────────────────────────────────────────────────────────────────────


class NewInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """A person to be invited, to a merchant or to the staff.

    ``by`` names the inviter in the mail. Its ``language`` is by default the inviter's. ``shown``:
    show the link although it is mailed. ``by_member``: a member of the merchant invites, and sees
    the link if it is not mailed. ``has_applied``: staff approved the person's application; this
    does not count towards the limit of invitations.
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


async def resend(
    tx: Tx, settings: Settings, merchant_id: str, mail_id: str, request_id: str, now: int
) -> Mail:
    """Queue a mail again as a new row. Idempotent by ``request_id``.

    A mail that may have arrived keeps its Message-ID, so that a mailbox recognizes the copy. Raises
    NotFound, Invalid for a mail that has not ended or had a one-time link, and TooManyMails.
    """
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    original = await find(tx, merchant_id, mail_id)
    if original.due_at is not None:
        raise Invalid("mail", "mail must have ended: this one is still to be sent")
    if original.topic in _ONE_TIME_TOPICS:
        raise Invalid("mail", "mail must have no link that works once: make a new link instead")
    new_mail_id = new_id("mail")
    may_have_arrived = original.status == "UNKNOWN"
    row = msgspec.structs.replace(
        msgspec.convert(original, NewRow, from_attributes=True),
        id=new_mail_id,
        cause=f"{original.cause.partition('#')[0]}#{request_id}",
        secret=None,
        message_id=original.message_id if may_have_arrived else _message_id(settings, new_mail_id),
    )
    for mail in await _insert(tx, [row], now):
        await _count_request(tx, mail, now)
        return mail
    return await queries.BY_CAUSE.one(
        tx, merchant_id=merchant_id, cause=row.cause, recipient=row.recipient
    )


async def _count_request(tx: Tx, mail: Mail | NewMail, now: int) -> None:
    """Count a requested mail, so that a stolen login cannot flood a mailbox. Raises TooManyMails.

    Each merchant, and the staff, has its own limit for each recipient: none can use up the limit
    of another.
    """
    pair = f"{mail.merchant_id} {mail.recipient}"
    subject = hashlib.sha256(pair.encode()).hexdigest()
    try:
        await rate_limits.hit_hourly(tx, "mails asked for", subject, REQUESTED_PER_HOUR, now)
    except TooManyRequests as problem:
        raise TooManyMails(problem.retry_after_s) from None


async def send_example(
    tx: Tx, settings: Settings, example: Mail, recipient: str, request_id: str, now: int
) -> None:
    """Queue an example of a merchant's mail to the person who asked for it, marked as a test.

    Idempotent by ``request_id``. Raises Invalid without a mail server, and TooManyMails.
    """
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    mail_id = new_id("mail")
    row = msgspec.structs.replace(
        msgspec.convert(example, NewRow, from_attributes=True),
        id=mail_id,
        cause=f"{EXAMPLE} {example.topic}#{request_id}",
        recipient=recipient,
        order_id=None,  # the example's order does not exist
        message_id=_message_id(settings, mail_id),
    )
    for mail in await _insert(tx, [row], now):
        await _count_request(tx, mail, now)


async def send_receipt(
    tx: Tx, settings: Settings, merchant_id: str, order_id: str, request_id: str, now: int
) -> Mail:
    """Queue the receipt of a paid order, whatever the merchant's preferences.

    Idempotent by ``request_id``. Raises NotFound for an unpaid order, Invalid without mail server
    or address, and TooManyMails.
    """
    order = await orders.find(tx, merchant_id, order_id)
    if order.paid_at is None:
        raise NotFound
    if not settings.sends_mail:
        raise Invalid("mail", "mail must be set up: there is no mail server")
    if not order.customer_email:
        raise Invalid("email", "email must be known: this customer gave none")
    order_with_mode = await orders.with_livemode(tx, order, deployment=settings.livemode)
    receipt = await triggers.receipt(
        tx,
        order,
        f"receipt {order_id}#{request_id}",
        livemode=bool(order_with_mode.livemode),
        preferences=await topics.find_preferences(tx, merchant_id),
    )
    for mail in await queue(tx, settings, [receipt], now):
        await _count_request(tx, mail, now)
        return mail
    return await queries.BY_CAUSE.one(
        tx, merchant_id=merchant_id, cause=receipt.cause, recipient=receipt.recipient
    )


async def invite(
    tx: Tx, settings: Settings, invitation: NewInvitation, actor: Actor, now: int
) -> tuple[NewLink, bool]:
    """Invite a person and queue the mail with the link; return the link and whether it is mailed.

    A mailed link is shown to nobody else (``NewLink.is_shown``). Raises the errors of
    ``people.invite``, TooManyMails and TooManyInvitations.
    """
    if not invitation.has_applied:
        await _count_invitation(tx, invitation.merchant_id, actor, now)
    new_link = await people.invite(
        tx,
        invitation.email,
        now,
        merchant_id=invitation.merchant_id,
        role=invitation.role,
        staff_role=invitation.staff_role,
        actor=actor,
        shown_to=link_shown_to(settings, shown=invitation.shown, by_member=invitation.by_member),
    )
    link = new_link.link
    mail = NewMail(
        merchant_id=link.merchant_id or NO_MERCHANT,
        topic="invitation",
        cause=link.id,
        recipient=link.email,
        language=invitation.language or await people.language_of(tx, actor.who),
        data=InvitationContent(
            by=invitation.by,
            expires_at=link.expires_at,
            role=invitation.role or invitation.staff_role or "",
            has_applied=invitation.has_applied,
        ),
    )
    return new_link, await _queue_link(tx, settings, mail, new_link.path, now)


async def confirm_application(
    tx: Tx,
    settings: Settings,
    merchant_id: str,
    name: str,
    email: str,
    language: Language,
    now: int,
) -> None:
    """Queue the confirmation of an application for ``merchant_id``, once for each applicant."""
    mail = NewMail(
        merchant_id=NO_MERCHANT,
        topic="application",
        cause=merchant_id,
        recipient=normalize_email(email),
        language=language,
        data=ApplicationContent(name=name, at=now),
    )
    await queue(tx, settings, [mail], now)


def link_shown_to(settings: Settings, *, shown: bool, by_member: bool = False) -> ShownTo:
    """Return to whom a new link is shown: to nobody if it is mailed, unless ``shown``."""
    if settings.sends_mail and not shown:
        return "nobody"
    return "member" if by_member else "operator"


async def _count_invitation(tx: Tx, merchant_id: str | None, actor: Actor, now: int) -> None:
    """Count an invitation of a person, and of the merchant. Raises TooManyInvitations.

    The owner of the machine is not a person and has no limit.
    """
    inviter = people.person_named(actor.who)
    if inviter is None:
        return
    try:
        await rate_limits.hit_daily(tx, "invitations", inviter, INVITATIONS_PER_DAY, now)
        if merchant_id is not None:
            limit = INVITATIONS_OF_MERCHANT_PER_DAY
            await rate_limits.hit_daily(tx, "invitations", merchant_id, limit, now)
    except TooManyRequests as problem:
        raise TooManyInvitations(problem.limit, problem.retry_after_s) from None


async def offer_new_password(
    tx: Tx, settings: Settings, new_link: NewLink, language: Language, now: int
) -> bool:
    """Queue a link to a new password; return False without a mail server. Raises TooManyMails."""
    mail = NewMail(
        merchant_id=NO_MERCHANT,
        topic="reset",
        cause=new_link.link.id,
        recipient=new_link.link.email,
        language=language,
        data=PasswordResetContent(at=now),
    )
    return await _queue_link(tx, settings, mail, new_link.path, now)


async def _queue_link(tx: Tx, settings: Settings, mail: NewMail, path: str, now: int) -> bool:
    queued = await queue(tx, settings, [mail], now, secret=path)
    if queued:
        await _count_request(tx, mail, now)
    return bool(queued)


async def request_new_password(
    tx: Tx, settings: Settings, email: str, language: Language, now: int
) -> None:
    """Queue a link to a new password, in the same way for every address. Raises Invalid.

    Whether the address belongs to a person is looked up when the mail is rendered, long after the
    response, so that the response does not show it. An address that got such a link within the last
    minutes gets no second one.
    """
    address = normalize_email(inputs.check_email("email", email))
    mail = NewMail(
        merchant_id=NO_MERCHANT,
        topic="reset",
        cause=f"reset {now // _RESET_INTERVAL_MS}",
        recipient=address,
        language=language,
        data=PasswordResetContent(at=now),
    )
    await queue(tx, settings, [mail], now)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


async def find(tx: Tx, merchant_id: str, mail_id: str) -> Mail:
    """Return a mail. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=mail_id))


async def find_anywhere(tx: Tx, mail_id: str) -> Mail:
    """Return a mail of any merchant, or of none. Raises NotFound."""
    return or_not_found(await queries.ANYWHERE.first(tx, id=mail_id), f"there is no mail {mail_id}")


async def list_of_merchant(
    tx: Tx,
    merchant_id: str,
    *,
    before: str = "",
    status: Status | None = None,
    recipient: str | None = None,
    limit: int,
) -> list[Mail]:
    """Return a merchant's mails, newest first; ``before`` is the last id of the previous page."""
    filters = {
        "merchant_id": merchant_id,
        "status": _statuses(status),
        "before": before or ids.LAST,
        "limit": limit,
    }
    if recipient is None:
        return await queries.LIST.all(tx, **filters)
    return await queries.LIST_TO.all(tx, recipient=recipient, **filters)


def _statuses(status: Status | None) -> list[Status]:
    return list(STATUSES) if status is None else [status]


async def list_of_order(tx: Tx, merchant_id: str, order_id: str, limit: int = 20) -> list[Mail]:
    """Return the mails about an order, newest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id, limit=limit)


async def list_newest(
    tx: Tx,
    merchant_id: str | None,
    status: Status | None,
    limit: int,
    *,
    before: LastChange = LAST_CHANGE,
) -> list[Mail]:
    """Return a merchant's mails, newest first, or those of all merchants by their last change.

    ``before`` is the place of the last row of the previous page of the mails of all merchants.
    """
    if merchant_id is not None:
        return await list_of_merchant(tx, merchant_id, status=status, limit=limit)
    return await queries.NEWEST.all(
        tx,
        status=_statuses(status),
        before_at=before.at,
        before_id=before.mail_id,
        limit=limit,
    )


async def queue_state(tx: Tx, now: int) -> QueueState:
    """Count waiting mails, and the last day's failures, up to 10,000 each."""
    return await queries.QUEUE_STATE.one(tx, since=now - DAY_MS)


# ── after a restore, and when the business clock moves ─────────────────────────────────────────


async def skip_waiting(tx: Tx, now: int) -> int:
    """Mark waiting mails as unknown after a restore; return how many there were.

    Each may have been sent after the backup, and can be resent. Unread events may have been mailed
    too, so they cause no mail any more.
    """
    await queries.SKIP_UNREAD.run(tx, now=now)
    return await queries.SKIP_WAITING.run(tx, now=now)


async def make_due(tx: Tx, now: int) -> None:
    """Make mails due that would be due later, because the business clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)
