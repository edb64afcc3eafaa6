"""A merchant's team: its members with their roles, and its invitations."""

from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, people
from opentill.core.errors import Invalid
from opentill.dashboard import page_helpers, role_table
from opentill.people import MERCHANT_ROLES
from opentill.portal import invitations, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "on the page of the team"
_KEYS: Final = ("revoke", "keep")  # choices for the API keys of a member who loses permissions
_LAST_OWNER: Final = N_("A merchant always has an owner: make somebody else one first")


async def show(request: PageRequest) -> Response:
    """Show members and invitations."""
    return await _render_team(request)


async def _render_team(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        members = await people.members(tx, request.merchant_id)
        pending = await people.invitations(tx, request.merchant_id, request.now)
        merchant = await merchants.find(tx, request.merchant_id)
    defaults: dict[str, Any] = {"email": "", "role": "viewer", "link": "", "invited": ""}
    defaults |= {"leaving": "", "lowered": "", "lowered_to": None, "keys": ()}
    defaults["language"] = request.localizer.language
    page_values: dict[str, Any] = {**defaults, **values}
    return render.page(
        request,
        "team.html",
        status,
        members=members,
        owners=sum(member.role == "owner" for member in members),
        invitations=pending,
        zone=ZoneInfo(merchant.time_zone),
        roles=MERCHANT_ROLES,
        permissions=role_table.rows(),
        errors=errors or {},
        **page_values,
    )


async def invite(request: PageRequest) -> Response:
    """Invite somebody. The link is shown once if no mail server can send it."""
    actor = people.actor_of(request.login, _REASON)
    try:
        invitation = await invitations.invite(request, actor, request.merchant_id, by_member=True)
    except invitations.Refused as refusal:
        return await _render_team(request, refusal.status, refusal.errors, **refusal.entries)
    return await _render_team(request, 200, None, **invitation)


async def change_role(request: PageRequest) -> Response:
    """Change a member's role, after a choice about the API keys that exceed the new role."""
    form, role = await request.form(), invitations.chosen_role(await request.form())
    if role is None:
        return await _render_team(request, 400, {"members": invitations.CHOOSE_ROLE})
    person, choice = form.get("person", ""), form.get("keys", "")
    if choice not in _KEYS:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_beyond_role(
                tx, request.merchant_id, person, role, request.now
            )
        if keys:
            return await _render_team(request, lowered=person, lowered_to=role, keys=keys)
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
        return await _render_team(request, 400, {"members": _LAST_OWNER})
    return page_helpers.redirect(request, "team", done="role")


async def remove(request: PageRequest) -> Response:
    """Remove a member, after a choice about the API keys that they have created."""
    form = await request.form()
    person, choice = form.get("person", ""), form.get("keys", "")
    if choice not in _KEYS:
        async with request.app.db.connection() as tx:
            keys = await people.key_scopes.keys_made_by(
                tx, person, request.now, request.merchant_id
            )
        if keys:
            return await _render_team(request, leaving=person, keys=keys)
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
        return await _render_team(request, 400, {"members": _LAST_OWNER})
    if person == request.login.person_id:
        return render.see_other(request, "/dashboard")
    return page_helpers.redirect(request, "team", done="removed")


async def withdraw(request: PageRequest) -> Response:
    """Withdraw an invitation."""
    link_id = (await request.form()).get("id", "")
    actor = people.actor_of(request.login, _REASON)
    await request.app.db.run(
        lambda tx: people.withdraw(tx, request.merchant_id, link_id, request.now, actor=actor)
    )
    return page_helpers.redirect(request, "team", done="withdrawn")


_PLACE: Final = f"{DASHBOARD_PATH}/team"
pages: Final = (
    Page("GET", _PLACE, "team.read", show, menu=N_("Team"), group="settings"),
    Page(
        "POST",
        f"{_PLACE}/invite",
        "team.manage",
        invite,
        fields=("email", "role"),
        rehearsed=True,
        proves=N_("Invite a member"),
    ),
    Page(
        "POST",
        f"{_PLACE}/role",
        "team.manage",
        change_role,
        fields=("person", "role"),
        proves=N_("Change the role of a member"),
    ),
    Page(
        "POST",
        f"{_PLACE}/remove",
        "team.manage",
        remove,
        fields=("person",),
        proves=N_("Remove a member"),
    ),
    Page(
        "POST",
        f"{_PLACE}/withdraw",
        "team.manage",
        withdraw,
        fields=("id",),
        proves=N_("Withdraw an invitation"),
    ),
)
