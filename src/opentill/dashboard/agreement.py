"""The merchant services agreement: its text, its acceptance, and the versions accepted so far."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import agreement, merchants
from opentill.core.errors import Invalid
from opentill.dashboard import page_helpers
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.markdown import markdown, with_contents
from opentill.web.translations import N_


async def show(request: PageRequest) -> Response:
    """Show the agreement in force and its acceptances."""
    return await _render_agreement(request)


async def _render_agreement(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    settings = request.app.settings
    document = agreement.current(settings)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        acceptances = await agreement.acceptances(tx, request.merchant_id)
    by_version = {row.agreement_version: row for row in acceptances}
    content, contents = with_contents(
        markdown(document.markdown_content, below=1, curly_quotes=True), level=3
    )
    return render.page(
        request,
        "agreement.html",
        status,
        document=document,
        content=content,
        contents=contents,
        state=agreement.status(document, acceptances),
        accepted=by_version.pop(document.agreement_version, None),
        earlier=list(by_version.values()),
        blocks_payments=settings.agreement_required and not acceptances,
        zone=ZoneInfo(merchant.time_zone),
        errors=errors or {},
    )


async def accept(request: PageRequest) -> Response:
    """Accept the text that the page showed, unless it has changed since."""
    form, login = await request.form(), request.login
    document = agreement.current(request.app.settings)
    if form.get("accepted") != "yes":
        return await _render_agreement(
            request, 400, {"accepted": N_("Tick the box to accept the agreement")}
        )
    person = agreement.AcceptedBy(
        person_id=login.person_id,
        name=login.name,
        email=login.email,
        address=request.browser.address,
        device=request.browser.device,
    )
    try:
        await request.app.db.run(
            lambda tx: agreement.accept(
                tx, request.merchant_id, document, form.get("digest", ""), person, request.now
            )
        )
    except Invalid:
        return await _render_agreement(
            request,
            409,
            {
                "accepted": N_(
                    "The agreement has changed since you opened this page. Nothing "
                    "was accepted: read the text below again"
                )
            },
        )
    return page_helpers.redirect(request, "agreement")


_PLACE: Final = f"{DASHBOARD_PATH}/agreement"
pages: Final = (
    Page("GET", _PLACE, "agreement.read", show, menu=N_("Agreement"), group="settings"),
    Page("POST", f"{_PLACE}/accept", "agreement.accept", accept, fields=("digest",)),
)
