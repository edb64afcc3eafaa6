"""Amounts at the sandbox bank's desk are entered as people write them."""

import pytest

from opentill.sandbox import amounts


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("4.00", "EUR", 400),
        ("4,00 \N{EURO SIGN}", "EUR", 400),
        ("$1,200.50", "USD", 120_050),
        ("EUR 1.200,50", "EUR", 120_050),
        ("1 200", "EUR", 120_000),
        ("1,200,000", "USD", 120_000_000),
        ("1,200", "JPY", 1200),
        ("1.200", "BHD", 1200),
    ],
)
def test_an_amount_is_read_as_people_write_it(text: str, currency: str, minor: int) -> None:
    assert amounts.minor(text, currency) == minor


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("", "EUR"),
        ("ten", "EUR"),
        ("-4", "EUR"),
        ("USD 4.00", "EUR"),
        ("1,200", "EUR"),  # thousands or decimals
        ("1.200.50", "EUR"),
        ("4.005", "EUR"),
        ("4.50", "JPY"),
        ("1,20,3", "EUR"),
    ],
)
def test_other_texts_are_no_amounts_of_the_currency(text: str, currency: str) -> None:
    assert amounts.minor(text, currency) is None
