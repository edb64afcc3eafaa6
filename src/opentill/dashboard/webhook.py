"""One webhook endpoint: what it is sent, and what can be done with it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import merchants, people, webhooks
from opentill.core.encryption import WrongKey
from opentill.core.errors import Invalid, KeyReused
from opentill.core.ids import is_id
from opentill.dashboard.labels import DELIVERY_STATUS
from opentill.dashboard.webhooks import PLACE, REASON, WHY_DISABLED, refused, typed
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import (
    DELIVERY_STATUSES,
    TYPES,
    DeliveryDetails,
    Endpoint,
    EndpointFields,
    LogQuery,
    Stale,
    UrlCheck,
)

_DONE: Final = ("added", "changed", "enabled", "disabled", "rotated", "resent")
_REFRESH_S: Final = 2
_REFRESHED_MS: Final = 30_000  # for so long a page waits for the result of a test by itself
_DIGITS: Final = 18  # of a time that is a bigint


async def show(request: PageRequest) -> Response:
    """Show an endpoint with its deliveries, newest first."""
    zone, endpoint = await _found(request)
    days = lists.days(request, zone)
    state = lists.choice(request, "status", DELIVERY_STATUSES)
    which = LogQuery(within=days.range, before=lists.before(request))
    async with request.app.db.connection() as tx:
        found = None
        if request.access.may("events.read"):
            found = await webhooks.list_deliveries(tx, endpoint, state, which)
        test = await _test(request, tx, endpoint)
    waits = (
        test is not None
        and not test.attempts
        and request.now < test.delivery.created_at + _REFRESHED_MS
    )
    return await _page(
        request,
        errors=days.errors,
        deliveries=found,
        days=days,
        state=state,
        states=[
            (one, request.localizer.gettext(DELIVERY_STATUS[one])) for one in DELIVERY_STATUSES
        ],
        test=test,
        done=lists.choice(request, "done", _DONE),
        refresh={"after_s": _REFRESH_S, "address": request.here()} if waits else None,
    )


async def _test(request: PageRequest, tx: Tx, endpoint: Endpoint) -> DeliveryDetails | None:
    """Return the test whose result the page is opened for."""
    event_id = request.query.get("test", "")
    if not is_id(event_id):
        return None
    found = await webhooks.find_delivery(tx, endpoint, event_id)
    return found if found is not None and found.delivery.type == webhooks.TEST else None


async def _found(request: PageRequest) -> tuple[ZoneInfo, Endpoint]:
    """Return the merchant's zone and the endpoint of the path. Raises NotFound."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        endpoint = await webhooks.find(tx, request.merchant_id, request.ids["endpoint"])
    return ZoneInfo(merchant.time_zone), endpoint


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    **values: object,
) -> Response:
    """Return the page; after a form that was refused, without the deliveries."""
    zone, endpoint = await _found(request)
    shown: dict[str, Any] = {
        "form": msgspec.structs.asdict(endpoint),
        "seen_at": endpoint.updated_at,
        "confirm": "",
        "deliveries": None,
        "test": None,
        "done": None,
        **values,
    }
    return render.page(
        request,
        "webhook.html",
        status,
        errors=errors or {},
        endpoint=endpoint,
        host=_host(endpoint),
        zone=zone,
        types=TYPES,
        why_disabled=WHY_DISABLED,
        form_id=form_ids.new_form_id,
        **shown,
    )


def _host(endpoint: Endpoint) -> str:
    return urlsplit(endpoint.url).hostname or endpoint.url


def _path(request: PageRequest, query: str = "") -> str:
    place = f"/dashboard/{request.merchant_id}/developers/webhooks"
    return f"{place}/{request.ids['endpoint']}{query}"


async def change(request: PageRequest) -> Response:
    """Change address, description and types, unless somebody else has meanwhile."""
    form = await request.form()
    wanted, seen = typed(form), form.get("seen_at", "")
    is_time = seen.isascii() and seen.isdecimal() and len(seen) <= _DIGITS
    try:
        seen_at = int(seen) if is_time else 0
        await _update(request, EndpointFields(**wanted, seen_at=seen_at))
    except Stale:
        return await _page(
            request,
            409,
            {
                "change": N_(
                    "Somebody has changed this endpoint meanwhile. Above is how it "
                    "is now; send the form again to replace that"
                )
            },
            form=wanted,
        )
    except Invalid as problem:
        errors, reason = refused(problem)
        return await _page(request, 400, errors, form=wanted, seen_at=seen, wait=reason)
    return render.see_other(request, _path(request, "?done=changed"))


async def switch(request: PageRequest) -> Response:
    """Disable the endpoint, or enable it again."""
    form = await request.form()
    wanted = form.get("status")
    if wanted == "ENABLED":
        await _update(request, EndpointFields(status="ENABLED"))
        return render.see_other(request, _path(request, "?done=enabled"))
    if wanted == "DISABLED":
        await _update(request, EndpointFields(status="DISABLED"))
        return render.see_other(request, _path(request, "?done=disabled"))
    raise Invalid("status", "status must be ENABLED or DISABLED")


async def _update(request: PageRequest, wanted: EndpointFields) -> None:
    ids = (request.merchant_id, request.ids["endpoint"])
    check, actor = UrlCheck(request.app.outgoing.check), people.actor_of(request.login, REASON)
    await request.app.db.run(
        lambda tx: webhooks.update(tx, *ids, wanted, check, request.now, actor=actor)
    )


async def remove(request: PageRequest) -> Response:
    """Delete the endpoint, whose host is typed to confirm it."""
    form = await request.form()
    confirm = form.get("confirm", "").strip()
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        endpoint = await webhooks.find(tx, *ids)
        if confirm.lower() != _host(endpoint).lower():
            raise Invalid("confirm", "confirm must be the host of the endpoint")
        await webhooks.delete(tx, *ids, request.now, actor=actor)
        return endpoint.id

    try:
        await form_ids.run_once(request, work)
    except Invalid:
        return await _page(
            request, 400, {"confirm": N_("Type the host exactly as it is shown")}, confirm=confirm
        )
    place = f"/dashboard/{request.merchant_id}/developers/webhooks"
    return render.see_other(request, f"{place}?done=removed")


async def reveal(request: PageRequest) -> Response:
    """Show the secret, to whoever has proved who they are."""
    actor, key = people.actor_of(request.login, REASON), request.app.settings.secret_key
    ids = (request.merchant_id, request.ids["endpoint"])
    try:
        secret = await request.app.db.run(
            lambda tx: webhooks.reveal_secret(tx, *ids, key, request.now, actor=actor)
        )
    except WrongKey:
        return await _page(
            request, 409, {"secret": N_("The secret cannot be read any more: make a new one")}
        )
    return render.page(request, "webhook_secret.html", secret=secret, back=_path(request))


async def rotate(request: PageRequest) -> Response:
    """Give the endpoint a new secret."""
    actor, key = people.actor_of(request.login, REASON), request.app.settings.secret_key

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        endpoint, _ = await webhooks.rotate_secret(tx, *ids, key, request.now, actor=actor)
        return endpoint.id

    await form_ids.run_once(request, work)
    return render.see_other(request, _path(request, "?done=rotated"))


async def send_test(request: PageRequest) -> Response:
    """Send a test, and show what comes of it."""

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        made = await webhooks.send_test(tx, *ids, request.now)
        return made.event_id

    return await _sending(request, work, "?test={}")


async def resend(request: PageRequest) -> Response:
    """Send an event again."""
    form = await request.form()
    event_id = form.get("event", "")

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, request.ids["endpoint"])
        made = await webhooks.resend(tx, *ids, event_id, request.now)
        return made.event_id

    return await _sending(request, work, "?done=resent")


async def _sending(
    request: PageRequest, work: Callable[[Tx], Awaitable[str]], after: str
) -> Response:
    """Do what sends something, so many times a minute; then show ``after``, a query.

    Raises TooManyRequests.
    """
    app = request.app
    await rate_limits.hit_merchant(
        app.db, app.settings, "resends", request.merchant_id, request.now
    )
    try:
        made = await form_ids.run_once(request, work)
    except KeyReused:
        return render.see_other(request, _path(request))
    except Invalid as problem:
        if problem.field != "id":
            raise
        return await _page(request, 400, {"test": N_("The endpoint is disabled: enable it first")})
    return render.see_other(request, _path(request, after.format(made)))


_ONE: Final = f"{PLACE}/{{endpoint:id}}"
pages: Final = (
    Page("GET", _ONE, "endpoints.read", show),
    Page("POST", _ONE, "endpoints.manage", change),
    Page("POST", f"{_ONE}/status", "endpoints.manage", switch),
    Page("POST", f"{_ONE}/remove", "endpoints.manage", remove),
    Page("POST", f"{_ONE}/secret", "endpoints.secrets", reveal),
    Page("POST", f"{_ONE}/rotate", "endpoints.secrets", rotate),
    Page("POST", f"{_ONE}/test", "events.test", send_test),
    Page("POST", f"{_ONE}/resend", "events.resend", resend),
)
