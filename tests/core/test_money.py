"""Parsing, formatting, conversion and rounding of amounts in every currency."""

import random
from decimal import ROUND_HALF_UP, Decimal
from types import SimpleNamespace
from typing import Any, Final

import pytest

from opentill.core import money
from opentill.core.money import EXPONENTS, Money
from opentill.refunds.shares import share_of

ZERO: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF".split()
THREE: Final = "BHD IQD JOD KWD LYD OMR TND".split()


def test_exponents_are_those_of_iso_4217() -> None:
    assert {code for code, digits in EXPONENTS.items() if digits == 0} == set(ZERO)
    assert {code for code, digits in EXPONENTS.items() if digits == 3} == set(THREE)
    assert len(EXPONENTS) > 150
    assert set(EXPONENTS.values()) == {0, 2, 3}
    assert {"USD", "CNY", "HKD"} <= set(EXPONENTS)


# Each row: text, currency, minor units.
PARSED: Final = (
    ("0", "USD", 0),
    ("0.01", "USD", 1),
    ("1", "USD", 100),
    ("1.5", "USD", 150),
    ("0001.50", "USD", 150),
    ("99999999.99", "USD", 9_999_999_999),
    ("999999999999999.99", "USD", 99_999_999_999_999_999),
    ("10", "JPY", 10),
    ("10.0", "JPY", 10),
    ("10.00", "JPY", 10),
    ("1.5", "KWD", 1500),
    ("0.01", "KWD", 10),
)
UNREADABLE: Final = (
    "", " ", "-1", "+1", "1.", ".1", "1.001", "1e3", "1,000", "１", "٣", "1 ", "1\n", "0x1", "NaN",
    "Infinity", "1" * 16, "1.1.1", "1_0",
)  # fmt: skip


@pytest.mark.parametrize(("text", "currency", "minor"), PARSED)
def test_decimal_text_is_parsed(text: str, currency: str, minor: int) -> None:
    assert money.parse(text, currency) == minor


@pytest.mark.parametrize("currency", ["USD", "JPY", "KWD"])
@pytest.mark.parametrize("text", UNREADABLE)
def test_other_text_is_refused(text: str, currency: str) -> None:
    with pytest.raises(ValueError, match="must be a decimal number"):
        money.parse(text, currency)


def test_a_fraction_that_the_currency_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="JPY has none"):
        money.parse("10.50", "JPY")


@pytest.mark.parametrize("currency", sorted(EXPONENTS))
def test_a_formatted_amount_parses_to_the_same_value(currency: str) -> None:
    grain = 10 if EXPONENTS[currency] == 3 else 1
    for minor in (0, grain, 7 * grain, 100 * grain, 12_345_678 * grain):
        text = money.show(minor, currency)
        assert money.parse(text, currency) == minor
        assert text == Money(minor, currency).text
        assert text.count(".") == 1
        assert len(text.split(".")[1]) == 2
        if minor:
            assert money.show(-minor, currency) == "-" + text
    assert money.exponent(currency) == EXPONENTS[currency]


def test_fils_below_a_hundredth_are_never_hidden() -> None:
    with pytest.raises(ValueError, match="no whole hundredths"):
        money.show(1, "KWD")


@pytest.mark.parametrize(("minor", "currency", "text", "named"), [
    (999, "USD", "9.99", "9.99 USD"),
    (9990, "KWD", "9.99", "9.99 KWD"),
    (9991, "KWD", None, "9991 minor units of KWD"),
    (-1, "ANG", None, "-1 minor units of ANG"),
    (999, "usd", None, "999 minor units of usd"),
])  # fmt: skip
def test_any_external_amount_is_formatted(
    minor: int, currency: str, text: str | None, named: str
) -> None:
    assert (money.shown(minor, currency), money.named(minor, currency)) == (text, named)


def test_an_unknown_currency_is_a_defect() -> None:
    with pytest.raises(KeyError):
        money.parse("1", "DEM")
    with pytest.raises(KeyError):
        money.show(1, "DEM")


TIMES: Final = (
    (999, "0.04", "USD", "USD", 40),
    (50, "0.01", "USD", "USD", 1),  # 0.5 is rounded up
    (49, "0.01", "USD", "USD", 0),
    (150, "0.01", "USD", "USD", 2),
    (250, "0.01", "USD", "USD", 3),  # 2.5 is rounded up, not to the even 2
    (0, "0.04", "USD", "USD", 0),
    (1000, "0.00625", "JPY", "USD", 625),
    (999, "160", "USD", "JPY", 1598),
    (1000, "3.2555", "KWD", "USD", 326),
    (100, "0.3077", "USD", "KWD", 310),  # 307.7 fils are rounded to a multiple of ten
    (50, "0.1", "KWD", "KWD", 10),  # five fils, half of ten, are rounded up
    (150, "0.1", "KWD", "KWD", 20),
    (250, "0.1", "KWD", "KWD", 30),
    (240, "0.1", "KWD", "KWD", 20),
    (5, "0.1", "USD", "KWD", 10),
    (9_999_999_999, "999999999", "USD", "USD", 9_999_999_989_000_000_001),
)


@pytest.mark.parametrize(("minor", "rate", "source", "target", "result"), TIMES)
def test_conversion_rounds_half_up(
    minor: int, rate: str, source: str, target: str, result: int
) -> None:
    assert money.times(minor, Decimal(rate), source, target) == result


@pytest.mark.parametrize(
    ("minor", "part", "whole", "currency", "result"),
    [
        (40, 333, 999, "USD", 13),
        (40, 999, 999, "USD", 40),
        (1, 1, 2, "USD", 1),
        (1, 1, 3, "USD", 0),
        (30, 1, 2, "KWD", 20),
        (50, 1, 2, "BHD", 30),
        (10, 1, 2, "KWD", 10),
        (0, 1, 2, "USD", 0),
        (5, 1, 2, "JPY", 3),
    ],
)
def test_a_share_is_exact_for_whole_numbers(
    minor: int, part: int, whole: int, currency: str, result: int
) -> None:
    assert money.share(minor, part, whole, currency) == result


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        ("0.040", "0.04"),
        ("1", "1"),
        ("1.0", "1"),
        ("0", "0"),
        ("1E+2", "100"),
        ("1E-7", "0.0000001"),
        ("160", "160"),
    ],
)
def test_a_rate_is_formatted_without_trailing_zeros(rate: str, text: str) -> None:
    assert money.rate_text(Decimal(rate)) == text


def test_money_sorts_and_cannot_change() -> None:
    assert Money(1, "USD") < Money(2, "USD")
    with pytest.raises(AttributeError):
        Money(1, "USD").minor = 2


def _order(rng: random.Random) -> Any:
    """Return an order as a session creates it, with random currencies, rate and fee."""
    currency, settled = rng.choice(list(EXPONENTS)), rng.choice(list(EXPONENTS))
    grain = 10 if EXPONENTS[currency] == 3 else 1
    amount = rng.choice([rng.randint(1, 200), rng.randint(1, 1_000_000)]) * grain
    rate = Decimal(1) if currency == settled else Decimal(rng.randint(1, 10**7)) / 10**4
    fee_rate = Decimal(rng.randint(0, 999_999)) / 10**6
    fee = money.times(amount, fee_rate, currency, currency)
    gross = money.times(amount, rate, currency, settled)
    net = money.times(amount - fee, rate, currency, settled)
    return SimpleNamespace(
        amount_minor=amount,
        currency=currency,
        settled_currency=settled,
        exchange_rate=rate,
        usd_exchange_rate=rate,
        gross_settled_minor=gross,
        net_settled_minor=net,
        platform_fee_minor=fee,
        refund_fee_policy=rng.choice(["KEPT", "RETURNED"]),
        refund_held_minor=0,
        refund_debit_minor=0,
        paid_directly=False,
        imported=False,
    )


def test_100_000_random_partial_refunds_and_fee_splits_do_not_drift() -> None:
    rng = random.Random(4217)
    refunds = 0
    while refunds < 100_000:
        order = _order(rng)
        assert 0 <= order.net_settled_minor <= order.gross_settled_minor
        assert 0 <= order.platform_fee_minor <= order.amount_minor
        grain = 10 if EXPONENTS[order.currency] == 3 else 1
        debits = 0
        while remainder := order.amount_minor - order.refund_held_minor:
            is_full = rng.random() < 0.1 or remainder == grain
            amount = remainder if is_full else rng.randint(1, remainder // grain) * grain
            share = share_of(order, amount)
            assert share.debit_minor >= 0
            # Raises an error if the amount has three decimals.
            money.show(share.debit_minor, order.settled_currency)
            debits += share.debit_minor
            order.refund_held_minor += amount
            order.refund_debit_minor += share.debit_minor
            assert debits <= order.gross_settled_minor
            refunds += 1
        fee_is_kept = order.refund_fee_policy == "KEPT"
        total = order.gross_settled_minor if fee_is_kept else order.net_settled_minor
        assert debits == total


def test_fees_agree_with_exact_arithmetic() -> None:
    rng = random.Random(1)
    for _ in range(5_000):
        amount, rate = rng.randint(1, 10**10), Decimal(rng.randint(0, 10**6)) / 10**6
        exact = (Decimal(amount) * rate).quantize(Decimal(1), rounding=ROUND_HALF_UP)
        assert money.times(amount, rate, "USD", "USD") == int(exact)
