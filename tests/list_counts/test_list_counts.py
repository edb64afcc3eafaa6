"""Totals and pages of long lists equal those of a full count and an offset."""

import asyncio
import itertools
import random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentill.db.database import Db, Tx
from opentill.http import paging
from opentill.list_counts import FOREVER, ListKey, Paginator, count_all, service
from opentill.list_counts import queries as totals_queries
from opentill.list_counts.jobs import roll_up
from opentill.list_counts.model import DAY_MS, HOUR_MS, page_window
from opentill.orders import Order, queries
from support import filled_database, world
from support.books import assert_books
from support.examples import examples
from support.list_connection import SingleTransactionDb
from support.transactions import RunRolledBack, rolled_back

START: Final = world.NOW // DAY_MS * DAY_MS
_numbers: Final = itertools.count(1)
# Times within five days, many of them near the boundaries of hours and days.
times = st.one_of(
    st.integers(0, 5 * DAY_MS),
    st.builds(
        lambda hour, offset: max(0, hour * HOUR_MS + offset),
        st.integers(0, 120),
        st.integers(-1, 1),
    ),
).map(lambda millis: START + millis)
statuses = st.sampled_from(["PENDING", "CREATING", "FAILED", "CLOSED"])
ranges = st.one_of(
    st.just((0, FOREVER)),
    st.tuples(times, st.just(FOREVER)),
    st.tuples(st.just(0), times),
    st.tuples(times, times).map(lambda pair: (min(pair), max(pair))),
)


def paginator(
    tx: Tx, order: Order, product: str | None, status: Any, near: int = service.NEAR
) -> Paginator[Order]:
    """Return a paginator of a merchant's orders."""
    counts = ListKey(order.merchant_id, "orders", product or "", status)
    filters = paging.active_filters(queries.ListQuery(product_id=product, status=status))
    connection = SingleTransactionDb(tx)
    return Paginator(connection, queries.LISTS, order.merchant_id, filters, counts, near=near)


async def insert_order(tx: Tx, order: Order, created_at: int, status: str, product: str) -> str:
    """Insert a copy of an order with other values; return its id."""
    row = dict(await tx.fetchrow("select * from orders where id = $1", order.id))
    row |= {
        "id": f"order_{next(_numbers):026}",
        "created_at": created_at,
        "status": status,
        "product_id": product,
    }
    parameters = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    sql = f"insert into orders ({', '.join(row)}) values ({parameters})"
    await tx.execute(sql, *row.values())
    return str(row["id"])


async def apply_changes(tx: Tx, order: Order, changes: list[Any], products: list[str]) -> None:
    """Insert, change, move and delete orders, and count them in between."""
    order_ids: list[str] = []
    for kind, created_at, status, number in changes:
        order_id = order_ids[number % len(order_ids)] if order_ids else ""
        if kind == "insert" or not order_ids:
            order_ids.append(
                await insert_order(tx, order, created_at, status, products[number % 2])
            )
        elif kind == "change":
            await tx.execute("update orders set status = $2 where id = $1", order_id, status)
        elif kind == "move":
            sql = "update orders set created_at = $2, product_id = $3 where id = $1"
            await tx.execute(sql, order_id, created_at, products[number % 2])
        elif kind == "delete":
            await tx.execute("delete from orders where id = $1", order_id)
            order_ids.remove(order_id)
        else:
            await service.queries.ROLL.get(tx, merchant_id=order.merchant_id, limit=number)


change_lists = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "change", "move", "delete", "count"]),
        times,
        statuses,
        st.integers(0, 40),
    ),
    max_size=40,
)


@settings(max_examples=examples(25))
@given(
    changes=change_lists, within=ranges, status=st.none() | statuses, by_product=st.booleans(),
    size=st.integers(1, 7), near=st.integers(0, 6),
)  # fmt: skip
def test_totals_and_pages_are_those_of_a_full_count(
    run_rolled_back: RunRolledBack, changes, within, status, by_product: bool, size: int, near: int
) -> None:
    async def check(tx: Tx) -> None:
        order = await world.create_order(tx)
        other_product = await world.create_product(tx, order.merchant_id)
        await apply_changes(tx, order, changes, [order.product_id, other_product.id])
        product = other_product.id if by_product else None
        rows = paginator(tx, order, product, status, near)
        expected = await tx.fetch(
            """
            select id from orders where merchant_id = $1 and created_at between $2 and $3
                and ($4::text is null or product_id = $4) and ($5::text is null or status = $5)
            order by created_at desc, id desc
            """,
            order.merchant_id, *within, product, status,
        )  # fmt: skip
        ids = [row["id"] for row in expected]
        assert await rows.total(tx, within) == len(ids)
        for number in range(1, len(ids) // size + 3):
            page, total = await rows.page(number, size, within)
            assert total == len(ids)
            assert [row.id for row in page] == ids[(number - 1) * size : number * size]

    run_rolled_back(check)


@given(bounds=st.tuples(times, times).map(sorted), moment=times)
def test_a_window_covers_each_time_once(bounds: list[int], moment: int) -> None:
    start, end = bounds
    window = page_window(start, end)
    pieces = sum(piece.since <= moment < piece.before for piece in window.pieces)
    edges = sum(since <= moment <= until for since, until in window.edges)
    assert pieces + edges == (start <= moment <= end)
    assert (window.since <= moment < window.before) == (pieces == 1)
    assert all(until - since < HOUR_MS for since, until in window.edges) or not window.pieces


async def test_totals_are_exact_with_concurrent_writers(module_database_url: str) -> None:
    """Four writers, two workers that roll up, and two readers that count in snapshots."""
    db = await Db.connect(module_database_url, 10, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            order = await world.create_order(tx)
        is_writing = True
        rng = random.Random(5)

        async def write() -> None:
            for _ in range(25):
                await db.run(lambda tx: _sell(tx, order, rng))

        async def keep_rolling_up() -> int:
            rolled_up = 0
            while is_writing:
                rolled_up += await roll_up(db, at_least=1)
                await asyncio.sleep(0.01)
            return rolled_up

        async def keep_reading() -> int:
            reads = 0
            while is_writing:
                async with db.snapshot() as tx:
                    for status in (None, "PENDING", "PAID"):
                        for within in ((0, FOREVER), (START + 12345, START + DAY_MS + 54321)):
                            rows = paginator(tx, order, order.product_id, status)
                            expected = await tx.fetchval(
                                "select count(*) from orders where merchant_id = $1"
                                " and product_id = $2 and created_at between $3 and $4"
                                " and ($5::text is null or status = $5)",
                                order.merchant_id, order.product_id, *within, status,
                            )  # fmt: skip
                            assert await rows.total(tx, within) == expected
                    entries = ListKey(order.merchant_id, "entries", kind="PAYMENT")
                    expected = await tx.fetchval(
                        "select count(*) from entries where merchant_id = $1 and type = 'PAYMENT'",
                        order.merchant_id,
                    )
                    assert await count_all(tx, entries) == expected
                reads += 1
            return reads

        tasks = [
            asyncio.create_task(task)
            for task in (keep_rolling_up(), keep_rolling_up(), keep_reading(), keep_reading())
        ]
        await asyncio.gather(*(write() for _ in range(4)))
        is_writing = False
        first_rolled_up, second_rolled_up, *reads = await asyncio.gather(*tasks)
        assert first_rolled_up + second_rolled_up > 0
        assert min(reads) > 0
        await roll_up(db, at_least=1)
        async with db.snapshot() as tx:
            assert await tx.fetchval("select count(*) from list_changes") == 0
            await assert_books(tx)
    finally:
        await db.close()


async def _sell(tx: Tx, earlier_order: Order, rng: random.Random) -> None:
    """Open a session for the product of an order, and pay it in most cases."""
    now = START + rng.randrange(3 * DAY_MS)
    checkout = await world.create_session(
        tx, earlier_order.merchant_id, earlier_order.product_id, now
    )
    if rng.random() < 0.6:
        order = await world.orders.find(tx, earlier_order.merchant_id, checkout.order_id)
        await world.pay_order(tx, order, START + 4 * DAY_MS)


async def test_changes_are_rolled_up_once_there_are_enough(module_database_url: str) -> None:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            await world.create_order(tx)
        await roll_up(db, at_least=1)
        async with db.transaction() as tx:
            order = await world.create_order(tx)
        assert await roll_up(db, at_least=2) == 0
        assert await roll_up(db, at_least=1) == 1
        async with db.connection() as tx:
            assert await paginator(tx, order, None, "PENDING").total(tx) == 1
    finally:
        await db.close()


async def test_a_list_of_a_filled_database_has_the_right_total(tx: Tx) -> None:
    order = await filled_database.create_filled_merchant(tx, 30)
    assert await paginator(tx, order, None, "PAID").total(tx) == 31


@pytest.mark.parametrize(
    "statement",
    [
        "update list_changes set rows = 2",
        "delete from list_changes where list = 'orders'",
        "update list_counts set rows = rows - 1 where span = 'day'",
        "delete from list_counts where span = 'all' and part = ''",
    ],
)
async def test_the_integrity_rules_find_a_wrong_total(
    rollback_database_url: str, statement: str
) -> None:
    async with rolled_back(rollback_database_url) as tx:
        order = await world.create_order_in(tx, "PAID")
        await service.queries.ROLL.get(tx, merchant_id=order.merchant_id, limit=1)
        await assert_books(tx)
        await tx.execute(statement)
        with pytest.raises(AssertionError, match="totals of lists"):
            await assert_books(tx)


async def test_the_query_of_changed_lists_returns_each_merchant_once(tx: Tx) -> None:
    shops = sorted([(await world.create_order_in(tx, "PAID")).merchant_id for _ in range(3)])
    before = min(shops[0], "mer_0")
    all_rows = await totals_queries.CHANGED.all(tx, after=before, limit=100, most=1000)
    ids = [row.merchant_id for row in all_rows]
    assert [merchant_id for merchant_id in ids if merchant_id in shops] == shops
    assert ids == sorted(set(ids))
    counted = await tx.fetch("select merchant_id, count(*) from list_changes group by 1")
    assert {row.merchant_id: row.changes for row in all_rows} == {
        merchant_id: count for merchant_id, count in counted if merchant_id > before
    }
    next_rows = await totals_queries.CHANGED.all(tx, after=shops[0], limit=1, most=2)
    assert [(row.merchant_id, row.changes) for row in next_rows] == [(shops[1], 2)]
    assert await totals_queries.CHANGED.all(tx, after=max(ids), limit=100, most=1000) == []


async def test_a_paginator_refuses_the_counts_of_another_list(db: Db) -> None:
    counts = ListKey("mer_1", "orders")
    with pytest.raises(ValueError, match="does not count a list by status"):
        Paginator(db, queries.LISTS, "mer_1", {"status": "PAID"}, counts)
