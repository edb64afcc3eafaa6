"""The outbox: events are written in the transaction of the change that they report."""

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.webhooks import queries
from opentill.webhooks.model import Event, EventBody

_encode: Final = msgspec.json.Encoder().encode


async def emit(tx: Tx, events: Sequence[Event]) -> None:
    """Write events of any merchants and their deliveries, in one statement that locks nothing.

    The body is encoded once, here: all deliveries and lists return these bytes. The ids of the
    events sort in the order of ``events``.
    """
    if not events:
        return
    ids = sorted(new_id("evt") for _ in events)
    bodies = [
        _encode(EventBody(id_, event.type, event.at, cast("dict[str, Any]", event.data))).decode()
        for id_, event in zip(ids, events, strict=True)
    ]
    await queries.EMIT.run(
        tx,
        merchant_id=[event.merchant_id for event in events],
        id=ids,
        type=[event.type for event in events],
        body=bodies,
        created_at=[event.at for event in events],
    )
