"""Staff invite members of a merchant, such as the owner of one that they have created."""

from typing import Any, Final

from starlette.responses import Response

from opentill import merchants, people
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.people import MERCHANT_ROLES
from opentill.portal import invitations, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "in the console"


async def show_form(request: PageRequest) -> Response:
    """Show the form. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None, **values: str
) -> Response:
    """Render the page; ``values`` are the entries of a refused form, or the invitation."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        members = await people.members(tx, merchant.id)
        pending = await people.invitations(tx, merchant.id, request.now)
    shown: dict[str, Any] = {
        "email": "",
        "role": "viewer" if members else "owner",
        "language": request.localizer.language,
        "invited": "",
        "link": "",
        **values,
    }
    return render.page(
        request,
        "member_invitation.html",
        status,
        merchant=merchant,
        has_members=bool(members),
        pending=pending,
        zone=ZONE,
        roles=MERCHANT_ROLES,
        errors=errors or {},
        **shown,
    )


async def invite_member(request: PageRequest) -> Response:
    """Invite a member. If there is no mail server, the page shows the link once."""
    actor = people.actor_of(request.login, _REASON)
    try:
        invitation = await invitations.invite(request, actor, request.merchant_id)
    except invitations.Refused as refusal:
        return await _page(request, refusal.status, refusal.errors, **refusal.entries)
    return await _page(request, 200, None, **invitation)


async def withdraw_invitation(request: PageRequest) -> Response:
    """Withdraw an invitation, so that its link stops working. Raises NotFound."""
    link_id = (await request.form()).get("id", "")
    actor = people.actor_of(request.login, _REASON)
    await request.transact(
        lambda tx: people.withdraw(tx, request.merchant_id, link_id, request.now, actor=actor)
    )
    return render.see_other(request, f"{PLACE}/{request.merchant_id}/members?withdrawn=1")


_PLACE: Final = f"{PLACE}/{{merchant:id}}/members"
pages: Final = (
    Page("GET", _PLACE, "merchants.read", show_form),
    Page(
        "POST",
        _PLACE,
        "people.manage",
        invite_member,
        fields=("email", "role"),
        proves=N_("Invite a member"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{_PLACE}/withdraw",
        "people.manage",
        withdraw_invitation,
        fields=("id",),
        proves=N_("Withdraw an invitation"),
    ),
)
