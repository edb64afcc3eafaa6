"""Pruning keeps a row that another transaction renews at the same time."""

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


class PrunedTable(NamedTuple):
    """A table, how to insert or renew a row of it, and how to prune it."""

    name: str
    # Parameters: tx, merchant id, refund id, time in ms.
    upsert: Callable[[Tx, str, str, int], Awaitable[Any]]
    prune: Callable[[Tx, int], Awaitable[int]]


async def _claim_key(tx: Tx, merchant_id: str, _: str, now: int) -> bool | None:
    return await http_queries.CLAIM.get(
        tx, merchant_id=merchant_id, key="k", fingerprint=DIGEST, now=now
    )


async def _record_request(tx: Tx, merchant_id: str, refund_id: str, now: int) -> str | None:
    return await epay_queries.RECORD_REQUEST.get(
        tx,
        merchant_id=merchant_id,
        request=DIGEST,
        refund_id=refund_id,
        now=now,
        stale_until=now - 1,
    )


async def _record_ignored(tx: Tx, merchant_id: str, _: str, now: int) -> int:
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


TABLES: Final = (
    PrunedTable("idempotency_keys", _claim_key, idempotency.prune),
    PrunedTable("epay_refunds", _record_request, epay.prune),
    PrunedTable("ignored_fields", _record_ignored, ignored_log.prune),
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_a_row_that_is_being_renewed_is_not_pruned(db: Db, table: PrunedTable) -> None:
    async def insert_old_row(tx: Tx) -> tuple[str, str]:
        order = await world.create_order_in(tx, "PAID")
        refund = await world.create_refund(tx, order, "1.00")
        assert await table.upsert(tx, order.merchant_id, refund.id, LONG_AGO)
        return order.merchant_id, refund.id

    async def count_rows(tx: Tx) -> int | None:
        rows = f"select count(*) from {table.name} where merchant_id = $1"
        count: int | None = await tx.fetchval(rows, merchant_id)
        return count

    merchant_id, refund_id = await db.run(insert_old_row)
    async with db.connection() as tx:
        async with tx.transaction():
            assert await table.upsert(tx, merchant_id, refund_id, NOW)
            pruning = asyncio.create_task(db.run(lambda other: table.prune(other, NOW)))
            await asyncio.wait([pruning], timeout=0.5)
        await pruning
        assert await count_rows(tx) == 1
    await db.run(lambda tx: table.prune(tx, 2 * NOW))  # nobody renews the row meanwhile
    assert await db.run(count_rows) == 0
