"""A merchant's events: the list, and the page of each with its deliveries."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, webhooks
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused
from opentill.dashboard import event_search, page_helpers
from opentill.dashboard.labels import EVENT_TYPE
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.reference import highlighting
from opentill.web.translations import N_
from opentill.webhooks import (
    TYPES,
    Delivery,
    DeliveryState,
    Endpoint,
    EventPage,
    LogQuery,
    StoredEvent,
)

# The least successful delivery of an event, which the list shows; RETRYING has failed before.
_WORST_FIRST: Final[tuple[DeliveryState, ...]] = ("FAILED", "RETRYING", "PENDING", "SUCCEEDED")
_POLL_S: Final = 1
_POLLED_MS: Final = 60_000  # the page polls for at most this time, until a delivery has a result


class Row(msgspec.Struct, frozen=True):
    """An event with the amount, order and customer that it is about, "" where it has none."""

    event: StoredEvent
    amount: str
    order_id: str
    customer: str
    payout_id: str = ""
    delivery: DeliveryState | None = None  # None: no endpoint has received it, or should


async def _build_rows(tx: Tx, request: PageRequest, events: Sequence[StoredEvent]) -> list[Row]:
    payloads = [_read_payload(event) for event in events]
    order_ids = {str(payload["order_id"]) for payload in payloads if payload.get("order_id")}
    orders_by_id = (
        await orders.find_many(tx, request.merchant_id, sorted(order_ids)) if order_ids else {}
    )
    states = await _delivery_states(tx, request.merchant_id, events)
    rows: list[Row] = []
    for event, payload in zip(events, payloads, strict=True):
        order_id = str(payload.get("order_id") or "")
        order = orders_by_id.get(order_id)
        amount = _format_amount(request, payload, event.type)
        customer = (order and order.customer_email) or ""
        payout_id = str(payload.get("payout_id") or "")
        rows.append(Row(event, amount, order_id, customer, payout_id, states.get(event.id)))
    return rows


async def _delivery_states(
    tx: Tx, merchant_id: str, events: Sequence[StoredEvent]
) -> dict[str, DeliveryState]:
    """Return the state of the least successful delivery of each event that has one."""
    deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [event.id for event in events])
    states: dict[str, DeliveryState] = {}
    for delivery in deliveries:
        both: tuple[DeliveryState, ...] = (
            delivery.state, states.get(delivery.event_id, delivery.state),
        )  # fmt: skip
        states[delivery.event_id] = min(both, key=_WORST_FIRST.index)
    return states


def _read_payload(event: StoredEvent) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(event.body)["data"]
    return data


def _payload_times(event: StoredEvent) -> list[tuple[str, int]]:
    """Return the fields of the payload that are times in Unix ms, which are hard to read."""
    fields = {"created_at": event.created_at, **_read_payload(event)}
    return [
        (name, value)
        for name, value in fields.items()
        if name.endswith("_at") and isinstance(value, int)
    ]


def _format_amount(request: PageRequest, payload: Mapping[str, Any], type_: str) -> str:
    """Return the amount of an event's payload as text, "" if it has none.

    Of a settled payment it is the amount without the fee, as the balance shows it.
    """
    field = "net_amount" if type_ == "order.settled" else "amount"
    text, currency = payload.get(field), payload.get("currency")
    if not text or not currency:
        return ""
    return request.localizer.amount(money.Money(money.parse(text, currency), currency))


async def show(request: PageRequest) -> Response:
    """List events, newest first."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        zone = ZoneInfo(merchant.time_zone)
        days, type_ = lists.days(request, zone), lists.choice(request, "type", TYPES)
        query = LogQuery(within=days.range, before=lists.before(request), size=lists.SIZE)
        text = lists.text(request, "query")
        page = (
            EventPage(await event_search.search(tx, request, text), "")
            if text
            else await webhooks.list_events(tx, merchant.id, type_, query)
        )
        rows = await _build_rows(tx, request, page.items)
        endpoints = await webhooks.search(tx, merchant.id)
    return render.page(
        request,
        "events.html",
        endpoints=endpoints,
        errors=days.errors,
        zone=zone,
        days=days,
        types=[(name, request.localizer.gettext(EVENT_TYPE[name])) for name in TYPES],
        type=type_,
        text=text,
        rows=rows,
        before=page.before,
        resends=request.access.may("events.resend")
        and any(endpoint.status == "ENABLED" for endpoint in endpoints),
        receivers_of=partial(_count_receivers, endpoints),
        form_id=form_ids.new_form_id,
    )


async def show_one(request: PageRequest) -> Response:
    """Show an event with its payload and its delivery to each endpoint."""
    return await _render_event(request)


async def _render_event(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        event, deliveries = await webhooks.find_event(tx, merchant.id, request.ids["event"])
        endpoints = await webhooks.search(tx, merchant.id)
        (row,) = await _build_rows(tx, request, [event])
    done = lists.choice(request, "done", ("resent",))
    pending = [each.delivery for each in deliveries.values() if _is_due(each.delivery, request.now)]
    polls = done and any(request.now < each.updated_at + _POLLED_MS for each in pending)
    return render.page(
        request,
        "event.html",
        status,
        errors=errors or {},
        zone=ZoneInfo(merchant.time_zone),
        payload_times=_payload_times(row.event),
        row=row,
        endpoints=[(endpoint, deliveries.get(endpoint.id)) for endpoint in endpoints],
        receivers=_count_receivers(endpoints, event),
        form_id=form_ids.new_form_id,
        done=done,
        is_pending=bool(pending),
        is_first=not any(each.attempts for each in pending),
        polls_after_s=_POLL_S if polls else None,
        highlight=highlighting.highlight,
    )


def _is_due(delivery: Delivery, now: int) -> bool:
    """Whether a delivery is to be attempted by now, so that its result is awaited."""
    return delivery.try_at is not None and delivery.try_at <= now


def _receives(endpoint: Endpoint, event: StoredEvent) -> bool:
    return endpoint.status == "ENABLED" and (not endpoint.types or event.type in endpoint.types)


def _count_receivers(endpoints: Sequence[Endpoint], event: StoredEvent) -> int:
    return sum(_receives(endpoint, event) for endpoint in endpoints)


async def resend(request: PageRequest) -> Response:
    """Send an event again, to the endpoint in the form or to all that receive its type."""
    event_id, form = request.ids["event"], await request.form()

    async def work(tx: Tx) -> str:
        event, _ = await webhooks.find_event(tx, request.merchant_id, event_id)
        ids = [form.get("endpoint", "")]
        if ids == [""]:
            endpoints = await webhooks.search(tx, request.merchant_id)
            ids = [endpoint.id for endpoint in endpoints if _receives(endpoint, event)]
        for endpoint_id in ids:
            await webhooks.resend(tx, request.merchant_id, endpoint_id, event_id, request.now)
        return event.id

    await page_helpers.limit_resends(request)
    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return page_helpers.redirect(request, "developers", "events", event_id)
    except Invalid as problem:
        if problem.field != "id":
            raise
        return await _render_event(
            request, 400, {"endpoints": N_("The endpoint is disabled: enable it first")}
        )
    return page_helpers.redirect(request, "developers", "events", event_id, done="resent")


_PLACE: Final = f"{DASHBOARD_PATH}/developers/events"
_ONE: Final = f"{_PLACE}/{{event:id}}"
pages: Final = (
    Page("GET", _PLACE, "events.read", show, menu=N_("Events"), group="developers"),
    Page("GET", _ONE, "events.read", show_one),
    Page("POST", f"{_ONE}/resend", "events.resend", resend, fields=("endpoint",)),
)
