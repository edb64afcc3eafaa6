"""The staff: who they are, with which role, whether their accounts are safe, and their logins."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from opentill import mail, people
from opentill.console.approvals import approver
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import Actor, Key
from opentill.people import STAFF_ROLES, NewLink, StaffRole
from opentill.people.model import HOUR_MS
from opentill.portal import mail_language, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "in the console"
# Why somebody cannot be the second person, by the field of the refusal.
_NOT_SECOND: Final = {
    "invited": N_(
        "Whoever asked for this has invited this person or given them "
        "a new password within the last 72 hours. Somebody else must "
        "approve."
    ),
    "browser": N_(
        "Whoever asked for this has logged in in this browser. Approve it in a browser of your own."
    ),
}
_KEYS: Final = ("revoke", "keep")  # what becomes of the keys of somebody who is removed


async def show(request: PageRequest) -> Response:
    """Show staff and invitations."""
    return await _people(request)


async def _people(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        staff = await people.colleagues(tx)
        invitations = await people.staff_invitations(tx, request.now)
        resets = await people.lost_factors.open_resets(tx)
    new: dict[str, Any] = {"email": "", "role": "support", "link": "", "invited": "", "lost": ""}
    shown: dict[str, Any] = {**new, "language": request.localizer.language, **values}
    return render.page(
        request,
        "people.html",
        status,
        staff=staff,
        invitations=invitations,
        resets=resets,
        hours=request.localizer.duration(request.app.settings.factor_reset_hours * HOUR_MS),
        own=people.actor_of(request.login, "").who,
        zone=ZONE,
        roles=STAFF_ROLES,
        errors=errors or {},
        **shown,
    )


def _role(form: dict[str, str]) -> StaffRole | None:
    return next((role for role in STAFF_ROLES if role == form.get("role")), None)


async def invite(request: PageRequest) -> Response:
    """Invite somebody to the staff; the link is mailed or, without a mail server, shown once."""
    form, settings = await request.form(), request.app.settings
    role, language = _role(form), mail_language.chosen(request, form)
    typed = {"email": form.get("email", ""), "language": language or ""}
    if role is None:
        return await _people(request, 400, {"role": N_("Choose one of the roles")}, **typed)
    if language is None:
        return await _people(
            request, 400, {"language": N_("Choose one of the languages")}, **typed, role=role
        )
    actor = people.actor_of(request.login, _REASON)
    wanted = mail.NewInvitation(
        email=typed["email"], by=request.login.name, language=language, staff_role=role
    )

    async def work(tx: Tx) -> NewLink:
        return (await mail.invite(tx, settings, wanted, actor, request.now))[0]

    try:
        made = await request.app.db.run(work)
    except mail.TooManyInvitations:
        return await _people(
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
        return await _people(
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
        error = (
            N_("This person is staff already")
            if "staff" in (problem.reason or "")
            else N_("Enter an e-mail address such as name@example.com")
        )
        return await _people(request, 400, {"email": error}, **typed, role=role)
    link = settings.public_url.rstrip("/") + made.path if made.is_shown else ""
    return await _people(request, link=link, invited=made.link.email)


async def ask_reset(request: PageRequest) -> Response:
    """Ask for the end of somebody's second factors, whom another administrator confirms."""
    form = await request.form()
    email, reason = form.get("lost", ""), form.get("reason", "").strip()
    if not reason:
        return await _people(request, 400, {"reason": N_("Say why")}, lost=email)
    actor = Actor(people.actor_of(request.login, "").who, reason)
    try:
        await request.app.db.run(
            lambda tx: people.lost_factors.request_reset(tx, email, request.now, actor=actor)
        )
    except NotFound:
        return await _people(
            request, 400, {"lost": N_("Nobody with this address has a second factor")}, lost=email
        )
    except Invalid as problem:
        is_open = "open" in (problem.reason or "")
        error = (
            N_("A reset of their factors is open already")
            if is_open
            else N_("Nobody with this address has a second factor")
        )
        return await _people(request, 400, {"lost": error}, lost=email)
    return render.see_other(request, PLACE)


async def confirm_reset(request: PageRequest) -> Response:
    """Confirm what another administrator has asked for."""
    form = await request.form()
    wait_ms = request.app.settings.factor_reset_hours * HOUR_MS
    try:
        await request.app.db.run(
            lambda tx: people.lost_factors.confirm(
                tx, form.get("id", ""), approver(request), request.now,
                reason=_REASON, wait_ms=wait_ms,
            )
        )  # fmt: skip
    except Invalid as problem:
        error = _NOT_SECOND.get(
            problem.field or "",
            N_(
                "Another administrator must confirm it: neither the one who "
                "requested it, nor the person it is for"
            ),
        )
        return await _people(request, 400, {"lost": error})
    return render.see_other(request, PLACE)


async def stop_reset(request: PageRequest) -> Response:
    """Stop a reset: the factors stay."""
    form = await request.form()
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: people.lost_factors.stop(tx, form.get("id", ""), request.now, actor=actor)
    )
    return render.see_other(request, PLACE)


async def withdraw(request: PageRequest) -> Response:
    """Make an invitation void."""
    form = await request.form()
    link = form.get("id", "")
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: people.withdraw_staff_invitation(tx, link, request.now, actor=actor)
    )
    return render.see_other(request, PLACE)


async def show_one(request: PageRequest) -> Response:
    """Show somebody of the staff and where they are logged in. Raises NotFound."""
    return await _person(request)


async def _person(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    keys: Sequence[Key] = (),
) -> Response:
    person_id = request.ids["person"]
    async with request.app.db.connection() as tx:
        one = await people.find_staff(tx, person_id)
        logins = await people.logins_of(tx, person_id, request.now)
    return render.page(
        request,
        "person.html",
        status,
        person=one,
        logins=logins,
        roles=STAFF_ROLES,
        zone=ZONE,
        keys=keys,
        errors=errors or {},
    )


async def change_role(request: PageRequest) -> Response:
    """Give somebody another role."""
    role, person_id = _role(await request.form()), request.ids["person"]
    if role is None:
        return await _person(request, 400, {"role": N_("Choose one of the roles")})
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: people.change_staff_role(tx, person_id, role, request.now, actor=actor)
        )
    except Invalid:
        return await _person(
            request,
            400,
            {"role": N_("There is always an administrator: make somebody else one first")},
        )
    return render.see_other(request, PLACE)


async def remove(request: PageRequest) -> Response:
    """Take somebody's role away, once it is said what becomes of the API keys that they made."""
    form, person_id = await request.form(), request.ids["person"]
    choice = form.get("keys", "")
    if choice not in _KEYS:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_made_by(tx, person_id, request.now)
        if keys:
            return await _person(request, keys=keys)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: people.remove_staff(
                tx, person_id, request.now, actor=actor, revoke_keys=choice == "revoke"
            )
        )
    except Invalid:
        return await _person(
            request,
            400,
            {"role": N_("There is always an administrator: make somebody else one first")},
        )
    own = person_id == request.login.person_id
    return render.see_other(request, "/dashboard" if own else PLACE)


async def end_logins(request: PageRequest) -> Response:
    """Log somebody out everywhere."""
    person_id = request.ids["person"]
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(lambda tx: people.end_logins(tx, person_id, request.now, actor=actor))
    return render.see_other(request, f"{PLACE}/{person_id}")


PLACE: Final = f"{CONSOLE_PATH}/people"
_ONE: Final = f"{PLACE}/{{person:id}}"
pages: Final = (
    Page("GET", PLACE, "people.read", show, menu=N_("People")),
    Page("POST", f"{PLACE}/invite", "people.manage", invite),
    Page("POST", f"{PLACE}/withdraw", "people.manage", withdraw),
    Page("POST", f"{PLACE}/factors", "people.manage", ask_reset),
    Page("POST", f"{PLACE}/factors/confirm", "people.manage", confirm_reset),
    Page("POST", f"{PLACE}/factors/stop", "people.manage", stop_reset),
    Page("GET", _ONE, "people.read", show_one),
    Page("POST", f"{_ONE}/role", "people.manage", change_role),
    Page("POST", f"{_ONE}/remove", "people.manage", remove),
    Page("POST", f"{_ONE}/logout", "people.manage", end_logins),
)
