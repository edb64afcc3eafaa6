"""Figures equal the sums of all rows, no matter when and by which process they are counted."""

import asyncio
import random
from collections import defaultdict
from datetime import date
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from figures.busy_month import count_figures, create_another_order, create_busy_month
from opentill import figures, ledger, orders
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.figures import jobs, queries
from opentill.figures.model import Sums, local
from opentill.integrity import rules
from opentill.orders import jobs as order_jobs
from support import world
from support.books import assert_books
from support.list_connection import SingleTransactionDb
from support.transactions import rolled_back
from support.world import DAY, HOUR, NOW

KATHMANDU: Final = ZoneInfo("Asia/Kathmandu")
# For each type of entry, the figure that it changes, and the sign. It is written
# here again, so that an error in the code under test is found.
FIGURE_OF_TYPE: Final = {
    "PAYMENT": ("paid_minor", 1),
    "REFUND": ("refunded_minor", 1),
    "CHARGEBACK": ("disputed_minor", 1),
    "CHARGEBACK_RECOVERY": ("disputed_minor", -1),
    "FEE": ("fees_minor", 1),
    "CHARGEBACK_FEE": ("fees_minor", 1),
}

# In a run whose default isolation level is serializable, these transactions would fail.
READ_COMMITTED: Final = "set transaction isolation level read committed"


async def read_figures(
    tx: Tx, merchant_id: str, zone: Any = KATHMANDU, now: int = NOW
) -> figures.Figures:
    return await figures.read(SingleTransactionDb(tx), merchant_id, zone, now)


async def sum_rows(tx: Tx, merchant_id: str, zone: Any) -> dict[date, dict[str, int]]:
    """Sum every entry and failed attempt by its local date."""
    days: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for entry in await tx.fetch("select * from entries where merchant_id = $1", merchant_id):
        if entry["type"] in FIGURE_OF_TYPE:
            name, sign = FIGURE_OF_TYPE[entry["type"]]
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
    order = await create_busy_month(tx, random.Random(zone))
    await count_figures(tx, order)
    expected_days = await sum_rows(tx, order.merchant_id, ZoneInfo(zone))
    result = await read_figures(tx, order.merchant_id, ZoneInfo(zone))
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


@pytest.mark.parametrize("status", ["PAID", "SETTLED"])
async def test_the_money_of_a_disputed_order_is_held_until_the_dispute_is_won(
    tx: Tx, status: str
) -> None:
    order = await world.create_order_in(tx, status, reserve_rate=Decimal("0.1"), reserve_days=5)
    awaits = "pending" if status == "PAID" else "reserve"

    async def read_schedule() -> tuple[int, int]:
        """Return what is held, and what becomes available on the coming days."""
        await count_figures(tx, order)
        result = await figures.find_coming(
            SingleTransactionDb(tx), order.merchant_id, KATHMANDU, NOW
        )
        schedule = getattr(result.currencies[0], awaits)
        return schedule.held, sum(schedule.days) + schedule.later

    held, awaited = await read_schedule()
    assert (held, awaited > 0) == (0, True)
    await world.report_dispute(tx, order, "OPENED")
    assert await read_schedule() == (awaited, 0)
    await world.report_dispute(tx, order, "WON", NOW + 1)
    assert await read_schedule() == (0, awaited)


async def test_counting_in_batches_and_counting_anew_give_the_same_figures(tx: Tx) -> None:
    order = await create_busy_month(tx, random.Random(4))
    count = await count_figures(tx, order, 3)
    assert count > 50
    counted_in_batches = await read_figures(tx, order.merchant_id)
    assert await count_figures(tx, order) == 0
    for table in ("figures", "figure_heads", "attempt_figures", "awaited_figures", "brand_figures"):
        await tx.execute(f"delete from {table} where merchant_id = $1", order.merchant_id)
    await tx.execute("update payment_attempts set counted_at = null")
    assert await count_figures(tx, order) == count
    assert await read_figures(tx, order.merchant_id) == counted_in_batches


async def test_pending_money_is_listed_by_the_day_it_becomes_available(tx: Tx) -> None:
    order = await create_busy_month(tx, random.Random(1), settlement_delay_days=5, reserve_days=3)
    await count_figures(tx, order)
    (usd,) = (await read_figures(tx, order.merchant_id)).currencies
    pending_before = usd.pending.days[5]
    new_order = await create_another_order(tx, order, NOW)
    await world.pay_order(tx, new_order, NOW)
    refund = await world.create_refund(tx, new_order, "5.00", NOW)
    await count_figures(tx, order)
    (usd,) = (await read_figures(tx, order.merchant_id)).currencies
    balance = await ledger.find_balance(tx, order.merchant_id, "USD")
    assert balance is not None
    for account, minor in ((usd.pending, balance.pending), (usd.reserve, balance.reserve)):
        assert account.held + sum(account.days) + account.later == minor > 0
    # Held money belongs to disputed orders, and to unsettled orders with refunds or losses.
    assert usd.pending.held != 0
    assert usd.pending.days[5] - pending_before == 2000 - 80 - 500
    assert not any(usd.pending.days[6:])
    await world.report_refund(tx, refund, "REFUSED", NOW)
    await world.settle_order(tx, new_order, NOW)
    await count_figures(tx, order)
    (usd,) = (await read_figures(tx, order.merchant_id)).currencies
    assert usd.pending.days[5] == pending_before
    assert usd.reserve.days[3] >= 192


async def test_currencies_are_summed_separately(tx: Tx) -> None:
    euro_order = await world.create_order(tx, "9.00", "EUR", settlement_currency="EUR")
    await world.pay_order(tx, euro_order)
    sql = "update merchants set settlement_currency = 'USD' where id = $1"
    await tx.execute(sql, euro_order.merchant_id)
    mug = await world.create_product(tx, euro_order.merchant_id, "5.00", "USD")
    checkout = await world.create_session(tx, euro_order.merchant_id, mug.id)
    dollar_order = await orders.find(tx, euro_order.merchant_id, checkout.order_id)
    await world.pay_order(tx, dollar_order)
    await count_figures(tx, euro_order)
    await count_figures(tx, dollar_order)
    result = await read_figures(tx, euro_order.merchant_id, now=NOW + 1)
    paid_by_currency = {row.balance.currency: row.days[-1].paid_minor for row in result.currencies}
    assert paid_by_currency == {"EUR": 900, "USD": 500}
    assert result.attempts[-1].payments == 2


async def test_a_declined_attempt_that_is_paid_later_is_not_failed(tx: Tx) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order)
    await world.report_payment(tx, attempt, "DECLINED")
    await count_figures(tx, order)
    assert (await read_figures(tx, order.merchant_id)).attempts[-1].failed == 1
    amount = Money(order.amount_minor, order.currency)
    await world.report_payment(tx, attempt, "SUCCEEDED", NOW + DAY, amount=amount)
    later = NOW + DAY
    assert (await read_figures(tx, order.merchant_id, now=later)).as_of == later
    await count_figures(tx, order)
    result = await read_figures(tx, order.merchant_id, now=later)
    assert [(day.payments, day.failed) for day in result.attempts[-2:]] == [(0, 0), (1, 0)]
    assert result.attempts[-1].success_rate == 1
    assert result.attempts[-2].success_rate is None


async def test_figures_that_lag_behind_report_their_time(tx: Tx) -> None:
    order = await world.pay_order(tx, await world.create_order(tx))
    await count_figures(tx, order)
    refund = await world.create_refund(tx, order, None, NOW + HOUR)
    await world.report_refund(tx, refund, "SUCCEEDED", NOW + 2 * HOUR)
    result = await read_figures(tx, order.merchant_id, now=NOW + DAY)
    assert result.as_of == NOW + HOUR
    assert result.currencies[0].balance.counted_pending == order.net_settled_minor
    await count_figures(tx, order)
    declined = await world.submit_attempt(
        tx, await create_another_order(tx, order, NOW), NOW + 3 * HOUR
    )
    await world.report_payment(tx, declined, "DECLINED", NOW + 3 * HOUR)
    assert (await read_figures(tx, order.merchant_id, now=NOW + DAY)).as_of == NOW + 3 * HOUR
    await count_figures(tx, order)
    assert (await read_figures(tx, order.merchant_id, now=NOW + DAY)).as_of == NOW + DAY


async def test_a_new_merchant_has_no_figures(tx: Tx) -> None:
    shop = await world.create_merchant(tx)
    result = await read_figures(tx, shop.id)
    assert result.currencies == ()
    assert {day.failed for day in result.attempts} == {0}
    assert result.as_of == NOW


async def test_an_attempt_that_is_committed_late_is_counted(module_database_url: str) -> None:
    """An attempt of an earlier quarter hour is committed after a later attempt was counted."""
    db = await Db.connect(module_database_url, 4, acquire_timeout_s=20)
    try:
        async with db.transaction() as tx:
            order = await world.create_order(tx)
            other_order = await create_another_order(tx, order, NOW)
        await jobs.count_all(db)  # the rows of other tests are counted first
        async with db.transaction() as slow_tx:
            await slow_tx.execute(READ_COMMITTED)
            await world.report_payment(
                slow_tx, await world.submit_attempt(slow_tx, order, NOW), "DECLINED", NOW
            )
            async with db.transaction() as fast_tx:
                await fast_tx.execute(READ_COMMITTED)
                attempt = await world.submit_attempt(fast_tx, other_order, NOW + HOUR)
                await world.report_payment(fast_tx, attempt, "DECLINED", NOW + HOUR)
            assert await jobs.count_all(db) == 1
        assert await jobs.count_all(db) == 1
        async with db.snapshot() as tx:
            rows = await tx.fetch(
                "select since, failed from attempt_figures where merchant_id = $1 order by since",
                order.merchant_id,
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
            old_order = await world.create_order(tx)
        is_writing = True

        async def write(writer: int) -> None:
            for turn in range(12):
                now = NOW + (writer * 12 + turn) * HOUR // 3

                async def pay_or_decline(tx: Tx, now: int = now) -> None:
                    order = await create_another_order(tx, old_order, now)
                    if rng.random() < 0.6:
                        await world.pay_order(tx, order, now)
                    else:
                        attempt = await world.submit_attempt(tx, order, now)
                        await world.report_payment(tx, attempt, "DECLINED", now)

                await db.run(pay_or_decline)

        async def keep_counting() -> None:
            while is_writing:
                await jobs.count_all(db, batch=3)

        async def count_and_roll_back() -> None:
            """Count in transactions that are rolled back."""
            while is_writing:
                async with db.connection() as tx:
                    aborted_transaction = tx.transaction(isolation="read_committed")
                    await aborted_transaction.start()
                    await count_figures(tx, old_order)
                    await aborted_transaction.rollback()

        counters = [asyncio.create_task(counter) for counter in
                    (keep_counting(), keep_counting(), count_and_roll_back())]  # fmt: skip
        await asyncio.gather(*(write(writer) for writer in range(4)))
        is_writing = False
        await asyncio.gather(*counters)
        await jobs.count_all(db)
        async with db.snapshot() as tx:
            (usd,) = (await read_figures(tx, old_order.merchant_id, now=NOW + 40 * HOUR)).currencies
            payments = await tx.fetchval(
                "select count(*) from entries where merchant_id = $1 and type = 'PAYMENT'",
                old_order.merchant_id,
            )
            assert usd.comparisons[1].now.payments == payments > 0
            await assert_books(tx)
        assert await jobs.count_uncounted_entries(db) == 0
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
async def test_the_integrity_rules_find_a_wrong_figure(
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


async def test_reading_a_running_sum_uses_one_index_lookup(tx: Tx) -> None:
    """Figures are running sums, so reading one at a time never reads a range of rows."""
    order = await create_busy_month(tx, random.Random(2))
    await count_figures(tx, order)
    await tx.execute("set local enable_seqscan = off")
    for query in (queries.UNTIL, queries.FAILED_UNTIL):
        plan = "\n".join(
            row[0]
            for row in await tx.fetch(
                f"explain (costs off) {query.sql}",
                *query.values(None, {"merchant_id": order.merchant_id, "before": [NOW]}),
            )
        )
        assert "Limit" in plan
        assert "Sort" not in plan.split("Limit")[1]


async def test_a_cancellation_of_the_customer_is_no_failed_attempt(tx: Tx) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order)
    await world.report_payment(tx, attempt, "DECLINED", reason="canceled: by the customer")
    await count_figures(tx, order)
    assert (await read_figures(tx, order.merchant_id)).attempts[-1].failed == 0
    assert not [row for row in await order_jobs.list_last_refused(tx, 50) if row.id == attempt.id]
    assert (await rules.check_books(tx))[1] == []
    amount = Money(order.amount_minor, order.currency)
    await world.report_payment(tx, attempt, "SUCCEEDED", NOW + DAY, amount=amount)
    await count_figures(tx, order)
    result = await read_figures(tx, order.merchant_id, now=NOW + DAY)
    assert [(day.payments, day.failed) for day in result.attempts[-2:]] == [(0, 0), (1, 0)]
