"""``GET /v1/events`` skips nothing, whatever order transactions commit in."""

import asyncio
import random

import msgspec
import pytest

from opentill import webhooks
from opentill.core.errors import Invalid
from opentill.db import clock
from opentill.db.database import Tx
from opentill.webhooks import Event, catchup
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
    assert not read.more
    assert read.cursor == await webhooks.end(harness.db, merchant_id)
    again = await webhooks.read(harness.db, merchant_id, read.cursor, "payout.paid", 10)
    assert again.events == []


async def test_what_is_looked_through_ends_after_so_many_events(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "_LOOKED_AT", 20)
    merchant_id = await harness.merchant()
    for _ in range(5):  # with gaps between their numbers
        await harness.emit(merchant_id, 9)
        await webhooks.end(harness.db, merchant_id)
    await harness.emit(merchant_id, kind="payout.paid")
    cursor, calls = 0, list[int]()
    while True:
        read = await webhooks.read(harness.db, merchant_id, cursor, "payout.paid", 10)
        calls.append(len(read.events))
        cursor = read.cursor
        if not read.more:
            break
    assert calls == [0, 0, 1]
    assert cursor == await webhooks.end(harness.db, merchant_id)


async def test_numbers_are_of_the_time_each_once_and_in_order(harness: WebhookHarness) -> None:
    merchant_id = await harness.merchant()
    before = clock.now_ms()
    await harness.emit(merchant_id, 2500)
    end = await webhooks.end(harness.db, merchant_id)
    assert await webhooks.end(harness.db, merchant_id) == end  # nothing new: it stays
    rows = await harness.rows("select id, number from events order by number")
    numbers = [row["number"] for row in rows]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert len(set(numbers)) == 2500
    assert catchup.number_at(before) < numbers[0]
    assert end == numbers[-1] <= catchup.number_at(clock.now_ms() + 1)
    assert numbers[999] - numbers[0] == 999  # of one batch, without a gap
    assert catchup.number_at(clock.now_ms() + 200 * 365 * 86_400_000) < 2**53


async def test_a_clock_that_is_set_back_gives_no_number_twice(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await harness.merchant()
    await harness.emit(merchant_id, 3)
    first, cursor = await _read_all(harness, merchant_id, 0, 10)
    real = clock.now_ms
    for back_ms in (86_400_000, 40 * 365 * 86_400_000):  # a day; to before there were numbers
        monkeypatch.setattr(clock, "now_ms", lambda back_ms=back_ms: real() - back_ms)
        await harness.emit(merchant_id, 2)
        found, after = await _read_all(harness, merchant_id, cursor, 10)
        assert (len(found), after) == (2, cursor + 2)
        cursor = after
    assert len(first) == 3


async def test_a_reader_of_before_a_restored_backup_is_given_all_that_comes_after_it(
    harness: WebhookHarness,
) -> None:
    """The backup has fewer events than the reader has read; its cursor is above the head then."""
    merchant_id = await harness.merchant()
    await harness.emit(merchant_id, 10)
    await webhooks.end(harness.db, merchant_id)
    backup = await harness.rows("select number from event_heads")
    await harness.emit(merchant_id, 5)
    _, cursor = await _read_all(harness, merchant_id, 0, 10)
    async with harness.db.connection() as tx:  # what a restore leaves
        await tx.execute("delete from events where number > $1", backup[0]["number"])
        await tx.execute("update event_heads set number = $1", backup[0]["number"])
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)
    await harness.emit(merchant_id, 8)
    found, cursor = await _read_all(harness, merchant_id, cursor, 3)
    expected = await harness.rows("select id from events order by id desc limit 8")
    assert found == [row["id"] for row in reversed(expected)]
    assert await _read_all(harness, merchant_id, cursor, 10) == ([], cursor)


async def test_events_that_had_small_numbers_are_followed_by_those_of_the_time(
    harness: WebhookHarness,
) -> None:
    """As the version before numbered them: one after another, from 1 on."""
    merchant_id = await harness.merchant()
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
    found, cursor = await _read_all(harness, merchant_id, 4, 2)
    assert len(found) == 5
    await harness.emit(merchant_id)
    async with harness.db.connection() as tx:  # a process of the version before, beside this one
        await tx.execute("update event_heads set number = number + 1")
        await tx.execute("update events set number = $1 where number is null", cursor + 1)
    found, after = await _read_all(harness, merchant_id, cursor, 2)
    assert (len(found), after) == (1, cursor + 1)


async def test_a_cursor_that_no_clock_can_have_given_yet_is_refused(
    harness: WebhookHarness,
) -> None:
    merchant_id = await harness.merchant()
    await harness.emit(merchant_id, 2)
    for ahead_ms in (3_600_000, 365 * 86_400_000):
        cursor = catchup.number_at(clock.now_ms() + ahead_ms)
        with pytest.raises(Invalid):
            await webhooks.read(harness.db, merchant_id, cursor, None, 1)
    soon = catchup.number_at(clock.now_ms() + 1000)  # of a machine whose clock is a second ahead
    assert await _read_all(harness, merchant_id, soon, 10) == ([], soon)


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
