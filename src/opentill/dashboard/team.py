"""A merchant's team: who is in it with which role, and who is invited."""

from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.people import MERCHANT_ROLES, MerchantRole, NewLink
from opentill.portal import mail_language, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "on the page of the team"
_KEYS: Final = ("revoke", "keep")  # choices for keys of a member who is removed or lowered


async def show(request: PageRequest) -> Response:
    """Show members and invitations."""
    return await _team(request)


async def _team(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        members = await people.members(tx, request.merchant_id)
        invitations = await people.invitations(tx, request.merchant_id, request.now)
        merchant = await merchants.find(tx, request.merchant_id)
    new: dict[str, Any] = {"email": "", "role": "viewer", "link": "", "invited": ""}
    new |= {"leaving": "", "lowered": "", "lowered_to": None, "keys": ()}
    shown: dict[str, Any] = {**new, "language": request.localizer.language, **values}
    return render.page(
        request,
        "team.html",
        status,
        members=members,
        invitations=invitations,
        zone=ZoneInfo(merchant.time_zone),
        roles=MERCHANT_ROLES,
        errors=errors or {},
        **shown,
    )


def _role(form: dict[str, str]) -> MerchantRole | None:
    return next((role for role in MERCHANT_ROLES if role == form.get("role")), None)


async def invite(request: PageRequest) -> Response:
    """Invite somebody, and show the link, this once, where it is not mailed."""
    form, role = await request.form(), _role(await request.form())
    language = mail_language.chosen(request, form)
    typed = {"email": form.get("email", ""), "language": language or ""}
    if role is None:
        return await _team(request, 400, {"role": N_("Choose one of the roles")}, **typed)
    if language is None:
        return await _team(
            request, 400, {"language": N_("Choose one of the languages")}, **typed, role=role
        )
    actor = people.actor_of(request.login, _REASON)
    wanted = mail.NewInvitation(
        email=typed["email"],
        by=request.login.name,
        language=language,
        merchant_id=request.merchant_id,
        role=role,
        by_member=True,
    )

    async def work(tx: Tx) -> NewLink:
        return (await mail.invite(tx, request.app.settings, wanted, actor, request.now))[0]

    try:
        made = await request.app.db.run(work)
    except mail.TooManyInvitations:
        return await _team(
            request,
            429,
            {
                "email": N_(
                    "A person may invite 50 times within 24 hours, and a merchant "
                    "200 times. Try again later"
                )
            },
            **typed,
            role=role,
        )
    except mail.TooManyMails:
        return await _team(
            request,
            429,
            {
                "email": N_(
                    "Ten messages were sent to this address on request within an "
                    "hour. Try again later"
                )
            },
            **typed,
            role=role,
        )
    except Invalid as problem:
        member = "member" in (problem.reason or "")
        error = (
            N_("This person is a member already")
            if member
            else N_("Enter an e-mail address such as name@example.com")
        )
        return await _team(request, 400, {"email": error}, **typed, role=role)
    link = request.app.settings.public_url.rstrip("/") + made.path if made.is_shown else ""
    return await _team(request, link=link, invited=made.link.email)


async def change_role(request: PageRequest) -> Response:
    """Change a member's role, after asking about the API keys that may do more than it."""
    form, role = await request.form(), _role(await request.form())
    if role is None:
        return await _team(request, 400, {"members": N_("Choose one of the roles")})
    person, choice = form.get("person", ""), form.get("keys", "")
    if choice not in _KEYS:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_beyond_role(
                tx, request.merchant_id, person, role, request.now
            )
        if keys:
            return await _team(request, lowered=person, lowered_to=role, keys=keys)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: people.change_role(
                tx,
                request.merchant_id,
                person,
                role,
                request.now,
                actor=actor,
                revoke_keys=choice != "keep",
            )
        )
    except Invalid:
        return await _team(
            request,
            400,
            {"members": N_("A merchant always has an owner: make somebody else one first")},
        )
    return _back(request)


async def remove(request: PageRequest) -> Response:
    """Take a member's role away, once it is said what becomes of the API keys that they made."""
    form = await request.form()
    person, choice = form.get("person", ""), form.get("keys", "")
    if choice not in _KEYS:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_made_by(
                tx, person, request.now, request.merchant_id
            )
        if keys:
            return await _team(request, leaving=person, keys=keys)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: people.remove(
                tx,
                request.merchant_id,
                person,
                request.now,
                actor=actor,
                revoke_keys=choice == "revoke",
            )
        )
    except Invalid:
        return await _team(
            request,
            400,
            {"members": N_("A merchant always has an owner: make somebody else one first")},
        )
    if person == request.login.person_id:
        return render.see_other(request, "/dashboard")
    return _back(request)


async def withdraw(request: PageRequest) -> Response:
    """Make an invitation void."""
    form = await request.form()
    link = form.get("id", "")
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: people.withdraw(tx, request.merchant_id, link, request.now, actor=actor)
    )
    return _back(request)


def _back(request: PageRequest) -> Response:
    return render.see_other(request, f"/dashboard/{request.merchant_id}/team")


_PLACE: Final = f"{DASHBOARD_PATH}/team"
pages: Final = (
    Page("GET", _PLACE, "team.read", show, menu=N_("Team")),
    Page("POST", f"{_PLACE}/invite", "team.manage", invite),
    Page("POST", f"{_PLACE}/role", "team.manage", change_role),
    Page("POST", f"{_PLACE}/remove", "team.manage", remove),
    Page("POST", f"{_PLACE}/withdraw", "team.manage", withdraw),
)
