"""The delivery log that people read: deliveries and events, newest first, page by page."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.endpoint_test import body_of_test
from opentill.webhooks.event_types import TEST, SentType, Type
from opentill.webhooks.model import (
    KEPT_ATTEMPTS,
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    StoredEvent,
)

_MAX_SCANNED: Final = 10_000  # a page reads at most this many rows, even if few match the filter
_NEWEST: Final = "evu"  # greater than the id of any event, since these begin with "evt_"
_EVER: Final = (0, 2**62)


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the log. ``within`` is inclusive Unix ms; ``before`` an event id or "" (newest).

    ``type`` selects deliveries of one type of event.
    """

    within: tuple[int, int] = _EVER
    before: str = ""
    size: int = 20
    type: SentType | None = None


class DeliveryDetails(msgspec.Struct, frozen=True):
    """A delivery with its newest attempts, oldest first, and its request body.

    ``body`` is None once the event was pruned.
    """

    delivery: Delivery
    attempts: list[DeliveryAttempt]
    body: str | None

    @property
    def last_at(self) -> int:
        """The time of the newest attempt, or of the creation if there was none since."""
        return max([self.delivery.created_at, *(attempt.at for attempt in self.attempts[-1:])])


class DeliveryPage(msgspec.Struct, frozen=True):
    """A page of deliveries; ``before`` starts the next page, "" if this is the last one."""

    items: list[DeliveryDetails]
    before: str


class EventPage(msgspec.Struct, frozen=True):
    """A page of events; ``before`` starts the next page, "" if this is the last one."""

    items: list[StoredEvent]
    before: str


async def list_deliveries(
    tx: Tx, endpoint: Endpoint, state: DeliveryState | None, query: LogQuery
) -> DeliveryPage:
    """Return a page of an endpoint's deliveries, newest event first."""
    scope = {"merchant_id": endpoint.merchant_id, "endpoint_id": endpoint.id}
    since, until = query.within
    scan = {"before": query.before or _NEWEST, "max_scanned": _MAX_SCANNED}
    deliveries = await queries.DELIVERIES_BEFORE.all(
        tx, **scope, **scan, state=state, type=query.type, since=since, until=until,
        limit=query.size + 1,
    )  # fmt: skip
    if len(deliveries) > query.size:
        deliveries = deliveries[: query.size]
        before = deliveries[-1].event_id
    else:
        before = await queries.DELIVERIES_SCANNED_TO.get(tx, **scope, **scan) or ""
    return DeliveryPage(await _with_details(tx, endpoint, deliveries), before)


async def attempts_of(
    tx: Tx, merchant_id: str, endpoint_id: str, event_ids: Sequence[str]
) -> dict[str, list[DeliveryAttempt]]:
    """Return the newest attempts of an endpoint's deliveries by event id, oldest first."""
    rows = await queries.ATTEMPTS.all(
        tx,
        merchant_id=merchant_id,
        endpoint_id=endpoint_id,
        event_id=list(event_ids),
        kept=KEPT_ATTEMPTS,
    )
    attempts = defaultdict[str, list[DeliveryAttempt]](list)
    for row in rows:
        attempts[row.event_id].append(row)
    return attempts


async def _with_details(
    tx: Tx, endpoint: Endpoint, deliveries: list[Delivery]
) -> list[DeliveryDetails]:
    ids = [one.event_id for one in deliveries]
    attempts = await attempts_of(tx, endpoint.merchant_id, endpoint.id, ids)
    events = await queries.KEPT_EVENTS.all(tx, merchant_id=endpoint.merchant_id, ids=ids)
    bodies = {event.id: event.body for event in events}
    return [
        DeliveryDetails(
            one,
            attempts.get(one.event_id, []),
            body_of_test(one) if one.type == TEST else bodies.get(one.event_id),
        )
        for one in deliveries
    ]


async def find_delivery(tx: Tx, endpoint: Endpoint, event_id: str) -> DeliveryDetails | None:
    """Return the delivery of an event or test to an endpoint; None if there is none."""
    deliveries = await queries.DELIVERIES.all(
        tx, merchant_id=endpoint.merchant_id, endpoint_id=endpoint.id, event_id=event_id,
        status=None, type=None, limit=1, offset=0,
    )  # fmt: skip
    details = await _with_details(tx, endpoint, deliveries)
    return details[0] if details else None


async def find_deliveries(
    tx: Tx, endpoint: Endpoint, event_ids: Sequence[str]
) -> list[DeliveryDetails]:
    """Return the deliveries of events to an endpoint, newest event first."""
    scope = {"merchant_id": endpoint.merchant_id, "endpoint_id": endpoint.id}
    deliveries = await queries.DELIVERIES_AMONG.all(tx, **scope, event_ids=list(event_ids))
    return await _with_details(tx, endpoint, deliveries)


async def list_events(tx: Tx, merchant_id: str, type_: Type | None, query: LogQuery) -> EventPage:
    """Return a page of a merchant's events, newest first."""
    since, until = query.within
    scan = {"before": query.before or _NEWEST, "max_scanned": _MAX_SCANNED}
    events = await queries.EVENTS_BEFORE.all(
        tx, merchant_id=merchant_id, **scan, type=type_, since=since, until=until,
        limit=query.size + 1,
    )  # fmt: skip
    if len(events) > query.size:
        return EventPage(events[: query.size], events[query.size - 1].id)
    before = await queries.EVENTS_SCANNED_TO.get(tx, merchant_id=merchant_id, **scan)
    return EventPage(events, before or "")


async def find_events(tx: Tx, merchant_id: str, event_ids: Sequence[str]) -> list[StoredEvent]:
    """Return the events with these ids that are still kept, newest first."""
    rows = await queries.KEPT_EVENTS.all(tx, merchant_id=merchant_id, ids=list(event_ids))
    return sorted(rows, key=lambda event: (event.created_at, event.id), reverse=True)


async def find_event(
    tx: Tx, merchant_id: str, event_id: str
) -> tuple[StoredEvent, dict[str, DeliveryDetails]]:
    """Return an event and its deliveries by endpoint id. Raises NotFound."""
    row = await queries.KEPT_EVENTS.first(tx, merchant_id=merchant_id, ids=[event_id])
    event = or_not_found(row)
    scope = {"merchant_id": merchant_id, "event_id": event_id}
    deliveries = await queries.DELIVERIES_OF_EVENT.all(tx, **scope)
    attempts = defaultdict[str, list[DeliveryAttempt]](list)
    for attempt in await queries.ATTEMPTS_OF_EVENT.all(tx, **scope, kept=KEPT_ATTEMPTS):
        attempts[attempt.endpoint_id].append(attempt)
    return event, {
        one.endpoint_id: DeliveryDetails(one, attempts[one.endpoint_id], event.body)
        for one in deliveries
    }
