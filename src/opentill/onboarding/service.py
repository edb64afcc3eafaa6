"""What staff decide about merchants beyond their standing itself."""

from typing import NamedTuple

from opentill import ledger, mail, merchants, webhooks
from opentill.core import structs
from opentill.core.errors import or_not_found
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.merchants import Actor, Merchant
from opentill.onboarding import queries
from opentill.onboarding.model import MANY, NotClosable, Unfinished
from opentill.people import NewLink
from opentill.web.catalogue import Language


class Approved(NamedTuple):
    """A merchant that was approved, the invitation of its owner, and whether it is mailed."""

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
    """Make an APPLIED merchant ACTIVE, and invite who has applied as its owner.

    The invitation is mailed where there is a mail server, in ``language``, else in the actor's own;
    ``shown``: its link is shown, too.
    Raises NotFound, and Invalid as ``merchants.take`` does.
    """
    merchant = await merchants.take(tx, merchant_id, "approved", actor, now, notes=notes)
    application = or_not_found(await merchants.application_of(tx, merchant_id))
    wanted = mail.NewInvitation(
        email=application.email,
        by=settings.operator_name,
        language=language,
        merchant_id=merchant_id,
        role="owner",
        shown=shown,
        has_applied=True,
    )
    invitation, mailed = await mail.invite(tx, settings, wanted, actor, now)
    return Approved(merchant, invitation, mailed)


async def decline(tx: Tx, merchant_id: str, actor: Actor, now: int, *, notes: str = "") -> Merchant:
    """Close an APPLIED merchant; nobody is notified. Raises as ``approve`` does."""
    return await merchants.take(tx, merchant_id, "declined", actor, now, notes=notes)


async def unfinished(tx: Tx, merchant: Merchant) -> Unfinished:
    """Return what a merchant has left that is to be closed."""
    work = await queries.LEFT.one(tx, merchant_id=merchant.id, limit=MANY)
    balance = await ledger.balance(tx, merchant.id, merchant.settlement_currency)
    accounts = {
        name: 0 if balance is None else int(getattr(balance, name))
        for name in ("pending", "available", "frozen", "reserve")
    }
    return structs.convert(work, Unfinished, currency=merchant.settlement_currency, **accounts)


async def close(
    tx: Tx, merchant_id: str, actor: Actor, now: int, *, notes: str = ""
) -> tuple[Merchant, Unfinished]:
    """Close a SUSPENDED merchant for good; return it and what expires by itself.

    From the commit on its keys open nothing, its members are shown nothing, and its endpoints get
    no more events; staff go on reading its books. Money that still arrives is taken in. Raises
    NotFound, NotClosable, and Invalid as ``merchants.take`` does.
    """
    merchant = await merchants.take(tx, merchant_id, "closed", actor, now, notes=notes)
    left = await unfinished(tx, merchant)
    if left.in_the_way:
        raise NotClosable(left)
    await webhooks.stop(tx, merchant_id, now, actor=actor)
    return merchant, left
