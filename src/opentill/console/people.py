"""Pages of staff: invitations, roles, logins, and resets of lost second factors."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from opentill import people
from opentill.console.second_person import CANNOT_CONFIRM, approver, find_reset_refusals
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.merchants import Actor, Key
from opentill.people import STAFF_ROLES, StaffRole
from opentill.people.lifetimes import HOUR_MS
from opentill.portal import invitations, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "in the console"
_KEY_CHOICES: Final = ("revoke", "keep")  # choices for the API keys of a person who is removed
_NO_FACTOR: Final = N_("Nobody with this address has a second factor")
_LAST_ADMIN: Final = N_("There must be an administrator. Give somebody else this role first")


async def list_people(request: PageRequest) -> Response:
    """List staff and invitations."""
    return await _list_page(request)


async def _list_page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        staff = await people.colleagues(tx)
        pending = await people.staff_invitations(tx, request.now)
        resets = await people.lost_factors.open_resets(tx)
        refusals = await find_reset_refusals(tx, request, resets)
    all_values: dict[str, Any] = {
        "email": "",
        "role": "support",
        "link": "",
        "invited": "",
        "lost": "",
        "reason": "",
        "language": request.localizer.language,
        **values,
    }
    return render.page(
        request,
        "people.html",
        status,
        staff=staff,
        is_only_admin=sum(person.role == "admin" for person in staff) == 1,
        invitations=pending,
        resets=resets,
        hours=request.localizer.duration(request.app.settings.factor_reset_hours * HOUR_MS),
        refusals={reset_id: CANNOT_CONFIRM[field] for reset_id, field in refusals.items()},
        zone=ZONE,
        roles=STAFF_ROLES,
        errors=errors or {},
        **all_values,
    )


async def invite_person(request: PageRequest) -> Response:
    """Invite a person to the staff. If there is no mail server, the page shows the link once."""
    try:
        invitation = await invitations.invite(request, people.actor_of(request.login, _REASON))
    except invitations.Refused as refusal:
        return await _list_page(request, refusal.status, refusal.errors, **refusal.entries)
    return await _list_page(request, 200, None, **invitation)


async def request_factor_reset(request: PageRequest) -> Response:
    """Request a reset of a person's second factors, which another administrator confirms."""
    form = await request.form()
    email, reason = form.get("lost", ""), form.get("reason", "").strip()
    if not reason:
        return await _list_page(request, 400, {"reason": N_("Say why")}, lost=email)
    actor = Actor(people.actor_of(request.login, "").who, reason)
    try:
        await request.transact(
            lambda tx: people.lost_factors.request_reset(tx, email, request.now, actor=actor)
        )
    except NotFound:
        return await _list_page(request, 400, {"lost": _NO_FACTOR}, lost=email, reason=reason)
    except Invalid as problem:
        is_open = "open" in (problem.reason or "")
        error = N_("A reset of their factors is open already") if is_open else _NO_FACTOR
        return await _list_page(request, 400, {"lost": error}, lost=email, reason=reason)
    return render.see_other(request, f"{PLACE}?done=reset_requested")


async def confirm_factor_reset(request: PageRequest) -> Response:
    """Confirm a reset that another administrator has requested."""
    form = await request.form()
    wait_ms = request.app.settings.factor_reset_hours * HOUR_MS
    try:
        await request.transact(
            lambda tx: people.lost_factors.confirm(
                tx, form.get("id", ""), approver(request), request.now,
                reason=_REASON, wait_ms=wait_ms,
            )
        )  # fmt: skip
    except Invalid as problem:
        error = CANNOT_CONFIRM[problem.field or "by"]
        return await _list_page(request, 400, {"lost-factors": error})
    suffix = "" if request.app.settings.sends_mail else "_without_mail"
    return render.see_other(request, f"{PLACE}?done=reset_confirmed{suffix}")


async def stop_factor_reset(request: PageRequest) -> Response:
    """Stop a reset, so that the second factors stay valid."""
    form = await request.form()
    actor = people.actor_of(request.login, _REASON)
    await request.transact(
        lambda tx: people.lost_factors.stop(tx, form.get("id", ""), request.now, actor=actor)
    )
    return render.see_other(request, f"{PLACE}?done=reset_stopped")


async def withdraw_invitation(request: PageRequest) -> Response:
    """Withdraw an invitation, so that its link stops working."""
    form = await request.form()
    link = form.get("id", "")
    actor = people.actor_of(request.login, _REASON)
    await request.transact(
        lambda tx: people.withdraw_staff_invitation(tx, link, request.now, actor=actor)
    )
    return render.see_other(request, f"{PLACE}?done=withdrawn")


async def show_person(request: PageRequest) -> Response:
    """Show a member of the staff and their logins. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    keys: Sequence[Key] = (),
    role: StaffRole | None = None,
) -> Response:
    person_id = request.ids["person"]
    async with request.app.db.connection() as tx:
        person = await people.find_staff(tx, person_id)
        logins = await people.logins_of(tx, person_id, request.now)
    return render.page(
        request,
        "person.html",
        status,
        person=person,
        logins=logins,
        roles=STAFF_ROLES,
        chosen_role=role or person.role,
        zone=ZONE,
        keys=keys,
        errors=errors or {},
    )


async def change_role(request: PageRequest) -> Response:
    """Give a person another role."""
    role, person_id = invitations.chosen_staff_role(await request.form()), request.ids["person"]
    if role is None:
        return await _page(request, 400, {"role": invitations.CHOOSE_ROLE})
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.transact(
            lambda tx: people.change_staff_role(tx, person_id, role, request.now, actor=actor)
        )
    except Invalid:
        return await _page(request, 400, {"role": _LAST_ADMIN}, role=role)
    return render.see_other(request, f"{PLACE}?done=role")


async def remove_person(request: PageRequest) -> Response:
    """Remove a person from the staff, after asking whether to revoke the API keys they created."""
    form, person_id = await request.form(), request.ids["person"]
    choice = form.get("keys", "")
    if choice not in _KEY_CHOICES:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_made_by(tx, person_id, request.now)
        if keys:
            return await _page(request, keys=keys)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.transact(
            lambda tx: people.remove_staff(
                tx, person_id, request.now, actor=actor, revoke_keys=choice == "revoke"
            )
        )
    except Invalid:
        return await _page(request, 400, {"role": _LAST_ADMIN})
    is_own = person_id == request.login.person_id
    return render.see_other(request, "/dashboard" if is_own else f"{PLACE}?done=removed")


async def end_logins(request: PageRequest) -> Response:
    """End all logins of a person."""
    person_id = request.ids["person"]
    actor = people.actor_of(request.login, _REASON)
    await request.transact(lambda tx: people.end_logins(tx, person_id, request.now, actor=actor))
    return render.see_other(request, f"{PLACE}/{person_id}?done=logins")


PLACE: Final = f"{CONSOLE_PATH}/people"
_PERSON: Final = f"{PLACE}/{{person:id}}"
pages: Final = (
    Page("GET", PLACE, "people.read", list_people, menu=N_("People"), group="security"),
    Page(
        "POST",
        f"{PLACE}/invite",
        "people.manage",
        invite_person,
        fields=("email", "role"),
        proves=N_("Invite a colleague"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{PLACE}/withdraw",
        "people.manage",
        withdraw_invitation,
        fields=("id",),
        proves=N_("Withdraw an invitation"),
    ),
    Page(
        "POST",
        f"{PLACE}/factors",
        "people.manage",
        request_factor_reset,
        fields=("lost", "reason"),
        proves=N_("Reset second factors"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{PLACE}/factors/confirm",
        "people.manage",
        confirm_factor_reset,
        fields=("id",),
        proves=N_("Confirm a reset of second factors"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{PLACE}/factors/stop",
        "people.manage",
        stop_factor_reset,
        fields=("id",),
        proves=N_("Stop a reset of second factors"),
    ),
    Page("GET", _PERSON, "people.read", show_person),
    Page(
        "POST",
        f"{_PERSON}/role",
        "people.manage",
        change_role,
        fields=("role",),
        proves=N_("Change the role of a colleague"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{_PERSON}/remove",
        "people.manage",
        remove_person,
        proves=N_("Remove a colleague"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{_PERSON}/logout",
        "people.manage",
        end_logins,
        proves=N_("Log out a colleague everywhere"),
    ),
)
