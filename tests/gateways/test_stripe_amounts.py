"""Amounts are converted by Stripe's exponents of currencies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentill.core.money import EXPONENTS, Money
from opentill.gateways.stripe.amounts import STRIPE_EXPONENTS, from_stripe, to_stripe


@pytest.mark.parametrize(("minor", "currency", "amount"), [
    (999, "USD", 999),
    (500, "JPY", 500),
    (5, "ISK", 500),  # Stripe's documentation: "to charge 5 ISK, provide an amount value of 500"
    (5, "UGX", 500),  # Stripe documents UGX in the same way as ISK
    (500, "MGA", 5),  # MGA has two decimals in ISO 4217, but none at Stripe
    (1045, "HUF", 1045),  # Stripe charges HUF with two decimals, but pays it out without
    (80045, "TWD", 80045),  # Stripe charges TWD with two decimals too, but pays it out without
    (5120, "KWD", 5120),  # Stripe requires that the last digit of KWD is 0
    (1, "XCG", 1),
])  # fmt: skip
def test_amounts_match_stripes_documentation(minor: int, currency: str, amount: int) -> None:
    assert to_stripe(Money(minor, currency)) == amount
    assert from_stripe(amount, currency.lower()) == Money(minor, currency)


@pytest.mark.parametrize(("minor", "currency"), [(1, "MGA"), (150, "MGA"), (5124, "KWD"),
                                                (100, "IQD"), (100, "LYD")])  # fmt: skip
def test_amounts_that_stripe_does_not_accept_are_refused(minor: int, currency: str) -> None:
    with pytest.raises(ValueError, match=f"Stripe does not take.* {currency}"):
        to_stripe(Money(minor, currency))


@pytest.mark.parametrize(("amount", "currency"), [(550, "isk"), (1, "ugx"), (1, "xxx"), (1, "")])
def test_an_invalid_amount_of_stripe_is_refused(amount: int, currency: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        from_stripe(amount, currency)


@given(st.sampled_from(sorted(STRIPE_EXPONENTS)), st.integers(1, 10**10))
def test_converting_an_amount_to_stripe_and_back_returns_it(currency: str, hundreds: int) -> None:
    money = Money(hundreds * 100, currency)
    assert from_stripe(to_stripe(money), currency.lower()) == money


def test_stripes_exponents_differ_from_iso_4217_in_three_currencies_only() -> None:
    differing = {code for code, digits in STRIPE_EXPONENTS.items() if EXPONENTS[code] != digits}
    assert differing == {"ISK", "MGA", "UGX"}
