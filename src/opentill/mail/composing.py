"""Messages that somebody asks for: receipts, invitations, new passwords, tests."""

from typing import Final

import msgspec

from opentill import orders, people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.core.languages import Language
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.mail import contents, of_events, outbox, preferences, queries
from opentill.mail.model import (
    INVITED_BY_MERCHANT_PER_DAY,
    INVITED_PER_DAY,
    MINUTE_MS,
    OF_NOBODY,
    Mail,
    NewMail,
    TooManyInvitations,
)
from opentill.merchants import Actor
from opentill.people import MerchantRole, NewLink, ShownTo, StaffRole, normalize_email

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
    mail = await of_events.receipt(
        tx,
        order,
        f"receipt {order_id}#{request_id}",
        livemode=bool(known.livemode),
        otherwise=await preferences.of(tx, merchant_id),
    )
    for made in await outbox.queue(tx, settings, [mail], now):
        await outbox.count_asked(tx, made, now)
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
        data=contents.Invitation(by=wanted.by, expires_at=link.expires_at),
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
        data=contents.Reset(at=now),
    )
    return await _with_link(tx, settings, mail, made.path, now)


async def _with_link(tx: Tx, settings: Settings, mail: NewMail, path: str, now: int) -> bool:
    written = await outbox.queue(tx, settings, [mail], now, secret=path)
    if written:
        await outbox.count_asked(tx, mail, now)
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
        data=contents.Reset(at=now),
    )
    where = {"merchant_id": mail.merchant_id, "cause": mail.cause, "recipient": address}
    if await queries.BY_CAUSE.first(tx, **where) is not None:
        return
    await outbox.queue(tx, settings, [mail], now)
