"""A reader of events with a cursor misses none, in whatever order transactions commit."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from opentill import webhooks
from opentill.core.errors import Invalid
from opentill.db import clock
from opentill.db.database import Tx
from opentill.webhooks import Event, catchup, jobs
from support.webhook_harness import WebhookHarness


async def _read_all(
    harness: WebhookHarness, merchant_id: str, cursor: int, limit: int
) -> tuple[list[str], int]:
    ids: list[str] = []
    while True:
        batch = await webhooks.read(harness.db, merchant_id, cursor, None, limit)
        ids += [event.id for event in batch.events]
        cursor = batch.cursor
        if not batch.more:
            return ids, cursor


async def test_an_event_that_commits_late_gets_a_later_number(harness: WebhookHarness) -> None:
    merchant_id = await harness.create_merchant()
    async with harness.db.transaction() as tx:
        await webhooks.emit(tx, [Event(merchant_id, "order.paid", {}, harness.now())])
        await harness.emit(merchant_id, 3)  # these events are created later, but committed earlier
        early_ids, cursor = await _read_all(harness, merchant_id, 0, 10)
        assert len(early_ids) == 3
    late_ids, cursor = await _read_all(harness, merchant_id, cursor, 10)
    assert len(late_ids) == 1
    assert late_ids[0] < early_ids[0]
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)
    assert (await _read_all(harness, merchant_id, 0, 2))[0] == early_ids + late_ids


async def test_concurrent_readers_see_every_event_in_one_order(
    harness: WebhookHarness,
) -> None:
    merchant_id, rng = await harness.create_merchant(), random.Random(3)
    is_writing = True

    async def emit_slowly(tx: Tx) -> None:
        await webhooks.emit(tx, [Event(merchant_id, "order.paid", {}, harness.now())])
        await asyncio.sleep(rng.random() * 0.02)

    async def write() -> None:
        for _ in range(15):
            await harness.db.run(emit_slowly)

    async def follow() -> list[str]:
        read_ids: list[str] = []
        cursor = 0
        while True:
            is_last_read = not is_writing
            ids, cursor = await _read_all(harness, merchant_id, cursor, rng.randint(1, 7))
            read_ids += ids
            if is_last_read:
                return read_ids
            await asyncio.sleep(0.005)

    readers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(write() for _ in range(3)))
    is_writing = False
    sequences = await asyncio.gather(*readers)
    ids = {row["id"] for row in await harness.rows("select id from events")}
    assert len(ids) == 45
    for sequence in sequences:
        assert sequence == sequences[0]
        assert len(sequence) == len(set(sequence))
        assert set(sequence) == ids


async def test_a_rare_type_is_found_and_the_cursor_moves_on(harness: WebhookHarness) -> None:
    merchant_id = await harness.create_merchant()
    await harness.emit(merchant_id, 30)
    await harness.emit(merchant_id, kind="payout.paid")
    await harness.emit(merchant_id, 30)
    batch = await webhooks.read(harness.db, merchant_id, 0, "payout.paid", 10)
    assert [msgspec.json.decode(event.body)["type"] for event in batch.events] == ["payout.paid"]
    assert not batch.more
    assert batch.cursor == await webhooks.newest_cursor(harness.db, merchant_id)
    next_batch = await webhooks.read(harness.db, merchant_id, batch.cursor, "payout.paid", 10)
    assert next_batch.events == []


async def test_one_read_scans_a_limited_number_of_events(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "_MAX_SCANNED", 20)
    merchant_id = await harness.create_merchant()
    for _ in range(5):  # the events are numbered in five batches, with gaps between them
        await harness.emit(merchant_id, 9)
        await webhooks.newest_cursor(harness.db, merchant_id)
    await harness.emit(merchant_id, kind="payout.paid")
    cursor, counts = 0, list[int]()
    while True:
        batch = await webhooks.read(harness.db, merchant_id, cursor, "payout.paid", 10)
        counts.append(len(batch.events))
        cursor = batch.cursor
        if not batch.more:
            break
    assert counts == [0, 0, 1]
    assert cursor == await webhooks.newest_cursor(harness.db, merchant_id)


async def test_numbers_are_unique_ascending_and_derived_from_the_time(
    harness: WebhookHarness,
) -> None:
    merchant_id = await harness.create_merchant()
    before = clock.now_ms()
    await harness.emit(merchant_id, 2500)
    end = await webhooks.newest_cursor(harness.db, merchant_id)
    # The cursor does not change without new events.
    assert await webhooks.newest_cursor(harness.db, merchant_id) == end
    rows = await harness.rows("select id, number from events order by number")
    numbers = [row["number"] for row in rows]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert len(set(numbers)) == 2500
    assert catchup.number_at(before) < numbers[0]
    assert end == numbers[-1] <= catchup.number_at(clock.now_ms() + 1)
    assert numbers[999] - numbers[0] == 999  # the numbers of a batch have no gaps
    assert catchup.number_at(clock.now_ms() + 200 * 365 * 86_400_000) < 2**53


async def test_a_clock_that_is_set_back_repeats_no_number(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await harness.create_merchant()
    await harness.emit(merchant_id, 3)
    first_ids, cursor = await _read_all(harness, merchant_id, 0, 10)
    now_ms = clock.now_ms
    # The second time is before the time of the number 1.
    for back_ms in (86_400_000, 40 * 365 * 86_400_000):
        monkeypatch.setattr(clock, "now_ms", lambda back_ms=back_ms: now_ms() - back_ms)
        await harness.emit(merchant_id, 2)
        ids, after = await _read_all(harness, merchant_id, cursor, 10)
        assert (len(ids), after) == (2, cursor + 2)
        cursor = after
    assert len(first_ids) == 3


async def test_a_cursor_from_before_a_restore_precedes_all_later_events(
    harness: WebhookHarness,
) -> None:
    """The reader has read events that the backup lacks: the cursor exceeds the highest number."""
    merchant_id = await harness.create_merchant()
    await harness.emit(merchant_id, 10)
    await webhooks.newest_cursor(harness.db, merchant_id)
    backup = await harness.rows("select number from event_heads")
    await harness.emit(merchant_id, 5)
    _, cursor = await _read_all(harness, merchant_id, 0, 10)
    async with harness.db.connection() as tx:  # restores the state of the backup
        await tx.execute("delete from events where number > $1", backup[0]["number"])
        await tx.execute("update event_heads set number = $1", backup[0]["number"])
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)
    await harness.emit(merchant_id, 8)
    ids, cursor = await _read_all(harness, merchant_id, cursor, 3)
    expected = await harness.rows("select id from events order by id desc limit 8")
    assert ids == [row["id"] for row in reversed(expected)]
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)


async def test_numbers_counted_from_one_precede_numbers_derived_from_the_time(
    harness: WebhookHarness,
) -> None:
    """An earlier version of OpenTill counted events from 1."""
    merchant_id = await harness.create_merchant()
    await harness.emit(merchant_id, 6)
    async with harness.db.connection() as tx:
        await tx.execute(
            "update events e set number = r.place from "
            "(select id, row_number() over (order by id) as place from events) r where e.id = r.id"
        )
        await tx.execute(
            "insert into event_heads (merchant_id, number) values ($1, 6)", merchant_id
        )
    assert len((await _read_all(harness, merchant_id, 4, 10))[0]) == 2
    await harness.emit(merchant_id, 3)
    ids, cursor = await _read_all(harness, merchant_id, 4, 2)
    assert len(ids) == 5
    await harness.emit(merchant_id)
    # A process of the earlier version numbers an event.
    async with harness.db.connection() as tx:
        await tx.execute("update event_heads set number = number + 1")
        await tx.execute("update events set number = $1 where number is null", cursor + 1)
    ids, after = await _read_all(harness, merchant_id, cursor, 2)
    assert (len(ids), after) == (1, cursor + 1)


async def test_a_cursor_from_the_future_is_refused(harness: WebhookHarness) -> None:
    merchant_id = await harness.create_merchant()
    await harness.emit(merchant_id, 2)
    for ahead_ms in (3_600_000, 365 * 86_400_000):
        cursor = catchup.number_at(clock.now_ms() + ahead_ms)
        with pytest.raises(Invalid):
            await webhooks.read(harness.db, merchant_id, cursor, None, 1)
    # Another machine's clock may be ahead, so this cursor is accepted.
    cursor = catchup.number_at(clock.now_ms() + 1000)
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)


async def test_old_deliveries_events_and_endpoints_are_pruned_in_batches(
    harness: WebhookHarness,
) -> None:
    merchant_id = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.1:9009/")
    deleted, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.1:9009/gone")
    await harness.emit(merchant_id, 700)
    assert await jobs.prune(harness.db, harness.now()) == 0
    now = harness.now()
    await harness.db.run(lambda tx: webhooks.delete(tx, merchant_id, deleted.id, now))
    assert [await jobs.prune(harness.db, now) for _ in range(3)] == [500, 200, 0]
    assert await harness.rows("select from endpoint_leases where endpoint_id = $1", deleted.id)
    later = now + jobs.KEEP_DELIVERIES_MS + 60_000
    assert [await jobs.prune(harness.db, later) for _ in range(3)] == [501, 200, 0]
    assert not await harness.rows("select from webhook_endpoints where id = $1", deleted.id)
    assert not await harness.rows("select from endpoint_leases where endpoint_id = $1", deleted.id)
    assert await harness.count_statuses() == {}
    for row in await harness.rows("select id from events order by id limit 3"):
        await harness.db.run(
            lambda tx, id_=row["id"]: webhooks.resend(tx, merchant_id, endpoint.id, id_, later)
        )
    # Of the resent events only the three rows for readers are removed: their deliveries are due.
    assert [await jobs.prune(harness.db, later) for _ in range(2)] == [3, 0]
    assert await harness.count_statuses() == {"PENDING": 3}
    later = now + jobs.KEEP_EVENTS_MS + 60_000
    assert await jobs.prune(harness.db, later) == 503
    assert [await jobs.prune(harness.db, later) for _ in range(2)] == [200, 0]


async def test_a_resent_event_is_read_again_by_those_who_ask(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.1:9009/")
    await harness.emit(merchant_id, 2)
    await harness.emit(merchant_id, kind="payout.paid")

    async def read(after: int, limit: int = 10, type_: Any = None) -> tuple[list[str], int]:
        batch = await webhooks.read(harness.db, merchant_id, after, type_, limit, with_resends=True)
        return [event.id for event in batch.events], batch.cursor

    (first, second, payout), cursor = await read(0)
    ids, now = (merchant_id, endpoint.id), harness.now()
    await harness.db.run(lambda tx: webhooks.resend(tx, *ids, second, now))
    resent, cursor_of_one = await read(cursor)
    assert resent == [second]
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor_of_one)
    with pytest.raises(Invalid):
        await harness.db.run(
            lambda tx: webhooks.resend(tx, *ids, "evt_01m7y0m0jzefzv5n8efcf1hqw1", now)
        )
    assert await read(cursor_of_one) == ([], cursor_of_one)
    await harness.db.run(lambda tx: webhooks.resend_range(tx, *ids, webhooks.EventRange(), now))
    assert (await read(cursor_of_one))[0] == [first, second, payout]
    assert (await read(cursor_of_one, type_="payout.paid"))[0] == [payout]
    # Whatever the size of a page, a reader gets each event and each resend once, in one order.
    monkeypatch.setattr(catchup, "_MAX_SCANNED", 2)
    sequence, position = list[str](), 0
    while (page := await read(position, 1))[1] != position:
        sequence += page[0]
        position = page[1]
    assert sequence == [first, second, payout, second, first, second, payout]
    removed = await jobs.prune(harness.db, clock.now_ms() + 31 * 86_400_000)
    assert removed >= 4
    assert await harness.rows("select * from event_resends") == []
