"""The gateways of which a merchant may add and change own accounts: the operator's switch."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from opentill import merchants, people
from opentill.console import proof_facts
from opentill.console.merchants import PLACE
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.portal import account_views, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PREFIX: Final = "gateway_"  # begins the name of a gateway's checkbox


async def show(request: PageRequest) -> Response:
    """Show the allowed gateways and the merchant's accounts. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Response:
    merchant_id = request.merchant_id
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        allowed = await accounts.list_allowed(tx, merchant_id)
        own = await accounts.list_own(tx, merchant_id)
    choices = accounts.allowable(request.app.settings)
    return render.page(
        request,
        "merchant_gateways.html",
        status,
        merchant=merchant,
        # What was allowed once and cannot be chosen here, such as in another mode, stays visible.
        choices=[*choices, *(name for name in allowed if name not in choices)],
        allowed=allowed if form is None else _read(form),
        accounts=[(each, account_views.state_of(each, request.app.gateways)) for each in own],
        manages=request.may("merchants.manage"),
        reason="" if form is None else form.get("reason", ""),
        errors=errors or {},
    )


def _read(form: Mapping[str, str]) -> list[str]:
    """Return the gateways whose checkboxes are on."""
    return [name.removeprefix(_PREFIX) for name in form if name.startswith(_PREFIX)]


async def save(request: PageRequest) -> Response:
    """Allow the gateways that are chosen, and no others. Idempotent."""
    form = await request.form()
    reason = form["reason"].strip()
    if not reason:
        return await _page(request, 400, {"reason": N_("Say why, in a few words")}, form)
    actor, settings = people.actor_of(request.login, reason), request.app.settings

    async def work(tx: Tx) -> None:
        await accounts.allow(
            tx, settings, request.merchant_id, _read(form), request.now, actor=actor
        )

    try:
        await request.app.db.run(work)
    except Invalid:
        error = N_("One of these gateways cannot be allowed here")
        return await _page(request, 400, {"gateways": error}, form)
    return render.see_other(request, f"{PLACE}/{request.merchant_id}/gateways?done=1")


_PATH: Final = f"{PLACE}/{{merchant:id}}/gateways"
pages: Final = (
    Page("GET", _PATH, "merchants.read", show),
    Page(
        "POST",
        _PATH,
        "merchants.manage",
        save,
        fields=("reason",),
        proves=N_("Choose the gateways of which a merchant may add accounts"),
        about=proof_facts.of_merchant,
    ),
)
