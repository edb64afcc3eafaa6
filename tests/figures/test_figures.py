"""Figures are what a look at every row would give, whenever they are counted and by whom."""

import asyncio
import random
from collections import defaultdict
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from figures.busy_month import count_figures, create_another_order, create_busy_month
from opentill import figures, ledger, orders
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.figures import jobs, queries
from opentill.figures.model import Sums, local
from support import world
from support.books import assert_books
from support.list_connection import SingleTransactionDb
from support.transactions import rolled_back
from support.world import DAY, HOUR, NOW

KATHMANDU: Final = ZoneInfo("Asia/Kathmandu")
# What each type of entry does to the figures, written once more.
EXPECTED: Final = {
    "PAYMENT": ("paid_minor", 1),
    "REFUND": ("refunded_minor", 1),
    "CHARGEBACK": ("disputed_minor", 1),
    "CHARGEBACK_RECOVERY": ("disputed_minor", -1),
    "FEE": ("fees_minor", 1),
    "CHARGEBACK_FEE": ("fees_minor", 1),
}

# What is not repeated when it collides, wherever every other transaction is serializable.
_COMMITTED: Final = "set transaction isolation level read committed"


async def read(tx: Tx, merchant_id: str, zone: Any = KATHMANDU, now: int = NOW) -> figures.Figures:
    return await figures.read(SingleTransactionDb(tx), merchant_id, zone, now)


async def sum_rows(tx: Tx, merchant_id: str, zone: Any) -> dict[date, dict[str, int]]:
    """Sum every entry and failed attempt by its local date."""
    days: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for entry in await tx.fetch("select * from entries where merchant_id = $1", merchant_id):
        if entry["type"] in EXPECTED:
            name, sign = EXPECTED[entry["type"]]
            day = days[local(entry["created_at"], zone).date()]
            day[name] += sign * entry["amount_minor"]
            day["payments"] += entry["type"] == "PAYMENT"
            day["refunds"] += entry["type"] == "REFUND"
            day["disputes"] += entry["type"] == "CHARGEBACK"
    failed = "select updated_at from payment_attempts where merchant_id = $1 and status = any($2)"
    for attempt in await tx.fetch(failed, merchant_id, ["DECLINED", "REFUSED", "VOIDED"]):
        days[local(attempt["updated_at"], zone).date()]["failed"] += 1
    return days


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns", "UTC"])
async def test_each_day_sums_its_entries_and_attempts(tx: Tx, zone: str) -> None:
    shop = await create_busy_month(tx, random.Random(zone))
    await count_figures(tx, shop)
    expected_days = await sum_rows(tx, shop.merchant_id, ZoneInfo(zone))
    result = await read(tx, shop.merchant_id, ZoneInfo(zone))
    (usd,) = result.currencies
    for day, totals, attempts in zip(result.days, usd.days, result.attempts, strict=True):
        expected = expected_days.pop(day.date, defaultdict(int))
        failed = expected.pop("failed", 0)
        assert totals == Sums(**expected), day
        assert (attempts.payments, attempts.failed) == (totals.payments, failed), day
    assert not expected_days
    assert usd.ever == usd.comparisons[2].now
    month = usd.comparisons[2]
    assert month.now.paid_minor == sum(totals.paid_minor for totals in usd.days) > 0
    assert month.now.disputed_minor > 0 < month.now.refunded_minor
    assert month.before == Sums()
    week, attempts = usd.comparisons[1], result.attempts_compared[1]
    assert week.before.payments == attempts.before.payments > 0
    assert result.as_of == NOW


async def test_counting_in_batches_and_again_gives_the_same_figures(tx: Tx) -> None:
    shop = await create_busy_month(tx, random.Random(4))
    (counted,) = {await count_figures(tx, shop, most) for most in (3,)}
    assert counted > 50
    in_parts = await read(tx, shop.merchant_id)
    assert await count_figures(tx, shop) == 0
    for table in ("figures", "figure_heads", "attempt_figures", "awaited_figures"):
        await tx.execute(f"delete from {table} where merchant_id = $1", shop.merchant_id)
    await tx.execute("update payment_attempts set counted_at = null")
    assert await count_figures(tx, shop) == counted
    assert await read(tx, shop.merchant_id) == in_parts


async def test_pending_money_is_listed_by_the_day_it_becomes_available(tx: Tx) -> None:
    shop = await create_busy_month(tx, random.Random(1), settlement_delay_days=5, reserve_days=3)
    await count_figures(tx, shop)
    (usd,) = (await read(tx, shop.merchant_id)).currencies
    same_day = usd.pending.days[5]
    later = await create_another_order(tx, shop, NOW)
    await world.pay_order(tx, later, NOW)
    refund = await world.create_refund(tx, later, "5.00", NOW)
    await count_figures(tx, shop)
    (usd,) = (await read(tx, shop.merchant_id)).currencies
    balance = await ledger.find_balance(tx, shop.merchant_id, "USD")
    assert balance is not None
    for account, has in ((usd.pending, balance.pending), (usd.reserve, balance.reserve)):
        assert account.held + sum(account.days) + account.later == has > 0
    assert usd.pending.held != 0  # disputed, and what refunds and losses left of unsettled orders
    assert usd.pending.days[5] - same_day == 2000 - 80 - 500
    assert not any(usd.pending.days[6:])
    await world.report_refund(tx, refund, "REFUSED", NOW)
    await world.settle_order(tx, later, NOW)
    await count_figures(tx, shop)
    (usd,) = (await read(tx, shop.merchant_id)).currencies
    assert usd.pending.days[5] == same_day
    assert usd.reserve.days[3] >= 192


async def test_currencies_are_summed_separately(tx: Tx) -> None:
    euro = await world.create_order(tx, "9.00", "EUR", settlement_currency="EUR")
    await world.pay_order(tx, euro)
    sql = "update merchants set settlement_currency = 'USD' where id = $1"
    await tx.execute(sql, euro.merchant_id)
    mug = await world.create_product(tx, euro.merchant_id, "5.00", "USD")
    checkout = await world.create_session(tx, euro.merchant_id, mug.id)
    dollar = await orders.find(tx, euro.merchant_id, checkout.order_id)
    await world.pay_order(tx, dollar)
    await count_figures(tx, euro)
    await count_figures(tx, dollar)
    result = await read(tx, euro.merchant_id, now=NOW + 1)
    paid = {one.balance.currency: one.days[-1].paid_minor for one in result.currencies}
    assert paid == {"EUR": 900, "USD": 500}
    assert result.attempts[-1].payments == 2


async def test_a_declined_attempt_that_is_paid_later_is_not_failed(tx: Tx) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order)
    await world.report_payment(tx, attempt, "DECLINED")
    await count_figures(tx, order)
    assert (await read(tx, order.merchant_id)).attempts[-1].failed == 1
    amount = Money(order.amount_minor, order.currency)
    await world.report_payment(tx, attempt, "SUCCEEDED", NOW + DAY, amount=amount)
    later = NOW + DAY
    assert (await read(tx, order.merchant_id, now=later)).as_of == later
    await count_figures(tx, order)
    result = await read(tx, order.merchant_id, now=later)
    assert [(one.payments, one.failed) for one in result.attempts[-2:]] == [(0, 0), (1, 0)]
    assert result.attempts[-1].success_rate == 1
    assert result.attempts[-2].success_rate is None


async def test_figures_that_lag_report_their_time(tx: Tx) -> None:
    order = await world.pay_order(tx, await world.create_order(tx))
    await count_figures(tx, order)
    refund = await world.create_refund(tx, order, None, NOW + HOUR)
    await world.report_refund(tx, refund, "SUCCEEDED", NOW + 2 * HOUR)
    result = await read(tx, order.merchant_id, now=NOW + DAY)
    assert result.as_of == NOW + HOUR
    assert result.currencies[0].balance.counted_pending == order.net_settled_minor
    await count_figures(tx, order)
    declined = await world.submit_attempt(
        tx, await create_another_order(tx, order, NOW), NOW + 3 * HOUR
    )
    await world.report_payment(tx, declined, "DECLINED", NOW + 3 * HOUR)
    assert (await read(tx, order.merchant_id, now=NOW + DAY)).as_of == NOW + 3 * HOUR
    await count_figures(tx, order)
    assert (await read(tx, order.merchant_id, now=NOW + DAY)).as_of == NOW + DAY


async def test_a_new_merchant_has_no_figures(tx: Tx) -> None:
    shop = await world.create_merchant(tx)
    result = await read(tx, shop.id)
    assert result.currencies == ()
    assert {one.failed for one in result.attempts} == {0}
    assert result.as_of == NOW


async def test_a_late_commit_is_counted(module_database_url: str) -> None:
    """An attempt of an earlier quarter hour, committed after a later one was counted."""
    db = await Db.connect(module_database_url, 4, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            first = await world.create_order(tx)
            second = await create_another_order(tx, first, NOW)
        await jobs.count_all(db)  # what other tests left
        async with db.transaction() as slow:
            await slow.execute(_COMMITTED)
            await world.report_payment(
                slow, await world.submit_attempt(slow, first, NOW), "DECLINED", NOW
            )
            async with db.transaction() as quick:
                await quick.execute(_COMMITTED)
                attempt = await world.submit_attempt(quick, second, NOW + HOUR)
                await world.report_payment(quick, attempt, "DECLINED", NOW + HOUR)
            assert await jobs.count_all(db) == 1
        assert await jobs.count_all(db) == 1
        async with db.snapshot() as tx:
            rows = await tx.fetch(
                "select since, failed from attempt_figures where merchant_id = $1 order by since",
                first.merchant_id,
            )
            quarter = NOW // 900_000 * 900_000
            assert [tuple(row) for row in rows] == [(0, 0), (quarter, 1), (quarter + HOUR, 2)]
            await assert_books(tx)
    finally:
        await db.close()


async def test_figures_stay_exact_with_concurrent_writers_and_aborted_counts(
    module_database_url: str,
) -> None:
    db = await Db.connect(module_database_url, 10, acquire_timeout_s=20)
    rng = random.Random(9)
    try:
        async with db.transaction() as tx:
            shop = await world.create_order(tx)
        busy = True

        async def write(number: int) -> None:
            for turn in range(12):
                at = NOW + (number * 12 + turn) * HOUR // 3

                async def trade(tx: Tx, at: int = at) -> None:
                    order = await create_another_order(tx, shop, at)
                    if rng.random() < 0.6:
                        await world.pay_order(tx, order, at)
                    else:
                        await world.report_payment(
                            tx, await world.submit_attempt(tx, order, at), "DECLINED", at
                        )

                await db.run(trade)

        async def keep_counting() -> None:
            while busy:
                await jobs.count_all(db, batch=3)

        async def count_and_roll_back() -> None:
            """Count, and end without a commit."""
            while busy:
                async with db.connection() as tx:
                    aborted_transaction = tx.transaction(isolation="read_committed")
                    await aborted_transaction.start()
                    await count_figures(tx, shop)
                    await aborted_transaction.rollback()

        counters = [asyncio.create_task(each) for each in
                    (keep_counting(), keep_counting(), count_and_roll_back())]  # fmt: skip
        await asyncio.gather(*(write(number) for number in range(4)))
        busy = False
        await asyncio.gather(*counters)
        await jobs.count_all(db)
        async with db.snapshot() as tx:
            (usd,) = (await read(tx, shop.merchant_id, now=NOW + 40 * HOUR)).currencies
            payments = await tx.fetchval(
                "select count(*) from entries where merchant_id = $1 and type = 'PAYMENT'",
                shop.merchant_id,
            )
            assert usd.comparisons[1].now.payments == payments > 0
            await assert_books(tx)
        assert await jobs.waiting(db) == 0
    finally:
        await db.close()


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("update figures set paid_minor = paid_minor + 1", "figures are the sums"),
        ("update figures set payments = payments - 1", "figures are the sums"),
        ("delete from figures", "figures are the sums"),
        ("update figure_heads set number = number - 1", "figures are the sums"),
        ("update figure_heads set number = number + 1", "figures are the sums"),
        ("insert into figures select 'mer_x', currency, since, 1, 1, 0, 0, 0, 0, 0 from figures",
            "figures are the sums"),
        ("update awaited_figures set amount_minor = 1", "awaited money"),
        ("delete from awaited_figures", "awaited money"),
        ("update attempt_figures set failed = 2 where since > 0", "failed attempts"),
        ("delete from attempt_figures", "failed attempts"),
        ("update payment_attempts set counted_at = null", "failed attempts"),
    ],
)  # fmt: skip
async def test_the_integrity_check_finds_a_wrong_figure(
    rollback_database_url: str, statement: str, rule: str
) -> None:
    async with rolled_back(rollback_database_url) as tx:
        order = await world.pay_order(tx, await world.create_order(tx))
        declined = await world.submit_attempt(tx, await create_another_order(tx, order, NOW))
        await world.report_payment(tx, declined, "DECLINED")
        await count_figures(tx, order)
        await assert_books(tx)
        await tx.execute(statement)
        with pytest.raises(AssertionError, match=rule):
            await assert_books(tx)


async def test_reading_a_boundary_uses_one_index_lookup(tx: Tx) -> None:
    """The sums of a boundary are one look into the index: no statement reads a range of figures."""
    shop = await create_busy_month(tx, random.Random(2))
    await count_figures(tx, shop)
    await tx.execute("set local enable_seqscan = off")
    for query in (queries.UNTIL, queries.FAILED_UNTIL):
        plan = "\n".join(
            row[0]
            for row in await tx.fetch(
                f"explain (costs off) {query.sql}",
                *query.values(None, {"merchant_id": shop.merchant_id, "before": [NOW]}),
            )
        )
        assert "Limit" in plan
        assert "Sort" not in plan.split("Limit")[1]
