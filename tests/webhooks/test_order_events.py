"""Events about an order are found by the times of its history, without an index (decision 0069)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from opentill import webhooks
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.webhooks import Type
from support import world

ORDER: Final = "ord_of_this_test"
OTHER_EVENTS: Final = 700  # the first query reads fewer events


async def emit(tx: Tx, merchant_id: str, *types: Type, order_id: str = ORDER) -> int:
    """Emit events about an order and return when they happened, on the real clock."""
    now = now_ms()
    data = {"order_id": order_id}
    await webhooks.emit(tx, [webhooks.Event(merchant_id, type_, data, now) for type_ in types])
    return now


async def find_types(tx: Tx, merchant_id: str, moments: Sequence[int]) -> list[str]:
    events = await webhooks.find_order_events(tx, merchant_id, ORDER, moments, movable=False)
    return [event.type for event in events]


async def test_events_in_quick_succession_are_found(tx: Tx) -> None:
    merchant_id = (await world.create_merchant(tx)).id
    paid = await emit(tx, merchant_id, "order.paid")
    await emit(tx, merchant_id, "order.paid", order_id="ord_other")
    await asyncio.sleep(0.02)
    refunded = await emit(tx, merchant_id, "order.closed", "order.closed")
    expected = ["order.paid", "order.closed", "order.closed"]
    assert await find_types(tx, merchant_id, [paid, refunded, refunded]) == expected
    assert await find_types(tx, merchant_id, [refunded, refunded, paid]) == expected


async def test_events_are_found_if_the_clocks_of_two_machines_differ(tx: Tx) -> None:
    merchant_id = (await world.create_merchant(tx)).id
    paid = await emit(tx, merchant_id, "order.paid")
    assert await find_types(tx, merchant_id, [paid + 3_000]) == ["order.paid"]
    # A job reads the clock once, up to a minute before it writes an event.
    assert await find_types(tx, merchant_id, [paid - 60_000]) == ["order.paid"]


async def test_an_event_is_found_behind_many_events_of_other_orders(tx: Tx) -> None:
    merchant_id = (await world.create_merchant(tx)).id
    moment = now_ms()
    for _ in range(7):
        await emit(tx, merchant_id, *["order.paid"] * (OTHER_EVENTS // 7), order_id="ord_other")
    await emit(tx, merchant_id, "order.paid")
    assert await find_types(tx, merchant_id, [moment]) == ["order.paid"]
