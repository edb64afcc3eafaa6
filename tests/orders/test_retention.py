"""What is pruned, in which steps, and what the database never lets go."""

import time

import asyncpg
import pytest

from opentill.db import rate_limits
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.http import idempotency
from opentill.orders import jobs
from support import world
from support.books import assert_books

YEAR_MS = 365 * 86_400_000


async def _aged(tx: Tx, age_ms: int, status: str = "SETTLED") -> tuple[str, str]:
    """Make an order whose whole history is so old, which only a test may write."""
    order = await world.in_status(tx, status)
    await tx.execute("alter table order_history disable trigger order_history_is_final")
    await tx.execute(
        "update order_history set at = $1 where order_id = $2", now_ms() - age_ms, order.id
    )
    await tx.execute("alter table order_history enable trigger order_history_is_final")
    return order.merchant_id, order.id


async def _numbers(db: Db, order_id: str) -> list[int]:
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select number from order_history where order_id = $1 order by 1", order_id
        )
    return [row[0] for row in rows]


async def test_old_history_goes_but_for_the_last_row(db: Db) -> None:
    _, old = await db.run(lambda tx: _aged(tx, 3 * YEAR_MS))
    _, young = await db.run(lambda tx: _aged(tx, YEAR_MS + 60_000))
    before = await _numbers(db, young)
    assert len(before) > 2
    assert await jobs.prune_history(db, 0, now_ms()) == 0  # the default keeps all
    assert await jobs.prune_history(db, 730, now_ms()) == len(before) - 1
    assert await _numbers(db, old) == before[-1:]
    assert await _numbers(db, young) == before
    assert await jobs.prune_history(db, 730, now_ms()) == 0
    async with db.snapshot() as tx:
        await assert_books(tx)


async def test_it_goes_in_batches(db: Db) -> None:
    for _ in range(5):
        await db.run(lambda tx: _aged(tx, 3 * YEAR_MS, "CLOSED"))
    assert [await jobs.prune_history(db, 730, now_ms(), batch=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_time_moved_ahead_makes_nothing_old(db: Db) -> None:
    _, order_id = await db.run(lambda tx: _aged(tx, YEAR_MS - 3_600_000))
    assert await jobs.prune_history(db, 365, now_ms() + 10 * YEAR_MS) == 0
    assert len(await _numbers(db, order_id)) > 2


@pytest.mark.parametrize("word", ["no", "yes"])
async def test_the_database_lets_only_old_rows_go_and_only_who_prunes(db: Db, word: str) -> None:
    async def drop(tx: Tx, order_id: str) -> None:
        await tx.execute(f"set local opentill.prunes_history = '{word}'")
        await tx.execute("delete from order_history where order_id = $1", order_id)

    _, young = await db.run(lambda tx: _aged(tx, YEAR_MS - 60_000))
    _, old = await db.run(lambda tx: _aged(tx, YEAR_MS + 60_000))
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await db.run(lambda tx: drop(tx, young))
    if word == "no":
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await db.run(lambda tx: drop(tx, old))
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await db.run(lambda tx: tx.execute("update order_history set cause = 'x'"))


async def test_a_gap_in_young_history_is_still_found(db: Db) -> None:
    _, order_id = await db.run(lambda tx: _aged(tx, YEAR_MS - 60_000))

    async def look(tx: Tx) -> None:
        await tx.execute("alter table order_history disable trigger order_history_is_final")
        await tx.execute("delete from order_history where order_id = $1 and number = 1", order_id)
        with pytest.raises(AssertionError):
            await assert_books(tx)
        raise LookupError  # taken back

    with pytest.raises(LookupError):
        await db.run(look)


async def test_keys_and_windows_go_in_batches(db: Db) -> None:
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


async def test_a_window_of_a_time_to_come_neither_blocks_nor_stays(db: Db) -> None:
    """The clock was set back, or was wrong for a while: nobody waits for it for days."""
    now = int(time.time() * 1000)
    async with db.connection() as tx:
        for _ in range(5):
            await rate_limits.hit(tx, "ip", "a", 5, now + 9 * 86_400_000)
        assert await rate_limits.retry_after_s(tx, "ip", "a", now) <= 61
        assert await rate_limits.hit(tx, "ip", "a", 5, now) is not None
        await rate_limits.hit(tx, "ip", "b", 5, now + 9 * 86_400_000)
        assert await rate_limits.prune(tx, now) == 1
        for _ in range(4):  # clocks that differ by seconds are counted as one
            await rate_limits.hit(tx, "ip", "a", 5, now + 3000)
        assert await rate_limits.hit(tx, "ip", "a", 5, now) is None
        assert 1 <= await rate_limits.retry_after_s(tx, "ip", "a", now) <= 61
