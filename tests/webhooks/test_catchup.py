"""``GET /v1/events`` skips nothing, whatever order transactions commit in."""

import asyncio
import random

import msgspec
import pytest

from opentill import webhooks
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.webhooks import Event
from support.webhook_harness import WebhookHarness


async def _read_all(
    harness: WebhookHarness, merchant_id: str, cursor: int, limit: int
) -> tuple[list[str], int]:
    found: list[str] = []
    while True:
        read = await webhooks.read(harness.db, merchant_id, cursor, None, limit)
        found += [event.id for event in read.events]
        cursor = read.cursor
        if not read.more:
            return found, cursor


async def test_an_event_that_is_committed_late_comes_later_and_is_not_skipped(
    harness: WebhookHarness,
) -> None:
    merchant_id = await harness.merchant()
    slow = harness.db.transaction()
    async with slow as tx:
        await webhooks.emit(tx, [Event(merchant_id, "order.paid", {}, harness.now())])
        await harness.emit(merchant_id, 3)  # made later, committed before
        first, cursor = await _read_all(harness, merchant_id, 0, 10)
        assert len(first) == 3
    second, cursor = await _read_all(harness, merchant_id, cursor, 10)
    assert len(second) == 1
    assert second[0] < first[0]
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)
    assert (await _read_all(harness, merchant_id, 0, 2))[0] == first + second


async def test_readers_and_writers_at_once_lose_nothing_and_see_one_order(
    harness: WebhookHarness,
) -> None:
    merchant_id, chance = await harness.merchant(), random.Random(3)
    writing = True

    async def emit_slowly(tx: Tx) -> None:
        await webhooks.emit(tx, [Event(merchant_id, "order.paid", {}, harness.now())])
        await asyncio.sleep(chance.random() * 0.02)

    async def write() -> None:
        for _ in range(15):
            await harness.db.run(emit_slowly)

    async def follow() -> list[str]:
        seen: list[str] = []
        cursor = 0
        while True:
            last = not writing
            found, cursor = await _read_all(harness, merchant_id, cursor, chance.randint(1, 7))
            seen += found
            if last:
                return seen
            await asyncio.sleep(0.005)

    readers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(write() for _ in range(3)))
    writing = False
    seen = await asyncio.gather(*readers)
    ids = {row["id"] for row in await harness.rows("select id from events")}
    assert len(ids) == 45
    for one in seen:
        assert one == seen[0]
        assert len(one) == len(set(one))
        assert set(one) == ids


async def test_a_rare_type_is_found_and_the_cursor_moves_on(harness: WebhookHarness) -> None:
    merchant_id = await harness.merchant()
    await harness.emit(merchant_id, 30)
    await harness.emit(merchant_id, kind="payout.paid")
    await harness.emit(merchant_id, 30)
    read = await webhooks.read(harness.db, merchant_id, 0, "payout.paid", 10)
    assert [msgspec.json.decode(event.body)["type"] for event in read.events] == ["payout.paid"]
    assert (read.cursor, read.more) == (61, False)
    again = await webhooks.read(harness.db, merchant_id, read.cursor, "payout.paid", 10)
    assert again.events == []


async def test_the_end_is_after_everything_and_a_cursor_beyond_it_is_refused(
    harness: WebhookHarness,
) -> None:
    merchant_id = await harness.merchant()
    await harness.emit(merchant_id, 2500)
    assert await webhooks.end(harness.db, merchant_id) == 2500
    with pytest.raises(Invalid):
        await webhooks.read(harness.db, merchant_id, 2501, None, 1)


async def test_what_is_old_is_removed_in_batches_and_nothing_else(harness: WebhookHarness) -> None:
    from opentill.webhooks import jobs

    merchant_id = await harness.merchant()
    kept, _ = await harness.endpoint(merchant_id, "http://127.0.0.1:9009/")
    gone, _ = await harness.endpoint(merchant_id, "http://127.0.0.1:9009/gone")
    await harness.emit(merchant_id, 700)
    assert await jobs.prune(harness.db, harness.now()) == 0
    now = harness.now()
    await harness.db.run(lambda tx: webhooks.delete(tx, merchant_id, gone.id, now))
    assert [await jobs.prune(harness.db, now) for _ in range(3)] == [500, 200, 0]
    assert await harness.rows("select from endpoint_leases where endpoint_id = $1", gone.id)
    later = now + jobs.KEEP_DELIVERIES_MS + 60_000
    assert [await jobs.prune(harness.db, later) for _ in range(3)] == [501, 200, 0]
    assert not await harness.rows("select from webhook_endpoints where id = $1", gone.id)
    assert not await harness.rows("select from endpoint_leases where endpoint_id = $1", gone.id)
    assert await harness.statuses() == {}
    sent = await harness.rows("select id from events order by id limit 3")
    for event in sent:
        again = event["id"]
        await harness.db.run(
            lambda tx, again=again: webhooks.resend(tx, merchant_id, kept.id, again, later)
        )
    assert await jobs.prune(harness.db, later) == 0  # old events, but they are about to be sent
    assert await harness.statuses() == {"PENDING": 3}
    later = now + jobs.KEEP_EVENTS_MS + 60_000
    assert await jobs.prune(harness.db, later) == 503
    assert [await jobs.prune(harness.db, later) for _ in range(2)] == [200, 0]
