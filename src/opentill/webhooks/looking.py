"""What people look at: deliveries of an endpoint and events, newest first, and one event."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.events import body_of_test
from opentill.webhooks.model import (
    KEPT_ATTEMPTS,
    TEST,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    Endpoint,
    KeptEvent,
    Type,
)

_LOOKED_AT: Final = 10_000  # rows for one page, however few fit its filter
_NEWEST: Final = "evu"  # sorts after every id of an event
_EVER: Final = (0, 2**62)


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows to look for: ``within`` is inclusive Unix ms, ``before`` an id, "" the newest."""

    within: tuple[int, int] = _EVER
    before: str = ""
    size: int = 20


class Sent(msgspec.Struct, frozen=True):
    """A delivery with its newest attempts, oldest first, and the body that is sent.

    ``body`` is None once its event is no longer kept.
    """

    delivery: Delivery
    attempts: list[DeliveryAttempt]
    body: str | None


class Deliveries(msgspec.Struct, frozen=True):
    """A page; ``before`` is that of the next one, "" where there is none."""

    items: list[Sent]
    before: str


class Events(msgspec.Struct, frozen=True):
    """A page; ``before`` is that of the next one, "" where there is none."""

    items: list[KeptEvent]
    before: str


async def look_at_deliveries(
    tx: Tx, endpoint: Endpoint, status: DeliveryStatus | None, which: Which
) -> Deliveries:
    """Return deliveries of an endpoint, those of the newest events first."""
    own = {"merchant_id": endpoint.merchant_id, "endpoint_id": endpoint.id}
    since, until = which.within
    looked = {"before": which.before or _NEWEST, "looked_at": _LOOKED_AT}
    found = await queries.DELIVERIES_BEFORE.all(
        tx, **own, **looked, status=status, since=since, until=until, limit=which.size + 1
    )
    if len(found) > which.size:
        found = found[: which.size]
        before = found[-1].event_id
    else:
        before = await queries.DELIVERIES_LOOKED_TO.get(tx, **own, **looked) or ""
    return Deliveries(await _sent(tx, endpoint, found), before)


async def attempts_of(
    tx: Tx, merchant_id: str, endpoint_id: str, event_ids: Sequence[str]
) -> dict[str, list[DeliveryAttempt]]:
    """Return the newest attempts of some deliveries of an endpoint by event, oldest first."""
    found = await queries.ATTEMPTS.all(
        tx,
        merchant_id=merchant_id,
        endpoint_id=endpoint_id,
        event_id=list(event_ids),
        kept=KEPT_ATTEMPTS,
    )
    made = defaultdict[str, list[DeliveryAttempt]](list)
    for one in found:
        made[one.event_id].append(one)
    return made


async def _sent(tx: Tx, endpoint: Endpoint, found: list[Delivery]) -> list[Sent]:
    ids = [one.event_id for one in found]
    attempts = await attempts_of(tx, endpoint.merchant_id, endpoint.id, ids)
    events = await queries.KEPT_EVENTS.all(tx, merchant_id=endpoint.merchant_id, ids=ids)
    bodies = {event.id: event.body for event in events}
    return [
        Sent(
            one,
            attempts.get(one.event_id, []),
            body_of_test(one) if one.type == TEST else bodies.get(one.event_id),
        )
        for one in found
    ]


async def look_at_delivery(tx: Tx, endpoint: Endpoint, event_id: str) -> Sent | None:
    """Return what an endpoint was sent of an event, or of a test; None if it was sent nothing."""
    found = await queries.DELIVERIES.all(
        tx, merchant_id=endpoint.merchant_id, endpoint_id=endpoint.id, event_id=event_id,
        status=None, type=None, limit=1, offset=0,
    )  # fmt: skip
    sent = await _sent(tx, endpoint, found)
    return sent[0] if sent else None


async def look_at_events(tx: Tx, merchant_id: str, type_: Type | None, which: Which) -> Events:
    """Return a merchant's events, newest first."""
    since, until = which.within
    looked = {"before": which.before or _NEWEST, "looked_at": _LOOKED_AT}
    found = await queries.EVENTS_BEFORE.all(
        tx, merchant_id=merchant_id, **looked, type=type_, since=since, until=until,
        limit=which.size + 1,
    )  # fmt: skip
    if len(found) > which.size:
        return Events(found[: which.size], found[which.size - 1].id)
    before = await queries.EVENTS_LOOKED_TO.get(tx, merchant_id=merchant_id, **looked)
    return Events(found, before or "")


async def look_at_event(
    tx: Tx, merchant_id: str, event_id: str
) -> tuple[KeptEvent, dict[str, Sent]]:
    """Return an event, and what was sent of it by endpoint. Raises NotFound."""
    found = await queries.KEPT_EVENTS.first(tx, merchant_id=merchant_id, ids=[event_id])
    event = or_not_found(found)
    own = {"merchant_id": merchant_id, "event_id": event_id}
    deliveries = await queries.DELIVERIES_OF_EVENT.all(tx, **own)
    attempts = defaultdict[str, list[DeliveryAttempt]](list)
    for made in await queries.ATTEMPTS_OF_EVENT.all(tx, **own, kept=KEPT_ATTEMPTS):
        attempts[made.endpoint_id].append(made)
    return event, {
        one.endpoint_id: Sent(one, attempts[one.endpoint_id], event.body) for one in deliveries
    }
