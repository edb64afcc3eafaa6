"""A merchant's terms are checked, and every change adds a version with author and reason."""

from decimal import Decimal

import asyncpg
import pytest

from opentill import merchants
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import fee_schedule
from support.world import NOW, create_merchant

CHANGES = (
    # term                    value
    ("platform_fee_rate", Decimal("0.031")),
    ("fee_changes", ("ALIPAY=0.01",)),
    ("refund_fee_policy", "RETURNED"),
    ("overdraft_minor", 5),
    ("settlement_delay_days", 2),
    ("settlement_calendar", "WEEKDAYS"),
    ("reserve_rate", Decimal("0.1")),
    ("reserve_days", 90),
    ("dispute_fee_minor", 2500),
    ("payout_minimum_minor", 1000),
    ("ip_allowlist", ["192.0.2.0/24"]),
)


@pytest.mark.parametrize(("term", "value"), CHANGES)
async def test_every_change_of_a_term_creates_a_version(tx: Tx, term, value) -> None:
    shop = await create_merchant(tx)
    changed_shop = await merchants.change(
        tx, shop.id, NOW + 5, who="ann", reason=" agreed by phone ", **{term: value}
    )
    original, changed = await merchants.history(tx, shop.id)
    assert (original.version, original.who, original.reason) == (1, "opentill", "merchant created")
    assert (changed.version, changed.who, changed.reason) == (2, "ann", "agreed by phone")
    assert (original.created_at, changed.created_at) == (NOW, NOW + 5)
    field = "fees" if term == "fee_changes" else term
    assert list(merchants.differences(original, changed)) == [field]
    assert changed_shop == await merchants.find(tx, shop.id)
    assert changed_shop.terms_version == 2
    assert getattr(changed_shop, field) == getattr(changed, field)


async def test_a_version_contains_all_terms(tx: Tx) -> None:
    shop = await create_merchant(tx)
    await merchants.change(tx, shop.id, NOW, who="ann", reason="all of it", **dict(CHANGES))
    original, changed = await merchants.history(tx, shop.id)
    changed_fields = {"fees" if term == "fee_changes" else term for term, _ in CHANGES}
    assert (
        set(merchants.differences(original, changed))
        == changed_fields
        == set(merchants.Terms.__struct_fields__)
    )


async def test_an_unchanged_term_creates_no_version(tx: Tx) -> None:
    shop = await create_merchant(tx)
    unchanged_terms = {
        "name": "Quay Books",
        "platform_fee_rate": Decimal("0.0400"),
        "reserve_days": 180,
    }
    changed_shop = await merchants.change(
        tx, shop.id, NOW, who="ann", reason="a new name", **unchanged_terms
    )
    assert (changed_shop.name, changed_shop.terms_version) == ("Quay Books", 1)
    assert len(await merchants.history(tx, shop.id)) == 1


async def test_versions_cannot_be_changed(tx: Tx) -> None:
    shop = await create_merchant(tx)
    for statement in ("update merchant_terms set who = 'x'", "delete from merchant_terms"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            async with tx.transaction():
                await tx.execute(statement)
    assert len(await merchants.history(tx, shop.id)) == 1


INVALID_TERMS = (
    # Each row: term, value, field that the error names.
    ("reason", "  ", "reason"),
    ("name", "", "name"),
    ("name", "n" * 201, "name"),
    ("platform_fee_rate", Decimal(1), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("-0.01"), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("0.0000001"), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("NaN"), "platform_fee_rate"),
    ("reserve_rate", Decimal("NaN"), "reserve_rate"),
    ("reserve_rate", Decimal("Infinity"), "reserve_rate"),
    ("overdraft_minor", -1, "overdraft"),
    ("overdraft_minor", 10**15 + 1, "overdraft"),
    ("settlement_delay_days", 366, "settlement_delay_days"),
    ("reserve_days", -1, "reserve_days"),
    ("reserve_days", 3651, "reserve_days"),
    ("dispute_fee_minor", -1, "dispute_fee"),
    ("payout_minimum_minor", -1, "payout_minimum"),
    ("ip_allowlist", ("192.0.2.1/24",), "ip_allowlist"),
    ("ip_allowlist", ("nowhere",), "ip_allowlist"),
    ("fee_changes", ("CASH=0.01",), "fee"),
)


@pytest.mark.parametrize(("term", "value", "field"), INVALID_TERMS)
async def test_invalid_terms_are_refused_at_creation_and_change(tx: Tx, term, value, field) -> None:
    terms = {"name": "Mugs", "who": "ann", "reason": "why"} | {term: value}
    with pytest.raises(Invalid) as refused:
        await merchants.create(tx, now=NOW, **terms)
    assert refused.value.field == field
    shop = await create_merchant(tx)
    with pytest.raises(Invalid) as refused:
        await merchants.change(tx, shop.id, NOW, **terms)
    assert refused.value.field == field
    assert await merchants.find(tx, shop.id) == shop
    assert len(await merchants.history(tx, shop.id)) == 1


async def test_an_unknown_settlement_currency_is_refused(tx: Tx) -> None:
    with pytest.raises(Invalid) as refused:
        await merchants.create(tx, now=NOW, name="Mugs", settlement_currency="XXX")
    assert refused.value.field == "settlement_currency"


async def test_an_unknown_merchant_has_no_terms(tx: Tx) -> None:
    with pytest.raises(NotFound):
        await merchants.history(tx, "mer_nobody")
    with pytest.raises(NotFound):
        await merchants.change(tx, "mer_nobody", NOW, who="ann", reason="why", reserve_days=1)


DEFAULTS = (("USD", 10_000, 1_500), ("JPY", 100, 15), ("KWD", 100_000, 15_000))


@pytest.mark.parametrize(("currency", "overdraft", "dispute_fee"), DEFAULTS)
async def test_defaults_are_in_the_settlement_currency(
    tx: Tx, currency, overdraft, dispute_fee
) -> None:
    shop = await create_merchant(tx, settlement_currency=currency)
    assert (shop.overdraft_minor, shop.dispute_fee_minor) == (overdraft, dispute_fee)


SCHEDULES = (
    # Each row: schedule before, changes, settlement currency, schedule after.
    ((), ("CREDIT_CARD=0.029+0.30",), "USD", ["CREDIT_CARD=0.029+0.30"]),
    ((), ("CREDIT_CARD=0.0290+0.3",), "USD", ["CREDIT_CARD=0.029+0.30"]),
    ((), ("CREDIT_CARD=0+0",), "USD", ["CREDIT_CARD=0"]),
    ((), ("CREDIT_CARD=.02",), "USD", ["CREDIT_CARD=0.02"]),
    ((), ("ALIPAY:JPY=0.01+30",), "USD", ["ALIPAY:JPY=0.01+30.00"]),
    ((), ("ALIPAY:KWD=0.01+0.25",), "USD", ["ALIPAY:KWD=0.01+0.25"]),
    (("ALIPAY=0.01",), ("ALIPAY=0.02",), "USD", ["ALIPAY=0.02"]),
    (("ALIPAY=0.01",), ("ALIPAY:CNY=0.02",), "USD", ["ALIPAY=0.01", "ALIPAY:CNY=0.02"]),
    (("ALIPAY=0.01", "ALIPAY:CNY=0.02"), ("ALIPAY:CNY=",), "USD", ["ALIPAY=0.01"]),
    (("ALIPAY=0.01",), ("ALIPAY=", "PAYNOW=0.1"), "USD", ["PAYNOW=0.1"]),
    (("ALIPAY=0.01",), (), "USD", ["ALIPAY=0.01"]),
)


@pytest.mark.parametrize(("before", "changes", "currency", "after"), SCHEDULES)
def test_a_schedule_is_changed_row_by_row(before, changes, currency, after) -> None:
    text = fee_schedule.apply_changes(
        fee_schedule.apply_changes("[]", before, currency), changes, currency
    )
    assert [str(row) for row in fee_schedule.parse_schedule(text)] == after


INVALID_FEES = (
    "", "CREDIT_CARD", "CREDIT_CARD:", "=0.1", "CREDIT_CARD=x", "CREDIT_CARD=0.1+", "CASH=0.1",
    "credit_card=0.1", "CREDIT_CARD:usd=0.1", "CREDIT_CARD:XXX=0.1", "CREDIT_CARD=1",
    "CREDIT_CARD=-0.1", "CREDIT_CARD=1.1.1", "CREDIT_CARD=0.0000001", "CREDIT_CARD=0.1+0.001",
    "CREDIT_CARD:JPY=0.1+0.5", "CREDIT_CARD=0.1+-1", "ALIPAY=", "CREDIT_CARD=0.1 0.2",
    "CREDIT_CARD=٠.١",
)  # fmt: skip


@pytest.mark.parametrize("change", INVALID_FEES)
def test_an_invalid_fee_is_refused(change) -> None:
    with pytest.raises(Invalid) as refused:
        fee_schedule.apply_changes("[]", (change,), "USD")
    assert refused.value.field == "fee"


PICKS = (
    # method        currency  row that applies
    ("CREDIT_CARD", "EUR", "CREDIT_CARD:EUR=0.03"),
    ("CREDIT_CARD", "USD", "CREDIT_CARD=0.02+0.10"),
    ("ALIPAY", "CNY", "ALIPAY:CNY=0.012"),
    ("ALIPAY", "USD", None),
    ("PAYNOW", "USD", None),
)


@pytest.mark.parametrize(("method", "currency", "expected"), PICKS)
def test_the_most_specific_row_applies(method, currency, expected) -> None:
    text = fee_schedule.apply_changes(
        "[]", ("CREDIT_CARD=0.02+0.10", "CREDIT_CARD:EUR=0.03", "ALIPAY:CNY=0.012"), "USD"
    )
    row = fee_schedule.pick(
        fee_schedule.parse_schedule(text), fee_schedule.Scope(method=method, currency=currency)
    )
    assert (None if row is None else str(row)) == expected


async def test_the_settlement_currency_cannot_be_changed(tx: Tx) -> None:
    shop = await create_merchant(tx, settlement_currency="EUR")
    who_and_why = {"who": "ann", "reason": "moved"}
    with pytest.raises(Invalid, match="must stay EUR: the balance is in it"):
        await merchants.change(tx, shop.id, NOW, settlement_currency="USD", **who_and_why)
    unchanged_shop = await merchants.change(
        tx, shop.id, NOW, settlement_currency="EUR", **who_and_why
    )
    assert unchanged_shop.terms_version == shop.terms_version
