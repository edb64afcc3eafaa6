"""Dispute rates by month and card brand, beside the limits of card schemes."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from figures.busy_month import count_figures, create_busy_month
from opentill import figures
from opentill.db.database import Db, Tx
from opentill.figures import brand_queries, dispute_rates, jobs
from opentill.figures.dispute_rates import DisputeRate, Volume, add_months, limits_of
from support import world
from support.world import DAY, NOW

_MONTH = dispute_rates.month_of(NOW)
_CARDS = "update payment_attempts set card_brand = $2, card_last4 = '4242' where merchant_id = $1"


async def _rates(db: Db, merchant_id: str | None = None) -> list[DisputeRate]:
    return await figures.read_rates(db, merchant_id, add_months(_MONTH, -2), _MONTH)


async def test_the_rates_of_a_month_match_its_payments_and_disputes(db: Db) -> None:
    async with db.transaction() as tx:
        first = await create_busy_month(tx, random.Random("brands"))
        await tx.execute(_CARDS, first.merchant_id, "visa")
    await jobs.count_all(db)
    rates = await _rates(db, first.merchant_id)
    async with db.connection() as tx:
        rows = await tx.fetch(
            """
            select to_char(to_timestamp(o.paid_at / 1000) at time zone 'UTC', 'YYYY-MM') as month,
                count(*) as payments, sum(o.amount_minor)::bigint as volume
            from orders o where o.merchant_id = $1 and o.paid_at is not null group by 1
            """,
            first.merchant_id,
        )
        disputes = await tx.fetch(
            """
            select to_char(to_timestamp(created_at / 1000) at time zone 'UTC', 'YYYY-MM') as month,
                count(*) as opened, count(*) filter (where status = 'LOST') as lost
            from disputes where merchant_id = $1 group by 1
            """,
            first.merchant_id,
        )
    totals = {f"{rate.month:%Y-%m}": rate for rate in rates if rate.method is None}
    assert {row["month"]: row["payments"] for row in rows} == {
        month: rate.payments for month, rate in totals.items()
    }
    for row in disputes:
        rate = totals[row["month"]]
        assert (rate.opened, rate.lost) == (row["opened"], row["lost"])
        assert rate.rate == Decimal(rate.opened) / rate.payments
    visa = [rate for rate in rates if rate.brand == "visa"]
    assert [rate.payments for rate in visa] == [rate.payments for rate in totals.values()]
    assert sum(volume.paid_minor for rate in visa for volume in rate.volumes) == sum(
        row["volume"] for row in rows
    )
    assert (await _rates(db))[0].payments >= visa[0].payments  # of all merchants


async def test_a_dispute_counts_when_it_is_opened_and_when_it_is_decided(db: Db) -> None:
    async with db.transaction() as tx:
        order = await world.create_order_in(tx, "PAID")
        opened_at = dispute_rates.month_start(_MONTH) - DAY
        await world.report_dispute(tx, order, "OPENED", opened_at)
        await world.report_dispute(tx, order, "LOST", NOW)
        await world.report_dispute(tx, order, "RECOVERED", NOW + DAY)
    await jobs.count_all(db)
    rates = [rate for rate in await _rates(db, order.merchant_id) if rate.method is None]
    before = add_months(_MONTH, -1)
    assert {rate.month: (rate.opened, rate.won, rate.lost) for rate in rates} == {
        _MONTH: (0, 0, 1), before: (1, 0, 0)
    }  # fmt: skip
    by_month = {rate.month: rate for rate in rates}
    assert (by_month[_MONTH].rate, by_month[before].rate) == (Decimal(0), None)  # paid this month
    assert by_month[before].volumes == (Volume(order.currency, 0, order.amount_minor),)


async def test_payments_that_an_earlier_version_did_not_count_are_counted_again(db: Db) -> None:
    async with db.transaction() as tx:
        order = await create_busy_month(tx, random.Random("anew"))
    await jobs.count_all(db)
    assert not await jobs.repair_by_brand(db)
    rates = await _rates(db, order.merchant_id)
    async with db.connection() as tx:
        await brand_queries.CLEAR.run(tx)
    assert await jobs.repair_by_brand(db)
    assert await _rates(db, order.merchant_id) == rates
    assert not await jobs.repair_by_brand(db)


async def test_uncounted_payments_are_missing(tx: Tx) -> None:
    order = await create_busy_month(tx, random.Random("later"))
    key = {
        "merchant_id": order.merchant_id,
        "since": 0,
        "until": NOW + DAY,
    }
    assert await brand_queries.PAYMENTS.all(tx, **key) == []
    await count_figures(tx, order)
    assert await brand_queries.PAYMENTS.all(tx, **key)


def test_months_begin_and_end_at_midnight_in_utc() -> None:
    start = dispute_rates.month_start(date(2026, 11, 1))
    assert start == int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
    assert dispute_rates.month_of(start) == date(2026, 11, 1)
    assert dispute_rates.month_of(start - 1) == date(2026, 10, 1)
    assert add_months(date(2026, 1, 1), -1) == date(2025, 12, 1)
    assert add_months(date(2026, 11, 1), 2) == date(2027, 1, 1)


@pytest.mark.parametrize(
    ("brand", "month", "payments", "opened", "exceeded"),
    [
        ("visa", date(2026, 3, 1), 100_000, 1_500, None),  # 1.5 %: until March the limit is 2.2 %
        ("visa", date(2026, 3, 1), 100_000, 2_200, "VAMP"),
        ("visa", date(2026, 4, 1), 100_000, 1_500, "VAMP"),
        ("visa", date(2026, 4, 1), 10_000, 1_499, None),
        ("visa", date(2026, 4, 1), 100_001, 1_500, None),
        ("mastercard", date(2026, 4, 1), 6_000, 99, None),
        ("mastercard", date(2026, 4, 1), 6_000, 100, "ECM"),
        ("mastercard", date(2026, 4, 1), 10_000, 299, "ECM"),
        ("mastercard", date(2026, 4, 1), 10_000, 300, "HECM"),
        ("mastercard", date(2026, 4, 1), 10_001, 300, "ECM"),
        ("amex", date(2026, 4, 1), 10, 10, None),
        ("visa", date(2026, 4, 1), 0, 2_000, None),
    ],
)
def test_a_limit_is_reached_by_number_and_rate(
    brand: str, month: date, payments: int, opened: int, exceeded: str | None
) -> None:
    rate = DisputeRate(
        month=month, method="CREDIT_CARD", brand=brand, payments=payments, opened=opened, won=0,
        lost=0, volumes=(), limits=limits_of(brand, month),
    )  # fmt: skip
    assert (rate.exceeded.program if rate.exceeded else None) == exceeded
