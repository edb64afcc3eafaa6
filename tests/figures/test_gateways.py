"""Figures by gateway and method equal the sums of all rows, and missing ones are counted again."""

import random
from datetime import UTC, timedelta
from typing import Any

from figures.busy_month import count_figures, create_busy_month
from opentill import figures
from opentill.db.database import Db, Tx
from opentill.figures import gateway_queries, jobs
from opentill.figures.model import day_bounds, local

SUM_ROWS = """
    select gateway, method, currency, sum(paid)::bigint as payments,
        sum(volume)::bigint as volume_minor, sum(failed)::bigint as failed
    from (
        select a.gateway, a.method, a.currency, 1 as paid, o.amount_minor as volume, 0 as failed
        from orders o join payment_attempts a
            on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
        where o.merchant_id = $1 and o.paid_at between $2 and $3
        union all
        select gateway, method, currency, 0, 0, 1 from payment_attempts
        where merchant_id = $1 and status in ('DECLINED', 'REFUSED', 'VOIDED')
            and updated_at between $2 and $3
    ) rows group by 1, 2, 3 order by 1, 2, 3
"""


async def _rows(tx: Tx) -> list[Any]:
    return [tuple(row) for row in await tx.fetch("select * from gateway_figures order by 1, 2, 3")]


async def test_sums_of_a_range_match_its_payments_and_attempts(tx: Tx) -> None:
    order = await create_busy_month(tx, random.Random("gateways"))
    before = await figures.sum_by_gateway(tx, 0, 2**62)
    await count_figures(tx, order)
    assert before == []
    first_paid_at, last_paid_at = await tx.fetchrow(
        "select min(paid_at), max(paid_at) from orders where merchant_id = $1", order.merchant_id
    )
    middle = (first_paid_at + last_paid_at) // 2 // 900_000 * 900_000
    for since, until in ((0, 2**62), (0, middle), (middle, 2**62)):
        sums = await figures.sum_by_gateway(tx, since, until)
        expected = await tx.fetch(SUM_ROWS, order.merchant_id, since, until - 1)
        assert [tuple(row) for row in expected] == [
            (row.gateway, row.method, row.currency, row.payments, row.volume_minor, row.failed)
            for row in sums
        ]
    assert sum(row.payments for row in sums) > 0 < sum(row.failed for row in sums)


async def test_sums_by_day_add_up_to_those_of_the_range(tx: Tx) -> None:
    order = await create_busy_month(tx, random.Random("days"))
    await count_figures(tx, order)
    (first_paid_at,) = await tx.fetchrow(
        "select min(paid_at) from orders where merchant_id = $1", order.merchant_id
    )
    first = local(first_paid_at, UTC).date()
    days = [day_bounds(first + timedelta(days=index), UTC) for index in range(40)]
    by_day = await figures.sum_by_day(tx, days)
    for day_number, day in enumerate(days):
        sums: dict[str, list[int]] = {}
        for row in await figures.sum_by_gateway(tx, day.since, day.until):
            total = sums.setdefault(row.currency, [0, 0, 0])
            for place, value in enumerate((row.payments, row.volume_minor, row.failed)):
                total[place] += value
        assert sums == {
            row.currency: [row.payments, row.volume_minor, row.failed]
            for row in by_day
            if row.index == day_number
        }
    assert len({row.index for row in by_day}) > 1


async def test_sums_that_an_earlier_version_did_not_count_are_counted_again(db: Db) -> None:
    async with db.transaction() as tx:
        await create_busy_month(tx, random.Random("anew"))
    await jobs.count_all(db)
    assert not await jobs.repair_by_gateway(db)
    async with db.connection() as tx:
        rows = await _rows(tx)
        await gateway_queries.CLEAR.run(tx)
    assert rows
    assert await jobs.repair_by_gateway(db)
    async with db.connection() as tx:
        assert await _rows(tx) == rows
    assert not await jobs.repair_by_gateway(db)
