"""Approving, declining and closing merchants."""

from typing import NamedTuple

from opentill import ledger, mail, merchants, webhooks
from opentill.core import structs
from opentill.core.errors import or_not_found
from opentill.core.languages import Language
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.merchants import Actor, Merchant
from opentill.onboarding import queries
from opentill.onboarding.model import MAX_COUNT, NotClosable, Unfinished
from opentill.people import NewLink


class Approved(NamedTuple):
    """An approved merchant, the owner's invitation, and whether it is mailed."""

    merchant: Merchant
    invitation: NewLink
    mailed: bool


async def approve(  # noqa: PLR0913 - the fields of the form
    tx: Tx,
    settings: Settings,
    merchant_id: str,
    actor: Actor,
    now: int,
    *,
    notes: str = "",
    language: Language | None = None,
    shown: bool = False,
) -> Approved:
    """Make an APPLIED merchant ACTIVE, and invite the applicant as its owner.

    The invitation is mailed if there is a mail server, in ``language`` or else the actor's
    language; with ``shown`` its link is also shown. Raises NotFound, and Invalid like
    ``merchants.change_status``.
    """
    merchant = await merchants.change_status(tx, merchant_id, "approved", actor, now, notes=notes)
    application = or_not_found(await merchants.application_of(tx, merchant_id))
    new_invitation = mail.NewInvitation(
        email=application.email,
        by=settings.operator_name,
        language=language,
        merchant_id=merchant_id,
        role="owner",
        shown=shown,
        has_applied=True,
    )
    invitation, mailed = await mail.invite(tx, settings, new_invitation, actor, now)
    return Approved(merchant, invitation, mailed)


async def decline(tx: Tx, merchant_id: str, actor: Actor, now: int, *, notes: str = "") -> Merchant:
    """Close an APPLIED merchant; nobody is notified. Raises the errors of ``approve``."""
    return await merchants.change_status(tx, merchant_id, "declined", actor, now, notes=notes)


async def unfinished(tx: Tx, merchant: Merchant) -> Unfinished:
    """Return a merchant's remaining money and work."""
    work = await queries.UNFINISHED_WORK.one(tx, merchant_id=merchant.id, limit=MAX_COUNT)
    balance = await ledger.find_balance(tx, merchant.id, merchant.settlement_currency)
    accounts = {
        name: 0 if balance is None else int(getattr(balance, name))
        for name in ("pending", "available", "frozen", "reserve", "prepaid")
    }
    return structs.convert(work, Unfinished, currency=merchant.settlement_currency, **accounts)


async def close(
    tx: Tx, merchant_id: str, actor: Actor, now: int, *, notes: str = ""
) -> tuple[Merchant, Unfinished]:
    """Close a merchant permanently; return it with its remaining open sessions.

    An ACTIVE merchant is suspended by the same transaction: changes of the standing wait for those
    who rely on it, so nothing can begin between the suspension and the count of what is left.
    After the commit its keys and memberships are void and its endpoints get no events; staff can
    still read its books, and late payments are still recorded. Raises NotFound, NotClosable, and
    Invalid like ``merchants.change_status``.
    """
    if (await merchants.find(tx, merchant_id)).status == "ACTIVE":
        await merchants.change_status(tx, merchant_id, "suspended", actor, now)
    merchant = await merchants.change_status(tx, merchant_id, "closed", actor, now, notes=notes)
    left = await unfinished(tx, merchant)
    if left.blockers:
        raise NotClosable(left)
    await webhooks.disable_all(tx, merchant_id, now, actor=actor)
    return merchant, left
