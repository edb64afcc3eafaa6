"""The newest exchange rate that is not too old applies; the inverse of a rate is used too."""

from decimal import Decimal
from typing import Any

import pytest

from opentill import checkouts, orders, rates
from opentill.checkouts.model import SessionBody
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.rates.model import Day
from support.api_server import ApiServer, assert_refused
from support.world import (
    DAY,
    NOW,
    create_merchant,
    create_product,
    create_refund,
    create_session,
    pay_order,
    read_entries,
)

CSV = b"Date,USD,JPY,HKD,\n2025-06-13,1.25,160,8.5,\n2025-06-12,1.2,150,8.4,\n"
JUNE_13 = 1_749_772_800_000
JUNE_12 = JUNE_13 - DAY

LOOKUPS = (
    # Each row: stored rates (base, quote, rate, days ago, "file" if imported); requested pair;
    # greatest age in days (0: any); expected rate.
    ([], ("USD", "USD"), 0, "1"),
    ([], ("EUR", "USD"), 0, None),
    ([("EUR", "USD", "1.25", 1)], ("EUR", "USD"), 0, "1.25"),
    ([("EUR", "USD", "1.25", 1)], ("USD", "EUR"), 0, "0.8"),
    ([("EUR", "USD", "3", 1)], ("USD", "EUR"), 0, "0.333333333333"),
    ([("USD", "IDR", "15821.5", 1)], ("IDR", "USD"), 0, "0.0000632051322567"),
    ([("KWD", "USD", "0.0015", 1)], ("USD", "KWD"), 0, "666.666666667"),
    ([("EUR", "USD", "1.25", -1)], ("EUR", "USD"), 0, None),  # the rate applies from tomorrow
    ([("EUR", "USD", "1.2", 2), ("EUR", "USD", "1.25", 1)], ("EUR", "USD"), 0, "1.25"),
    ([("EUR", "USD", "1.25", 2), ("USD", "EUR", "0.5", 1)], ("EUR", "USD"), 0, "2"),
    ([("EUR", "USD", "1.25", 1), ("USD", "EUR", "0.5", 1)], ("EUR", "USD"), 0, "1.25"),
    ([("EUR", "USD", "1.25", 1), ("EUR", "USD", "1.26", 1)], ("EUR", "USD"), 0, "1.26"),
    ([("EUR", "USD", "1.25", 3, "file")], ("EUR", "USD"), 3, "1.25"),
    ([("EUR", "USD", "1.25", 4, "file")], ("EUR", "USD"), 3, None),
    ([("EUR", "USD", "1.25", 4, "file")], ("EUR", "USD"), 0, "1.25"),
    ([("USD", "EUR", "0.8", 4, "file")], ("EUR", "USD"), 3, None),
    ([], ("JPY", "JPY"), 3, "1"),
    # A rate that a person entered applies until it is replaced, however old it is.
    ([("EUR", "USD", "1.25", 400)], ("EUR", "USD"), 3, "1.25"),
    ([("USD", "EUR", "0.8", 400)], ("EUR", "USD"), 3, "1.25"),
    ([("EUR", "USD", "2", 9), ("EUR", "USD", "1.25", 8, "file")], ("EUR", "USD"), 7, None),
    ([("USD", "EUR", "2", 9), ("EUR", "USD", "1.25", 8, "file")], ("EUR", "USD"), 7, None),
    ([("EUR", "USD", "1.25", 8, "file"), ("EUR", "USD", "2", 7)], ("EUR", "USD"), 7, "2"),
    ([("EUR", "USD", "1.25", 8, "file"), ("EUR", "USD", "2", 8)], ("EUR", "USD"), 7, "2"),
    # An imported rate ends on a later imported day that lacks its currency, in any order of the
    # imports.
    ([("EUR", "RUB", "90", 2, "file"), ("EUR", "USD", "1", 1, "file")], ("EUR", "RUB"), 7, None),
    ([("EUR", "RUB", "90", 2, "file"), ("EUR", "USD", "1", 1, "file")], ("RUB", "EUR"), 0, None),
    ([("EUR", "USD", "1", 1, "file"), ("EUR", "RUB", "90", 2, "file")], ("EUR", "RUB"), 7, None),
    ([("EUR", "RUB", "90", 2), ("EUR", "USD", "1", 1, "file")], ("EUR", "RUB"), 7, "90"),
    ([("EUR", "RUB", "90", 1, "file"), ("EUR", "USD", "1", 1, "file")], ("EUR", "RUB"), 7, "90"),
    ([("EUR", "RUB", "90", 1, "file"), ("EUR", "USD", "1", -1, "file")], ("EUR", "RUB"), 7, "90"),
)


async def set_rates(tx: Tx, rates_to_set: list[Any]) -> None:
    """Enter rates, or import those that are marked with "file"."""
    for base, quote, rate, days_ago, *source in rates_to_set:
        at = NOW - days_ago * DAY
        if source:
            day = Day(at, {quote: Decimal(rate)})
            await rates.import_sheet(tx, rates.Sheet(base=base, days=(day,), skipped=()), at)
        else:
            await rates.put(tx, base, quote, Decimal(rate), at)


@pytest.mark.parametrize(("rates_set", "pair", "limit", "expected"), LOOKUPS)
async def test_find_returns_the_rate_that_applies(tx: Tx, rates_set, pair, limit, expected) -> None:
    await set_rates(tx, rates_set)
    oldest = rates.oldest_valid_from(NOW, limit)
    rate = await rates.find(tx, *pair, NOW, oldest)
    assert rate == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(("rates_set", "pair", "limit", "expected"), LOOKUPS)
async def test_a_session_is_opened_at_the_rate_that_applies(
    tx: Tx, rates_set, pair, limit, expected
) -> None:
    await set_rates(tx, rates_set)
    shop = await create_merchant(tx, settlement_currency=pair[1], overdraft_minor=0)
    product = await create_product(tx, shop.id, "1000.00", pair[0])
    body = SessionBody(product_id=product.id)
    opening = checkouts.open_session(tx, shop.id, body, NOW, rates_max_age_days=limit)
    if expected is None:
        with pytest.raises(Invalid, match="exchange rate: there is none from") as refused:
            await opening
        assert refused.value.field == "productId"
        return
    order = await orders.find(tx, shop.id, (await opening).order_id)
    assert order.exchange_rate == Decimal(expected)


INVALID_RATES = (
    ("XXX", "USD", "1", "base"),
    ("usd", "EUR", "1", "base"),
    ("USD", "CYP", "1", "quote"),
    ("USD", "USD", "1", "quote"),
    ("USD", "EUR", "0", "rate"),
    ("USD", "EUR", "-1", "rate"),
    ("USD", "EUR", "NaN", "rate"),
    ("USD", "EUR", "Infinity", "rate"),
    ("USD", "EUR", "1e9", "rate"),
    ("USD", "EUR", "0.1234567890123456789", "rate"),
)


@pytest.mark.parametrize(("base", "quote", "rate", "field"), INVALID_RATES)
async def test_an_invalid_rate_is_refused(tx: Tx, base, quote, rate, field) -> None:
    with pytest.raises(Invalid) as refused:
        await rates.put(tx, base, quote, Decimal(rate), NOW)
    assert refused.value.field == field
    assert await rates.list_current(tx, NOW) == []


async def test_importing_a_file_sets_the_rates_between_all_its_currencies(tx: Tx) -> None:
    summary = await rates.import_sheet(tx, rates.read_file(CSV), NOW)
    assert (summary.days, summary.first, summary.last) == (2, JUNE_12, JUNE_13)
    assert summary.currencies == ("EUR", "HKD", "JPY", "USD")
    assert summary.rates == 2 * 4 * 3
    assert await tx.fetchval("select count(*) from exchange_rates") == summary.rates
    current = {(rate.base, rate.quote): rate.rate for rate in await rates.list_current(tx, NOW)}
    assert current["EUR", "USD"] == Decimal("1.25")
    assert current["USD", "JPY"] == Decimal(128)
    assert current["HKD", "JPY"] == Decimal("18.8235294118")
    assert await rates.find(tx, "USD", "JPY", JUNE_13 - 1) == Decimal(125)
    assert await rates.find(tx, "USD", "JPY", JUNE_12 - 1) is None


async def test_importing_a_file_again_changes_nothing(tx: Tx) -> None:
    sheet = rates.read_file(CSV)
    progress: list[int] = []
    await rates.import_sheet(tx, sheet, NOW)
    before = await tx.fetch("select * from exchange_rates order by base, quote, valid_from")
    await rates.import_sheet(tx, sheet, NOW, advance=progress.append)
    assert await tx.fetch("select * from exchange_rates order by base, quote, valid_from") == before
    assert sum(progress) == 2


async def test_missing_and_expiring_rates_are_listed(tx: Tx) -> None:
    await set_rates(tx, [
        ("EUR", "RUB", "90", 6, "file"), ("EUR", "USD", "1.25", 5, "file"),
        ("EUR", "JPY", "160", 400), ("EUR", "GBP", "0.8", 9, "file"),
    ])  # fmt: skip
    oldest = rates.oldest_valid_from(NOW, 7)
    rows = await rates.list_current(tx, NOW, "EUR")
    assert {row.quote: (row.counts(oldest), row.is_typed, row.is_dropped) for row in rows} == {
        "RUB": (False, False, True), "USD": (True, False, False), "JPY": (True, True, False),
        "GBP": (False, False, True),
    }  # fmt: skip
    shop = await create_merchant(tx, settlement_currency="EUR")
    for currency in ("RUB", "USD", "JPY", "GBP"):
        await create_product(tx, shop.id, "1000.00", currency)

    async def list_missing_and_expiring(days: int, max_age: int) -> tuple[list[str], list[str]]:
        at = NOW + days * DAY
        missing = await rates.list_missing(tx, at, rates.oldest_valid_from(at, max_age))
        expiring = await rates.list_expiring(tx, at, max_age)
        return [row.base for row in missing if row.opening], [row.base for row in expiring]

    for days, max_age, missing, expiring in (
        (0, 7, ["GBP", "RUB"], []),
        (1, 7, ["GBP", "RUB"], ["USD"]),
        (2, 7, ["GBP", "RUB"], ["USD"]),
        (3, 7, ["GBP", "RUB", "USD"], []),
        (3, 0, ["GBP", "RUB"], []),
    ):
        assert await list_missing_and_expiring(days, max_age) == (missing, expiring)


async def test_a_rate_without_a_source_that_is_valid_from_midnight_counts_as_imported(
    tx: Tx,
) -> None:
    """Earlier versions did not store whether a rate was imported."""
    day = NOW - NOW % DAY - 8 * DAY
    for quote, at in (("USD", day), ("JPY", day + 1)):
        await tx.execute(
            "insert into exchange_rates (base, quote, valid_from, rate) values ('EUR', $1, $2, 2)",
            quote, at,
        )  # fmt: skip
    oldest = rates.oldest_valid_from(NOW, 7)
    assert await rates.find(tx, "EUR", "USD", NOW, oldest) is None
    assert await rates.find(tx, "EUR", "JPY", NOW, oldest) == 2


async def test_an_order_is_refunded_at_its_own_rate_even_if_that_is_too_old(tx: Tx) -> None:
    await set_rates(tx, [("EUR", "RUB", "90", 1, "file"), ("USD", "RUB", "80", 1, "file")])
    shop = await create_merchant(tx, settlement_currency="EUR")
    product = await create_product(tx, shop.id, "900.00", "RUB")
    body = SessionBody(product_id=product.id)
    opened = await checkouts.open_session(tx, shop.id, body, NOW, rates_max_age_days=7)
    order = await pay_order(tx, await orders.find(tx, shop.id, opened.order_id))
    # The file of this day has no rouble rate.
    await set_rates(tx, [("EUR", "USD", "1.1", 0, "file")])
    with pytest.raises(Invalid, match="RUB to EUR, or it is too old") as refused:
        await checkouts.open_session(tx, shop.id, body, NOW + DAY, rates_max_age_days=7)
    assert refused.value.field == "productId"
    refund = await create_refund(tx, order, "450.00")
    assert (refund.status, refund.debit_minor) == ("PROCESSING", 500)


async def test_only_the_requested_days_are_imported(tx: Tx) -> None:
    summary = await rates.import_sheet(tx, rates.read_file(CSV), NOW, since=JUNE_13)
    assert (summary.days, summary.first) == (1, JUNE_13)
    with pytest.raises(Invalid, match="after the last day"):
        await rates.import_sheet(tx, rates.read_file(CSV), NOW, since=JUNE_13 + 1)


async def test_future_days_are_refused(tx: Tx) -> None:
    with pytest.raises(Invalid, match="yet to come"):
        await rates.import_sheet(tx, rates.read_file(CSV), JUNE_13 - DAY - 1)
    assert await rates.list_current(tx, NOW) == []


async def test_an_open_order_keeps_its_rate(tx: Tx) -> None:
    await rates.put(tx, "EUR", "USD", Decimal("1.25"), NOW)
    shop = await create_merchant(tx)
    mug = await create_product(tx, shop.id, "10.00", "EUR")
    checkout = await create_session(tx, shop.id, mug.id)
    await rates.put(tx, "EUR", "USD", Decimal(2), NOW)
    order = await pay_order(tx, await orders.find(tx, shop.id, checkout.order_id))
    assert (order.gross_settled_minor, order.net_settled_minor) == (1250, 1200)
    assert await read_entries(tx, shop.id) == [
        ("PAYMENT", "gateway", "pending", 1250),
        ("FEE", "pending", "platform", 50),
    ]


@pytest.mark.parametrize(
    ("base", "quote", "pairs"),
    [
        (None, None, ["EURUSD", "GBPJPY", "GBPUSD"]),
        ("GBP", None, ["GBPJPY", "GBPUSD"]),
        (None, "USD", ["EURUSD", "GBPUSD"]),
        ("GBP", "USD", ["GBPUSD"]),
        ("EUR", "JPY", []),
    ],
)
async def test_current_rates_are_filtered_by_base_and_quote(tx: Tx, base, quote, pairs) -> None:
    for pair in ("EURUSD", "GBPUSD", "GBPJPY"):
        for rate, at in (("1", NOW - 1), ("2", NOW), ("3", NOW + 1)):
            await rates.put(tx, pair[:3], pair[3:], Decimal(rate), at)
    newest = await rates.list_current(tx, NOW, base, quote)
    assert [row.base + row.quote for row in newest] == pairs
    assert {(row.rate, row.valid_from) for row in newest} <= {(Decimal(2), NOW)}


@pytest.mark.parametrize("is_inverse", [False, True])
def test_a_session_is_refused_if_an_absurd_rate_makes_its_amount_too_large(
    api_server: ApiServer, is_inverse: bool
) -> None:
    shop = api_server.create_shop()
    rate = Decimal("0.000000000000000001") if is_inverse else Decimal(999_999_999)
    api_server.set_rate(*(("USD", "XAF") if is_inverse else ("XAF", "USD")), rate)
    product = shop.create_product(price="99999999.00", currency="XAF")
    reason = assert_refused(shop.post("/v1/checkouts", {"productId": product["id"]}), "productId")
    assert "rate" in reason
