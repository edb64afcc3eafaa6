"""The tax in a price is exact, and its parts in refunds and the rest add up to it."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentill.core.money import EXPONENTS, Money
from opentill.receipts.tax import included_tax, refunded_taxes

RATES = st.integers(0, 99_999).map(lambda number: Decimal(number).scaleb(-5))
CURRENCIES = st.sampled_from(sorted(EXPONENTS))


@pytest.mark.parametrize(
    ("minor", "currency", "rate", "expected"),
    [
        (11900, "EUR", "0.19", 1900),
        (999, "EUR", "0.19", 160),  # 1.5950…
        (1000, "JPY", "0.1", 91),  # 90.909…
        (3, "EUR", "0.2", 1),  # exactly a half cent
        (10880, "USD", "0.08875", 887),
        (11900, "KWD", "0.19", 1900),
        (999, "EUR", "0", 0),
        (0, "EUR", "0.19", 0),
    ],
)
def test_the_tax_is_rounded_half_up(minor: int, currency: str, rate: str, expected: int) -> None:
    assert included_tax(Money(minor, currency), Decimal(rate)) == Money(expected, currency)


@given(minor=st.integers(0, 10**16), currency=CURRENCIES, rate=RATES)
def test_the_tax_differs_from_the_exact_one_by_at_most_half_a_unit(
    minor: int, currency: str, rate: Decimal
) -> None:
    unit = 10 ** max(0, EXPONENTS[currency] - 2)  # the smallest amount that is shown
    minor -= minor % unit
    tax = included_tax(Money(minor, currency), rate).minor
    exact = minor * Fraction(rate) / (1 + Fraction(rate))
    assert abs(tax - exact) <= Fraction(unit, 2)
    assert tax % unit == 0
    assert 0 <= tax <= minor


@given(
    minor=st.integers(0, 10**9),
    currency=CURRENCIES,
    rate=RATES,
    shares=st.lists(st.integers(0, 1000), max_size=30),
)
def test_the_taxes_of_refunds_and_of_the_rest_add_up_to_the_tax_of_the_payment(
    minor: int, currency: str, rate: Decimal, shares: list[int]
) -> None:
    unit = 10 ** max(0, EXPONENTS[currency] - 2)
    paid = Money(minor * unit, currency)
    refunds, rest = [], minor
    for share in shares:
        part = rest * share // 1000
        refunds.append(Money(part * unit, currency))
        rest -= part
    taxes = refunded_taxes(paid, refunds, rate)
    tax_of_rest = included_tax(Money(rest * unit, currency), rate)
    total = sum(tax.minor for tax in taxes) + tax_of_rest.minor
    assert total == included_tax(paid, rate).minor
    for tax, refund in zip(taxes, refunds, strict=True):
        assert 0 <= tax.minor <= refund.minor + unit


def test_a_full_refund_returns_the_whole_tax() -> None:
    paid, rate = Money(1999, "EUR"), Decimal("0.19")
    (tax,) = refunded_taxes(paid, [paid], rate)
    assert tax == included_tax(paid, rate)
