"""An order that settles in its own currency needs no exchange rate until it is refunded.

Refunds are also shown in USD, so that a refund needs a rate to USD.
"""

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
from support.world import (
    DAY,
    NOW,
    create_merchant,
    create_order,
    create_product,
    create_refund,
    create_session,
    pay_order,
)

LONG_AGO = NOW - 400 * DAY


@pytest.mark.parametrize("currency", ["CNY", "HKD", "JPY", "KWD", "USD"])
async def test_a_currency_settles_in_itself_without_a_rate(tx: Tx, currency: str) -> None:
    order = await create_order(tx, "10.00", currency, settlement_currency=currency)
    assert order.exchange_rate == 1
    assert order.usd_exchange_rate == (1 if currency == "USD" else None)
    paid_order = await pay_order(tx, order)
    assert paid_order.status == "PAID"
    await assert_books(tx)


@pytest.mark.parametrize(
    ("price", "currency", "settlement_currency", "rates_set"),
    [
        ("10", "JPY", "KWD", []),
        ("10", "JPY", "USD", []),
        ("10", "USD", "JPY", []),
        ("10", "JPY", "KWD", [("JPY", "USD"), ("KWD", "USD")]),
    ],
)
async def test_another_settlement_currency_still_needs_a_rate_at_opening(
    tx: Tx, price: str, currency: str, settlement_currency: str, rates_set: list[tuple[str, str]]
) -> None:
    for base, quote in rates_set:
        await rates.put(tx, base, quote, Decimal(2), NOW)
    shop = await create_merchant(tx, settlement_currency=settlement_currency)
    product = await create_product(tx, shop.id, price, currency)
    with pytest.raises(Invalid, match=f"none from {currency} to {settlement_currency}") as refused:
        await checkouts.open_session(tx, shop.id, SessionBody(product_id=product.id), NOW)
    assert refused.value.field == "productId"


async def test_an_outdated_rate_does_not_stop_a_session_that_settles_in_its_currency(
    tx: Tx,
) -> None:
    sheet = rates.Sheet(base="CNY", days=(Day(LONG_AGO, {"USD": Decimal("0.14")}),), skipped=())
    await rates.import_sheet(tx, sheet, NOW)
    shop = await create_merchant(tx, settlement_currency="CNY")
    product = await create_product(tx, shop.id, "10.00", "CNY")
    checkout = await checkouts.open_session(
        tx, shop.id, SessionBody(product_id=product.id), NOW, rates_max_age_days=7
    )
    assert (await orders.find(tx, shop.id, checkout.order_id)).usd_exchange_rate is None


LATER_RATES = (
    # Each row: rates that are set after the order was placed (base, quote, rate, valid from), and
    # the value of 10.00 CNY in USD.
    ([("CNY", "USD", "0.14", NOW)], "1.40"),
    ([("USD", "CNY", "8", NOW)], "1.25"),
    ([("CNY", "USD", "0.14", LONG_AGO)], "1.40"),
    ([("CNY", "USD", "0.14", LONG_AGO), ("CNY", "USD", "0.15", NOW - DAY)], "1.50"),
    ([("CNY", "USD", "0.14", LONG_AGO), ("USD", "CNY", "8", NOW - DAY)], "1.25"),
)


@pytest.mark.parametrize(("rates_set", "shown"), LATER_RATES)
async def test_a_refund_is_shown_in_usd_by_the_newest_rate_and_logged(
    tx: Tx, rates_set: list[tuple[str, str, str, int]], shown: str
) -> None:
    order = await pay_order(tx, await create_order(tx, "100.00", "CNY", settlement_currency="CNY"))
    for base, quote, rate, at in rates_set:
        await rates.put(tx, base, quote, Decimal(rate), at)
    with structlog.testing.capture_logs() as log:
        refund = await create_refund(tx, order, "10.00")
    assert _usd(refund) == (shown, shown)
    (line,) = [line for line in log if line["event"] == "refund shown in USD by a later rate"]
    assert (line["order"], line["currency"], line["valid_from"]) == (
        order.id, "CNY", max(row[3] for row in rates_set),
    )  # fmt: skip
    assert (await orders.find(tx, order.merchant_id, order.id)).usd_exchange_rate is None


async def test_the_settlement_currencys_rate_is_used_if_the_orders_has_none(tx: Tx) -> None:
    await rates.put(tx, "EUR", "HKD", Decimal(9), NOW)
    order = await pay_order(tx, await create_order(tx, "100.00", "EUR", settlement_currency="HKD"))
    await rates.put(tx, "HKD", "USD", Decimal("0.125"), NOW)
    refund = await create_refund(tx, order, "10.00")
    assert _usd(refund) == ("11.25", "11.25")
    assert refund.debit_minor == 9000


async def test_a_rate_from_the_opening_is_kept_for_the_refund(tx: Tx) -> None:
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW)
    order = await pay_order(tx, await create_order(tx, "100.00", "CNY", settlement_currency="CNY"))
    await rates.put(tx, "CNY", "USD", Decimal("0.5"), NOW)
    with structlog.testing.capture_logs() as log:
        assert _usd(await create_refund(tx, order, "10.00")) == ("1.40", "1.40")
    assert log == []


async def test_a_refund_without_any_rate_is_refused_with_instructions(tx: Tx) -> None:
    order = await pay_order(tx, await create_order(tx, "100.00", "CNY", settlement_currency="CNY"))
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW + DAY)  # the rate applies from tomorrow
    with pytest.raises(Invalid, match="opentill rates set CNY USD") as refused:
        await create_refund(tx, order, "10.00")
    assert refused.value.field == "orderId"
    await rates.put(tx, "CNY", "USD", Decimal("0.14"), NOW)
    assert (await create_refund(tx, order, "100.00")).amount_minor == 100_00
    await assert_books(tx)


async def test_a_refund_is_refused_if_an_absurd_rate_makes_its_amount_too_large(tx: Tx) -> None:
    order = await pay_order(
        tx, await create_order(tx, "99999999.00", "CNY", settlement_currency="CNY")
    )
    await rates.put(tx, "CNY", "USD", Decimal(999_999_999), NOW)
    with pytest.raises(Invalid, match="rate") as refused:
        await create_refund(tx, order, "1.00")
    assert refused.value.field == "orderId"


def _usd(refund: Refund) -> tuple[str, str]:
    cents = (refund.user_refund_usd_minor, refund.merchant_debit_usd_minor)
    user, debit = (f"{minor // 100}.{minor % 100:02}" for minor in cents)
    return user, debit


MISSING_RATES = (
    # Each row: currencies of the product and of the settlement, known rates, currencies to which a
    # rate is missing.
    ("USD", "USD", [], []),
    ("CNY", "CNY", [], ["USD"]),
    ("CNY", "CNY", [("CNY", "USD")], []),
    ("CNY", "CNY", [("USD", "CNY")], []),
    ("JPY", "CNY", [], ["CNY", "USD"]),
    ("JPY", "CNY", [("JPY", "CNY")], ["USD"]),
    ("JPY", "USD", [], ["USD"]),
)


@pytest.mark.parametrize(("currency", "settlement_currency", "rates_set", "missing"), MISSING_RATES)
async def test_a_product_that_lacks_an_exchange_rate_is_logged(
    tx: Tx,
    currency: str,
    settlement_currency: str,
    rates_set: list[tuple[str, str]],
    missing: list[str],
) -> None:
    shop = await create_merchant(tx, settlement_currency=settlement_currency)
    for base, quote in rates_set:
        await rates.put(tx, base, quote, Decimal(2), NOW)

    def warnings(log: list[Any]) -> list[Any]:
        return [line["to"] for line in log if line["event"] == "product without exchange rate"]

    body = ProductBody(name="Tea", price="10.00", currency=currency)
    with structlog.testing.capture_logs() as log:
        await products.create(tx, shop.id, body, NOW)
    assert warnings(log) == ([missing] if missing else [])
    other_product = await create_product(tx, shop.id, "10.00", settlement_currency)
    with structlog.testing.capture_logs() as log:
        await products.update(tx, shop.id, other_product.id, ProductUpdate(currency=currency), NOW)
    assert warnings(log) == ([missing] if missing else [])


async def test_missing_rates_are_listed_for_all_merchants(tx: Tx) -> None:
    shop = await create_merchant(tx, settlement_currency="CNY")
    await create_merchant(tx, settlement_currency="HKD")
    await create_merchant(tx)
    await create_product(tx, shop.id, "10", "JPY")
    archived = await create_product(tx, shop.id, "10", "KRW")
    await products.archive(tx, shop.id, archived.id, NOW)
    await rates.put(tx, "USD", "HKD", Decimal("7.8"), LONG_AGO)
    sheet = rates.Sheet(base="CNY", days=(Day(LONG_AGO, {"JPY": Decimal(20)}),), skipped=())
    await rates.import_sheet(tx, sheet, NOW)

    async def list_missing(oldest: int) -> set[tuple[str, str, bool]]:
        rows = await rates.list_missing(tx, NOW, oldest)
        return {(row.base, row.quote, row.opening) for row in rows}

    assert await list_missing(0) == {("CNY", "USD", False), ("JPY", "USD", False)}
    assert await list_missing(NOW - DAY) == {
        ("CNY", "USD", False), ("JPY", "USD", False), ("JPY", "CNY", True),
    }  # fmt: skip


async def test_opening_a_session_without_a_rate_to_usd_logs_nothing(tx: Tx) -> None:
    shop = await create_merchant(tx, settlement_currency="CNY")
    product = await create_product(tx, shop.id, "10", "CNY")
    with structlog.testing.capture_logs() as log:
        await create_session(tx, shop.id, product.id)
    assert log == []
