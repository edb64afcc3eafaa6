"""Pruning skips a row that another transaction renews at that moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.epay import jobs as epay
from opentill.epay import queries as epay_queries
from opentill.http import idempotency, ignored_log
from opentill.http import queries as http_queries
from support import world

LONG_AGO: Final = 1_000
NOW: Final = world.NOW
DIGEST: Final = b"r" * 32


class Kept(NamedTuple):
    """A table that is pruned: how a row gets into it, or is taken anew, and what prunes it."""

    table: str
    take: Callable[[Tx, str, str, int], Awaitable[Any]]  # merchant, refund, time
    prune: Callable[[Tx, int], Awaitable[int]]


async def _claim_key(tx: Tx, merchant_id: str, _: str, now: int) -> bool | None:
    return await http_queries.CLAIM.get(
        tx, merchant_id=merchant_id, key="k", fingerprint=DIGEST, now=now
    )


async def _keep_request(tx: Tx, merchant_id: str, refund_id: str, now: int) -> str | None:
    return await epay_queries.RECORD_REQUEST.get(
        tx,
        merchant_id=merchant_id,
        request=DIGEST,
        refund_id=refund_id,
        now=now,
        stale_until=now - 1,
    )


async def _note_ignored(tx: Tx, merchant_id: str, _: str, now: int) -> int:
    return await http_queries.UPSERT_IGNORED.run(
        tx,
        merchant_id=[merchant_id],
        method=["POST"],
        route=["/v1/products"],
        fields=["sku"],
        requests=[1],
        last_at=[now],
        last_id=[new_id("evt")],
        key_id=["key"],
    )


KEPT: Final = (
    Kept("idempotency_keys", _claim_key, idempotency.prune),
    Kept("epay_refunds", _keep_request, epay.prune),
    Kept("ignored_fields", _note_ignored, ignored_log.prune),
)


@pytest.mark.parametrize("remaining", KEPT, ids=[remaining.table for remaining in KEPT])
async def test_what_is_taken_anew_at_that_moment_is_not_pruned(db: Db, remaining: Kept) -> None:
    async def old(tx: Tx) -> tuple[str, str]:
        order = await world.create_order_in(tx, "PAID")
        refund = await world.create_refund(tx, order, "1.00")
        assert await remaining.take(tx, order.merchant_id, refund.id, LONG_AGO)
        return order.merchant_id, refund.id

    async def left(tx: Tx) -> int | None:
        rows = f"select count(*) from {remaining.table} where merchant_id = $1"
        count: int | None = await tx.fetchval(rows, merchant_id)
        return count

    merchant_id, refund_id = await db.run(old)
    async with db.connection() as tx:
        async with tx.transaction():
            assert await remaining.take(tx, merchant_id, refund_id, NOW)
            pruning = asyncio.create_task(db.run(lambda other: remaining.prune(other, NOW)))
            await asyncio.wait([pruning], timeout=0.5)
        await pruning
        assert await left(tx) == 1
    # And what nobody takes anew goes.
    await db.run(lambda tx: remaining.prune(tx, 2 * NOW))
    assert await db.run(left) == 0
