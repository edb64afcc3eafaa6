"""A merchant's webhook endpoints: the list, and the form that adds one."""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, people, webhooks
from opentill.core.errors import Invalid, KeyReused, TooManyRequests
from opentill.dashboard import delivery_figures, page_helpers
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import TYPES, EndpointFields, UrlCheck

REASON: Final = "on the page of webhooks"
PLACE: Final = f"{DASHBOARD_PATH}/developers/webhooks"
FIELDS: Final = ("url", "description", "events")
# Maps the stored reason why an endpoint is disabled to the text of the page.
WHY_DISABLED: Final[Mapping[str, str]] = {
    webhooks.REASON_SWITCHED_OFF: N_("It was switched off"),
    webhooks.REASON_GONE: N_("It responded with 410 Gone"),
    webhooks.REASON_FAILING: N_("It failed for five days without a success"),
}
_ERRORS: Final[Mapping[str, str]] = {
    "url": N_("The URL must {wait}"),
    "description": N_("Enter at most 255 characters"),
}


def read_entries(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of the form as fields of an endpoint. No types stand for all events."""
    sends_all = form.get("events") == "all"
    return {
        "url": form.get("url", "").strip(),
        "description": form.get("description", "").replace("\0", ""),
        "types": [type_ for type_ in TYPES if f"type_{type_}" in form and not sends_all],
    }


def check_entries(
    request: PageRequest, form: Mapping[str, str], entries: Mapping[str, Any]
) -> tuple[dict[str, str], str]:
    """Return all errors of the form by field, and what the URL must be or have."""
    errors, requirement = dict[str, str](), ""
    try:
        UrlCheck(request.app.outgoing.check)(entries["url"])
    except Invalid as problem:
        errors, requirement = field_error(problem)
    try:
        webhooks.check_description(entries["description"])
    except Invalid as problem:
        errors |= field_error(problem)[0]
    if form["events"] != "all" and not entries["types"]:
        errors["types"] = N_("Select at least one event, or all events")
    return errors, requirement


def field_error(problem: Invalid) -> tuple[dict[str, str], str]:
    """Return the error text by field, and what a URL must be or have. Re-raises other problems."""
    text = _ERRORS.get(problem.field or "")
    if text is None:
        raise problem
    return {str(problem.field): text}, (problem.reason or "").removeprefix("url must ")


async def show(request: PageRequest) -> Response:
    """Show the endpoints."""
    return await _render_endpoints(request)


async def _render_endpoints(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        endpoints = await webhooks.search(tx, request.merchant_id)
        activity = await webhooks.find_activity(tx, request.merchant_id)
        zone = ZoneInfo(merchant.time_zone)
        _, figures = await webhooks.summarize_deliveries(
            tx, merchant.id, delivery_figures.day_starts(request, zone)
        )
    text = lists.text(request, "query")
    defaults: dict[str, Any] = {"form": read_entries({}), "form_id": form_ids.new_form_id()}
    page_values: dict[str, Any] = {**defaults, **values}
    return render.page(
        request,
        "webhooks.html",
        status,
        errors=errors or {},
        endpoints=webhooks.matching(endpoints, text) if text else endpoints,
        activity=activity,
        figures=figures,
        number=len(endpoints),
        text=text,
        zone=zone,
        types=TYPES,
        allows_http=request.app.outgoing.policy.allow_http,
        why_disabled=WHY_DISABLED,
        most=webhooks.MAX_ENDPOINTS,
        test_form_id=form_ids.new_form_id,
        done=lists.choice(request, "done", ("removed",)),
        **page_values,
    )


async def may_test_url(request: PageRequest) -> bool:
    """Whether a URL that was just entered may be sent a test, within the limit of the merchant."""
    try:
        await page_helpers.limit_resends(request)
    except TooManyRequests:
        return False
    return True


async def check_new(request: PageRequest) -> Response | None:
    """Check the entries of a new endpoint."""
    form = await request.form()
    entries = read_entries(form)
    errors, requirement = check_entries(request, form, entries)
    if not errors:
        return None
    form_id = form.get(form_ids.FIELD, "")
    return await _render_endpoints(
        request, 400, errors, form=entries, form_id=form_id, wait=requirement
    )


async def add(request: PageRequest) -> Response:
    """Create an endpoint, and redirect to its page."""
    form = await request.form()
    app, entries = request.app, read_entries(form)
    form_id = form.get(form_ids.FIELD, "")
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> str:
        endpoint, _ = await webhooks.create(
            tx,
            request.merchant_id,
            EndpointFields(**entries),
            UrlCheck(app.outgoing.check),
            app.settings.secret_key,
            request.now,
            actor=actor,
        )
        return endpoint.id

    try:
        endpoint_id = await form_ids.run_once(request, work)
    except KeyReused:
        error = N_("This form has added an endpoint already. Send it again to add this one too")
        return await _render_endpoints(request, 409, {"url": error}, form=entries)
    except Invalid as problem:
        errors, requirement = field_error(problem)
        return await _render_endpoints(
            request, 400, errors, form=entries, form_id=form_id, wait=requirement
        )
    path, done = ("developers", "webhooks", endpoint_id), {"done": "added"}
    if await may_test_url(request):

        async def send_first(tx: Tx) -> str:
            endpoint = await webhooks.find(tx, request.merchant_id, endpoint_id)
            existing = await webhooks.list_latest_deliveries(tx, endpoint, None, 1)
            if existing:  # the form was sent before
                return existing[0][0].event_id
            test = await webhooks.send_test(tx, request.merchant_id, endpoint_id, request.now)
            return test.event_id

        done["test"] = await app.db.run(send_first)
    return page_helpers.redirect(request, *path, **done)


pages: Final = (
    Page("GET", PLACE, "endpoints.read", show, menu=N_("Webhooks"), group="developers"),
    Page(
        "POST",
        PLACE,
        "endpoints.manage",
        add,
        fields=FIELDS,
        check=check_new,
        proves=N_("Add a webhook endpoint"),
    ),
)
