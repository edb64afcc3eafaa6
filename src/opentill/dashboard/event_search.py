"""The search for events by an id: their own, or that of their payment."""

from opentill import orders, webhooks
from opentill.core.errors import NotFound
from opentill.core.ids import is_id
from opentill.db import clock
from opentill.db.database import Tx
from opentill.portal import payment_details
from opentill.portal.request import PageRequest
from opentill.webhooks import StoredEvent


async def find_ids(tx: Tx, request: PageRequest, text: str) -> list[str]:
    """Return the ids of the events that a text selects: an event, or all those of a payment."""
    if not is_id(text):
        return []
    try:
        order = await orders.find(tx, request.merchant_id, text)
    except NotFound:
        return [text]
    history = await orders.history(tx, request.merchant_id, order.id)
    order_events = await webhooks.find_order_events(
        tx,
        request.merchant_id,
        order.id,
        payment_details.event_times(history),
        movable=clock.movable(request.app.settings.gateways),
    )
    return [event.id for event in order_events]


async def search(tx: Tx, request: PageRequest, text: str) -> list[StoredEvent]:
    """Return the events that a text selects, newest first.

    Other filters do not apply, since an id leaves nothing to choose from.
    """
    event_ids = await find_ids(tx, request, text)
    return await webhooks.find_events(tx, request.merchant_id, event_ids) if event_ids else []
