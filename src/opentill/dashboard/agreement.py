"""The merchant services agreement: read it, accept it, and see who has accepted which version."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import agreement, merchants
from opentill.core.errors import Invalid
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.markdown import markdown
from opentill.web.translations import N_


async def show(request: PageRequest) -> Response:
    """Show the agreement in force, and what was accepted."""
    return await _page(request)


async def _page(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    settings = request.app.settings
    document = agreement.current(settings)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        acceptances = await agreement.acceptances(tx, request.merchant_id)
    of_version = {one.agreement_version: one for one in acceptances}
    return render.page(
        request,
        "agreement.html",
        status,
        document=document,
        content=markdown(document.markdown_content, below=1),
        state=agreement.status(document, acceptances),
        accepted=of_version.pop(document.agreement_version, None),
        earlier=list(of_version.values()),
        stops=settings.agreement_required and not acceptances,
        zone=ZoneInfo(merchant.time_zone),
        errors=errors or {},
    )


async def accept(request: PageRequest) -> Response:
    """Accept the text that was shown, unless it is another one by now."""
    form, login = await request.form(), request.login
    document = agreement.current(request.app.settings)
    if form.get("accepted") != "yes":
        return await _page(request, 400, {"accepted": N_("Tick the box to accept the agreement")})
    by = agreement.AcceptedBy(
        person_id=login.person_id,
        name=login.name,
        email=login.email,
        address=request.browser.address,
        device=request.browser.device,
    )
    try:
        await request.app.db.run(
            lambda tx: agreement.accept(
                tx, request.merchant_id, document, form.get("digest", ""), by, request.now
            )
        )
    except Invalid:
        return await _page(
            request,
            409,
            {
                "accepted": N_(
                    "The agreement has changed since you opened this page. Nothing "
                    "was accepted: read the text below again"
                )
            },
        )
    return render.see_other(request, f"/dashboard/{request.merchant_id}/agreement")


_PLACE: Final = f"{DASHBOARD_PATH}/agreement"
pages: Final = (
    Page("GET", _PLACE, "agreement.read", show, menu=N_("Agreement")),
    Page("POST", f"{_PLACE}/accept", "agreement.accept", accept),
)
