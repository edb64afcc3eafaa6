"""Orders settle once when they are due, and their rolling reserve is released later."""

import asyncio
from datetime import UTC, datetime
from functools import partial

import msgspec
import pytest

from opentill import orders
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.orders import Order
from opentill.orders.model import DueMerchant, due_at
from opentill.orders.settlement import service as settlement
from support.waits import find_waiting_session
from support.world import (
    DAY,
    HOUR,
    NOW,
    create_merchant,
    create_order_in,
    create_product,
    create_refund,
    create_session,
    dump_rows,
    pay_order,
    read_balances,
    read_entries,
    read_history,
    report_dispute,
    report_refund,
    settle_order,
)


async def reread(tx: Tx, order: Order) -> Order:
    """Return the order as it is now."""
    return await orders.find(tx, order.merchant_id, order.id)


def ms(text: str) -> int:
    """Convert a time in UTC to Unix ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


# 2026-01-02 is a Friday.
CALENDAR = [
    # paid                days  calendar     due
    ("2026-01-02T15:30:00", 0, "EVERY_DAY", "2026-01-02T15:30:00"),
    ("2026-01-02T15:30:00", 7, "EVERY_DAY", "2026-01-09T15:30:00"),
    ("2026-01-03T00:00:00", 1, "EVERY_DAY", "2026-01-04T00:00:00"),
    ("2026-01-02T15:30:00", 0, "WEEKDAYS", "2026-01-02T15:30:00"),
    ("2026-01-02T23:59:59", 1, "WEEKDAYS", "2026-01-05T23:59:59"),
    ("2026-01-02T15:30:00", 2, "WEEKDAYS", "2026-01-06T15:30:00"),
    ("2026-01-02T15:30:00", 5, "WEEKDAYS", "2026-01-09T15:30:00"),
    ("2026-01-02T15:30:00", 7, "WEEKDAYS", "2026-01-13T15:30:00"),
    ("2026-01-03T08:00:00", 0, "WEEKDAYS", "2026-01-05T08:00:00"),
    ("2026-01-03T08:00:00", 1, "WEEKDAYS", "2026-01-05T08:00:00"),
    ("2026-01-04T23:00:00", 0, "WEEKDAYS", "2026-01-05T23:00:00"),
    ("2026-01-05T00:00:00", 1, "WEEKDAYS", "2026-01-06T00:00:00"),
    ("2026-01-08T12:00:00", 1, "WEEKDAYS", "2026-01-09T12:00:00"),
]


@pytest.mark.parametrize(("paid_on", "days", "calendar", "due"), CALENDAR)
def test_an_order_is_due_after_its_delay_counted_in_days_of_its_calendar(
    paid_on, days, calendar, due
) -> None:
    assert due_at(ms(paid_on), days, calendar) == ms(due)


async def test_an_order_keeps_the_settlement_calendar_of_its_opening(tx: Tx) -> None:
    friday = ms("2026-01-02T15:30:00")
    order = await create_order_in(
        tx, "PENDING", settlement_calendar="WEEKDAYS", settlement_delay_days=1
    )
    await tx.execute("update merchants set settlement_calendar = 'EVERY_DAY'")
    order = await pay_order(tx, order, friday)
    monday = friday + 3 * DAY
    assert (order.due_at, order.settle_at) == (monday, monday)
    assert await settlement.settle_batch(tx, order.merchant_id, monday - 1) == []
    assert len(await settlement.settle_batch(tx, order.merchant_id, monday)) == 1


async def test_an_order_settles_once_when_it_is_due(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID", reserve_rate="0.1", reserve_days=30)
    due = NOW + 7 * DAY
    assert await settlement.settle_batch(tx, order.merchant_id, due - 1) == []
    (effect,) = await settlement.settle_batch(tx, order.merchant_id, due)
    assert (effect.settled_minor, effect.reserve_minor, effect.status) == (959, 96, "SETTLED")
    assert await settlement.settle_batch(tx, order.merchant_id, due + DAY) == []
    assert (await read_entries(tx, order.merchant_id))[2:] == [
        ("SETTLEMENT", "pending", "available", 959),
        ("ROLLING_RESERVE", "available", "reserve", 96),
    ]
    after = await reread(tx, order)
    assert (after.status, after.settled_at, after.settle_at) == ("SETTLED", due, None)
    detail = orders.OrderDetail.from_order(after)
    assert (detail.rolling_reserve_status, detail.rolling_reserve_amount) == ("HELD", "0.96")
    assert detail.rolling_reserve_release_at == due + 30 * DAY
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.from_status, line.to_status) == ("settled", "PAID", "SETTLED")


REFUNDS = [
    # Each row: refunded amount, outcome before the settlement, outcome after it, (pending,
    # available, frozen) in minor units.
    ("4.00", "SUCCEEDED", None, (0, 559, 0)),
    ("4.00", "REFUSED", None, (0, 959, 0)),
    ("4.00", None, "SUCCEEDED", (0, 559, 0)),
    ("4.00", None, "REFUSED", (0, 959, 0)),
    ("9.99", "SUCCEEDED", None, (0, -40, 0)),
    ("9.99", None, "SUCCEEDED", (0, -40, 0)),
    ("9.99", None, "REFUSED", (0, 959, 0)),
    ("9.80", None, None, (0, -21, 980)),
]


@pytest.mark.parametrize(("amount", "before", "after", "expected"), REFUNDS)
async def test_a_refund_may_end_before_or_after_settlement(
    tx: Tx, amount, before, after, expected
) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await create_refund(tx, order, amount)
    if before:
        await report_refund(tx, refund, before)
    await settlement.settle_batch(tx, order.merchant_id, NOW + 7 * DAY)
    if after:
        await report_refund(tx, refund, after)
    assert (await read_balances(tx, order))[:3] == expected
    is_full = amount == "9.99" and "SUCCEEDED" in (before, after)
    assert (await reread(tx, order)).status == ("REFUNDED" if is_full else "SETTLED")


@pytest.mark.parametrize("status", ["PENDING", "SETTLED", "DISPUTED", "CLOSED"])
async def test_an_order_that_cannot_settle_is_refused_and_unchanged(tx: Tx, status) -> None:
    order = await create_order_in(tx, status)
    before = await dump_rows(tx)
    with pytest.raises(Invalid) as refused:
        async with tx.transaction():
            await settlement.settle_one(tx, order.merchant_id, order.id, NOW, "test")
    assert refused.value.field == "orderId"
    assert await settlement.settle_batch(tx, order.merchant_id, NOW + 99 * DAY) == []
    assert await dump_rows(tx) == before


async def test_a_settlement_does_not_affect_other_merchants(tx: Tx) -> None:
    order, other_order = await create_order_in(tx, "PAID"), await create_order_in(tx, "PAID")
    with pytest.raises(Invalid):
        await settlement.settle_one(tx, other_order.merchant_id, order.id, NOW, "test")
    await settlement.settle_batch(tx, other_order.merchant_id, NOW, early=True)
    assert (await reread(tx, order)).status == "PAID"
    assert (await reread(tx, other_order)).status == "SETTLED"


async def test_a_preview_shows_settlements_and_settles_nothing(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID", reserve_rate="0.1")
    before = await dump_rows(tx)
    shop = order.merchant_id

    async def preview(now: int, *ids: str | None, early: bool) -> list[settlement.Settled]:
        return [row async for row in settlement.preview_settlements(tx, now, *ids, early=early)]

    assert await preview(NOW, shop, None, early=False) == []
    previewed = await preview(NOW, shop, None, early=True)
    assert previewed == await preview(NOW + 7 * DAY, None, order.id, early=False)
    assert await settlement.list_due_merchants(tx, NOW, shop, early=False) == []
    assert await settlement.list_due_merchants(tx, NOW, shop, early=True) == [
        DueMerchant(order.merchant_id, 1)
    ]
    assert await dump_rows(tx) == before
    assert await settlement.settle_batch(tx, shop, NOW, early=True) == previewed


async def test_a_clock_that_is_set_back_does_not_reorder_the_history(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    await settle_order(tx, order, NOW - HOUR)
    lines = await read_history(tx, order)
    assert [line.at for line in lines] == sorted(line.at for line in lines)


async def create_paid_orders(db: Db, count: int, **terms: object) -> str:
    """Create paid orders of one merchant; return the merchant's id."""
    async with db.transaction() as tx:
        shop = await create_merchant(tx, **terms)
        mug = await create_product(tx, shop.id)
        for _ in range(count):
            checkout = await create_session(tx, shop.id, mug.id)
            await pay_order(tx, await orders.find(tx, shop.id, checkout.order_id))
    return shop.id


async def test_concurrent_workers_settle_each_order_once(db: Db, monkeypatch) -> None:
    monkeypatch.setattr(settlement, "BATCH", 4)
    shops = [await create_paid_orders(db, 10, reserve_rate="0.1") for _ in range(2)]
    due = NOW + 7 * DAY
    counts = await asyncio.gather(*(settlement.settle_due(db, due) for _ in range(6)))
    assert sum(counts) == 20
    assert await settlement.settle_due(db, due) == 0
    async with db.connection() as tx:
        for shop in shops:
            types = [entry[0] for entry in await read_entries(tx, shop)]
            assert (types.count("SETTLEMENT"), types.count("ROLLING_RESERVE")) == (10, 10)


async def test_settling_in_a_batch_has_the_same_effects_as_settling_one_order(db: Db) -> None:
    shop = await create_paid_orders(db, 3, reserve_rate="0.1")
    due = NOW + 7 * DAY
    id_fields = {"id", "checkout_id", "paid_attempt_id"}
    async with db.transaction() as tx:
        ids = [row["id"] for row in await tx.fetch("select id from orders")]
        await orders.settle_one(tx, shop, ids[0], due, "due")
        assert len(await settlement.settle_batch(tx, shop, due, "due")) == 2
        single, *batch = [await orders.find(tx, shop, order_id) for order_id in ids]
        lines = [(await read_history(tx, order))[-1] for order in (single, *batch)]
    assert (single.status, single.reserve_minor, single.reserve_status) == ("SETTLED", 96, "HELD")
    fields = msgspec.structs.asdict(single)
    for order in batch:
        fields_in_batch = msgspec.structs.asdict(order)
        assert {name for name in fields if fields[name] != fields_in_batch[name]} <= id_fields
    assert {(line.event, line.from_status, line.to_status, line.at) for line in lines} == {
        ("settled", "PAID", "SETTLED", due)
    }


async def test_concurrent_refunds_and_settlements_leave_correct_balances(db: Db) -> None:
    shop = await create_paid_orders(db, 8)
    async with db.connection() as tx:
        ids = [row["id"] for row in await tx.fetch("select id from orders")]

    async def refund(tx: Tx, order_id: str) -> None:
        refund = await create_refund(tx, await orders.find(tx, shop, order_id), "5.00")
        await report_refund(tx, refund, "SUCCEEDED" if order_id < ids[4] else "REFUSED")

    await asyncio.gather(
        *(db.run(partial(refund, order_id=order_id)) for order_id in ids),
        *(settlement.settle_due(db, NOW + 7 * DAY) for _ in range(4)),
    )
    await settlement.settle_due(db, NOW + 7 * DAY)
    async with db.transaction() as tx:
        order = await orders.find(tx, shop, ids[0])
        pending, available, frozen, _ = await read_balances(tx, order)
        refunded_minor = sum(500 for order_id in ids if order_id < ids[4])
        assert (pending, available, frozen) == (0, 8 * 959 - refunded_minor, 0)


async def test_a_reserve_is_released_when_its_holding_period_ends(db: Db) -> None:
    async with db.transaction() as tx:
        order = await settle_order(
            tx, await create_order_in(tx, "PAID", reserve_rate="0.1", reserve_days=30)
        )
    due = NOW + 30 * DAY
    assert await settlement.release_reserves(db, due - 1) == 0
    await asyncio.gather(*(settlement.release_reserves(db, due) for _ in range(3)))
    assert await settlement.release_reserves(db, due) == 0
    async with db.transaction() as tx:
        assert await read_balances(tx, order) == (0, 959, 0, 0)
        after = await reread(tx, order)
        assert (after.reserve_status, after.reserve_minor) == ("RELEASED", 96)
        assert (await read_entries(tx, order.merchant_id))[-1] == (
            "ROLLING_RESERVE_RELEASE", "reserve", "available", 96,
        )  # fmt: skip
        assert [line.event for line in await read_history(tx, order)].count("reserve_released") == 1
        await report_dispute(tx, order, "LOST")  # no reserve is left that could cover the loss
        assert await read_balances(tx, order) == (0, 959 - 999 - 1500, 0, 0)
        assert (await reread(tx, order)).reserve_status == "RELEASED"


async def test_the_reserve_of_an_order_that_is_disputed_meanwhile_is_not_released(db: Db) -> None:
    """The job reads due orders, waits for an order's lock, and then checks the order again."""
    async with db.transaction() as tx:
        order = await settle_order(
            tx, await create_order_in(tx, "PAID", reserve_rate="0.1", reserve_days=0)
        )
    async with db.transaction() as tx, db.connection() as observer:
        await orders.lock(tx, order.merchant_id, order.id)
        release_task = asyncio.create_task(settlement.release_reserves(db, NOW + DAY))
        async with asyncio.timeout(20):
            while await find_waiting_session(observer) is None:
                await asyncio.sleep(0.005)
        await report_dispute(tx, order, "OPENED")
    await asyncio.wait_for(release_task, 20)
    async with db.transaction() as tx:
        assert (await reread(tx, order)).reserve_status == "HELD"
        types = {type_ for type_, *_ in await read_entries(tx, order.merchant_id)}
        assert "ROLLING_RESERVE_RELEASE" not in types


@pytest.mark.parametrize(("status", "released"), [("OPENED", 0), ("WON", 1), ("RECOVERED", 1)])
async def test_the_reserve_of_a_disputed_order_is_held_until_the_dispute_is_won(
    db: Db, status, released
) -> None:
    async with db.transaction() as tx:
        order = await settle_order(
            tx, await create_order_in(tx, "PAID", reserve_rate="0.1", reserve_days=0)
        )
        await report_dispute(tx, order, status)
    assert await settlement.release_reserves(db, NOW + DAY) == released


async def test_the_reserve_of_a_refunded_order_is_held_until_its_holding_period_ends(
    db: Db,
) -> None:
    async with db.transaction() as tx:
        order = await settle_order(tx, await create_order_in(tx, "PAID", reserve_rate="0.1"))
        await report_refund(tx, await create_refund(tx, order), "SUCCEEDED")
        assert await read_balances(tx, order) == (0, -40 - 96, 0, 96)
    assert await settlement.release_reserves(db, NOW + 180 * DAY) == 1
    async with db.transaction() as tx:
        assert await read_balances(tx, order) == (0, -40, 0, 0)


async def test_settling_an_order_that_was_read_before_its_settlement_posts_nothing(
    tx: Tx,
) -> None:
    order = await create_order_in(tx, "PAID")
    other_order = await create_order_in(tx, "PAID")
    await settle_order(tx, order)  # the status of this object is still PAID afterwards
    before = await dump_rows(tx)
    with pytest.raises(AssertionError, match="only 0 of 1 locked orders of .* settled"):
        async with tx.transaction():
            await settlement._settle(tx, [order], NOW, "test")
    assert await dump_rows(tx) == before
    assert (await reread(tx, other_order)).status == "PAID"


@pytest.mark.parametrize("job", ["settle", "release"])
async def test_a_merchant_whose_settlement_fails_blocks_no_other(db: Db, monkeypatch, job) -> None:
    async with db.transaction() as tx:
        terms = {"reserve_rate": "0.1", "reserve_days": 1}
        due_orders = [await create_order_in(tx, "PAID", **terms) for _ in range(2)]
        if job == "release":
            due_orders = [await settle_order(tx, order) for order in due_orders]
    failing_order, good_order = sorted(due_orders, key=lambda order: order.merchant_id)
    post = settlement.ledger.post

    async def post_unless_failing(tx: Tx, merchant_id: str, *values):
        if merchant_id == failing_order.merchant_id:
            message = "a defect"
            raise RuntimeError(message)
        return await post(tx, merchant_id, *values)

    monkeypatch.setattr(settlement.ledger, "post", post_unless_failing)
    run_job = settlement.settle_due if job == "settle" else settlement.release_reserves
    assert await run_job(db, NOW + 8 * DAY) == 1
    async with db.connection() as tx:
        after = await orders.find(tx, good_order.merchant_id, good_order.id)
    assert (after.status, after.reserve_status) == (
        "SETTLED",
        "HELD" if job == "settle" else "RELEASED",
    )
