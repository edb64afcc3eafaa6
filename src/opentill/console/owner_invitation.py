"""Staff invite the owner of a merchant, such as after they have created it."""

from typing import Final

from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.console.merchants import PLACE
from opentill.portal import invitations, mail_language, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "in the console"


async def show_form(request: PageRequest) -> Response:
    """Show the form. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    email: str = "",
    language: str = "",
    invited: str = "",
    link: str = "",
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    return render.page(
        request,
        "owner_invitation.html",
        status,
        merchant=merchant,
        errors=errors or {},
        email=email,
        language=language or request.localizer.language,
        invited=invited,
        link=link,
    )


async def invite_owner(request: PageRequest) -> Response:
    """Invite an owner. If there is no mail server, the page shows the link once."""
    form = await request.form()
    email, language = form.get("email", ""), mail_language.choose(request, form)
    if language is None:
        errors = {"language": N_("Choose one of the languages")}
        return await _page(request, 400, errors, email=email)
    invitation = mail.NewInvitation(
        email=email,
        by=request.login.name,
        language=language,
        merchant_id=request.merchant_id,
        role="owner",
    )
    actor = people.actor_of(request.login, _REASON)
    try:
        invited, link = await invitations.invite(request, invitation, actor)
    except invitations.Refused as refusal:
        errors = {"email": refusal.error}
        return await _page(request, refusal.status, errors, email=email, language=language)
    return await _page(request, invited=invited, link=link)


_PLACE: Final = f"{PLACE}/{{merchant:id}}/owner"
pages: Final = (
    Page("GET", _PLACE, "merchants.read", show_form),
    Page("POST", _PLACE, "people.manage", invite_owner),
)
