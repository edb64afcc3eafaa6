"""An order keeps the fees of its opening; its payment method decides which fee applies."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentill import checkouts, merchants, orders, rates
from opentill.checkouts.model import SessionBody
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS
from opentill.db.database import Tx
from opentill.merchants import fee_schedule
from opentill.orders import Order, OrderDetail
from opentill.orders.pricing import price
from opentill.refunds.shares import share_of
from support.books import assert_books
from support.world import (
    NOW,
    create_merchant,
    create_order,
    create_product,
    create_refund,
    create_session,
    pay_order,
    read_entries,
    report_payment,
    report_refund,
    submit_attempt,
)

CARD, PAYNOW, BANK = "CREDIT_CARD", "PAYNOW", "BANK_TRANSFER"
SCHEDULE = ("CREDIT_CARD=0.029+0.30", "CREDIT_CARD:EUR=0.035+0.25", "ALIPAY:CNY=0.012", "PAYNOW=0")

# The orders settle in USD, at 1.25 per EUR and 0.14 per CNY. The default fee rate is 0.04.
FEES = (
    # price    currency  method    rate     fee      net       gross  net settled
    ("9.99", "USD", CARD, "0.029", "0.59", "9.40", 999, 940),
    ("9.99", "USD", "ALIPAY", "0.04", "0.40", "9.59", 999, 959),
    ("9.99", "USD", PAYNOW, "0", "0.00", "9.99", 999, 999),
    ("9.99", "USD", BANK, "0.04", "0.40", "9.59", 999, 959),
    ("9.99", "EUR", CARD, "0.035", "0.60", "9.39", 1249, 1174),
    # The fixed part of the fee applies only in USD.
    ("9.99", "CNY", CARD, "0.029", "0.29", "9.70", 140, 136),
    ("9.99", "CNY", "ALIPAY", "0.012", "0.12", "9.87", 140, 138),
    ("0.20", "USD", CARD, "0.029", "0.20", "0.00", 20, 0),  # the fee never exceeds the amount
    ("0.31", "USD", CARD, "0.029", "0.31", "0.00", 31, 0),
    ("0.32", "USD", CARD, "0.029", "0.31", "0.01", 32, 1),
)


@pytest.fixture
async def exchange_rates(tx: Tx) -> None:
    """Store the exchange rates of the tables below."""
    for base, quote, rate in (
        ("EUR", "USD", "1.25"), ("CNY", "USD", "0.14"), ("JPY", "USD", "0.0067"),
        ("KWD", "USD", "3.25"), ("USD", "HKD", "7.8"), ("CNY", "HKD", "1.09"),
        ("JPY", "HKD", "0.052"), ("KWD", "HKD", "25.4"), ("CNY", "JPY", "21"),
        ("KWD", "JPY", "487.2"), ("HKD", "USD", "0.128"), ("CNY", "KWD", "0.0427"),
        ("JPY", "KWD", "0.00205"),
    ):  # fmt: skip
        await rates.put(tx, base, quote, Decimal(rate), NOW)


async def pay_by(tx: Tx, order: Order, method: str) -> Order:
    """Pay an order by a payment method, and return it as it is then."""
    attempt = await submit_attempt(tx, order)
    await report_payment(tx, attempt, "SUCCEEDED", method=method)
    return await orders.find(tx, order.merchant_id, order.id)


@pytest.mark.usefixtures("exchange_rates")
@pytest.mark.parametrize(
    ("amount", "currency", "method", "rate", "fee", "net", "gross", "settled"), FEES
)
async def test_the_payment_method_decides_the_fee(
    tx: Tx, amount, currency, method, rate, fee, net, gross, settled
) -> None:
    order = await create_order(tx, amount, currency, fee_changes=SCHEDULE)
    # The default applies until the method is known.
    assert order.platform_fee_rate == Decimal("0.04")
    paid_order = await pay_by(tx, order, method)
    detail = OrderDetail.from_order(paid_order)
    assert (detail.platform_fee_rate, detail.platform_fee, detail.net_amount) == (rate, fee, net)
    assert (paid_order.gross_settled_minor, paid_order.net_settled_minor) == (gross, settled)
    posted = [("PAYMENT", "gateway", "pending", gross)]
    if gross > settled:
        posted.append(("FEE", "pending", "platform", gross - settled))
    assert await read_entries(tx, paid_order.merchant_id) == posted
    await assert_books(tx)


async def test_the_method_that_the_gateway_reports_decides_the_fee(tx: Tx) -> None:
    order = await create_order(tx, fee_changes=("PAYNOW=0.01",))
    attempt = await submit_attempt(tx, order)
    assert attempt.method == CARD
    await report_payment(tx, attempt, "SUCCEEDED", method=PAYNOW)
    paid_order = await orders.find(tx, order.merchant_id, order.id)
    assert (paid_order.payment_method, paid_order.platform_fee_minor) == (PAYNOW, 10)


async def test_a_manual_confirmation_has_the_fee_of_a_bank_transfer(tx: Tx) -> None:
    order = await create_order(tx, fee_changes=("BANK_TRANSFER=0+1.50",))
    key = (order.merchant_id, order.id)
    paid_order = await orders.confirm_manually(tx, *key, "ann", "seen", NOW)
    assert (paid_order.platform_fee_rate, paid_order.platform_fee_minor) == (0, 150)
    assert paid_order == await orders.find(tx, *key)


async def test_a_late_payment_has_the_fee_of_its_method(tx: Tx) -> None:
    order = await create_order(tx, fee_changes=("CREDIT_CARD=0.01",))
    attempt = await submit_attempt(tx, order)
    await report_payment(tx, attempt, "REFUSED")
    await report_payment(tx, attempt, "SUCCEEDED")
    paid_order = await orders.find(tx, order.merchant_id, order.id)
    assert (paid_order.status, paid_order.platform_fee_minor) == ("PAID", 10)


async def test_an_order_keeps_the_terms_of_its_opening(tx: Tx) -> None:
    shop = await create_merchant(tx, fee_changes=("CREDIT_CARD=0.01+0.10",))
    mug = await create_product(tx, shop.id)
    old_order_id = (await create_session(tx, shop.id, mug.id)).order_id
    await merchants.change(
        tx, shop.id, NOW, who="ann", reason="new prices", platform_fee_rate=Decimal("0.5"),
        fee_changes=("CREDIT_CARD=0.2", "PAYNOW=0.3"), refund_fee_policy="RETURNED",
        settlement_delay_days=1, settlement_calendar="WEEKDAYS", reserve_rate=Decimal("0.1"),
        reserve_days=9, dispute_fee_minor=1,
    )  # fmt: skip
    new_order_id = (await create_session(tx, shop.id, mug.id)).order_id
    before = await pay_by(tx, await orders.find(tx, shop.id, old_order_id), CARD)
    after = await pay_by(tx, await orders.find(tx, shop.id, new_order_id), CARD)
    fields = (
        "terms_version", "platform_fee_rate", "platform_fee_minor", "refund_fee_policy",
        "settlement_delay_days", "settlement_calendar", "reserve_rate", "reserve_days",
        "dispute_fee_minor",
    )  # fmt: skip
    old_terms = [getattr(before, field) for field in fields]
    assert old_terms == [1, Decimal("0.01"), 20, "KEPT", 7, "EVERY_DAY", 0, 180, 1500]
    new_terms = [getattr(after, field) for field in fields]
    assert new_terms == [2, Decimal("0.2"), 200, "RETURNED", 1, "WEEKDAYS", Decimal("0.1"), 9, 1]


HKD = (
    # Each row: currency of the order, clearing currency of the payment, expected rate of the order
    # to HKD.
    ("USD", "HKD", "7.8"),
    ("HKD", "HKD", "1"),
    ("EUR", "HKD", None),  # no rate from EUR to HKD exists
    ("USD", "USD", None),
    ("USD", None, None),
)


@pytest.mark.usefixtures("exchange_rates")
@pytest.mark.parametrize(("currency", "clearing", "expected"), HKD)
async def test_an_order_has_the_rate_to_hkd_if_its_payment_clears_in_hkd(
    tx: Tx, currency, clearing, expected
) -> None:
    order = await create_order(tx, "10.00", currency)
    assert order.hkd_exchange_rate is None
    await rates.put(tx, "USD", "HKD", Decimal(9), NOW + 1)  # this rate is newer than the order
    attempt = await submit_attempt(tx, order, NOW + 2)
    await report_payment(tx, attempt, "SUCCEEDED", NOW + 2, clearing_currency=clearing)
    paid_order = await orders.find(tx, order.merchant_id, order.id)
    assert OrderDetail.from_order(paid_order).hkd_exchange_rate == expected


@pytest.mark.usefixtures("exchange_rates")
async def test_an_order_that_settles_in_hkd_shows_the_rate_of_its_settlement(tx: Tx) -> None:
    order = await create_order(tx, "10.00", "USD", settlement_currency="HKD")
    # Replaces the rate that applied when the session was opened.
    await rates.put(tx, "USD", "HKD", Decimal(9), NOW)
    attempt = await submit_attempt(tx, order, NOW + 2)
    await report_payment(tx, attempt, "SUCCEEDED", NOW + 2, clearing_currency="HKD")
    detail = OrderDetail.from_order(await orders.find(tx, order.merchant_id, order.id))
    assert detail.hkd_exchange_rate == detail.exchange_rate == "7.8"


MONEY = (
    # The fee rate of cards is 0.029. Gross, fee and net are in minor units of the second currency.
    # price       from   to     fixed   gross     fee    net
    ("1000", "JPY", "USD", None, 670, 19, 651),
    ("1000", "JPY", "JPY", "30", 1000, 59, 941),
    ("1000", "JPY", "HKD", None, 5200, 151, 5049),
    ("1000", "JPY", "KWD", None, 2050, 60, 1990),
    ("10.55", "KWD", "USD", None, 3429, 101, 3328),
    ("10.55", "KWD", "KWD", "0.25", 10550, 560, 9990),
    ("10.55", "KWD", "HKD", None, 26797, 787, 26010),
    ("10.55", "KWD", "JPY", None, 5140, 151, 4989),
    ("99.99", "CNY", "USD", None, 1400, 41, 1359),
    ("99.99", "CNY", "HKD", None, 10899, 316, 10583),
    ("99.99", "CNY", "JPY", None, 2100, 61, 2039),
    ("99.99", "CNY", "KWD", None, 4270, 120, 4150),
)


@pytest.mark.usefixtures("exchange_rates")
@pytest.mark.parametrize("policy", ["KEPT", "RETURNED"])
@pytest.mark.parametrize(("amount", "base", "to", "fixed", "gross", "fee", "net"), MONEY)
async def test_partial_refunds_together_debit_exactly_what_was_credited(
    tx: Tx, policy, amount, base, to, fixed, gross, fee, net
) -> None:
    schedule = f"CREDIT_CARD=0.029{'+' + fixed if fixed else ''}"
    order = await create_order(
        tx, amount, base, settlement_currency=to, fee_changes=(schedule,),
        refund_fee_policy=policy, overdraft_minor=10**9,
    )  # fmt: skip
    paid_order = await pay_order(tx, order)
    posted = await read_entries(tx, paid_order.merchant_id)
    assert posted == [
        ("PAYMENT", "gateway", "pending", gross),
        ("FEE", "pending", "platform", fee),
    ]
    assert paid_order.net_settled_minor == net
    parts = ["1.00", "3.00", None] if EXPONENTS[base] == 0 else ["0.01", "3.33", "0.02", None]
    for part in parts:
        refund = await create_refund(tx, paid_order, part)
        await report_refund(tx, refund, "SUCCEEDED")
        paid_order = await orders.find(tx, paid_order.merchant_id, paid_order.id)
    assert paid_order.status == "REFUNDED"
    sql = "select pending from balances where merchant_id = $1"
    pending = await tx.fetchval(sql, paid_order.merchant_id)
    assert pending == (-fee if policy == "KEPT" else 0)
    assert paid_order.refund_debit_minor == (gross if policy == "KEPT" else net)
    await assert_books(tx)


async def test_a_session_without_an_exchange_rate_is_refused(tx: Tx) -> None:
    shop = await create_merchant(tx, settlement_currency="KWD")
    item = await create_product(tx, shop.id, "10", "JPY")
    body = SessionBody(product_id=item.id)
    with pytest.raises(Invalid, match="none from JPY to KWD") as refused:
        await checkouts.open_session(tx, shop.id, body, NOW)
    assert refused.value.field == "productId"
    assert await tx.fetchval("select count(*) from orders") == 0


async def test_a_price_below_one_minor_unit_of_the_settlement_currency_is_refused(tx: Tx) -> None:
    await rates.put(tx, "JPY", "USD", Decimal("0.004"), NOW)
    shop = await create_merchant(tx)
    item = await create_product(tx, shop.id, "1", "JPY")
    with pytest.raises(Invalid, match="at least one minor unit of USD"):
        await create_session(tx, shop.id, item.id)


currencies = st.sampled_from(["USD", "JPY", "KWD", "CNY", "ISK"])
exchange = st.decimals("0.000001", "100000", places=6).filter(lambda rate: rate > 0)
shares = st.integers(0, 999_999).map(lambda part: Decimal(part).scaleb(-6))


def smallest_amount(currency: str) -> int:
    """Return the smallest amount that can be displayed, in minor units."""
    return 10 ** max(0, EXPONENTS[currency] - 2)


@given(
    units=st.integers(1, 10**10), currency=currencies, settled=currencies, rate=exchange,
    share=shares, fixed=st.integers(0, 10**6),
)  # fmt: skip
def test_fee_and_net_add_up_in_both_currencies(
    units: int, currency: str, settled: str, rate: Decimal, share: Decimal, fixed: int
) -> None:
    amount, fixed_minor = units * smallest_amount(currency), fixed * smallest_amount(currency)
    if currency == settled:
        rate = Decimal(1)
    priced = price(
        amount, currency, settled_currency=settled, exchange_rate=rate, fee_rate=share,
        fixed_minor=fixed_minor,
    )  # fmt: skip
    assert 0 <= priced.fee_minor <= amount
    assert 0 <= priced.net_settled_minor <= priced.gross_settled_minor
    assert priced.fee_minor == min(
        amount, money.times(amount, share, currency, currency) + fixed_minor
    )
    assert priced.gross_settled_minor == money.times(amount, rate, currency, settled)
    fee_settled = priced.gross_settled_minor - priced.net_settled_minor
    if currency == settled:
        assert fee_settled == priced.fee_minor
    exact = (
        Decimal(priced.fee_minor) * rate * Decimal(10) ** (EXPONENTS[settled] - EXPONENTS[currency])
    )
    assert abs(fee_settled - exact) <= smallest_amount(settled)
    for minor in (priced.fee_minor, amount - priced.fee_minor):
        money.show(minor, currency)
    money.show(fee_settled, settled)


async def test_any_partial_refunds_that_make_up_the_amount_debit_the_full_credit(tx: Tx) -> None:
    template = await pay_order(tx, await create_order(tx))

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        currency, settled = data.draw(currencies), data.draw(currencies)
        rate = Decimal(1) if currency == settled else data.draw(exchange)
        amount = data.draw(st.integers(1, 400)) * smallest_amount(currency)
        priced = price(
            amount, currency, settled_currency=settled, exchange_rate=rate,
            fee_rate=data.draw(shares),
            fixed_minor=data.draw(st.integers(0, 99)) * smallest_amount(currency),
        )  # fmt: skip
        policy = data.draw(st.sampled_from(["KEPT", "RETURNED"]))
        order = msgspec.structs.replace(
            template, currency=currency, settled_currency=settled, exchange_rate=rate,
            amount_minor=amount, platform_fee_minor=priced.fee_minor,
            gross_settled_minor=priced.gross_settled_minor,
            net_settled_minor=priced.net_settled_minor, refund_fee_policy=policy,
        )  # fmt: skip
        full_debit = order.net_settled_minor if policy == "RETURNED" else order.gross_settled_minor
        accepted: list[tuple[int, int]] = []
        while order.refund_held_minor < amount:
            remainder = (amount - order.refund_held_minor) // smallest_amount(currency)
            part = data.draw(st.integers(1, remainder)) * smallest_amount(currency)
            debit = share_of(order, part).debit_minor
            assert debit >= 0
            accepted.append((part, debit))
            # As if one of the refunds had failed.
            if len(accepted) > 1 and data.draw(st.integers(0, 5)) == 0:
                accepted.pop(data.draw(st.integers(0, len(accepted) - 1)))
            held_amounts, debited = (sum(column) for column in zip(*accepted, strict=True))
            assert debited <= full_debit
            order = msgspec.structs.replace(
                order, refund_held_minor=held_amounts, refund_debit_minor=debited
            )
        assert order.refund_debit_minor == full_debit

    check()


def test_a_fee_schedule_is_displayed_in_the_form_in_which_it_is_entered() -> None:
    text = fee_schedule.apply_changes("[]", SCHEDULE, "USD")
    assert [str(row) for row in fee_schedule.parse_schedule(text)] == [
        "ALIPAY:CNY=0.012",
        "CREDIT_CARD=0.029+0.30",
        "CREDIT_CARD:EUR=0.035+0.25",
        "PAYNOW=0",
    ]
