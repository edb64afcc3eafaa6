"""A currency settles in itself without a rate; USD figures wait for the refund that shows them."""

from decimal import Decimal
from typing import Any

import pytest
import structlog

from opentill import checkouts, orders, rates
from opentill.checkouts.model import SessionBody
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.products import service as products
from opentill.products.model import ProductBody, ProductUpdate
from opentill.rates.model import Day
from opentill.refunds.model import Refund
from support.books import assert_books
from support.world import DAY, NOW, merchant, opened, paid, product, refunded, session

OLD = NOW - 400 * DAY


@pytest.mark.parametrize("currency", ["CNY", "HKD", "JPY", "KWD", "USD"])
async def test_a_currency_is_sold_paid_and_settled_in_itself_without_any_rate(
    tx: Tx, currency: str
) -> None:
    order = await opened(tx, "10.00", currency, settlement_currency=currency)
    assert order.exchange_rate == 1
    assert order.usd_exchange_rate == (1 if currency == "USD" else None)
    done = await paid(tx, order)
    assert done.status == "PAID"
    await assert_books(tx)


@pytest.mark.parametrize(
    ("price", "currency", "settled", "given"),
    [
        ("10", "JPY", "KWD", []),
        ("10", "JPY", "USD", []),
        ("10", "USD", "JPY", []),
        ("10", "JPY", "KWD", [("JPY", "USD"), ("KWD", "USD")]),
    ],
)
async def test_another_settlement_currency_still_needs_a_rate_at_opening(
    tx: Tx, price: str, currency: str, settled: str, given: list[tuple[str, str]]
) -> None:
    for base, quote in given:
        await rates.put(tx, base, quote, Decimal(2), NOW)
    shop = await merchant(tx, settlement_currency=settled)
    thing = await product(tx, shop.id, price, currency)
    with pytest.raises(Invalid, match=f"none from {currency} to {settled}") as refused:
        await checkouts.open_session(tx, shop.id, SessionBody(product_id=thing.id), NOW)
    assert refused.value.field == "productId"


async def test_a_rate_that_is_too_old_to_open_with_does_not_stop_a_currency_from_itself(
    tx: Tx,
) -> None:
    sheet = rates.Sheet(base="CNY", days=(Day(OLD, {"USD": Decimal("0.14")}),), skipped=())
    await rates.import_sheet(tx, sheet, NOW)
    shop = await merchant(tx, settlement_currency="CNY")
    thing = await product(tx, shop.id, "10.00", "CNY")
    made = await checkouts.open_session(
        tx, shop.id, SessionBody(product_id=thing.id), NOW, rates_max_age_days=7
    )
    assert (await orders.find(tx, shop.id, made.order_id)).usd_exchange_rate is None


# What is set after the order was placed: base, quote, rate, when; what 10.00 of 100.00 is in USD.
LATER = (
    ([("CNY", "USD", "0.14", NOW)], "1.40"),
    ([("USD", "CNY", "8", NOW)], "1.25"),
    ([("CNY", "USD", "0.14", OLD)], "1.40"),
    ([("CNY", "USD", "0.14", OLD), ("CNY", "USD", "0.15", NOW - DAY)], "1.50"),
    ([("CNY", "USD", "0.14", OLD), ("USD", "CNY", "8", NOW - DAY)], "1.25"),
)


@pytest.mark.parametrize(("given", "shown"), LATER)
async def test_a_refund_shows_usd_by_the_newest_rate_there_is_and_says_so_in_the_log(
    tx: Tx, given: list[tuple[str, str, str, int]], shown: str
) -> None:
    order = await paid(tx, await opened(tx, "100.00", "CNY", settlement_currency="CNY"))
    for base, quote, rate, at in given:
        await rates.put(tx, base, quote, Decimal(rate), at)
    with structlog.testing.capture_logs() as said:
        refund = await refunded(tx, order, "10.00")
    assert _usd(refund) == (shown, shown)
    (line,) = [line for line in said if line["event"] == "refund shown in USD by a later rate"]
    assert (line["order"], line["currency"], line["valid_from"]) == (
        order.id, "CNY", max(row[3] for row in given),
    )  # fmt: skip
    assert (await orders.find(tx, order.merchant_id, order.id)).usd_exchange_rate is None


async def test_the_settled_currencys_rate_serves_where_the_orders_own_has_none(tx: Tx) -> None:
    await rates.put(tx, "EUR", "HKD", Decimal(9), NOW)
    order = await paid(tx, await opened(tx, "100.00", "EUR", settlement_currency="HKD"))
    await rates.put(tx, "HKD", "USD", Decimal("0.125"), NOW)
    refund = await refunded(tx, order, "10.00")
    assert _usd(refund) == ("11.25", "11.25")
    assert refund.debit_minor == 9000


async def test_a_rate_from_the_opening_is_kept_for_the_refund(tx: Tx) -> None:
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW)
    order = await paid(tx, await opened(tx, "100.00", "CNY", settlement_currency="CNY"))
    await rates.put(tx, "CNY", "USD", Decimal("0.5"), NOW)
    with structlog.testing.capture_logs() as said:
        assert _usd(await refunded(tx, order, "10.00")) == ("1.40", "1.40")
    assert said == []


async def test_where_there_never_was_a_rate_a_refund_is_refused_and_says_what_to_do(tx: Tx) -> None:
    order = await paid(tx, await opened(tx, "100.00", "CNY", settlement_currency="CNY"))
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW + DAY)  # not valid yet
    with pytest.raises(Invalid, match="opentill rates set CNY USD") as refused:
        await refunded(tx, order, "10.00")
    assert refused.value.field == "orderId"
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW)
    assert (await refunded(tx, order, "100.00")).amount_minor == 100_00
    await assert_books(tx)


async def test_a_slip_in_the_rate_is_refused_and_no_defect(tx: Tx) -> None:
    order = await paid(tx, await opened(tx, "99999999.00", "CNY", settlement_currency="CNY"))
    await rates.put(tx, "CNY", "USD", Decimal(999_999_999), NOW)
    with pytest.raises(Invalid, match="rate") as refused:
        await refunded(tx, order, "1.00")
    assert refused.value.field == "orderId"


def _usd(refund: Refund) -> tuple[str, str]:
    cents = (refund.user_refund_usd_minor, refund.merchant_debit_usd_minor)
    user, debit = (f"{minor // 100}.{minor % 100:02}" for minor in cents)
    return user, debit


# Who is warned

WARNED = (
    # product    settles in  what is set               to
    ("USD", "USD", [], []),
    ("CNY", "CNY", [], ["USD"]),
    ("CNY", "CNY", [("CNY", "USD")], []),
    ("CNY", "CNY", [("USD", "CNY")], []),
    ("JPY", "CNY", [], ["CNY", "USD"]),
    ("JPY", "CNY", [("JPY", "CNY")], ["USD"]),
    ("JPY", "USD", [], ["USD"]),
)


@pytest.mark.parametrize(("currency", "settled", "given", "lacking"), WARNED)
async def test_who_puts_something_on_sale_without_a_rate_is_noticed(
    tx: Tx, currency: str, settled: str, given: list[tuple[str, str]], lacking: list[str]
) -> None:
    shop = await merchant(tx, settlement_currency=settled)
    for base, quote in given:
        await rates.put(tx, base, quote, Decimal(2), NOW)

    def warnings(said: list[Any]) -> list[Any]:
        return [line["to"] for line in said if line["event"] == "product without exchange rate"]

    body = ProductBody(name="Tea", price="10.00", currency=currency)
    with structlog.testing.capture_logs() as said:
        await products.create(tx, shop.id, body, NOW)
    assert warnings(said) == ([lacking] if lacking else [])
    other = await product(tx, shop.id, "10.00", settled)
    with structlog.testing.capture_logs() as said:
        await products.update(tx, shop.id, other.id, ProductUpdate(currency=currency), NOW)
    assert warnings(said) == ([lacking] if lacking else [])


async def test_what_is_lacking_is_known_for_all_merchants(tx: Tx) -> None:
    first = await merchant(tx, settlement_currency="CNY")
    await merchant(tx, settlement_currency="HKD")
    await merchant(tx)
    await product(tx, first.id, "10", "JPY")
    gone = await product(tx, first.id, "10", "KRW")
    await products.archive(tx, first.id, gone.id, NOW)
    await rates.put(tx, "USD", "HKD", Decimal("7.8"), OLD)
    sheet = rates.Sheet(base="CNY", days=(Day(OLD, {"JPY": Decimal(20)}),), skipped=())
    await rates.import_sheet(tx, sheet, NOW)

    async def lacking(oldest: int) -> set[tuple[str, str, bool]]:
        found = await rates.list_missing(tx, NOW, oldest)
        return {(one.base, one.quote, one.opening) for one in found}

    assert await lacking(0) == {("CNY", "USD", False), ("JPY", "USD", False)}
    assert await lacking(NOW - DAY) == {
        ("CNY", "USD", False), ("JPY", "USD", False), ("JPY", "CNY", True),
    }  # fmt: skip


async def test_opening_stays_one_look_at_the_offer(tx: Tx) -> None:
    shop = await merchant(tx, settlement_currency="CNY")
    thing = await product(tx, shop.id, "10", "CNY")
    with structlog.testing.capture_logs() as said:
        await session(tx, shop.id, thing.id)
    assert said == []
