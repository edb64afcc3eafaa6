"""A merchant's events: the list, and one with what its endpoints were sent of it."""

from typing import Any, Final, Self
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import merchants, webhooks
from opentill.core.errors import Invalid, KeyReused
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import TYPES, Endpoint, LogQuery, StoredEvent


class Shown(msgspec.Struct, frozen=True):
    """An event with the order that it is about, "" where it is about none."""

    event: StoredEvent
    order_id: str

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        """Look into an event."""
        data: dict[str, Any] = msgspec.json.decode(event.body)["data"]
        return cls(event, str(data.get("order_id", "")))


async def show(request: PageRequest) -> Response:
    """Show events, newest first."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        zone = ZoneInfo(merchant.time_zone)
        days, type_ = lists.days(request, zone), lists.choice(request, "type", TYPES)
        which = LogQuery(within=days.range, before=lists.before(request), size=lists.SIZE)
        found = await webhooks.list_events(tx, merchant.id, type_, which)
    return render.page(
        request,
        "events.html",
        errors=days.errors,
        zone=zone,
        days=days,
        types=[(one, one) for one in TYPES],
        type=type_,
        events=[Shown.of(one) for one in found.items],
        before=found.before,
    )


async def show_one(request: PageRequest) -> Response:
    """Show an event, what it says, and what became of it at each endpoint."""
    return await _event(request)


async def _event(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        event, sent = await webhooks.find_event(tx, merchant.id, request.ids["event"])
        endpoints = await webhooks.search(tx, merchant.id)
    return render.page(
        request,
        "event.html",
        status,
        errors=errors or {},
        zone=ZoneInfo(merchant.time_zone),
        shown=Shown.of(event),
        rows=[(one, sent.get(one.id)) for one in endpoints],
        wanting=sum(_wants(one, event) for one in endpoints),
        form_id=form_ids.new_form_id,
        done=lists.choice(request, "done", ("resent",)),
    )


def _wants(endpoint: Endpoint, event: StoredEvent) -> bool:
    return endpoint.status == "ENABLED" and (not endpoint.types or event.type in endpoint.types)


async def resend(request: PageRequest) -> Response:
    """Send an event again: to the endpoint that is named, or to all that want it."""
    app, event_id = request.app, request.ids["event"]
    form = await request.form()
    only = form.get("endpoint", "")
    here = f"/dashboard/{request.merchant_id}/developers/events/{event_id}"

    async def work(tx: Tx) -> str:
        event, _ = await webhooks.find_event(tx, request.merchant_id, event_id)
        ids = [only]
        if not only:
            endpoints = await webhooks.search(tx, request.merchant_id)
            ids = [one.id for one in endpoints if _wants(one, event)]
        for endpoint_id in ids:
            await webhooks.resend(tx, request.merchant_id, endpoint_id, event_id, request.now)
        return event.id

    await rate_limits.hit_merchant(
        app.db, app.settings, "resends", request.merchant_id, request.now
    )
    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return render.see_other(request, here)
    except Invalid as problem:
        if problem.field != "id":
            raise
        return await _event(
            request, 400, {"endpoints": N_("The endpoint is disabled: enable it first")}
        )
    return render.see_other(request, f"{here}?done=resent")


_PLACE: Final = f"{DASHBOARD_PATH}/developers/events"
_ONE: Final = f"{_PLACE}/{{event:id}}"
pages: Final = (
    Page("GET", _PLACE, "events.read", show),
    Page("GET", _ONE, "events.read", show_one),
    Page("POST", f"{_ONE}/resend", "events.resend", resend),
)
