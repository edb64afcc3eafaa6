"""The page of a webhook endpoint: its deliveries, and the forms that change and test it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from opentill import people, webhooks
from opentill.core import pasted
from opentill.core.encryption import WrongKey
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.ids import is_id
from opentill.dashboard import delivery_figures, event_search, page_helpers
from opentill.dashboard.labels import EVENT_DELIVERY, EVENT_TYPE
from opentill.dashboard.webhooks import (
    FIELDS,
    PLACE,
    REASON,
    WHY_DISABLED,
    check_entries,
    field_error,
    may_test_url,
    read_entries,
)
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import (
    DELIVERY_STATES,
    SENT_TYPES,
    TYPES,
    DeliveryDetails,
    DeliveryPage,
    Endpoint,
    EndpointFields,
    LogQuery,
    Stale,
    UrlCheck,
)

_STATUSES: Final[tuple[Literal["ENABLED", "DISABLED"], ...]] = ("ENABLED", "DISABLED")
_DONE: Final = ("added", "changed", "enabled", "disabled", "rotated", "resent")
_POLL_S: Final = 1
_POLLED_MS: Final = 60_000  # the page polls for at most this time, until a test has a result
_DIGITS: Final = 18  # a number with this many digits fits into a bigint


async def show(request: PageRequest) -> Response:
    """Show an endpoint with its deliveries, newest first."""
    return await _render_endpoint(request, done=lists.choice(request, "done", _DONE))


async def _list_deliveries(request: PageRequest, tx: Tx, endpoint: Endpoint) -> dict[str, Any]:
    """Return the values of the list of deliveries and of its filters."""
    zone = page_helpers.zone_of(request)
    days = lists.days(request, zone)
    state = lists.choice(request, "status", DELIVERY_STATES)
    type_ = lists.choice(request, "type", SENT_TYPES)
    text = lists.text(request, "query")
    query = LogQuery(within=days.range, before=lists.before(request), type=type_)
    deliveries = None
    if not request.access.may("events.read"):
        pass
    elif text:  # an id leaves nothing for other filters to choose from
        event_ids = await event_search.find_ids(tx, request, text)
        deliveries = DeliveryPage(await webhooks.find_deliveries(tx, endpoint, event_ids), "")
    else:
        deliveries = await webhooks.list_deliveries(tx, endpoint, state, query)
    if deliveries is not None:  # a page has the newest events, those with the newest attempts first
        items = sorted(deliveries.items, key=lambda item: item.last_at, reverse=True)
        deliveries = DeliveryPage(items, deliveries.before)
    gettext = request.localizer.gettext
    return {
        "zone": zone,
        "deliveries": deliveries,
        "days": days,
        "text": text,
        "status_filter": state,
        "statuses": [(name, gettext(EVENT_DELIVERY[name])) for name in DELIVERY_STATES],
        "type_filter": type_,
        "filter_types": [(name, gettext(EVENT_TYPE[name])) for name in SENT_TYPES],
    }


async def _find_test(request: PageRequest, tx: Tx, endpoint: Endpoint) -> DeliveryDetails | None:
    """Return the test event in the query, whose result the page shows."""
    event_id = request.query.get("test", "")
    if not is_id(event_id):
        return None
    details = await webhooks.find_delivery(tx, endpoint, event_id)
    return details if details is not None and details.delivery.type == webhooks.TEST else None


async def _render_endpoint(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    """Show the page with its deliveries, and with an error or the result of a form."""
    async with request.app.db.connection() as tx:
        endpoint = await webhooks.find(tx, request.merchant_id, request.ids["endpoint"])
        activity = await webhooks.find_activity(tx, request.merchant_id)
        listed = await _list_deliveries(request, tx, endpoint)
        test = await _find_test(request, tx, endpoint)
        recent = activity.get(endpoint.id)
        failure = None
        if recent is not None and recent.is_failing and recent.failed_event:
            failure = await webhooks.find_delivery(tx, endpoint, recent.failed_event)
        starts = delivery_figures.day_starts(request, page_helpers.zone_of(request))
        figures, _ = await webhooks.summarize_deliveries(
            tx, endpoint.merchant_id, starts, endpoint.id
        )
    is_pending = (
        test is not None
        and not test.attempts
        and request.now < test.delivery.created_at + _POLLED_MS
    )
    defaults: dict[str, Any] = {
        "form": msgspec.structs.asdict(endpoint),
        "seen_at": endpoint.updated_at,
        "confirm": "",
        "done": None,
        "secret": "",
    }
    page_values: dict[str, Any] = {**defaults, **listed, **values}
    return render.page(
        request,
        "webhook.html",
        status,
        errors=page_values["days"].errors | (errors or {}),
        endpoint=endpoint,
        activity=recent,
        failure=failure,
        host=_host(endpoint),
        types=TYPES,
        allows_http=request.app.outgoing.policy.allow_http,
        why_disabled=WHY_DISABLED,
        form_id=form_ids.new_form_id,
        test=test,
        polls_after_s=_POLL_S if is_pending else None,
        headlines=delivery_figures.list_headlines(request.localizer, figures),
        **page_values,
    )


def _host(endpoint: Endpoint) -> str:
    return urlsplit(endpoint.url).hostname or endpoint.url


def _redirect(request: PageRequest, **query: str) -> Response:
    path = ("developers", "webhooks", request.ids["endpoint"])
    return page_helpers.redirect(request, *path, **query)


async def check_change(request: PageRequest) -> Response | None:
    """Check the entries of the form that changes the endpoint."""
    form = await request.form()
    entries = read_entries(form)
    errors, requirement = check_entries(request, form, entries)
    if not errors:
        return None
    return await _render_endpoint(
        request, 400, errors, form=entries, seen_at=form.get("seen_at", ""), wait=requirement
    )


async def change(request: PageRequest) -> Response:
    """Change an endpoint, unless somebody else has changed it since the form was shown."""
    form = await request.form()
    entries, shown_time = read_entries(form), form.get("seen_at", "")
    is_time = shown_time.isascii() and shown_time.isdecimal() and len(shown_time) <= _DIGITS
    try:
        seen_at = int(shown_time) if is_time else 0
        async with request.app.db.connection() as tx:
            before = await webhooks.find(tx, request.merchant_id, request.ids["endpoint"])
        endpoint = await _update(request, EndpointFields(**entries, seen_at=seen_at))
    except Stale:
        return await _render_endpoint(
            request,
            409,
            {
                "change": N_(
                    "Somebody has changed this endpoint meanwhile. Above is how it "
                    "is now; send the form again to replace that"
                )
            },
            form=entries,
        )
    except Invalid as problem:
        errors, requirement = field_error(problem)
        return await _render_endpoint(
            request, 400, errors, form=entries, seen_at=shown_time, wait=requirement
        )
    is_new_url = endpoint.url != before.url and endpoint.status == "ENABLED"
    if not is_new_url or not await may_test_url(request):
        return _redirect(request, done="changed")
    ids = (request.merchant_id, endpoint.id)
    test = await request.app.db.run(lambda tx: webhooks.send_test(tx, *ids, request.now))
    return _redirect(request, done="changed", test=test.event_id)


async def switch(request: PageRequest) -> Response:
    """Disable or enable the endpoint."""
    entry = (await request.form()).get("status")
    if entry not in _STATUSES:
        raise Invalid("status", "status must be ENABLED or DISABLED")
    status: Literal["ENABLED", "DISABLED"] = "ENABLED" if entry == "ENABLED" else "DISABLED"
    await _update(request, EndpointFields(status=status))
    return _redirect(request, done=status.lower())


async def _update(request: PageRequest, fields: EndpointFields) -> Endpoint:
    ids = (request.merchant_id, request.ids["endpoint"])
    check, actor = UrlCheck(request.app.outgoing.check), people.actor_of(request.login, REASON)
    return await request.app.db.run(
        lambda tx: webhooks.update(tx, *ids, fields, check, request.now, actor=actor)
    )


async def check_removal(request: PageRequest) -> Response | None:
    """Check that the endpoint's host is entered as a confirmation."""
    confirm = pasted.trim((await request.form()).get("confirm", ""))
    try:
        async with request.app.db.connection() as tx:
            endpoint = await webhooks.find(tx, request.merchant_id, request.ids["endpoint"])
    except NotFound:  # the form may have been sent before, which ``remove`` recognizes
        return None
    if confirm.lower() == _host(endpoint).lower():
        return None
    return await _render_endpoint(
        request, 400, {"confirm": N_("Type the host exactly as it is shown")}, confirm=confirm
    )


async def remove(request: PageRequest) -> Response:
    """Delete the endpoint."""
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        endpoint = await webhooks.find(tx, *ids)
        await webhooks.delete(tx, *ids, request.now, actor=actor)
        return endpoint.id

    await form_ids.run_once(request, work)
    return page_helpers.redirect(request, "developers", "webhooks", done="removed")


async def reveal(request: PageRequest) -> Response:
    """Show the secret. The permission of this page asks for a proof of identity."""
    return await _show_secret(request)


async def rotate(request: PageRequest) -> Response:
    """Replace the endpoint's secret, and show the new one."""
    actor, key = people.actor_of(request.login, REASON), request.app.settings.secret_key

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        endpoint, _ = await webhooks.rotate_secret(tx, *ids, key, request.now, actor=actor)
        return endpoint.id

    await form_ids.run_once(request, work)
    return await _show_secret(request, done="rotated")


async def _show_secret(request: PageRequest, done: str | None = None) -> Response:
    actor, key = people.actor_of(request.login, REASON), request.app.settings.secret_key
    ids = (request.merchant_id, request.ids["endpoint"])
    try:
        secret = await request.app.db.run(
            lambda tx: webhooks.reveal_secret(tx, *ids, key, request.now, actor=actor)
        )
    except WrongKey:
        return await _render_endpoint(
            request, 409, {"secret": N_("The secret cannot be read any more: make a new one")}
        )
    return await _render_endpoint(request, secret=secret, done=done)


async def send_test(request: PageRequest) -> Response:
    """Send a test event, and show its result."""

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        return (await webhooks.send_test(tx, *ids, request.now)).event_id

    return await _send(request, work, lambda event_id: {"test": event_id})


async def resend(request: PageRequest) -> Response:
    """Send an event again."""
    event_id = (await request.form()).get("event", "")

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        return (await webhooks.resend(tx, *ids, event_id, request.now)).event_id

    return await _send(request, work, lambda _: {"done": "resent"})


async def _send(
    request: PageRequest,
    work: Callable[[Tx], Awaitable[str]],
    query: Callable[[str], dict[str, str]],
) -> Response:
    """Run ``work``, which sends an event, and redirect to the page with a query for its id.

    Raises TooManyRequests.
    """
    await page_helpers.limit_resends(request)
    try:
        event_id = await form_ids.run_once(request, work)
    except KeyReused:
        return _redirect(request)
    except Invalid as problem:
        if problem.field != "id":
            raise
        return await _render_endpoint(
            request, 400, {"test": N_("The endpoint is disabled: enable it first")}
        )
    return _redirect(request, **query(event_id))


_ONE: Final = f"{PLACE}/{{endpoint:id}}"
pages: Final = (
    Page("GET", _ONE, "endpoints.read", show),
    Page(
        "POST",
        _ONE,
        "endpoints.manage",
        change,
        fields=(*FIELDS, "seen_at"),
        check=check_change,
        proves=N_("Change a webhook endpoint"),
    ),
    Page(
        "POST",
        f"{_ONE}/status",
        "endpoints.manage",
        switch,
        fields=("status",),
        proves=N_("Enable or disable a webhook endpoint"),
    ),
    Page(
        "POST",
        f"{_ONE}/remove",
        "endpoints.manage",
        remove,
        fields=("confirm",),
        check=check_removal,
        proves=N_("Remove a webhook endpoint"),
    ),
    Page(
        "POST", f"{_ONE}/secret", "endpoints.secrets", reveal, proves=N_("Show the signing secret")
    ),
    Page(
        "POST",
        f"{_ONE}/rotate",
        "endpoints.secrets",
        rotate,
        proves=N_("Replace the signing secret"),
    ),
    Page("POST", f"{_ONE}/test", "events.test", send_test),
    Page("POST", f"{_ONE}/resend", "events.resend", resend, fields=("event",)),
)
