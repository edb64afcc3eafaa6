"""``opentill people invite|reset|list|role|remove`` and resets of lost factors."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import identity, inputs, output, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor, Key
    from opentill.people import NewLink, Person

_Merchant = Annotated[str | None, typer.Option(help="Id of the merchant they work for.")]
_HOUR_MS = 3_600_000
_COLUMNS = ("email", "name", "role", "merchantId", "personId")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "people",
        "People who log in: members of merchants, and staff of this deployment.",
        invite=invite,
        reset=reset,
        list=list_,
        role=change_role,
        remove=remove,
        **{
            "reset-factors": reset_factors,
            "confirm-factors": confirm_factors,
            "keep-factors": keep_factors,
            "change-email": change_email,
        },
    )


@acting(without_reason=inputs.NO_REASON)
def invite(
    email: str,
    *,
    merchant: _Merchant = None,
    role: Annotated[
        str | None, typer.Option(help="owner, finance, support, developer or viewer.")
    ] = None,
    staff: Annotated[
        str | None, typer.Option(help="Of the deployment: admin, finance, support or auditor.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="The mail's language, such as en or zh-Hans; by default yours."),
    ] = None,
    actor: "Actor",
) -> output.Result:
    """Create an invitation: a link that works once, within 24 hours.

    The link is mailed if there is a mail server. It is shown, only this time, if there is none or
    with --as-root.
    """
    from opentill import mail, people
    from opentill.core import languages
    from opentill.core.errors import Invalid

    if (staff is None) == (merchant is None) or (merchant is None) != (role is None):
        raise Invalid("role", "role is required: --merchant MER --role ROLE, or --staff ROLE")
    of_merchant = inputs.choice("role", role, people.MERCHANT_ROLES)
    of_staff = inputs.choice("staff", staff, people.STAFF_ROLES)
    mail_language = inputs.choice("language", language, languages.offered("merchant"))
    settings = session.settings()
    new_invitation = mail.NewInvitation(
        email=email,
        by=actor.who,
        language=mail_language,
        merchant_id=merchant,
        role=of_merchant,
        staff_role=of_staff,
        shown=identity.is_root(),
    )

    async def work(tx: "Tx", now: int) -> "tuple[NewLink, bool]":
        return await mail.invite(tx, settings, new_invitation, actor, now)

    return _link_result(*session.transact(work))


@acting(without_reason=inputs.NO_REASON)
def reset(email: str, *, actor: "Actor") -> output.Result:
    """Create a link by which a person chooses a new password, once within 24 hours.

    The link is mailed or shown like that of an invitation.
    """
    from opentill import mail, people

    settings = session.settings()

    async def work(tx: "Tx", now: int) -> "tuple[NewLink, bool]":
        shown_to = mail.link_shown_to(settings, shown=identity.is_root())
        new_link = await people.offer_new_password(tx, email, now, actor=actor, shown_to=shown_to)
        person = await people.find_by_email(tx, email)
        language = person.language or "en"
        return new_link, await mail.offer_new_password(tx, settings, new_link, language, now)

    return _link_result(*session.transact(work))


@acting()
def reset_factors(email: str, *, actor: "Actor") -> output.Result:
    """Request a reset of a person's second factors, which the person has lost.

    Another administrator must confirm it (`people confirm-factors`), except with --as-root. The
    factors end after OPENTILL_FACTOR_RESET_HOURS. Until then the person, who gets a mail, can stop
    the reset by a link in the mail or by proving a factor.
    """
    from opentill import people

    hours = session.settings().factor_reset_hours
    if not identity.is_root():
        identity.require_person("ask for a reset of factors, or the machine's owner, by --as-root")

    async def work(tx: "Tx", now: int) -> None:
        wait_ms = hours * _HOUR_MS if identity.is_root() else None
        await people.lost_factors.request_reset(tx, email, now, actor=actor, wait_ms=wait_ms)

    session.transact(work)
    if identity.is_root():
        return output.Result(_reset_of(email), note="Factors end once the waiting time is over.")
    return output.Result(
        _reset_of(email), note="Another administrator confirms it: opentill people confirm-factors"
    )


@acting(without_reason=inputs.NO_REASON)
def confirm_factors(email: str, *, actor: "Actor") -> dict[str, Any]:
    """Confirm the reset that another administrator has requested: the waiting time begins."""
    from opentill import people

    hours = session.settings().factor_reset_hours
    identity.require_person("confirm a reset of factors")
    approver = people.Approver(actor.who, lambda _account: False)

    async def work(tx: "Tx", now: int) -> None:
        reset = await people.lost_factors.open_reset_of(tx, email)
        wait_ms = hours * _HOUR_MS
        await people.lost_factors.confirm(
            tx, reset.id, approver, now, reason=actor.reason, wait_ms=wait_ms
        )

    session.transact(work)
    return _reset_of(email)


@acting(without_reason=inputs.NO_REASON)
def keep_factors(email: str, *, actor: "Actor") -> dict[str, Any]:
    """Stop a reset of a person's second factors, which remain valid."""
    from opentill import people

    async def work(tx: "Tx", now: int) -> None:
        reset = await people.lost_factors.open_reset_of(tx, email)
        await people.lost_factors.stop(tx, reset.id, now, actor=actor)

    session.transact(work)
    return {"email": email, "stopped": True}


def _reset_of(email: str) -> dict[str, Any]:
    from opentill import people

    async def work(tx: "Tx") -> dict[str, Any]:
        reset = await people.lost_factors.open_reset_of(tx, email)
        return {
            "email": reset.email,
            "status": reset.status,
            "askedBy": reset.asked_by,
            "confirmedBy": reset.confirmed_by,
            "dueAt": reset.due_at,
        }

    return session.query(work)


def _link_result(new_link: "NewLink", mailed: bool) -> output.Result:  # noqa: FBT001 - of one pair
    link, url = new_link.link, session.settings().public_url.rstrip("/") + new_link.path
    record: dict[str, Any] = {"email": link.email, "expiresAt": link.expires_at, "mailed": mailed}
    if not new_link.is_shown:
        return output.Result(
            {"url": None, **record}, note="The link is on its way to them by mail."
        )
    note = "Whoever has the link can use it: send it to them alone."
    return output.Result(
        {"url": url, **record}, note=f"{note} It is mailed to them, too." if mailed else note
    )


def list_(merchant_id: inputs.OnlyMerchant = None) -> output.Result:
    """List members and staff."""
    from opentill import people

    async def work(tx: "Tx") -> list[dict[str, Any]]:
        members, staff = await people.all_members_and_staff(tx)
        rows: list[dict[str, Any]] = [
            output.plain(one) for one in members if merchant_id in {None, one.merchant_id}
        ]
        if merchant_id is None:
            rows += [{**output.plain(one), "role": f"staff {one.role}"} for one in staff]
        return [{"merchantId": None, **row} for row in rows]

    return output.Result(session.query(work), _COLUMNS)


@acting(without_reason=inputs.NO_REASON)
def change_role(
    email: str,
    *,
    merchant: Annotated[str, typer.Option(help="Id of the merchant they work for.")],
    role: Annotated[str, typer.Option(help="owner, finance, support, developer or viewer.")],
    revoke_keys: Annotated[
        bool,
        typer.Option(
            "--revoke-keys",
            help="Revoke the valid API keys that they created and that exceed a lowered role.",
        ),
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Change a member's role, at once; never that of a merchant's last owner.

    Lists the valid API keys that they created and that exceed a lowered role.
    """
    from opentill import people
    from opentill.core.errors import Invalid

    new_role = inputs.choice("role", role, people.MERCHANT_ROLES)
    if new_role is None:
        raise Invalid("role", f"role must be one of {', '.join(people.MERCHANT_ROLES)}")

    async def work(tx: "Tx", now: int) -> "tuple[Person, list[Key]]":
        person = await people.find_by_email(tx, email)
        keys = await people.change_role(
            tx, merchant, person.id, new_role, now, actor=actor, revoke_keys=revoke_keys
        )
        return person, keys

    person, keys = session.transact(work)
    record: dict[str, Any] = {"email": person.email, "personId": person.id, "role": new_role}
    return _with_keys(record, keys, revoked=revoke_keys)


@acting(without_reason=inputs.NO_REASON)
def change_email(email: str, new_email: str, *, actor: "Actor") -> dict[str, Any]:
    """Change the address with which a member logs in; both addresses get a mail.

    Make sure that the request comes from the person. Never changes the address of staff.
    """
    from opentill import people

    async def work(tx: "Tx", now: int) -> "Person":
        return await people.change_email(tx, email, new_email, now, actor=actor)

    person = session.transact(work)
    return {"email": person.email, "personId": person.id}


@acting(without_reason=inputs.NO_REASON)
def remove(
    email: str,
    *,
    merchant: _Merchant = None,
    staff: Annotated[bool, typer.Option("--staff", help="From the staff instead.")] = False,
    revoke_keys: Annotated[
        bool, typer.Option("--revoke-keys", help="Revoke the valid API keys that they created.")
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Remove a person's role at once; never that of a merchant's last owner.

    Lists the valid API keys that they created: for the merchant or, if staff, for any.
    """
    from opentill import people
    from opentill.core.errors import Invalid

    if staff == (merchant is not None):
        raise Invalid("merchant", "merchant must be --merchant MER, or --staff instead")

    async def work(tx: "Tx", now: int) -> "tuple[Person, list[Key]]":
        person = await people.find_by_email(tx, email)
        keys = await people.key_scopes.keys_made_by(tx, person.id, now, merchant)
        if merchant is None:
            await people.remove_staff(tx, person.id, now, actor=actor, revoke_keys=revoke_keys)
        else:
            await people.remove(tx, merchant, person.id, now, actor=actor, revoke_keys=revoke_keys)
        return person, keys

    person, keys = session.transact(work)
    record: dict[str, Any] = {"email": person.email, "personId": person.id, "removed": True}
    return _with_keys(record, keys, revoked=revoke_keys)


def _with_keys(record: dict[str, Any], keys: "list[Key]", *, revoked: bool) -> output.Result:
    """Add the keys that a person made, and whether they were revoked, to a result."""
    record |= {"keys": [output.plain(key) for key in keys], "keysRevoked": revoked and bool(keys)}
    note = ""
    if keys and not revoked:
        note = "The keys that they made go on working: opentill keys revoke KEY ends one."
    return output.Result(record, note=note)
