"""Payments to merchants' own accounts are figures of their own, and count for their gateways."""

from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from figures.busy_month import count_figures
from opentill import figures, ledger, orders, rates, refunds
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.figures import gateway_queries, jobs
from opentill.figures.dispute_rates import month_of
from opentill.figures.model import quarter
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.list_counts import FOREVER
from opentill.orders import Order
from opentill.refunds import Refund
from support.books import assert_books
from support.list_connection import SingleTransactionDb
from support.prepaid import adjust, submit_direct
from support.world import (
    HOUR,
    NOW,
    create_merchant,
    create_order,
    create_product,
    create_refund,
    create_session,
    pay_order,
    report_payment,
    report_refund,
)

FEE: Final = 40  # of 9.99 at 4 %
EVER: Final = 2**62
TABLES: Final = ("gateway_figures", "brand_figures")


async def next_order(tx: Tx, order: Order) -> Order:
    """Create another order of the same merchant."""
    product = await create_product(tx, order.merchant_id)
    session = await create_session(tx, order.merchant_id, product.id)
    return await orders.find(tx, order.merchant_id, session.order_id)


async def pay_directly(tx: Tx, order: Order, gateway: str = "sandbox") -> None:
    attempt = await submit_direct(tx, order, gateway=gateway)
    assert attempt is not None
    amount = Money(order.amount_minor, order.currency)
    await report_payment(tx, attempt, "SUCCEEDED", amount=amount)


async def pay_both_ways(tx: Tx) -> Order:
    """Pay 9.99 directly and 9.99 to the platform; top the prepaid balance up with 1.00."""
    direct = await create_order(tx)
    await adjust(tx, direct.merchant_id, "topup", 100)
    await pay_directly(tx, direct)
    await pay_order(tx, await next_order(tx, direct))
    return direct


async def _rates_of_all_methods(tx: Tx, order: Order) -> list[figures.DisputeRate]:
    month = month_of(NOW)
    rates = await figures.read_rates_in(tx, order.merchant_id, month, month)
    return [rate for rate in rates if rate.method is None]


async def test_figures_gateways_books_and_statement_agree_about_both_ways(tx: Tx) -> None:
    order = await pay_both_ways(tx)
    assert await orders.find_uncounted_since(tx, order.merchant_id) == NOW
    await count_figures(tx, order)
    assert await orders.find_uncounted_since(tx, order.merchant_id) is None

    (sums,) = await figures.sum_range(tx, order.merchant_id, 0, EVER)
    assert (sums.payments, sums.paid_minor) == (1, 999)
    assert (sums.direct_payments, sums.direct_minor) == (1, 999)
    assert (sums.fees_minor, sums.net_minor, sums.volume_minor) == (2 * FEE, 999 - 2 * FEE, 1998)
    (volume,) = await figures.sum_by_merchant(tx, [order.merchant_id], 0, EVER)
    assert (volume.paid_minor, volume.direct_minor) == (999, 999)

    (gateway,) = await figures.sum_by_gateway(tx, 0, EVER)
    assert (gateway.payments, gateway.volume_minor, gateway.success_rate) == (2, 1998, 1)
    (brands,) = await _rates_of_all_methods(tx, order)
    assert brands.payments == sums.all_payments

    (balance,) = await ledger.trial_balance(tx, order.merchant_id)
    assert (-balance.gateway, balance.platform) == (sums.paid_minor, sums.fees_minor)
    assert (balance.pending, balance.prepaid) == (999 - FEE, 100 - FEE)
    (statement,) = await figures.statements(
        SingleTransactionDb(tx), order.merchant_id, (0, FOREVER)
    )
    assert statement.changes is not None
    assert statement.changes["payments"] == sums.paid_minor
    assert statement.changes["fees"] == -sums.fees_minor
    assert statement.closing_minor == sums.net_minor + 100
    await assert_books(tx)


async def test_home_counts_direct_payments_in_rate_and_days(tx: Tx) -> None:
    order = await pay_both_ways(tx)
    declined = await submit_direct(tx, await next_order(tx, order))
    assert declined is not None
    await report_payment(tx, declined, "DECLINED")
    await count_figures(tx, order)
    home = await figures.read(
        SingleTransactionDb(tx), order.merchant_id, ZoneInfo("Asia/Kathmandu"), NOW
    )
    (usd,) = home.currencies
    assert home.attempts[-1] == figures.Attempts(2, 1)
    assert (usd.days[-1].direct_minor, usd.hours[-1].direct_minor) == (999, 999)
    assert usd.comparisons[0].now == usd.ever == usd.days[-1]


async def test_a_direct_payment_without_a_fee_is_counted(tx: Tx) -> None:
    order = await create_order(tx, platform_fee_rate="0")
    await pay_directly(tx, order)
    assert await count_figures(tx, order) == 1
    assert await count_figures(tx, order) == 0
    (sums,) = await figures.sum_range(tx, order.merchant_id, 0, EVER)
    assert sums == figures.CurrencySums(currency="USD", direct_payments=1, direct_minor=999)
    home = await figures.read(SingleTransactionDb(tx), order.merchant_id, ZoneInfo("UTC"), NOW)
    assert [each.ever.direct_minor for each in home.currencies] == [999]


async def test_a_merchants_own_account_has_a_last_payment(tx: Tx) -> None:
    order = await create_order(tx, platform_fee_rate="0")
    await pay_directly(tx, order, gateway="sandbox")
    await count_figures(tx, order)
    last = await figures.list_last_payments(tx, 0, ["sandbox"])
    assert last == {"sandbox": quarter(NOW)}


async def test_direct_payments_are_added_to_the_sums_of_later_quarter_hours(tx: Tx) -> None:
    order = await create_order(tx, platform_fee_rate="0")
    for at in (NOW, NOW - 3_600_000, NOW - 1_800_000):  # not in the order of their times
        paid = await next_order(tx, order)
        attempt = await submit_direct(tx, paid, at)
        assert attempt is not None
        await report_payment(tx, attempt, "SUCCEEDED", at)
        await count_figures(tx, order)
    for since, payments in ((NOW - 3_600_000, 3), (NOW - 1_800_000, 2), (NOW, 1)):
        (sums,) = await figures.sum_range(tx, order.merchant_id, quarter(since), EVER)
        assert (sums.direct_payments, sums.direct_minor) == (payments, 999 * payments)
    await assert_books(tx)


async def test_a_recount_has_the_same_direct_payments(db: Db) -> None:
    async with db.transaction() as tx:
        await pay_both_ways(tx)
    await jobs.count_all(db)
    assert not await jobs.repair_by_gateway(db)
    assert not await jobs.repair_by_brand(db)
    async with db.connection() as tx:
        rows = [await tx.fetch(f"select * from {table}") for table in TABLES]
        await gateway_queries.CLEAR.run(tx)
        await tx.execute("delete from brand_figures")
    assert await jobs.repair_by_gateway(db)
    assert await jobs.repair_by_brand(db)
    async with db.connection() as tx:
        assert rows == [await tx.fetch(f"select * from {table}") for table in TABLES]


async def _refunds(
    tx: Tx, order: Order, since: int = 0, until: int = EVER
) -> tuple[int, int, int, int]:
    """Return number and amount of the refunds by the platform, and of direct ones."""
    (sums,) = await figures.sum_range(tx, order.merchant_id, since, until)
    in_all = await figures.sum_range(tx, None, since, until)
    assert sums == next(each for each in in_all if each.currency == sums.currency)
    return sums.refunds, sums.refunded_minor, sums.direct_refunds, sums.direct_refunded_minor


async def _reverse(tx: Tx, refund: Refund, now: int) -> None:
    outcome = RefundOutcome(status="REFUSED", reason="account_closed")
    report = GatewayRefundEvent(attempt_id=refund.attempt_id, refund_id=refund.id, outcome=outcome)
    await refunds.apply_report(tx, refund.merchant_id, report, now, gateway="sandbox")


async def test_refunds_of_direct_payments_are_sums_of_their_own(tx: Tx) -> None:
    """A refund counts in its own quarter hour, and the opposite in that of its reversal."""
    direct = await pay_both_ways(tx)
    (ours,) = [
        order
        for order in await orders.list_newest(tx, direct.merchant_id, 2)
        if order.id != direct.id
    ]
    await report_refund(tx, await create_refund(tx, ours, "1.00"), "SUCCEEDED")
    await report_refund(tx, await create_refund(tx, direct, "9.00"), "REFUSED")
    later = NOW + HOUR
    refund = await create_refund(tx, direct, "4.00")
    await report_refund(tx, refund, "SUCCEEDED", later)
    await create_refund(tx, direct, "0.50")  # is still to be sent
    await count_figures(tx, direct)
    assert await _refunds(tx, direct) == (1, 100, 1, 400)
    assert await _refunds(tx, direct, 0, quarter(later)) == (1, 100, 0, 0)
    assert await _refunds(tx, direct, quarter(later)) == (0, 0, 1, 400)
    await _reverse(tx, refund, later + HOUR)
    assert await _refunds(tx, direct) == (1, 100, 0, 0)
    assert await _refunds(tx, direct, quarter(later), quarter(later) + HOUR) == (0, 0, 1, 400)
    assert await _refunds(tx, direct, quarter(later) + HOUR) == (0, 0, -1, -400)
    home = await figures.read(
        SingleTransactionDb(tx), direct.merchant_id, ZoneInfo("UTC"), later + HOUR
    )
    (usd,) = home.currencies
    by_hour = [hour.direct_refunded_minor for hour in usd.hours]
    assert [minor for minor in by_hour if minor] == [400, -400]
    assert (usd.days[-1].direct_refunds, usd.days[-1].refunded_minor) == (0, 100)
    assert usd.days[-1].net_minor == 999 - 100 - 2 * FEE
    await assert_books(tx)


async def test_refunds_in_parts_add_up_to_the_payment_in_the_settlement_currency(tx: Tx) -> None:
    """10.00 EUR are 11.03 USD, and 3.33 EUR are 3.67 USD, three of which are not the whole."""
    shop = await create_merchant(tx)
    await rates.put(tx, "EUR", "USD", Decimal("1.1025"), NOW - 1)
    product = await create_product(tx, shop.id, "10.00", "EUR")
    session = await create_session(tx, shop.id, product.id)
    order = await orders.find(tx, shop.id, session.order_id)
    await adjust(tx, shop.id, "topup", 100)
    await pay_directly(tx, order)
    await count_figures(tx, order)
    parts = []
    for amount in ("3.33", "3.33", "3.34"):
        before = await _refunds(tx, order)
        await report_refund(tx, await create_refund(tx, order, amount), "SUCCEEDED")
        parts.append((await _refunds(tx, order))[3] - before[3])
    assert parts == [367, 368, 368]
    (sums,) = await figures.sum_range(tx, shop.id, 0, EVER)
    assert (sums.direct_minor, sums.direct_refunded_minor) == (1103, 1103)
    assert (sums.direct_refunds, sums.refunds, sums.refunded_minor) == (3, 0, 0)
