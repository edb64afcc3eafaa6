"""Sending to an endpoint on request: events again, one or all of a range, and tests."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.core.ids import is_id, new_id
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.webhooks import queries
from opentill.webhooks.model import Delivery, Endpoint, Resent, Type
from opentill.webhooks.service import find

MOST_RESENT: Final = 1000  # of one call
_EVER: Final = 2**62


class EventRange(msgspec.Struct, frozen=True, kw_only=True):
    """Events to send again: times in Unix ms; ``after`` is the last event of the call before."""

    since: int = 0
    until: int = _EVER
    type: Type | None = None
    failed_only: bool = False
    after: str = ""


async def resend(tx: Tx, merchant_id: str, endpoint_id: str, event_id: str, now: int) -> Delivery:
    """Send one event again, whatever its delivery's status. Raises NotFound and Invalid."""
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    delivery = None
    if is_id(event_id):
        delivery = await queries.RESEND.first(
            tx, merchant_id=merchant_id, endpoint_id=endpoint_id, event_id=event_id, now=now
        )
    if delivery is None:
        raise Invalid("eventId", "eventId must be the id of one of your events")
    return delivery


async def resend_range(
    tx: Tx, merchant_id: str, endpoint_id: str, which: EventRange, now: int
) -> Resent:
    """Send up to 1,000 events again, oldest first. Raises NotFound and Invalid.

    ``last`` of the result is the ``after`` of the next call; None if there are no more.
    """
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    types = [which.type] if which.type else endpoint.types
    sent = await queries.RESEND_RANGE.one(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, after=which.after,
        since=which.since, until=which.until, types=types, failed_only=which.failed_only,
        limit=MOST_RESENT, now=now,
    )  # fmt: skip
    return sent if sent.count == MOST_RESENT else Resent(sent.count, None)


async def resend_all(
    db: Db,
    merchant_id: str,
    endpoint_id: str,
    which: EventRange,
    now: int,
    report: Callable[[int, str | None], None],
    *,
    actor: Actor,
) -> int:
    """Send all events of a range again, in batches, and return how many there were.

    Each batch writes the audit log. Raises NotFound and Invalid.

    ``report`` gets the size of each batch and the ``after`` of the next one, with which an
    interrupted call can be continued.
    """
    total, rest = 0, which
    while True:

        async def send(tx: Tx, batch: EventRange = rest) -> Resent:
            sent = await resend_range(tx, merchant_id, endpoint_id, batch, now)
            if sent.count:
                subject = f"{sent.count} events to {endpoint_id}"
                await merchants.record_audit(
                    tx, actor, "webhooks resend", merchant_id, subject, now
                )
            return sent

        sent = await db.run(send)
        total += sent.count
        report(sent.count, sent.last)
        if sent.last is None:
            return total
        rest = msgspec.structs.replace(rest, after=sent.last)


async def send_test(tx: Tx, merchant_id: str, endpoint_id: str, now: int) -> Delivery:
    """Send a test to one endpoint, as its events are sent. Raises NotFound and Invalid."""
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_enabled(endpoint)
    return await queries.INSERT_TEST.one(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, event_id=new_id("evt"), now=now
    )


def _check_enabled(endpoint: Endpoint) -> None:
    if endpoint.status != "ENABLED":
        raise Invalid("id", "id must be an endpoint that is ENABLED: enable it first")


async def skip_waiting(tx: Tx, now: int) -> int:
    """Count every delivery that waits as failed, of all merchants, and return how many there were.

    After a restore: they may have been sent since the backup. Each can be sent again.
    """
    return await queries.SKIP_WAITING.run(tx, now=now)
