"""``opentill merchants apply`` and what follows: deciding, suspending, closing, capabilities."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import identity, inputs, output, resolve, session
from opentill.cli.registration import Command, acting

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import (
        Actor,
        Merchant,
        MerchantChange,
        PendingApplication,
        StatusEvent,
    )
    from opentill.onboarding import Approved, Unfinished

_Notes = Annotated[
    str, typer.Option("--notes", help="Only staff can read them; the merchant reads the reason.")
]
_COLUMNS: Final = ("at", "event", "fromStatus", "toStatus", "capability", "who", "reason", "notes")
_WAITING: Final = ("merchantId", "merchantName", "name", "email", "website", "appliedAt")


def _to_record(merchant: "Merchant") -> dict[str, Any]:
    """Return a merchant's status and the reasons for capabilities that are off."""
    from opentill import merchants

    off_reasons = {f"{one}Off": merchant.off(one) for one in merchants.CAPABILITIES}
    return {"id": merchant.id, "name": merchant.name, "status": merchant.status, **off_reasons}


def _change_status(
    merchant_id: str, event: "StatusEvent", actor: "Actor", notes: str
) -> dict[str, Any]:
    from opentill import merchants

    merchant = session.transact(
        lambda tx, now: merchants.change_status(tx, merchant_id, event, actor, now, notes=notes)
    )
    return _to_record(merchant)


@acting()
def apply(
    name: str,
    *,
    owner: Annotated[str, typer.Option(help="The email address of its future owner.")],
    owner_name: Annotated[str, typer.Option(help="The owner's name.")],
    business: Annotated[str, typer.Option(help="What it sells.")],
    website: Annotated[str, typer.Option(help="Its address, if it has one.")] = "",
    currency: Annotated[str, typer.Option(help="Settlement currency.")] = "USD",
    actor: "Actor",
) -> dict[str, Any]:
    """Create an application, which staff approve or decline."""
    from opentill import merchants
    from opentill.merchants import ApplicationForm

    form = ApplicationForm(
        merchant=name, currency=currency, name=owner_name, email=owner, website=website,
        business=business,
    )  # fmt: skip

    async def work(tx: "Tx", now: int) -> "Merchant":
        merchant_id = await merchants.apply(tx, form, now, actor=actor)
        return await merchants.find(tx, merchant_id)

    return _to_record(session.transact(work))


def applications() -> output.Result:
    """List the applications that wait, the oldest first."""
    from opentill import merchants

    async def work(tx: "Tx") -> "list[PendingApplication]":
        return await merchants.waiting_applications(tx)

    return output.Result([output.plain(one) for one in session.query(work)], _WAITING)


@acting()
def approve(
    merchant_id: str,
    *,
    notes: _Notes = "",
    language: Annotated[
        str | None,
        typer.Option(help="The mail's language, such as en or zh-Hans; by default yours."),
    ] = None,
    actor: "Actor",
) -> output.Result:
    """Approve an application: the merchant becomes ACTIVE, the applicant is invited as owner."""
    from opentill import onboarding
    from opentill.core import languages

    settings, spoken = (
        session.settings(),
        inputs.choice("language", language, languages.offered("merchant")),
    )

    async def work(tx: "Tx", now: int) -> "Approved":
        return await onboarding.approve(
            tx, settings, merchant_id, actor, now, notes=notes, language=spoken,
            shown=identity.is_root(),
        )  # fmt: skip

    merchant, invitation, mailed = session.transact(work)
    link = invitation.link
    url = settings.public_url.rstrip("/") + invitation.path if invitation.is_shown else None
    record = {**_to_record(merchant), "url": url, "email": link.email, "expiresAt": link.expires_at}
    if url is None:
        return output.Result(record, note=f"The link is on its way to {link.email} by mail.")
    note = f"Send the link to {link.email} alone: it makes an owner."
    return output.Result(record, note=f"{note} It is mailed to them, too." if mailed else note)


@acting()
def decline(merchant_id: str, *, notes: _Notes = "", actor: "Actor") -> dict[str, Any]:
    """Decline an application: the merchant becomes CLOSED."""
    from opentill import onboarding

    merchant = session.transact(
        lambda tx, now: onboarding.decline(tx, merchant_id, actor, now, notes=notes)
    )
    return _to_record(merchant)


@acting()
def suspend(merchant_id: str, *, notes: _Notes = "", actor: "Actor") -> dict[str, Any]:
    """Suspend a merchant at once: no new sessions, payments or payouts. Refunds continue."""
    return _change_status(merchant_id, "suspended", actor, notes)


@acting()
def resume(merchant_id: str, *, notes: _Notes = "", actor: "Actor") -> dict[str, Any]:
    """End a suspension. A capability that was switched off separately stays off."""
    return _change_status(merchant_id, "resumed", actor, notes)


@acting()
def close(merchant_id: str, *, notes: _Notes = "", actor: "Actor") -> output.Result:
    """Close a merchant for good, if it has no money and no open payments."""
    from opentill import onboarding

    async def work(tx: "Tx", now: int) -> "tuple[Merchant, Unfinished]":
        return await onboarding.close(tx, merchant_id, actor, now, notes=notes)

    merchant, unfinished = session.transact(work)
    note = "Its keys, members and endpoints are off."
    if unfinished.sessions:
        note += (
            " Open sessions that nobody can pay, and that expire by themselves:"
            f" {unfinished.sessions}."
        )
    return output.Result({**_to_record(merchant), "openSessions": unfinished.sessions}, note=note)


@acting()
def capability(
    merchant_id: str,
    capability: Annotated[str, typer.Argument(help="charge, refund or payout.")],
    state: Annotated[str, typer.Argument(help="on or off.")],
    *,
    notes: _Notes = "",
    actor: "Actor",
) -> dict[str, Any]:
    """Switch one capability of a merchant on or off, at once."""
    from opentill import merchants
    from opentill.core.errors import Invalid

    chosen = inputs.choice("capability", capability, merchants.CAPABILITIES)
    on_or_off = inputs.choice("state", state, ("on", "off"))
    if chosen is None or on_or_off is None:
        raise Invalid("capability", "capability must be given")

    async def work(tx: "Tx", now: int) -> "Merchant":
        return await merchants.set_capability(
            tx, merchant_id, chosen, on=on_or_off == "on", actor=actor, now=now, notes=notes
        )

    return _to_record(session.transact(work))


@acting()
def gateways(
    merchant_id: str,
    gateways: Annotated[
        list[str], typer.Argument(help="Names such as stripe and paypal; none for no gateway.")
    ],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Choose the gateways of which a merchant may add and change own accounts."""
    from opentill.gateways import accounts

    settings, names = session.settings(), [] if gateways == ["none"] else gateways

    async def work(tx: "Tx", now: int) -> list[str]:
        return await accounts.allow(tx, settings, merchant_id, names, now, actor=actor)

    return {"id": merchant_id, "gateways": session.transact(work)}


@acting(without_reason=inputs.NO_REASON)
def note(merchant_id: str, notes: str, *, actor: "Actor") -> dict[str, Any]:
    """Add a note to a merchant, which only staff can read."""
    from opentill import merchants

    entry = session.transact(lambda tx, now: merchants.add_note(tx, merchant_id, notes, actor, now))
    return output.plain(entry)


def changes(merchant: resolve.AnyId) -> output.Result:
    """List the changes of a merchant's status and capabilities, and its notes, newest first."""
    from opentill import merchants

    async def work(tx: "Tx") -> "list[MerchantChange]":
        return await merchants.status_history(tx, (await resolve.merchant(tx, merchant)).id)

    return output.Result([output.plain(one) for one in session.query(work)], _COLUMNS)


COMMANDS: Final[dict[str, Command]] = {
    "apply": apply,
    "applications": applications,
    "approve": approve,
    "decline": decline,
    "suspend": suspend,
    "resume": resume,
    "close": close,
    "capability": capability,
    "gateways": gateways,
    "note": note,
    "changes": changes,
}
