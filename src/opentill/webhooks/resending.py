"""Deliveries on request: resending one event or a range of events, and tests."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.core.ids import is_id, new_id
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.webhooks import catchup, queries, resend_queries
from opentill.webhooks.event_types import Type
from opentill.webhooks.model import Delivery, Endpoint, ResendResult
from opentill.webhooks.service import find

MAX_RESENT: Final = 1000  # one call resends at most this many events
_EVER: Final = 2**62


class EventRange(msgspec.Struct, frozen=True, kw_only=True):
    """Events to resend: times in Unix ms; ``after`` is the last event of the previous call."""

    since: int = 0
    until: int = _EVER
    type: Type | None = None
    failed_only: bool = False
    after: str = ""


async def resend(tx: Tx, merchant_id: str, endpoint_id: str, event_id: str, now: int) -> Delivery:
    """Resend one event, whatever the status of its delivery. Raises NotFound and Invalid."""
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    delivery = None
    if is_id(event_id):
        floor = await catchup.lock_head(tx, merchant_id)
        delivery = await resend_queries.RESEND.first(
            tx,
            merchant_id=merchant_id,
            endpoint_id=endpoint_id,
            event_id=event_id,
            floor=floor,
            now=now,
        )
    if delivery is None:
        raise Invalid("eventId", "eventId must be the id of one of your events")
    return delivery


async def resend_range(
    tx: Tx, merchant_id: str, endpoint_id: str, event_range: EventRange, now: int
) -> ResendResult:
    """Resend up to 1,000 events, oldest first. Raises NotFound and Invalid.

    ``last`` of the result is the ``after`` of the next call; None if this was the last one.
    """
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    types = [event_range.type] if event_range.type else endpoint.types
    floor = await catchup.lock_head(tx, merchant_id)
    result = await resend_queries.RESEND_RANGE.one(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, after=event_range.after,
        since=event_range.since, until=event_range.until, types=types,
        failed_only=event_range.failed_only, limit=MAX_RESENT, floor=floor, now=now,
    )  # fmt: skip
    return result if result.count == MAX_RESENT else ResendResult(result.count, None)


async def resend_all(
    db: Db,
    merchant_id: str,
    endpoint_id: str,
    event_range: EventRange,
    now: int,
    report: Callable[[int, str | None], None],
    *,
    actor: Actor,
) -> int:
    """Resend all events of a range in batches; return their number.

    Each batch writes the audit log. ``report`` gets the size of each batch and the ``after`` of the
    next one, with which an interrupted call can be continued. Raises NotFound and Invalid.
    """
    total, remaining = 0, event_range
    while True:

        async def send(tx: Tx, batch: EventRange = remaining) -> ResendResult:
            result = await resend_range(tx, merchant_id, endpoint_id, batch, now)
            if result.count:
                subject = f"{result.count} events to {endpoint_id}"
                await merchants.record_audit(
                    tx, actor, "webhooks resend", merchant_id, subject, now
                )
            return result

        result = await db.run(send)
        total += result.count
        report(result.count, result.last)
        if result.last is None:
            return total
        remaining = msgspec.structs.replace(remaining, after=result.last)


async def send_test(tx: Tx, merchant_id: str, endpoint_id: str, now: int) -> Delivery:
    """Queue a test delivery to an endpoint. Raises NotFound and Invalid."""
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    return await queries.INSERT_TEST.one(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, event_id=new_id("evt"), now=now
    )


def _check_enabled(endpoint: Endpoint) -> None:
    if endpoint.status != "ENABLED":
        raise Invalid("id", "id must be an endpoint that is ENABLED: enable it first")


async def skip_waiting(tx: Tx, now: int) -> int:
    """Fail all pending deliveries of all merchants after a restore; return their number.

    They may have been sent between the backup and the restore. Each can be resent.
    """
    return await queries.SKIP_WAITING.run(tx, now=now)
