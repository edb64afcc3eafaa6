"""A merchant's webhook endpoints: the list, and the form that adds one."""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, people, webhooks
from opentill.core.errors import Invalid, KeyReused
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import TYPES, EndpointFields, UrlCheck

REASON: Final = "on the page of webhooks"
PLACE: Final = f"{DASHBOARD_PATH}/developers/webhooks"
# Why an endpoint is disabled, as it is stored: its text.
WHY_DISABLED: Final[Mapping[str, str]] = {
    webhooks.REASON_SWITCHED_OFF: N_("It was switched off"),
    webhooks.REASON_GONE: N_("It responded with 410 Gone"),
    webhooks.REASON_FAILING: N_("It failed for five days without a success"),
}
_ERRORS: Final[Mapping[str, str]] = {
    "url": N_("The address must be {wait}"),
    "description": N_("Enter at most 255 characters"),
}


def typed(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of an endpoint as they were typed; types are those that were ticked."""
    return {
        "url": form.get("url", "").strip(),
        "description": form.get("description", "").replace("\0", ""),
        "types": [type_ for type_ in TYPES if f"type_{type_}" in form],
    }


def refused(problem: Invalid) -> tuple[dict[str, str], str]:
    """Return the sentence of a refusal by its field, and the service's own words. Raises others."""
    key = _ERRORS.get(problem.field or "")
    if key is None:
        raise problem
    return {str(problem.field): key}, (problem.reason or "").removeprefix("url must be ")


async def show(request: PageRequest) -> Response:
    """Show the endpoints."""
    return await _endpoints(request)


async def _endpoints(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        endpoints = await webhooks.search(tx, request.merchant_id)
    shown: dict[str, Any] = {"form": typed({}), "form_id": form_ids.new_form_id(), **values}
    return render.page(
        request,
        "webhooks.html",
        status,
        errors=errors or {},
        endpoints=endpoints,
        zone=ZoneInfo(merchant.time_zone),
        types=TYPES,
        why_disabled=WHY_DISABLED,
        most=webhooks.MAX_ENDPOINTS,
        done=lists.choice(request, "done", ("removed",)),
        **shown,
    )


async def add(request: PageRequest) -> Response:
    """Make an endpoint, and lead to its page."""
    form = await request.form()
    app, wanted = request.app, typed(form)
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> str:
        endpoint, _ = await webhooks.create(
            tx,
            request.merchant_id,
            EndpointFields(**wanted),
            UrlCheck(app.outgoing.check),
            app.settings.secret_key,
            request.now,
            actor=actor,
        )
        return endpoint.id

    try:
        made = await form_ids.run_once(request, work)
    except KeyReused:  # another endpoint, typed into a form that has made one
        return await _endpoints(
            request,
            409,
            {
                "url": N_(
                    "This form has added an endpoint already. Send it again to add this one too"
                )
            },
            form=wanted,
        )
    except Invalid as problem:
        errors, reason = refused(problem)
        kept = form.get(form_ids.FIELD, "")
        return await _endpoints(request, 400, errors, form=wanted, form_id=kept, wait=reason)
    here = f"/dashboard/{request.merchant_id}/developers/webhooks"
    return render.see_other(request, f"{here}/{made}?done=added")


pages: Final = (
    Page("GET", PLACE, "endpoints.read", show),
    Page("POST", PLACE, "endpoints.manage", add),
)
