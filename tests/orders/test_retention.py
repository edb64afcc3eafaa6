"""Old rows are pruned in batches; the database refuses to delete any others."""

import time

import asyncpg
import pytest

from opentill import checkouts, orders
from opentill.db import rate_limits
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.http import idempotency
from opentill.orders import jobs, queries
from support import world
from support.books import assert_books
from support.plans import max_rows_read

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


async def _create_old_order(tx: Tx, age_ms: int, status: str = "SETTLED") -> tuple[str, str]:
    """Create an order whose whole history has an age; return its merchant and id."""
    order = await world.create_order_in(tx, status)
    await _set_times(tx, order.id, age_ms, {})
    return order.merchant_id, order.id


async def _set_times(tx: Tx, order_id: str, age_ms: int, ages: dict[int, int]) -> None:
    """Set the age of an order's history. ``ages``: other ages, by the number of the row."""
    await tx.execute("alter table order_history disable trigger order_history_is_final")
    at = "update order_history set at = $1 where order_id = $2"
    await tx.execute(at, now_ms() - age_ms, order_id)
    for number, age in ages.items():
        await tx.execute(f"{at} and number = $3", now_ms() - age, order_id, number)
    await tx.execute("alter table order_history enable trigger order_history_is_final")
    await tx.execute(
        "update orders o set updated_at = (select max(at) from order_history h"
        " where h.merchant_id = o.merchant_id and h.order_id = o.id) where id = $1",
        order_id,
    )


async def _history_numbers(db: Db, order_id: str) -> list[int]:
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select number from order_history where order_id = $1 order by 1", order_id
        )
    return [row[0] for row in rows]


async def _prune(db: Db, days: int, now: int | None = None) -> int:
    """Prune the history of all merchants; return the number of deleted rows."""
    return await jobs.HistoryPruner(db, days).turn(now_ms() if now is None else now)


async def test_old_history_is_deleted_except_the_last_row(db: Db) -> None:
    _, old_id = await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS))
    _, young_id = await db.run(lambda tx: _create_old_order(tx, YEAR_MS + 60_000))
    before = await _history_numbers(db, young_id)
    assert len(before) > 2
    assert await _prune(db, 0) == 0  # by default (0 days), nothing is deleted
    assert await _prune(db, 730) == len(before) - 1
    assert await _history_numbers(db, old_id) == before[-1:]
    assert await _history_numbers(db, young_id) == before
    assert await _prune(db, 730) == 0
    async with db.snapshot() as tx:
        await assert_books(tx)


async def test_an_order_is_pruned_as_a_whole_once_its_last_row_is_old(db: Db) -> None:
    """A session that was opened over a year ago and expired a day later keeps its history."""

    async def create_expired(tx: Tx, opened_at: int) -> str:
        shop = await world.create_merchant(tx)
        item = await world.create_product(tx, shop.id)
        session = await world.create_session(tx, shop.id, item.id, opened_at)
        await checkouts.expire(tx, shop.id, session.id, "late", opened_at + 24 * HOUR_MS)
        return session.order_id

    year_ago = now_ms() - YEAR_MS - HOUR_MS
    young = await db.run(lambda tx: create_expired(tx, year_ago))
    old = await db.run(lambda tx: create_expired(tx, year_ago - 24 * HOUR_MS))
    assert await _prune(db, 365) == 1
    assert await _history_numbers(db, young) == [1, 2]
    assert await _history_numbers(db, old) == [2]
    async with db.snapshot() as tx:
        await assert_books(tx)


async def test_an_order_that_changes_after_a_year_is_pruned_once_the_change_is_old(db: Db) -> None:
    merchant_id, order_id = await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS))
    last = (await _history_numbers(db, order_id))[-1]
    assert await _prune(db, 730) > 0

    async def note(tx: Tx) -> None:
        order = await orders.lock(tx, merchant_id, order_id)
        await orders.note(tx, order, "remark", "a late claim", now_ms())

    for _ in range(2):
        await db.run(note)
    assert await _prune(db, 730) == 0
    assert await _history_numbers(db, order_id) == [last, last + 1, last + 2]
    async with db.snapshot() as tx:
        await assert_books(tx)
    await db.run(lambda tx: _set_times(tx, order_id, 3 * YEAR_MS, {}))
    assert await _prune(db, 730) == 2
    assert await _history_numbers(db, order_id) == [last + 2]


async def test_each_turn_continues_where_the_last_one_ended(db: Db) -> None:
    """A turn skips old orders that changed recently; after the last merchant it starts again."""
    pruner = jobs.HistoryPruner(db, 730, rows=7)
    closed = [
        await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS, "CLOSED")) for _ in range(5)
    ]
    merchant_id = closed[0][0]

    async def create_changing(tx: Tx) -> None:
        item = await world.create_product(tx, merchant_id)
        for _ in range(9):
            session = await world.create_session(tx, merchant_id, item.id)
            order = await orders.find(tx, merchant_id, session.order_id)
            await world.pay_order(tx, order)
            await _set_times(tx, order.id, 3 * YEAR_MS, {3: HOUR_MS})

    await db.run(create_changing)
    turns = [await pruner.turn(now_ms()) for _ in range(12)]
    assert max(turns) < 5
    assert sum(turns) == 5
    for _, order_id in closed:
        assert await _history_numbers(db, order_id) == [2]
    last = await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS, "CLOSED"))
    assert sum([await pruner.turn(now_ms()) for _ in range(12)]) == 1
    assert await _history_numbers(db, last[1]) == [2]
    async with db.connection() as tx:
        await tx.execute("analyze order_history, orders")
        values = {"merchant_id": merchant_id, "after": "", "before": now_ms() - 2 * YEAR_MS}
        assert await max_rows_read(tx, queries.OLD_HISTORY, **values, limit=7) <= 7


async def test_a_process_may_start_at_any_merchant(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = [
        await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS, "CLOSED")) for _ in range(3)
    ]
    monkeypatch.setattr("secrets.randbelow", lambda most: most - 1)
    pruner = jobs.HistoryPruner(db, 730, anywhere=True)
    assert [await pruner.turn(now_ms()) for _ in range(2)] == [1, 2]
    assert await _history_numbers(db, closed[2][1]) == [2]


async def test_histories_without_their_first_row_are_pruned_too(db: Db) -> None:
    """Older versions of OpenTill deleted each row by its own age, the first row included."""
    _, order_id = await db.run(lambda tx: _create_old_order(tx, 3 * YEAR_MS))

    async def delete_first_row(tx: Tx) -> None:
        await tx.execute("set local opentill.prunes_history = 'yes'")
        await tx.execute("delete from order_history where order_id = $1 and number = 1", order_id)

    before = await _history_numbers(db, order_id)
    await db.run(delete_first_row)
    assert await _prune(db, 730) == len(before) - 2
    assert await _history_numbers(db, order_id) == before[-1:]


async def test_business_time_does_not_make_history_old(db: Db) -> None:
    _, order_id = await db.run(lambda tx: _create_old_order(tx, YEAR_MS - HOUR_MS))
    assert await _prune(db, 365, now_ms() + 10 * YEAR_MS) == 0
    assert len(await _history_numbers(db, order_id)) > 2


@pytest.mark.parametrize("setting", ["no", "yes"])
async def test_the_database_lets_only_pruning_delete_history_and_only_old_rows(
    db: Db, setting: str
) -> None:
    async def drop(tx: Tx, order_id: str) -> None:
        await tx.execute(f"set local opentill.prunes_history = '{setting}'")
        await tx.execute("delete from order_history where order_id = $1", order_id)

    _, young = await db.run(lambda tx: _create_old_order(tx, YEAR_MS - 60_000))
    _, old = await db.run(lambda tx: _create_old_order(tx, YEAR_MS + 60_000))
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await db.run(lambda tx: drop(tx, young))
    if setting == "no":
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await db.run(lambda tx: drop(tx, old))
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await db.run(lambda tx: tx.execute("update order_history set cause = 'x'"))


async def test_a_gap_in_young_history_is_still_found(db: Db) -> None:
    _, order_id = await db.run(lambda tx: _create_old_order(tx, YEAR_MS - 60_000))

    async def check(tx: Tx) -> None:
        await tx.execute("alter table order_history disable trigger order_history_is_final")
        await tx.execute("delete from order_history where order_id = $1 and number = 1", order_id)
        with pytest.raises(AssertionError):
            await assert_books(tx)
        raise LookupError  # ends the transaction, which restores the deleted rows

    with pytest.raises(LookupError):
        await db.run(check)


async def test_idempotency_keys_and_rate_limit_windows_are_pruned_in_batches(db: Db) -> None:
    now = now_ms()
    async with db.connection() as tx:
        await tx.execute(
            "insert into rate_limit_windows (scope, subject, hits, counts, last_at)"
            " select 'ip', n::text, '{1}', '{1}', $1 from generate_series(1, 1500) n",
            now - 200_000,
        )
        await tx.execute(
            "insert into idempotency_keys (merchant_id, key, fingerprint, created_at)"
            " select 'm', n::text, '', $1 from generate_series(1, 1500) n",
            now - idempotency.KEEP_MS - 1,
        )
        assert [await rate_limits.prune(tx, now) for _ in range(3)] == [1000, 500, 0]
        assert [await idempotency.prune(tx, now) for _ in range(3)] == [1000, 500, 0]


async def test_a_rate_limit_window_in_the_future_blocks_nobody_and_is_pruned(db: Db) -> None:
    """A window is in the future after the clock was set back."""
    now = int(time.time() * 1000)
    async with db.connection() as tx:
        for _ in range(5):
            await rate_limits.hit(tx, "ip", "a", 5, now + 9 * 86_400_000)
        assert await rate_limits.retry_after_s(tx, "ip", "a", now) <= 61
        assert await rate_limits.hit(tx, "ip", "a", 5, now) is not None
        await rate_limits.hit(tx, "ip", "b", 5, now + 9 * 86_400_000)
        assert await rate_limits.prune(tx, now) == 1
        # Requests of a server whose clock is 3 s ahead count in the same window.
        for _ in range(4):
            await rate_limits.hit(tx, "ip", "a", 5, now + 3000)
        assert await rate_limits.hit(tx, "ip", "a", 5, now) is None
        assert 1 <= await rate_limits.retry_after_s(tx, "ip", "a", now) <= 61
